"""A connection of lines: its bytes cut into them, its bound of a line, its back-pressure.

Knows no command; what a line means is the door's.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any, cast

from holdfast.system.lines import LineBuffer, LineTooLong
from holdfast.vocabulary.errors import HoldfastError, UsageError

MAX_LINE = 8 * 1024 * 1024
LINGER_SECONDS = 10.0
"""A client that is hung up on and reads nothing for so long is cut off."""


class Connections(set[Any]):
    """The connections of one door."""

    is_closed = False
    """Whether who comes now is hung up on. A client that connects while its door closes would be
    served by a supervisor that has let go of everything, and be told an error of ours; one that
    is hung up on asks the next supervisor."""


class LinesConnection(asyncio.Protocol):
    """One client that sends lines. A slow reader holds up only itself."""

    def __init__(self, connections: Connections, longest: int = MAX_LINE) -> None:
        self._connections = connections
        self._longest = longest
        self._lines = LineBuffer(longest)
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._transport: asyncio.Transport

    @abstractmethod
    def _take(self, line: bytes) -> None:
        """Do what a line says."""

    @abstractmethod
    def _turn_away(self, error: HoldfastError) -> None:
        """Say why nobody listens to it any more."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        if self._connections.is_closed:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._can_write.set()

    def pause_writing(self) -> None:
        """Who does not read what was answered is not listened to either."""
        self._can_write.clear()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._can_write.set()
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._connections.is_closed:
            return  # nobody is there any more to do it
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
        """Do what the last line says, which has no end and will get none."""
        line = self._lines.clear()
        if line and not line.isspace():
            self._take(line)

    def hang_up(self) -> None:
        """Close it when everything is read; what is never read is not kept for ever."""
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

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)
