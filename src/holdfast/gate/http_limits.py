"""What one connection may take of the gate, in time and in bytes, before and after it asks.

The parser of HTTP bounds nothing: a header without end fills our memory, and a client that stops
in the middle of a request holds its connection for ever. Here every part of a request has a
deadline, the first one and each later one of the same connection:

- a head must be complete within `HEAD_SECONDS`, have at most `LARGEST_HEAD` bytes and at most
  `MOST_HEADERS` headers;
- a body must come at `LEAST_RATE` bytes a second on average, after `BODY_SECONDS`;
- an answer must be read: a client that takes no byte of it for `STALL_SECONDS` is cut off;
- at most `MOST_PIPELINED` requests wait for the one before them.

A connection begins as a stranger's. It becomes a guest's when the supervisor has accepted a token
that came over it (`prove`). Strangers share a small number of connections and of bytes. When
either is used up, strangers lose connections, never guests. Each token has a share of its own, so
that no guest can use up the connections of the others.
"""

from __future__ import annotations

import asyncio
import enum
import json
from http import HTTPStatus
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LARGEST_HEAD = 64 * 1024
MOST_HEADERS = 200
HEAD_SECONDS = 10.0
BODY_SECONDS = 10.0
LEAST_RATE = 16 * 1024
STALL_SECONDS = 30.0
MOST_PIPELINED = 16
MOST_STRANGERS = 256
"""Connections without a valid token."""
STRANGER_BYTES = 8 * 1024 * 1024
"""Of unfinished requests of all strangers together."""
LARGEST_FIRST_MESSAGE = 16 * 1024
"""Of a WebSocket that has shown no token; its handshake is counted apart."""
MOST_OF_TOKEN = 512
"""Connections of one token."""
_STATE = "connection"


