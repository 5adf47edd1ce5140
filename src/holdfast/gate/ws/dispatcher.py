"""What the events of a connection do: sessions, commands, subscriptions, the keyboard.

Decides nothing: each becomes a command with the caller's token. What takes time is a task of
the desk, which ends them all when the connection does.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol

from holdfast.client.channel import Caller, Channel
from holdfast.gate.events import Subscription, follow
from holdfast.gate.secrets import learn
from holdfast.gate.ws import frames
from holdfast.gate.ws.accounts import OnLost
from holdfast.gate.ws.flow_control import Window
from holdfast.gate.ws.frames import Request, carried
from holdfast.gate.ws.output_feeds import Feeds
from holdfast.gate.ws.viewer import House, Session, bytes_of
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor, CursorError
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.commands.command import Effect
from holdfast.vocabulary.errors import HoldfastError, TooManyRequests, UsageError
from holdfast.vocabulary.events import known_place

_log = logging.getLogger("holdfast.gate")
MOST_SESSIONS = 64
MOST_SUBSCRIPTIONS = 16
MOST_REQUESTS = 32
DEFAULT_TAIL = 100
_LARGEST = 1 << 63


class Client(Protocol):
    """The connection."""

    async def send(self, data: str | bytes) -> None: ...

    def post(self, text: str) -> None: ...


class Desk:
    """All that one connection has under way."""

    def __init__(
        self,
        client: Client,
        caller: Caller,
        channel: Channel,
        new_channel: Callable[[], Channel],
        feeds: Feeds,
        house: House,
        hold: Callable[[str, OnLost], Callable[[], None]],
    ) -> None:
        self._client = client
        self._caller = caller
        self._channel = channel
        self._new_channel = new_channel
        self._feeds = feeds
        self._house = house
        self._hold = hold
        self._sessions: dict[str, Session] = {}
        self._releases: dict[str, Callable[[], None]] = {}
        self._subscriptions: dict[int, tuple[Subscription, asyncio.Task[None]]] = {}
        self._count = 0
        self._requests: dict[asyncio.Task[None], frames.Id] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def take(self, text: str) -> None:
        """Do what a frame asks, or begin to; raises for what is no frame."""
        request = frames.parse(text)
        try:
            await self._take(request)
        except HoldfastError as error:
            await self._client.send(frames.failure(error, request.id, _session_of(request)))

    async def take_bytes(self, data: Any) -> None:
        typed = frames.parse_input(data if isinstance(data, bytes) else b"")
        for session in self._sessions.values():
            if session.number == typed.session:
                session.type(typed.data)
                return
        raise UsageError(f"no session {typed.session} on this connection")

    async def send(self, data: str | bytes) -> None:
        await self._client.send(data)

    def post(self, text: str) -> None:
        self._client.post(text)

    async def ask(self, command: str, fields: dict[str, Any]) -> dict[str, Any]:
        known = COMMANDS.get(command)
        is_repeatable = known is not None and known.effect is Effect.READS
        return await self._channel.ask(command, fields, self._caller, is_repeatable=is_repeatable)

    async def leave(self) -> None:
        """End everything; nothing is left when this returns."""
        running = [*self._requests, *(task for _, task in self._subscriptions.values())]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, *self._endings, return_exceptions=True)
        for session in list(self._sessions.values()):
            await self._end(session)

    async def _take(self, request: Request) -> None:
        match request.event:
            case "ping":
                await self._answer(request, "pong", {"timestamp": frames.now_ms()})
            case "ack":
                self._acknowledge(carried(request, frames.Ack))
            case "session:create":
                self._request(request, self._create(request))
            case "session:close":
                session = self._session(carried(request, frames.OneSession))
                self._on_end(session, "asked", request.id)
            case "command:execute":
                self._request(request, self._execute(request))
            case "command:cancel":
                await self._cancel(request)
            case "terminal:input" | "terminal:resize" | "terminal:take" | "terminal:release":
                await self._terminal(request)
            case "subscribe":
                self._request(request, self._subscribe(request))
            case "unsubscribe":
                await self._unsubscribe(request)
            case "auth":
                raise UsageError("this connection has its token already")
            case _:
                known = ", ".join(EVENTS)
                raise UsageError(f'no event "{request.event[:100]}"', f"known: {known}")

    async def _answer(self, request: Request, event: str, data: Any) -> None:
        await self._client.send(frames.frame(event, data, request.id))

    def _request(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside what comes next."""
        if len(self._requests) >= MOST_REQUESTS:
            work.close()
            raise TooManyRequests(f"{MOST_REQUESTS} requests are open", "wait for an answer")
        task = asyncio.get_running_loop().create_task(self._guarded(request, work))
        self._requests[task] = request.id
        task.add_done_callback(lambda done: self._requests.pop(done, None))

    async def _guarded(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except HoldfastError as error:
            text = frames.failure(error, request.id, _session_of(request))
            try:
                await self._client.send(text)
            except OSError:
                return
        except OSError:
            return
        except Exception:  # noqa: BLE001 - the border of the door
            _log.exception("%s", request.event[:100])
            mistake = HoldfastError("a mistake of the gate", "its log tells more")
            self._client.post(frames.failure(mistake, request.id, _session_of(request)))
        finally:
            work.close()

    # Commands

    async def _execute(self, request: Request) -> None:
        fields = dict(request.data) if isinstance(request.data, dict) else {}
        name = fields.pop("command", None)
        if not isinstance(name, str):
            hint = '{"command": "restart", "services": ["web"]}'
            raise UsageError("command:execute: data needs a command", hint)
        if name in ("cancel", "watch"):
            raise UsageError(f"{name} is not asked this way", "use command:cancel, or a session")
        fields.pop("caller", None)
        if fields.get("follow") is True:
            channel = self._new_channel()
            try:
                async with aclosing(channel.stream(name, fields, self._caller)) as items:
                    async for item in items:
                        await self._answer(request, "command:item", {"command": name, "item": item})
            finally:
                await channel.close()
            result: dict[str, Any] = {}
        else:
            result = await self.ask(name, fields)
        await self._answer(request, "command:result", {"command": name, "result": result})

    async def _cancel(self, request: Request) -> None:
        target = carried(request, frames.Cancel).target
        found = [task for task, identity in self._requests.items() if identity == target]
        for task in found:
            task.cancel()
        await self._answer(request, "command:cancelled", {"target": target, "found": bool(found)})

    # Sessions

    async def _create(self, request: Request) -> None:
        wanted: frames.CreateSession = carried(request, frames.CreateSession)
        if len(self._sessions) >= MOST_SESSIONS:
            raise TooManyRequests(
                f"a connection has at most {MOST_SESSIONS} sessions", "close some"
            )
        grant = await self.ask("open_output", {"service": wanted.service})
        await learn(self._channel, grant.get("hides", 0))
        end = cursors.decode(grant["end"])
        place = await self._place(wanted, grant, end)
        if len(self._sessions) >= MOST_SESSIONS:
            raise TooManyRequests(
                f"a connection has at most {MOST_SESSIONS} sessions", "close some"
            )
        is_terminal = bool(grant["terminal"])
        feed = self._feeds.open(grant["directory"], grant["service"], end, is_terminal=is_terminal)
        self._count += 1
        identity = f"session-{uuid.uuid4()}"
        session = Session(self._count, identity, wanted, grant, feed, place, self, self._house)
        self._sessions[identity] = session
        on_lost = partial(self._on_lost, session)
        self._releases[identity] = self._hold(grant["service"], on_lost)
        await self._answer(request, "session:created", session.created())
        if identity in self._sessions:  # not lost meanwhile
            session.begin(self._on_end)

    async def _place(
        self, wanted: frames.CreateSession, grant: dict[str, Any], end: Cursor
    ) -> Cursor:
        """Where the viewer begins: at its own place, at a time, or at the last lines."""
        if wanted.cursor is not None:
            try:
                return cursors.decode(wanted.cursor)
            except CursorError as error:
                raise UsageError(f"session:create: {error}") from None
        if wanted.offset is not None:
            given = wanted.offset
            places = (given, given) if isinstance(given, int) else (given.stdout, given.stderr)
            if not all(0 <= place < _LARGEST for place in places):
                raise UsageError("session:create: an offset is a position in the log")
            return Cursor(*places)
        reader = Reader(grant["directory"], grant["service"])
        stream = None if wanted.stream is None else STREAMS[wanted.stream]
        if wanted.since is not None:
            return await self._feeds.in_thread(reader.since, wanted.since)
        tail = DEFAULT_TAIL if wanted.tail is None else wanted.tail
        if tail <= 0:
            return end
        return await self._feeds.in_thread(reader.tail, min(tail, 100_000), stream)

    def _session(self, named: frames.OneSession) -> Session:
        session = self._sessions.get(named.session_id)
        if session is None:
            raise UsageError("no such session on this connection", "create it first")
        return session

    def _on_end(self, session: Session, reason: str, identity: frames.Id = None) -> None:
        # Nobody cancels this: what a session holds is given back to the end.
        task = asyncio.get_running_loop().create_task(self._close(session, reason, identity))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    def _on_lost(self, session: Session, error: HoldfastError) -> None:
        """Its viewer may not follow the service any more."""
        if session.identity in self._sessions:
            session.stop()
            self._client.post(frames.failure(error, None, session.identity))
            self._on_end(session, error.message)

    async def _close(self, session: Session, reason: str, identity: frames.Id) -> None:
        await self._end(session)
        data = {"sessionId": session.identity, "reason": reason}
        self._client.post(frames.frame("session:closed", data, identity))

    async def _end(self, session: Session) -> None:
        if (release := self._releases.pop(session.identity, None)) is not None:
            release()
        if self._sessions.pop(session.identity, None) is not None:
            await session.end()
            await self._feeds.leave(session.feed)

    async def _terminal(self, request: Request) -> None:
        match request.event:
            case "terminal:input":
                typed = carried(request, frames.TerminalInput)
                self._session(typed).type(bytes_of(typed), request.id)
            case "terminal:resize":
                size = carried(request, frames.TerminalSize)
                self._session(size).resize(size.cols, size.rows, request.id)
            case "terminal:take":
                self._request(request, self._take_keyboard(request))
            case _:
                self._session(carried(request, frames.OneSession)).release()
                await self._answer(request, "terminal:released", {})

    async def _take_keyboard(self, request: Request) -> None:
        wanted: frames.TakeKeyboard = carried(request, frames.TakeKeyboard)
        await self._session(wanted).take(wanted)
        await self._answer(request, "terminal:taken", {"sessionId": wanted.session_id})

    # Events

    async def _subscribe(self, request: Request) -> None:
        wanted: frames.Subscribe = carried(request, frames.Subscribe)
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise TooManyRequests(f"a connection has at most {MOST_SUBSCRIPTIONS} subscriptions")
        fields = {"limit": 1, "services": wanted.services}
        last = int((await self.ask("events", fields))["last"])
        since = last if wanted.since is None else known_place(wanted.since, last)
        self._count += 1
        number = self._count
        events = follow(self._new_channel, self._caller, since, wanted.services)
        subscription = Subscription(number, events, Window(wanted), self._client.send)
        window = subscription.window
        pace = {"bufferSize": window.size, "flushInterval": window.interval_ms}
        data = {"subscription": number, "since": since, "last": last, **pace}
        await self._answer(request, "subscribed", data)
        work = self._guarded(request, subscription.run())
        task = asyncio.get_running_loop().create_task(work)
        self._subscriptions[number] = (subscription, task)
        task.add_done_callback(lambda _: self._subscriptions.pop(number, None))

    async def _unsubscribe(self, request: Request) -> None:
        number = carried(request, frames.Unsubscribe).subscription
        if number not in self._subscriptions:
            raise UsageError(f"no subscription {number} on this connection")
        _, task = self._subscriptions[number]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._answer(request, "unsubscribed", {"subscription": number})

    def _acknowledge(self, ack: frames.Ack) -> None:
        if ack.session_id is not None and ack.session_id in self._sessions:
            self._sessions[ack.session_id].window.acknowledge(ack.bytes)
        elif ack.subscription is not None and ack.subscription in self._subscriptions:
            self._subscriptions[ack.subscription][0].window.acknowledge(ack.bytes)


def _session_of(request: Request) -> str | None:
    given = request.data.get("sessionId") if isinstance(request.data, dict) else None
    return given if isinstance(given, str) and len(given) <= 100 else None


STREAMS: dict[str, Any] = {"stdout": "out", "stderr": "err"}
EVENTS = (
    *("auth", "ping", "ack", "session:create", "session:close"),
    *("command:execute", "command:cancel", "subscribe", "unsubscribe"),
    *("terminal:input", "terminal:resize", "terminal:take", "terminal:release"),
)
