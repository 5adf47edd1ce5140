"""One connection of `/ws`: who it is, how it is read and answered, and its way out.

Reads frame by frame and hands each to its desk. Sends one frame after the other, and waits for
a client who does not read: that is all that is ever kept for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.types import Message, Receive, Send

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.ws import frames
from holdfast.gate.ws.accounts import Room, Rooms
from holdfast.gate.ws.dispatcher import Desk
from holdfast.gate.ws.flow_control import RequestPace
from holdfast.gate.ws.frames import carried
from holdfast.gate.ws.output_feeds import Feeds
from holdfast.gate.ws.viewer import House
from holdfast.vocabulary.errors import HoldfastError, TooManyRequests, Unauthorized, UsageError

AUTH_SECONDS = 5.0
MOST_CONNECTIONS = 1024
"""Of those that have shown a valid token. The others are bounded with all strangers."""
RESERVED = 64
"""Connections beyond those, for admins and the owner."""
_ADMINS = ("admin", "owner")
MOST_NOTICES = 256
GOODBYE_SECONDS = 5.0
UNAUTHORIZED, TOO_MANY, NO_SUPERVISOR = 4401, 4429, 4503


class Hall(NamedTuple):
    """What all connections share."""

    channel: Channel
    new_channel: Callable[[], Channel]
    feeds: Feeds
    rooms: Rooms
    house: House
    connections: set[Connection]


class Closed(Exception):
    """The connection is to end, with this code."""

    def __init__(self, code: int, error: HoldfastError) -> None:
        super().__init__(error.message)
        self.code = code
        self.error = error


class Connection:
    """A client, from its first frame to its last."""

    def __init__(
        self, hall: Hall, receive: Receive, send: Send, on_known: Callable[[str], None]
    ) -> None:
        """`on_known` is told the token that the supervisor has accepted."""
        self._hall = hall
        self._on_known = on_known
        self._receive = receive
        self._send = send
        self._sending = asyncio.Lock()
        self._is_closed = False
        self._caller = Caller("", "websocket")
        self._room: Room | None = None
        self._desk: Desk | None = None
        self._posting: asyncio.Task[None] | None = None
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self._missed = 0
        self._has_notice = asyncio.Event()
        self._dismissed: asyncio.Future[Closed] | None = None

    # Its life

    async def run(self, caller: Caller | None, subprotocol: str | None) -> None:
        """From the handshake to the end; leaves nothing behind."""
        try:
            await self._send({"type": "websocket.accept", "subprotocol": subprotocol})
            await self._authenticate(caller)
            await self._serve()
        except Closed as closed:
            await self._say_goodbye(closed)
        except OSError:
            return
        finally:
            self._is_closed = True
            self._hall.connections.discard(self)
            await self._leave()

    async def _authenticate(self, caller: Caller | None) -> None:
        identity, known = (None, caller) if caller is not None else await self._presented()
        try:
            answer = await self._hall.channel.ask("hello", {}, known, is_repeatable=True)
        except Unreachable as error:
            raise Closed(NO_SUPERVISOR, error) from None
        except HoldfastError as error:
            raise Closed(UNAUTHORIZED, error) from None
        self._caller = known
        self._on_known(known.token)
        self._make_room(known.token, is_admin=answer["role"] in _ADMINS)
        self._hall.connections.add(self)
        self._room = self._hall.rooms.join(self, known, answer["actor"])
        if self._room is None:
            raise Closed(TOO_MANY, TooManyRequests("too many connections with this token"))
        told = {name: answer[name] for name in ("actor", "role", "version")}
        await self.send(frames.frame("auth:ok", {**told, "room": self._room.name}, identity))

    def _make_room(self, token: str, *, is_admin: bool) -> None:
        """When all connections are taken, the token with the most of them loses its oldest one,
        unless that is the token that asks."""
        if len(self._hall.connections) < MOST_CONNECTIONS + (RESERVED if is_admin else 0):
            return
        error = TooManyRequests("too many connections", "try again later")
        if not self._hall.rooms.end_oldest_of_largest(token, error):
            raise Closed(TOO_MANY, error)

    async def _presented(self) -> tuple[frames.Id, Caller]:
        try:
            return await asyncio.wait_for(self._first_frame(), AUTH_SECONDS)
        except asyncio.TimeoutError:
            raise await self._stranger(f"no auth within {AUTH_SECONDS:.0f} s") from None

    async def _first_frame(self) -> tuple[frames.Id, Caller]:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            raise ConnectionResetError
        try:
            request = frames.parse(message.get("text") or "")
            if request.event != "auth":
                raise UsageError(f'"{request.event[:100]}" before auth')
            if isinstance(request.data, str):
                return request.id, Caller(request.data, self._caller.door)
            return request.id, Caller(carried(request, frames.Auth).token, self._caller.door)
        except UsageError as error:
            raise await self._stranger(error.message) from None

    async def _stranger(self, why: str) -> Closed:
        """Somebody without a token: put on record as every refusal, by asking without one."""
        try:
            await self._hall.channel.ask("hello", {}, self._caller, is_repeatable=True)
        except HoldfastError:
            pass
        hint = 'send {"event": "auth", "data": {"token": "…"}} first'
        return Closed(UNAUTHORIZED, Unauthorized(f"a token is needed: {why}", hint))

    async def _serve(self) -> None:
        loop, hall = asyncio.get_running_loop(), self._hall
        self._dismissed = loop.create_future()
        self._posting = loop.create_task(self._post_notices())
        assert self._room is not None
        hold = partial(hall.rooms.hold, self._room)
        self._desk = Desk(
            self, self._caller, hall.channel, hall.new_channel, hall.feeds, hall.house, hold
        )
        pace = RequestPace()
        while True:
            message = await self._next_message()
            if message["type"] != "websocket.receive":
                return
            await pace.wait()
            text, data = message.get("text"), message.get("bytes")
            try:
                await (self._desk.take(text) if text is not None else self._desk.take_bytes(data))
            except HoldfastError as error:
                await self.send(frames.failure(error))

    async def _next_message(self) -> Message:
        assert self._dismissed is not None
        receiving = asyncio.ensure_future(self._receive())
        try:
            both: list[asyncio.Future[Any]] = [receiving, self._dismissed]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._dismissed.done():
                raise self._dismissed.result()
            return receiving.result()
        finally:
            if not receiving.done():
                receiving.cancel()

    async def _say_goodbye(self, closed: Closed) -> None:
        await self._leave()
        try:
            await asyncio.wait_for(self._last_frames(closed), GOODBYE_SECONDS)
        except (OSError, asyncio.TimeoutError):
            return

    async def _last_frames(self, closed: Closed) -> None:
        await self.send(frames.failure(closed.error))
        self._is_closed = True
        reason = closed.error.message.encode()[:120].decode("utf-8", "ignore")
        await self._send({"type": "websocket.close", "code": closed.code, "reason": reason})

    async def _leave(self) -> None:
        if self._posting is not None:
            self._posting.cancel()
            await asyncio.gather(self._posting, return_exceptions=True)
        if self._desk is not None:
            await self._desk.leave()
            self._desk = None
        if self._room is not None:
            room, self._room = self._room, None
            await self._hall.rooms.leave(self, room)
        if self._dismissed is not None:
            self._dismissed.cancel()

    # Sending

    async def send(self, data: str | bytes) -> None:
        async with self._sending:
            if self._is_closed:
                raise ConnectionResetError
            key = "text" if isinstance(data, str) else "bytes"
            await self._send({"type": "websocket.send", key: data})

    def post(self, text: str) -> None:
        """Send something when it can be; the oldest give way if it cannot for long."""
        self._missed += len(self._notices) == MOST_NOTICES
        self._notices.append(text)
        self._has_notice.set()

    def dismiss(self, error: HoldfastError) -> None:
        code = TOO_MANY if isinstance(error, TooManyRequests) else UNAUTHORIZED
        if self._dismissed is not None and not self._dismissed.done():
            self._dismissed.set_result(Closed(code, error))
            self._hall.connections.discard(self)

    async def _post_notices(self) -> None:
        try:
            await self._post_all()
        except OSError:
            return

    async def _post_all(self) -> None:
        while True:
            await self._has_notice.wait()
            if self._missed:
                missed, self._missed = self._missed, 0
                await self.send(frames.frame("notices:missed", {"count": missed}))
            if self._notices:
                await self.send(self._notices.popleft())
            else:
                self._has_notice.clear()