def fit(files: int) -> None:
    """Where a process may open few files, the shares are smaller."""
    global MOST_STRANGERS, MOST_OF_TOKEN
    MOST_STRANGERS = min(MOST_STRANGERS, max(8, files // 8))
    MOST_OF_TOKEN = min(MOST_OF_TOKEN, max(16, files // 6))


def prove(scope: Scope, token: str) -> None:
    """The supervisor has accepted this token, which came with this request."""
    connection = (scope.get("state") or {}).get(_STATE)
    if connection is not None:
        connection.prove(token)


def is_stranger(scope: Scope) -> bool:
    """Whether the connection of this request counts as a stranger's."""
    connection = (scope.get("state") or {}).get(_STATE)
    return connection is not None and connection.token is None


class Connections:
    """All connections of the gate: strangers, and guests by their token; the oldest first."""

    def __init__(self) -> None:
        self._strangers: dict[Tracked, None] = {}
        self._guests: dict[str, dict[Tracked, None]] = {}
        self._stranger_bytes = 0

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def arrive(self, connection: Tracked) -> None:
        self._strangers[connection] = None
        if len(self._strangers) > MOST_STRANGERS:
            _end_one(self._strangers, connection)

    def prove(self, connection: Tracked, token: str) -> None:
        self.leave(connection)
        connection.token = token
        guests = self._guests.setdefault(token, {})
        guests[connection] = None
        if len(guests) > MOST_OF_TOKEN:
            _end_one(guests, connection)

    def leave(self, connection: Tracked) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            self._stranger_bytes -= connection.held_bytes
            return
        guests = self._guests.get(connection.token or "", {})
        if guests.pop(connection, ...) is None and not guests:
            del self._guests[connection.token or ""]

    def replace(self, old: Tracked, new: Tracked) -> None:
        """The same connection speaks another protocol from now on."""
        token = old.token
        self.leave(old)
        if token is None:
            self._strangers[new] = None
        else:
            self.prove(new, token)

    def hold(self, connection: Tracked, size: int) -> None:
        """So many bytes more are held for an unfinished request."""
        connection.held_bytes += size
        if connection not in self._strangers:
            return
        self._stranger_bytes += size
        if self._stranger_bytes > STRANGER_BYTES:
            max(self._strangers, key=lambda one: one.held_bytes).end(HTTPStatus.SERVICE_UNAVAILABLE)

    def release(self, connection: Tracked) -> None:
        """Nothing is held for it any more."""
        if connection in self._strangers:
            self._stranger_bytes -= connection.held_bytes
        connection.held_bytes = 0


class Tracked:
    """What `Connections` needs to know of a connection."""

    token: str | None = None
    held_bytes = 0

    @property
    def is_answered_now(self) -> bool:
        """Whether we have a whole request of it and owe the answer."""
        raise NotImplementedError

    def end(self, status: HTTPStatus) -> None:
        raise NotImplementedError


def _end_one(among: dict[Tracked, None], newest: Tracked) -> None:
    """End the oldest that we owe nothing; if we owe everybody an answer, the oldest."""
    others = (one for one in among if one is not newest)
    waiting = (one for one in among if one is not newest and not one.is_answered_now)
    leaving = next(waiting, None) or next(others, newest)
    leaving.end(HTTPStatus.SERVICE_UNAVAILABLE)


CONNECTIONS = Connections()
"""Of this process."""


class _Phase(enum.Enum):
    """What the client is sending."""

    HEAD = enum.auto()
    BODY = enum.auto()
    NOTHING = enum.auto()


class Stall:
    """Ends a connection whose client reads nothing of what was written for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Begin, unless it is watched already or nothing waits to be read."""
        if self._timer is None and (left := self._transport.get_write_buffer_size()):
            self._left = left
            self._timer = self._loop.call_later(STALL_SECONDS, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._transport.get_write_buffer_size() >= self._left:
            self._transport.abort()
        else:
            self.watch()


class PatientProtocol(HttpToolsProtocol, Tracked):
    """HTTP with deadlines and bounds."""

    _phase = _Phase.HEAD
    _timer: asyncio.TimerHandle | None = None
    _has_begun = False
    """Whether a message began in the data that is looked at now."""
    _since = 0.0
    _head_bytes = 0
    _body_bytes = 0
    _stall: Stall

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._stall = Stall(self.loop, transport)
        self._begin(_Phase.HEAD)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._on_deadline)
        CONNECTIONS.arrive(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        self._stall.stop()
        CONNECTIONS.leave(self)
        super().connection_lost(exc)

    def prove(self, token: str) -> None:
        if self.token != token and not self.transport.is_closing():
            CONNECTIONS.prove(self, token)

    @property
    def is_answered_now(self) -> bool:
        is_open = self.cycle is not None and not self.cycle.response_complete
        return is_open and self._phase is not _Phase.BODY

    def end(self, status: HTTPStatus) -> None:
        """Say why, if no answer is under way, and hang up."""
        is_free = self.cycle is None or self.cycle.response_complete
        is_unanswered = self._phase is _Phase.BODY and not self.cycle.response_started
        if (is_free or is_unanswered) and not self.transport.get_write_buffer_size():
            self.transport.write(_refusal(status))
            self.transport.close()
            self._stall.watch()
        else:
            self.transport.abort()
        # Until the loop tells us that the connection is lost, it counts no more.
        CONNECTIONS.leave(self)

    # Receiving

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._has_begun = False
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if self._phase is _Phase.NOTHING:
            self._cancel()
            is_idle = self.cycle is None or self.cycle.response_complete
            if is_idle and self.timeout_keep_alive_task is None:
                # Something came that is no request, such as an empty line.
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
            return
        if self._phase is _Phase.HEAD and not self._has_begun:
            # Where a message began in the middle of the data, its share of it is not known.
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD:
                self.end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
        if self._timer is None:
            seconds = HEAD_SECONDS if self._phase is _Phase.HEAD else BODY_SECONDS
            self._timer = self.loop.call_later(seconds, self._on_deadline)

    def on_message_begin(self) -> None:
        self._has_begun = True
        self._begin(_Phase.HEAD)
        super().on_message_begin()
        self.scope["state"][_STATE] = self

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_HEADERS:
            self.end(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            raise _TooMuch
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            self.transport.abort()
            raise _TooMuch
        super().on_headers_complete()
        self._begin(_Phase.BODY)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)
        if not self.cycle.response_complete:
            CONNECTIONS.hold(self, len(body))

    def on_message_complete(self) -> None:
        self._begin(_Phase.NOTHING)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        CONNECTIONS.release(self)
        super().on_response_complete()
        self._stall.watch()

    def _begin(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self.loop.time()
        self._head_bytes = self._body_bytes = 0
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_deadline(self) -> None:
        self._timer = None
        allowed, left = HEAD_SECONDS, 0.0
        if self._phase is _Phase.BODY:
            allowed = BODY_SECONDS + self._body_bytes / LEAST_RATE
            left = self._since + allowed - self.loop.time()
        if self.flow.read_paused:
            left = allowed  # it is we who do not read
        if left > 0:
            self._timer = self.loop.call_later(left, self._on_deadline)
        else:
            self.end(HTTPStatus.REQUEST_TIMEOUT)

    # Sending

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.watch()

    def resume_writing(self) -> None:
        self._stall.stop()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._stall.watch()

    def handle_websocket_upgrade(self) -> None:
        self._cancel()
        self._stall.stop()
        super().handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        if isinstance(protocol, PatientWebSocket):
            CONNECTIONS.replace(self, protocol)


class PatientWebSocket(WebSocketsSansIOProtocol, Tracked):
    """A WebSocket whose client must read, and that is a stranger's until it has shown a token.

    How long it may take to show one is decided where tokens are looked at. While a client does
    not read, nothing is read from it either: each of its pings would be answered.
    """

    _stall: Stall
    _first_bytes = 0
    _has_spoken = False
    """Whether a first message came as a whole."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._stall = Stall(self.loop, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall.stop()
        CONNECTIONS.leave(self)
        super().connection_lost(exc)

    def prove(self, token: str) -> None:
        if self.token != token and not self.transport.is_closing():
            CONNECTIONS.prove(self, token)

    @property
    def is_answered_now(self) -> bool:
        return False

    def end(self, status: HTTPStatus) -> None:
        CONNECTIONS.leave(self)
        self.transport.abort()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["state"][_STATE] = self
            self._first_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._has_spoken and self.token is None:
            self._first_bytes += len(data)
            if self._first_bytes > LARGEST_FIRST_MESSAGE:
                self.end(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def send_receive_event_to_app(self) -> None:
        self._has_spoken = True
        super().send_receive_event_to_app()

    async def receive(self) -> Any:
        message = await super().receive()
        if not self.writable.is_set():
            self.transport.pause_reading()
        return message

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.pause_reading()
        self._stall.watch()

    def resume_writing(self) -> None:
        self._stall.stop()
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._stall.watch()

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._stall.watch()


class _TooMuch(Exception):
    """Stops the parser; the connection is ended already."""


def _refusal(status: HTTPStatus) -> bytes:
    """A whole answer, for where no application is asked."""
    detail = {
        HTTPStatus.REQUEST_TIMEOUT: "the request came too slowly",
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the head of the request is too large",
        HTTPStatus.SERVICE_UNAVAILABLE: "too many connections without a valid token",
    }[status]
    kind = status.name.lower()
    fields = {"type": f"urn:holdfast:error:{kind}", "title": status.phrase}
    body = json.dumps({**fields, "status": status.value, "detail": detail, "code": kind}).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n"
    head += f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
