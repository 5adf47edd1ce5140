"""What one connection may take of the gate, in time and in bytes, before and after it asks.

The HTTP parser bounds nothing: a header without end fills our memory, and a client that stops in
the middle of a request holds its connection for ever. Here every part of a request has a deadline,
for the first request of a connection and for each later one:

- a head must be complete within `HEAD_SECONDS`, have at most `LARGEST_HEAD` bytes and at most
  `MOST_HEADERS` headers;
- a body must come at `LEAST_RATE` bytes a second on average, after `BODY_SECONDS`;
- an answer must be read: a client that takes no byte of it for `STALL_SECONDS` is cut off;
- at most `MOST_PIPELINED` requests wait for the one before them.

A connection begins as a stranger's. It becomes a token's when the supervisor has accepted a token
that came over it (`prove`). Strangers share a small number of connections and of bytes. When
either is used up, only strangers lose connections. Each token has a share of its own, so that no
token can use up the connections of the others.
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
"""Bytes of unfinished requests of all strangers together."""
LARGEST_FIRST_MESSAGE = 16 * 1024
"""Bytes of a WebSocket that has shown no token, beyond its handshake."""
MOST_OF_TOKEN = 512
"""Connections of one token."""
GOING_AWAY = 1012
"""Closes a WebSocket when the gate is being replaced."""
_STATE = "connection"


def fit_to_descriptors(most: int) -> None:
    """Make the shares smaller where the process may open few files."""
    global MOST_STRANGERS, MOST_OF_TOKEN
    MOST_STRANGERS = min(MOST_STRANGERS, max(8, most // 8))
    MOST_OF_TOKEN = min(MOST_OF_TOKEN, max(16, most // 6))


def prove(scope: Scope, token: str) -> None:
    """Record that the supervisor has accepted this token, which came with this request."""
    connection = (scope.get("state") or {}).get(_STATE)
    if connection is not None:
        connection.prove(token)


def is_stranger(scope: Scope) -> bool:
    """Return whether the connection of this request counts as a stranger's."""
    connection = (scope.get("state") or {}).get(_STATE)
    return connection is not None and connection.token is None


class ConnectionShares:
    """All connections of the gate, of strangers and of each token; the oldest first."""

    def __init__(self) -> None:
        self._strangers: dict[LimitedConnection, None] = {}
        self._by_token: dict[str, dict[LimitedConnection, None]] = {}
        self._stranger_bytes = 0

    def arrive(self, connection: LimitedConnection) -> None:
        self._strangers[connection] = None
        if len(self._strangers) > MOST_STRANGERS:
            _end_one(self._strangers, connection)

    def prove(self, connection: LimitedConnection, token: str) -> None:
        self.leave(connection)
        connection.token = token
        connections = self._by_token.setdefault(token, {})
        connections[connection] = None
        if len(connections) > MOST_OF_TOKEN:
            _end_one(connections, connection)

    def leave(self, connection: LimitedConnection) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            self._stranger_bytes -= connection.held_bytes
            return
        connections = self._by_token.get(connection.token or "", {})
        if connections.pop(connection, ...) is None and not connections:
            del self._by_token[connection.token or ""]

    def replace(self, old: LimitedConnection, new: LimitedConnection) -> None:
        """The same connection speaks another protocol from now on."""
        token = old.token
        self.leave(old)
        if token is None:
            self._strangers[new] = None
        else:
            self.prove(new, token)

    def hold(self, connection: LimitedConnection, size: int) -> None:
        """Count more bytes that are held for an unfinished request."""
        connection.held_bytes += size
        if connection not in self._strangers:
            return
        self._stranger_bytes += size
        if self._stranger_bytes > STRANGER_BYTES:
            max(self._strangers, key=lambda one: one.held_bytes).end(HTTPStatus.SERVICE_UNAVAILABLE)

    def release(self, connection: LimitedConnection) -> None:
        """Nothing is held for the connection any more."""
        if connection in self._strangers:
            self._stranger_bytes -= connection.held_bytes
        connection.held_bytes = 0


def _end_one(among: dict[LimitedConnection, None], newest: LimitedConnection) -> None:
    """End the oldest connection that waits for no answer; if all of them do, the oldest."""
    others = (one for one in among if one is not newest)
    idle = (one for one in among if one is not newest and not one.awaits_answer)
    leaving = next(idle, None) or next(others, newest)
    leaving.end(HTTPStatus.SERVICE_UNAVAILABLE)


