"""`/ws`: the commands and events of Holdfast over one connection, in both directions.

A client shows its token with the request or in its first frame, `auth`. The connection reads
frame by frame and passes each to its dispatcher. It sends one frame after the other and waits for
a client that does not read, so it never holds more than one frame and a few notices. Decides
nothing: every request becomes a command with the caller's token.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.callers import caller_of
from holdfast.gate.http_limits import GOING_AWAY, prove
from holdfast.gate.ws import frames
from holdfast.gate.ws.accounts import Account, Accounts
from holdfast.gate.ws.dispatcher import Dispatcher
from holdfast.gate.ws.flow_control import RequestRate
from holdfast.gate.ws.output_feeds import OutputFeeds
from holdfast.gate.ws.status_feed import StatusFeed
from holdfast.gate.ws.viewer import Keyboards
from holdfast.system import deadlines
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import HoldfastError, TooManyRequests, Unauthorized, UsageError

DOOR = "websocket"
PROTOCOL = "holdfast"
TOKEN_PROTOCOL = "holdfast.token."  # noqa: S105 - the name of it
PAGE_PROTOCOL = "holdfast.page."
"""Carries the page's half of a cookie, because a browser sends no header of ours here."""
AUTH_SECONDS = 5.0
MOST_CONNECTIONS = 1024
"""Connections that have shown a valid token. The limit for strangers bounds the others."""
RESERVED = 64
"""Connections beyond those, for admins and the owner."""
_ADMINS = ("admin", "owner")
MOST_NOTICES = 256
GOODBYE_SECONDS = 5.0
UNAUTHORIZED, TOO_MANY, NO_SUPERVISOR = 4401, 4429, 4503


class WebSocketShared(NamedTuple):
    """What all connections share."""

    channel: Channel
    new_channel: Callable[[], Channel]
    feeds: OutputFeeds
    statuses: StatusFeed
    keyboards: Keyboards
    accounts: Accounts
    connections: set[WebSocketConnection]


