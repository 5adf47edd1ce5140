"""What one connection has under way: commands, viewers, subscriptions.

Each frame of the client comes here and becomes a command with the caller's token; nothing is
decided here. Work that takes time is a task of the dispatcher, which ends all of them with the
connection.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.gate import secrets
from holdfast.gate.events import Event, follow_events
from holdfast.gate.ws import frames
from holdfast.gate.ws.command_session import CommandSession
from holdfast.gate.ws.flow_control import FlowWindow
from holdfast.gate.ws.frames import ClientFrame, data_of
from holdfast.gate.ws.merged_viewer import EventSource, MergedService, MergedViewer
from holdfast.gate.ws.viewer import Viewer
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor, CursorError
from holdfast.logbook.entries import Stream
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.errors import HoldfastError, Refused, TooManyRequests, UsageError
from holdfast.vocabulary.events import known_place

if TYPE_CHECKING:
    from holdfast.gate.ws.accounts import Account
    from holdfast.gate.ws.door import WebSocketConnection, WebSocketShared

_log = logging.getLogger("holdfast.gate")
EVENTS = (
    *("auth", "ping", "ack", "session:create", "session:close"),
    *("command:execute", "command:cancel", "subscribe", "unsubscribe"),
    *("terminal:input", "terminal:resize", "terminal:take", "terminal:release"),
)
MOST_SESSIONS = 64
MOST_SERVICES = 64
MOST_PAST_EVENTS = 1000
MOST_SUBSCRIPTIONS = 16
MOST_REQUESTS = 32
MOST_WAITING_EVENTS = 256
ANSWER_SECONDS = 1.0
"""Requests that take longer are cancelled when the gate is being replaced."""
DEFAULT_TAIL = 100
_LARGEST = 1 << 63
_STREAMS: dict[str, Stream] = {"stdout": "out", "stderr": "err"}


class Dispatcher:
    """Does what the frames of one connection ask for."""

    def __init__(
        self, connection: WebSocketConnection, shared: WebSocketShared, account: Account
    ) -> None:
        self._connection = connection
        self._shared = shared
        self._account = account
        self._viewers: dict[str, Viewer | MergedViewer] = {}
        self._commands: dict[str, CommandSession] = {}
        self._grants: dict[str, Callable[[], None]] = {}
        """By session: releases the right to follow its service."""
        self._subscriptions: dict[int, tuple[EventSubscription, asyncio.Task[None]]] = {}
        self._count = 0
        self._requests: dict[asyncio.Task[None], frames.RequestId] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def take(self, text: str) -> None:
        """Do what a frame asks for, or begin to; raises UsageError if it is malformed."""
        request = frames.parse(text)
        try:
            await self._take(request)
        except HoldfastError as error:
            await self._connection.send(frames.failure(error, request.id, _session_of(request)))

    async def take_bytes(self, data: Any) -> None:
        typed = frames.parse_input(data if isinstance(data, bytes) else b"")
        for viewer in self._viewers.values():
            if viewer.number == typed.session:
                viewer.type(typed.data)
                return
        raise UsageError(f"no session {typed.session} on this connection")

    async def finish(self) -> None:
        """Wait a moment for the answers to open requests."""
        if self._requests:
            await asyncio.wait([*self._requests], timeout=ANSWER_SECONDS)

    async def leave(self) -> None:
        """End everything; nothing is left when this returns."""
        running = [*self._requests, *(task for _, task in self._subscriptions.values())]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, *self._endings, return_exceptions=True)
        for viewer in list(self._viewers.values()):
            await self._end(viewer)

    async def _take(self, request: ClientFrame) -> None:
        match request.event:
            case "ping":
                await self._answer(request, "pong", {"timestamp": frames.now_ms()})
            case "ack":
                self._acknowledge(data_of(request, frames.Ack))
            case "session:create":
                self._begin(request, self._create_session(request))
            case "session:close":
                self._close_session(request)
            case "command:execute":
                self._begin(request, self._execute(request))
            case "command:cancel":
                await self._cancel(request)
            case "terminal:input":
                typed = data_of(request, frames.TerminalInput)
                self._viewer(typed).type(typed.content(), request.id)
            case "terminal:resize":
                size = data_of(request, frames.TerminalSize)
                self._viewer(size).resize(size.cols, size.rows, request.id)
            case "terminal:take":
                self._begin(request, self._take_keyboard(request))
            case "terminal:release":
                self._viewer(data_of(request, frames.SessionData)).release()
                await self._answer(request, "terminal:released", {})
            case "subscribe":
                self._begin(request, self._subscribe(request))
            case "unsubscribe":
                await self._unsubscribe(request)
            case "auth":
                raise UsageError("this connection has its token already")
            case _:
                known = ", ".join(EVENTS)
                raise UsageError(f'no event "{request.event[:100]}"', f"known: {known}")

    async def _answer(self, request: ClientFrame, event: str, data: Any) -> None:
        await self._connection.send(frames.frame(event, data, request.id))

    def _begin(self, request: ClientFrame, work: Coroutine[Any, Any, None]) -> None:
        """Do the work in a task, so that the next frame need not wait for it."""
        if len(self._requests) >= MOST_REQUESTS:
            work.close()
            raise TooManyRequests(f"{MOST_REQUESTS} requests are open", "wait for an answer")
        task = asyncio.get_running_loop().create_task(self._guard(request, work))
        self._requests[task] = request.id
        task.add_done_callback(lambda done: self._requests.pop(done, None))

    async def _guard(self, request: ClientFrame, work: Coroutine[Any, Any, None]) -> None:
        """Do the work and answer its failure."""
        try:
            await work
        except HoldfastError as error:
            text = frames.failure(error, request.id, _session_of(request))
            try:
                await self._connection.send(text)
            except OSError:
                return
        except OSError:
            return
        except Exception:  # noqa: BLE001 - the border of the door
            _log.exception("%s", request.event[:100])
            mistake = HoldfastError("a mistake of the gate", "its log tells more")
            self._connection.post(frames.failure(mistake, request.id, _session_of(request)))
        finally:
            work.close()

    # Commands

    async def _execute(self, request: ClientFrame) -> None:
        fields = dict(request.data) if isinstance(request.data, dict) else {}
        if "sessionId" in fields:
            await self._execute_in_session(request)
            return
        name = fields.pop("command", None)
        if not isinstance(name, str):
            hint = '{"command": "restart", "services": ["web"]}'
            raise UsageError("command:execute: data needs a command", hint)
        if name in ("cancel", "watch"):
            raise UsageError(f"{name} is not asked this way", "use command:cancel, or a session")
        fields.pop("caller", None)
        result: dict[str, Any] = {}
        if fields.get("follow") is True:
            channel = self._shared.new_channel()
            try:
                stream = channel.stream(name, fields, self._connection.caller)
                async with aclosing(stream) as items:
                    async for item in items:
                        await self._answer(request, "command:item", {"command": name, "item": item})
            finally:
                await channel.close()
        else:
            result = await self._connection.ask(name, fields)
        await self._answer(request, "command:result", {"command": name, "result": result})

    async def _cancel(self, request: ClientFrame) -> None:
        target = data_of(request, frames.Cancel).target
        found = [task for task, request_id in self._requests.items() if request_id == target]
        for task in found:
            task.cancel()
        await self._answer(request, "command:cancelled", {"target": target, "found": bool(found)})

    # Viewers, which clients know as sessions

    async def _create_session(self, request: ClientFrame) -> None:
        if isinstance(request.data, dict) and "services" in request.data:
            await self._create_merged(request)
        elif isinstance(request.data, dict) and "service" not in request.data:
            await self._create_commands(request)
        else:
            await self._create(request)

    async def _create_commands(self, request: ClientFrame) -> None:
        """Create a session of commands, and run the one that is given."""
        wanted = data_of(request, frames.SessionCommand) if request.data else None
        self._check_sessions()
        identity = f"session-{uuid.uuid4()}"
        session = CommandSession(identity, self._connection, self._shared.new_channel)
        self._commands[identity] = session
        await self._answer(request, "session:created", {"sessionId": identity, "service": None})
        if wanted is None:
            return
        try:
            await session.run(wanted)
        except HoldfastError as error:
            await self._connection.send(frames.failure(error, request.id, identity))

    async def _execute_in_session(self, request: ClientFrame) -> None:
        wanted = data_of(request, frames.ExecuteInSession)
        session = self._commands.get(wanted.session_id)
        if session is None:
            hint = "session:create without `service` makes one"
            raise UsageError("no such session of commands on this connection", hint)
        result = await session.run(wanted)
        answer = {"command": "execute_command", "result": result}
        await self._answer(request, "command:result", answer)

    def _close_session(self, request: ClientFrame) -> None:
        closing = data_of(request, frames.SessionData)
        if (commands := self._commands.pop(closing.session_id, None)) is not None:
            self._begin(request, self._close_commands(request, commands))
        else:
            self._on_end(self._session(closing), "asked", request.id)

    async def _close_commands(self, request: ClientFrame, session: CommandSession) -> None:
        await session.end()
        data = {"sessionId": session.identity, "reason": "asked"}
        await self._answer(request, "session:closed", data)

    async def _create(self, request: ClientFrame) -> None:
        wanted = data_of(request, frames.CreateSession)
        self._check_sessions()
        grant = await self._connection.ask("open_output", {"service": wanted.service})
        await secrets.refresh(self._shared.channel, grant.get("hides", 0))
        end = cursors.decode(grant["end"])
        place = await self._place(wanted, grant, end)
        self._check_sessions()
        is_terminal = bool(grant["terminal"])
        feed = self._shared.feeds.open(
            grant["directory"], grant["service"], end, is_terminal=is_terminal
        )
        self._count += 1
        identity = f"session-{uuid.uuid4()}"
        viewer = Viewer(
            self._count, identity, wanted, grant, feed, place, self._connection, self._shared
        )
        self._viewers[identity] = viewer
        self._grants[identity] = self._shared.accounts.hold_grant(
            self._account, grant["service"], partial(self._on_lost, viewer)
        )
        await self._answer(request, "session:created", viewer.describe())
        if identity in self._viewers:  # not lost meanwhile
            viewer.begin(self._on_end)

    async def _create_merged(self, request: ClientFrame) -> None:
        """Create a session of several services. Each is granted by itself."""
        wanted = data_of(request, frames.CreateMerged)
        if not 1 <= len(wanted.services) <= MOST_SERVICES:
            raise UsageError(f"session:create: `services` names 1 to {MOST_SERVICES} services")
        self._check_sessions()
        names = list(dict.fromkeys(wanted.services))
        grants = await asyncio.gather(
            *(self._connection.ask("open_output", {"service": name}) for name in names)
        )
        await secrets.refresh(self._shared.channel, max(one.get("hides", 0) for one in grants))
        places = await asyncio.gather(
            *(self._part(wanted, name, grant) for name, grant in zip(names, grants, strict=True))
        )
        events = await self._merged_events(wanted, [grant["service"] for grant in grants])
        self._check_sessions()
        open_feed = self._shared.feeds.open
        sources = []
        for grant, (start, until) in zip(grants, places, strict=True):
            end, is_terminal = cursors.decode(grant["end"]), bool(grant["terminal"])
            feed = open_feed(grant["directory"], grant["service"], end, is_terminal=is_terminal)
            sources.append(MergedService(grant, feed, start, until))
        self._count += 1
        identity = f"session-{uuid.uuid4()}"
        viewer = MergedViewer(self._count, identity, wanted, sources, events, self._connection)
        self._viewers[identity] = viewer
        releases = [
            self._shared.accounts.hold_grant(
                self._account, grant["service"], partial(self._on_lost, viewer)
            )
            for grant in grants
        ]
        self._grants[identity] = partial(_call_all, releases)
        await self._answer(request, "session:created", viewer.describe())
        if identity in self._viewers:  # not lost meanwhile
            viewer.begin(self._on_end)

    async def _part(
        self, wanted: frames.CreateMerged, name: str, grant: dict[str, Any]
    ) -> tuple[Cursor, Cursor | None]:
        """Return where this service's output begins in the session, and where it ends."""
        reader = Reader(grant["directory"], grant["service"])
        in_thread = self._shared.feeds.in_thread
        until = None
        if wanted.until is not None:
            until = _decoded(wanted.until.get(name, grant["end"]))
        if (cursor := wanted.cursors.get(name)) is not None:
            return _decoded(cursor), until
        if wanted.since is not None:
            return await in_thread(reader.since, wanted.since), until
        tail = min(DEFAULT_TAIL if wanted.tail is None else max(0, wanted.tail), 100_000)
        if wanted.run is not None:
            span = await in_thread(reader.run, wanted.run)
            start = cursors.decode(grant["end"]) if span is None else span.start
            if span is not None and until is not None and span.end is not None:
                until = cursors.at(span.end)
            if wanted.tail is None or span is None:
                return start, until
            return cursors.later(start, await in_thread(reader.tail, tail)), until
        if until is not None:
            return await in_thread(reader.before, until, tail), until
        return await in_thread(reader.tail, tail), None

    async def _merged_events(
        self, wanted: frames.CreateMerged, services: list[str]
    ) -> EventSource | None:
        """Return the services' events; None if this caller may not see events."""
        fields = {"limit": MOST_PAST_EVENTS, "services": services}
        try:
            answer = await self._connection.ask("events", fields)
        except Refused:
            return None
        newest = list(answer["events"])
        if wanted.until is not None:
            return EventSource(newest, None)
        following = follow_events(
            self._shared.new_channel, self._connection.caller, int(answer["last"]), services
        )
        return EventSource(newest, following)

    def _check_sessions(self) -> None:
        if len(self._viewers) + len(self._commands) >= MOST_SESSIONS:
            raise TooManyRequests(
                f"a connection has at most {MOST_SESSIONS} sessions", "close some"
            )

    async def _place(
        self, wanted: frames.CreateSession, grant: dict[str, Any], end: Cursor
    ) -> Cursor:
        """Return where the viewer begins: at its own place, at a time, or at the last lines."""
        if wanted.cursor is not None:
            return _decoded(wanted.cursor)
        if wanted.offset is not None:
            offset = wanted.offset
            places = (offset, offset) if isinstance(offset, int) else (offset.stdout, offset.stderr)
            if not all(0 <= place < _LARGEST for place in places):
                raise UsageError("session:create: an offset is a position in the log")
            return Cursor(*places)
        reader = Reader(grant["directory"], grant["service"])
        stream = None if wanted.stream is None else _STREAMS[wanted.stream]
        if wanted.since is not None:
            return await self._shared.feeds.in_thread(reader.since, wanted.since)
        tail = DEFAULT_TAIL if wanted.tail is None else wanted.tail
        if tail <= 0:
            return end
        return await self._shared.feeds.in_thread(reader.tail, min(tail, 100_000), stream)

    def _session(self, data: frames.SessionData) -> Viewer | MergedViewer:
        viewer = self._viewers.get(data.session_id)
        if viewer is None:
            raise UsageError("no such session on this connection", "create it first")
        return viewer

    def _viewer(self, data: frames.SessionData) -> Viewer:
        viewer = self._session(data)
        if isinstance(viewer, MergedViewer):
            raise UsageError(
                "a session of several services has no terminal", "create one of its own"
            )
        return viewer

    async def _take_keyboard(self, request: ClientFrame) -> None:
        wanted = data_of(request, frames.TakeKeyboard)
        await self._viewer(wanted).take(wanted)
        await self._answer(request, "terminal:taken", {"sessionId": wanted.session_id})

    def _on_lost(self, viewer: Viewer | MergedViewer, error: HoldfastError) -> None:
        """This client may no longer follow the service."""
        if viewer.identity in self._viewers:
            viewer.stop()
            self._connection.post(frames.failure(error, None, viewer.identity))
            self._on_end(viewer, error.message)

    def _on_end(
        self, viewer: Viewer | MergedViewer, reason: str, request_id: frames.RequestId = None
    ) -> None:
        # Nothing cancels this task, so a viewer always gives back what it holds.
        task = asyncio.get_running_loop().create_task(self._close(viewer, reason, request_id))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _close(
        self, viewer: Viewer | MergedViewer, reason: str, request_id: frames.RequestId
    ) -> None:
        await self._end(viewer)
        data = {"sessionId": viewer.identity, "reason": reason}
        self._connection.post(frames.frame("session:closed", data, request_id))

    async def _end(self, viewer: Viewer | MergedViewer) -> None:
        if (release := self._grants.pop(viewer.identity, None)) is not None:
            release()
        if self._viewers.pop(viewer.identity, None) is not None:
            await viewer.end()
            for feed in viewer.feeds:
                await self._shared.feeds.leave(feed)

    # Subscriptions

    async def _subscribe(self, request: ClientFrame) -> None:
        wanted = data_of(request, frames.Subscribe)
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise TooManyRequests(f"a connection has at most {MOST_SUBSCRIPTIONS} subscriptions")
        fields = {"limit": 1, "services": wanted.services}
        last = int((await self._connection.ask("events", fields))["last"])
        since = last if wanted.since is None else known_place(wanted.since, last)
        self._count += 1
        number = self._count
        events = follow_events(
            self._shared.new_channel, self._connection.caller, since, wanted.services
        )
        window = FlowWindow(wanted)
        subscription = EventSubscription(number, events, window, self._connection.send)
        flow = {"bufferSize": window.size, "flushInterval": window.interval_ms}
        data = {"subscription": number, "since": since, "last": last, **flow}
        await self._answer(request, "subscribed", data)
        work = self._guard(request, subscription.run())
        task = asyncio.get_running_loop().create_task(work)
        self._subscriptions[number] = (subscription, task)
        task.add_done_callback(lambda _: self._subscriptions.pop(number, None))

    async def _unsubscribe(self, request: ClientFrame) -> None:
        number = data_of(request, frames.Unsubscribe).subscription
        if number not in self._subscriptions:
            raise UsageError(f"no subscription {number} on this connection")
        _, task = self._subscriptions[number]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._answer(request, "unsubscribed", {"subscription": number})

    def _acknowledge(self, ack: frames.Ack) -> None:
        if ack.session_id is not None and ack.session_id in self._viewers:
            self._viewers[ack.session_id].window.acknowledge(ack.bytes)
        elif ack.subscription is not None and ack.subscription in self._subscriptions:
            self._subscriptions[ack.subscription][0].window.acknowledge(ack.bytes)