CONNECTIONS = ConnectionShares()
"""The connections of this process."""


class StallTimer:
    """Ends a connection whose client reads nothing of what was written for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, unless the timer runs already or nothing waits to be read."""
        if self._timer is None and (left := self._transport.get_write_buffer_size()):
            self._left = left
            self._timer = self._loop.call_later(STALL_SECONDS, self._on_deadline)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_deadline(self) -> None:
        self._timer = None
        if self._transport.get_write_buffer_size() >= self._left:
            self._transport.abort()
        else:
            self.start()


class LimitedConnection(asyncio.Protocol):
    """The limits that HTTP and WebSocket have in common: a share, and a client that must read."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    token: str | None = None
    held_bytes = 0
    _stall: StallTimer

    @property
    def awaits_answer(self) -> bool:
        """Whether we have a whole request of the client and owe it the answer."""
        raise NotImplementedError

    def end(self, status: HTTPStatus) -> None:
        """End the connection because of a limit."""
        raise NotImplementedError

    def prove(self, token: str) -> None:
        if self.token != token and not self.transport.is_closing():
            CONNECTIONS.prove(self, token)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._stall = StallTimer(self.loop, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall.stop()
        CONNECTIONS.leave(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.start()

    def resume_writing(self) -> None:
        self._stall.stop()
        super().resume_writing()


class _Phase(enum.Enum):
    """The part of a request that the client is sending."""

    HEAD = enum.auto()
    BODY = enum.auto()
    NOTHING = enum.auto()


class LimitedHttpProtocol(LimitedConnection, HttpToolsProtocol):
    """HTTP with deadlines and bounds."""

    _phase = _Phase.HEAD
    _timer: asyncio.TimerHandle | None = None
    _has_begun = False
    """Whether a request began in the data that is being parsed."""
    _since = 0.0
    _head_bytes = 0
    _body_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin(_Phase.HEAD)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._on_deadline)
        CONNECTIONS.arrive(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    @property
    def awaits_answer(self) -> bool:
        is_open = self.cycle is not None and not self.cycle.response_complete
        return is_open and self._phase is not _Phase.BODY

    def end(self, status: HTTPStatus) -> None:
        """Answer with the status, unless an answer is under way, and hang up."""
        is_free = self.cycle is None or self.cycle.response_complete
        is_unanswered = self._phase is _Phase.BODY and not self.cycle.response_started
        if (is_free or is_unanswered) and not self.transport.get_write_buffer_size():
            self.transport.write(_refusal(status))
            self.transport.close()
            self._stall.start()
        else:
            self.transport.abort()
        # The loop reports the loss later; the connection counts no more from now on.
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
                # The data was no request, for example an empty line.
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
            return
        if self._phase is _Phase.HEAD and not self._has_begun:
            # Where a request began in the middle of the data, its share of it is unknown.
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
        self._stall.start()

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
            left = allowed  # we are the side that does not read
        if left > 0:
            self._timer = self.loop.call_later(left, self._on_deadline)
        else:
            self.end(HTTPStatus.REQUEST_TIMEOUT)

    # Sending

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._stall.start()

    def handle_websocket_upgrade(self) -> None:
        self._cancel()
        self._stall.stop()
        super().handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        if isinstance(protocol, LimitedWebSocketProtocol):
            CONNECTIONS.replace(self, protocol)


class LimitedWebSocketProtocol(LimitedConnection, WebSocketsSansIOProtocol):
    """A WebSocket whose first message is bounded, and whose client must read.

    The door decides how long a client may take to show a token. While a client does not read, we
    read nothing from it either, because we would have to answer each of its pings.
    """

    _first_bytes = 0
    _has_spoken = False
    """Whether the first message came as a whole."""

    @property
    def awaits_answer(self) -> bool:
        return False

    def end(self, status: HTTPStatus) -> None:
        CONNECTIONS.leave(self)
        self.transport.abort()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["state"][_STATE] = self
            self._first_bytes = 0

    def shutdown(self) -> None:
        """The gate is being replaced: the door answers what it was asked, then closes."""
        if not self.handshake_complete or self.close_sent or self.transport.is_closing():
            super().shutdown()
            return
        self.stop_keepalive()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": GOING_AWAY})

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

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._stall.start()

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._stall.start()


class _TooMuch(Exception):
    """Stops the parser; the connection has been ended."""


def _refusal(status: HTTPStatus) -> bytes:
    """Return a whole answer, because no application is asked."""
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
