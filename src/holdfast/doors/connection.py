"""A connection of lines, as both doors have it: its lines, its back-pressure, its end.

Knows no command. Each door decides what a line means.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar, cast

from holdfast.adapters.own_log import logger
from holdfast.app.streams import LiveStream
from holdfast.secrets.redaction import redact, redact_value
from holdfast.system.lines import LineBuffer, LineTooLong
from holdfast.vocabulary import codec
from holdfast.vocabulary.errors import HoldfastError, Internal, UsageError

MAX_LINE = 8 * 1024 * 1024
LINGER_SECONDS = 10.0
"""A client that reads nothing for so long after we hung up is cut off."""
T = TypeVar("T", bound="LineConnection")
_log = logger("doors")


class Connections(set[T]):
    """The connections of one door."""

    is_closed = False
    """Whether new clients are disconnected at once. A supervisor that ends has let go of
    everything and could only answer errors; a client that is disconnected asks the next one."""


class LineConnection(asyncio.Protocol):
    """One client that sends lines. A slow reader delays only itself."""

    def __init__(self, connections: Connections[Any], longest: int = MAX_LINE) -> None:
        self._connections = connections
        self._longest = longest
        self._lines = LineBuffer(longest)
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._transport: asyncio.Transport

    @abstractmethod
    def _take(self, line: bytes) -> None:
        """Do what a line asks for."""

    @abstractmethod
    def _turn_away(self, error: HoldfastError) -> None:
        """Say why the connection ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        if self._connections.is_closed:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._can_write.set()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        self._can_write.clear()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._can_write.set()
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._connections.is_closed:
            return  # nothing is there any more that could do it
        try:
            lines = self._lines.feed(data)
        except LineTooLong:
            hint = f"at most {self._longest} bytes a line"
            self._turn_away(UsageError("the line is too long", hint))
            self.hang_up()
            return
        for line in lines:
            if line and not line.isspace():
                self._take(line)

    def _take_unfinished(self) -> None:
        """Take the last line, whose end will not come."""
        line = self._lines.clear()
        if line and not line.isspace():
            self._take(line)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def _write_items(
        self, request_id: object, stream: AsyncGenerator[Any, None], check: Callable[[], object]
    ) -> None:
        """Write the items of a stream as fast as the client reads. `check` raises once the caller
        is no longer valid."""
        async with aclosing(stream):
            async for item in stream:
                await self._can_write.wait()
                if isinstance(stream, LiveStream):
                    stream.check()
                check()
                self._write(codec.item(request_id, item))

    def hang_up(self) -> None:
        """Close the connection when everything is read, or when the client stops reading."""
        self._transport.close()
        self._linger()

    def _linger(self) -> None:
        left = self._transport.get_write_buffer_size()
        if left:
            loop = asyncio.get_running_loop()
            loop.call_later(LINGER_SECONDS, self._end_if_unread, left)

    def _end_if_unread(self, before: int) -> None:
        if self not in self._connections:
            return
        if self._transport.get_write_buffer_size() >= before:
            self._transport.abort()
        else:
            self._linger()


def public_error(error: Exception) -> HoldfastError:
    """Return an error as a client may see it; a mistake of ours is logged with its traceback.

    Errors repeat parts of the request, and pass through many hands before somebody reads them, so
    they are redacted.
    """
    if not isinstance(error, HoldfastError):
        _log.error("a command failed unexpectedly", exc_info=error)
        error = Internal(
            f"an error inside Holdfast: {type(error).__name__}: {error}",
            "holdfast.log in the state folder has the details; please report it",
        )
    error.message, error.hint = redact(error.message), redact(error.hint)
    problems = error.details.get("problems", ())
    error.details = redact_value(error.details)
    for shown, problem in zip(error.details.get("problems", ()), problems, strict=True):
        # The name of a key of the configuration. Under this name other things are secrets.
        shown["key"] = redact(problem["key"])
    return error