class EventSubscription:
    """Sends events to one connection, as fast as its client takes them."""

    def __init__(
        self,
        number: int,
        events: AsyncGenerator[Event, None],
        window: FlowWindow,
        send: Callable[[str], Awaitable[None]],
    ) -> None:
        self.window = window
        self._number = number
        self._events = events
        self._send = send
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING_EVENTS)

    async def run(self) -> None:
        """Run until it is cancelled or the supervisor refuses."""
        receiving = asyncio.get_running_loop().create_task(self._receive_all())
        sending = asyncio.get_running_loop().create_task(self._send_all())
        try:
            await asyncio.wait([receiving, sending], return_when=asyncio.FIRST_COMPLETED)
            for task in (receiving, sending):
                if task.done():
                    task.result()
        finally:
            for task in (receiving, sending):
                task.cancel()
            await asyncio.gather(receiving, sending, return_exceptions=True)

    async def _receive_all(self) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                await self._waiting.put(event)

    async def _send_all(self) -> None:
        while True:
            event = await self._waiting.get()
            await self.window.collect()
            while True:
                await self.window.wait_for_room()
                text = frames.frame("event", event, seq=event["seq"], subscription=self._number)
                await self._send(text)
                self.window.count_sent(len(text))
                if self._waiting.empty():
                    break
                event = self._waiting.get_nowait()


def _call_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _decoded(cursor: str) -> Cursor:
    try:
        return cursors.decode(cursor)
    except CursorError as error:
        raise UsageError(f"session:create: {error}") from None


def _session_of(request: ClientFrame) -> str | None:
    given = request.data.get("sessionId") if isinstance(request.data, dict) else None
    return given if isinstance(given, str) and len(given) <= 100 else None