class WebSocketDoor:
    """The ASGI application of `/ws`."""

    def __init__(self, channel: Channel, new_channel: Callable[[], Channel]) -> None:
        self._shared = WebSocketShared(
            channel=channel,
            new_channel=new_channel,
            feeds=OutputFeeds(new_channel),
            statuses=StatusFeed(new_channel),
            keyboards=Keyboards(),
            accounts=Accounts(channel, new_channel),
            connections=set(),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        offered: list[str] = scope.get("subprotocols") or []
        connection = WebSocketConnection(self._shared, receive, send, partial(prove, scope))
        await connection.run(_presented_caller(scope, offered), _chosen_protocol(offered))


def _presented_caller(scope: Scope, offered: list[str]) -> Caller | None:
    """Return the caller whose token came with the request, if one did: in a header, in a cookie,
    or as a subprotocol."""
    for name in offered:
        if name.startswith(TOKEN_PROTOCOL):
            return Caller(name[len(TOKEN_PROTOCOL) :], DOOR)
    pages = [name for name in offered if name.startswith(PAGE_PROTOCOL)]
    page = pages[0][len(PAGE_PROTOCOL) :] if pages else ""
    caller = caller_of(HTTPConnection(scope), DOOR, page)
    return caller if caller.token else None


def _chosen_protocol(offered: list[str]) -> str | None:
    """A browser requires one of the protocols that it offered; prefer one without a secret."""
    if PROTOCOL in offered:
        return PROTOCOL
    secret = (TOKEN_PROTOCOL, PAGE_PROTOCOL)
    return next((name for name in offered if name.startswith(secret)), None)


class Closed(Exception):
    """The connection must end, with this code."""

    def __init__(self, code: int, error: HoldfastError) -> None:
        super().__init__(error.message)
        self.code = code
        self.error = error


def _end_of(message: Message) -> Exception:
    """Return what ends a connection that gets no more messages: the client has gone, or we go."""
    if message.get("code") != GOING_AWAY:
        return ConnectionResetError()
    return Closed(GOING_AWAY, Unreachable("the gate is being replaced", "connect again"))


class WebSocketConnection:
    """One client, from its first frame to its last."""

    def __init__(
        self,
        shared: WebSocketShared,
        receive: Receive,
        send: Send,
        on_accepted: Callable[[str], None],
    ) -> None:
        """`on_accepted` gets the token once the supervisor has accepted it."""
        self.caller = Caller("", DOOR)
        self._shared = shared
        self._on_accepted = on_accepted
        self._receive = receive
        self._send = send
        self._sending = asyncio.Lock()
        self._is_closed = False
        self._account: Account | None = None
        self._dispatcher: Dispatcher | None = None
        self._posting: asyncio.Task[None] | None = None
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._missed = 0
        self._has_notice = asyncio.Event()
        self._dismissed: asyncio.Future[Closed] | None = None

    async def run(self, caller: Caller | None, subprotocol: str | None) -> None:
        """Serve the connection from the handshake to its end; nothing of it stays behind."""
        try:
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol})
            account = await self._authenticate(caller)
            await self._serve(account)
        except Closed as closed:
            await self._say_goodbye(closed)
        except OSError:
            return
        finally:
            self._is_closed = True
            self._shared.connections.discard(self)
            await self._leave()

    # Authentication

    async def _authenticate(self, caller: Caller | None) -> Account:
        request_id, known = (None, caller) if caller is not None else await self._await_auth()
        try:
            answer = await self._shared.channel.ask("hello", {}, known, is_repeatable=True)
        except Unreachable as error:
            raise Closed(NO_SUPERVISOR, error) from None
        except HoldfastError as error:
            raise Closed(UNAUTHORIZED, error) from None
        self.caller = known
        self._on_accepted(known.token)
        self._make_room(known.token, is_admin=answer["role"] in _ADMINS)
        self._shared.connections.add(self)
        account = self._account = self._shared.accounts.join(self, known, answer["actor"])
        if account is None:
            raise Closed(TOO_MANY, TooManyRequests("too many connections with this token"))
        facts = {name: answer[name] for name in ("actor", "role", "version")}
        await self.send(frames.frame("auth:ok", {**facts, "room": account.room}, request_id))
        return account

    def _make_room(self, token: str, *, is_admin: bool) -> None:
        """When all connections are taken, end the oldest one of the token with the most. Raises
        if that is the token that asks."""
        if len(self._shared.connections) < MOST_CONNECTIONS + (RESERVED if is_admin else 0):
            return
        error = TooManyRequests("too many connections", "try again later")
        if not self._shared.accounts.end_oldest_of_largest(token, error):
            raise Closed(TOO_MANY, error)

    async def _await_auth(self) -> tuple[frames.RequestId, Caller]:
        try:
            return await deadlines.wait_for(self._first_frame(), AUTH_SECONDS)
        except TimeoutError:
            raise await self._refuse_stranger(f"no auth within {AUTH_SECONDS:.0f} s") from None

    async def _first_frame(self) -> tuple[frames.RequestId, Caller]:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            raise _end_of(message)
        try:
            request = frames.parse(message.get("text") or "")
            if request.event != "auth":
                raise UsageError(f'"{request.event[:100]}" before auth')
            if isinstance(request.data, str):
                return request.id, Caller(request.data, DOOR)
            return request.id, Caller(frames.data_of(request, frames.Auth).token, DOOR)
        except UsageError as error:
            raise await self._refuse_stranger(error.message) from None

    async def _refuse_stranger(self, why: str) -> Closed:
        """Refuse a client that showed no token. Asking without one puts the refusal on record."""
        try:
            await self._shared.channel.ask("hello", {}, self.caller, is_repeatable=True)
        except HoldfastError:
            pass
        hint = 'send {"event": "auth", "data": {"token": "…"}} first'
        return Closed(UNAUTHORIZED, Unauthorized(f"a token is needed: {why}", hint))

    # Receiving

    async def _serve(self, account: Account) -> None:
        loop = asyncio.get_running_loop()
        self._dismissed = loop.create_future()
        self._posting = loop.create_task(self._post_notices())
        self._dispatcher = dispatcher = Dispatcher(self, self._shared, account)
        rate = RequestRate()
        while True:
            message = await self._next_message(self._dismissed)
            if message["type"] != "websocket.receive":
                end = _end_of(message)
                if isinstance(end, Closed):
                    await dispatcher.finish()
                raise end
            await rate.wait()
            text, data = message.get("text"), message.get("bytes")
            try:
                await (dispatcher.take(text) if text is not None else dispatcher.take_bytes(data))
            except HoldfastError as error:
                await self.send(frames.failure(error))

    async def _next_message(self, dismissed: asyncio.Future[Closed]) -> Message:
        receiving = asyncio.ensure_future(self._receive())
        try:
            both: list[asyncio.Future[Any]] = [receiving, dismissed]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if dismissed.done():
                raise dismissed.result()
            return receiving.result()
        finally:
            if not receiving.done():
                receiving.cancel()

    # Sending and asking

    async def send(self, data: str | bytes) -> None:
        async with self._sending:
            if self._is_closed:
                raise ConnectionResetError
            key = "text" if isinstance(data, str) else "bytes"
            await self._send({"type": "websocket.send", key: data})

    def post(self, text: str) -> None:
        """Send a notice when the client reads; the oldest are dropped if it does not for long."""
        self._missed += len(self._notices) == MOST_NOTICES
        self._notices.append(text)
        self._has_notice.set()

    async def ask(self, command: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Ask the supervisor with this client's token."""
        known = COMMANDS.get(command)
        is_repeatable = known is not None and known.effect is Effect.READS
        channel = self._shared.channel
        return await channel.ask(command, fields, self.caller, is_repeatable=is_repeatable)

    async def _post_notices(self) -> None:
        try:
            while True:
                await self._has_notice.wait()
                if self._missed:
                    missed, self._missed = self._missed, 0
                    await self.send(frames.frame("notices:missed", {"count": missed}))
                if self._notices:
                    await self.send(self._notices.popleft())
                else:
                    self._has_notice.clear()
        except OSError:
            return

    # Leaving

    def dismiss(self, error: HoldfastError) -> None:
        """End the connection and tell the client why."""
        code = TOO_MANY if isinstance(error, TooManyRequests) else UNAUTHORIZED
        if self._dismissed is not None and not self._dismissed.done():
            self._dismissed.set_result(Closed(code, error))
            self._shared.connections.discard(self)

    async def _say_goodbye(self, closed: Closed) -> None:
        await self._leave()
        try:
            await deadlines.wait_for(self._last_frames(closed), GOODBYE_SECONDS)
        except OSError:
            return

    async def _last_frames(self, closed: Closed) -> None:
        if closed.code == GOING_AWAY:
            while self._notices:
                await self.send(self._notices.popleft())
        else:
            await self.send(frames.failure(closed.error))
        self._is_closed = True
        reason = closed.error.message.encode()[:120].decode("utf-8", "ignore")
        await self._send({"type": "websocket.close", "code": closed.code, "reason": reason})

    async def _leave(self) -> None:
        if self._posting is not None:
            self._posting.cancel()
            await asyncio.gather(self._posting, return_exceptions=True)
        if self._dispatcher is not None:
            await self._dispatcher.leave()
            self._dispatcher = None
        if self._account is not None:
            account, self._account = self._account, None
            await self._shared.accounts.leave(self, account)
        if self._dismissed is not None:
            self._dismissed.cancel()
