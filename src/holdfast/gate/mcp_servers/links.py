"""How the gate reaches an MCP server: lines of JSON over borrowed pipes.

The keeper holds the pipes and the supervisor lends copies of them, so the server outlives this
process. A message that was cut off when the last gate died is skipped: a line that is no message
harms nobody, in either direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import sys
import termios
from collections.abc import Callable
from io import FileIO
from typing import Any, Protocol, cast

import msgspec

LONGEST_MESSAGE = 16 * 1024 * 1024
PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)
_log = logging.getLogger(__name__)
Message = dict[str, Any]


class LinkLost(Exception):
    """The server cannot be reached any more."""


class NotSent(LinkLost):
    """The message certainly did not arrive."""


class Link(Protocol):
    """A way to one run of a server."""

    async def send(self, message: Message) -> None:
        """Send a message; raises NotSent if it certainly did not arrive."""

    @property
    def is_answered_at_once(self) -> bool:
        """Whether `send` returns only when the answer has come, or never will."""

    @property
    def place(self) -> int:
        """Where the next message begins among all that was sent."""

    def has_read(self, place: int) -> bool:
        """Whether the server may have read anything of the message that began at this place."""

    async def close(self) -> None:
        """Let go of it; the server goes on."""


async def borrow(path: str, ticket: str) -> tuple[int, int]:
    """Return the descriptors that the supervisor lends for a ticket: the server's input, and its
    output."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, path)
            await loop.sock_sendall(sock, ticket.encode() + b"\n")
            await _readable(sock)
            data, fds, _, _ = socket.recv_fds(sock, 16, 2)
        except OSError as error:
            raise LinkLost(f"its channel cannot be borrowed: {error.strerror or error}") from None
    if len(fds) != 2:
        for fd in fds:
            os.close(fd)
        raise LinkLost(f"its channel is not lent ({data.decode('ascii', 'replace').strip()})")
    return fds[0], fds[1]


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(sock.fileno(), on_readable)
    try:
        await future
    finally:
        loop.remove_reader(sock.fileno())


class StdioLink:
    """Lines of JSON over the pipes of a run."""

    def __init__(
        self, on_message: Callable[[Message], None], on_lost: Callable[[], None], name: str
    ) -> None:
        self._lines = _Lines(on_message, on_lost, name)
        self._writer: asyncio.WriteTransport | None = None
        self._reader: asyncio.ReadTransport | None = None
        self._flow = _Flow()
        self._queued = 0
        self._copy = -1

    async def open(self, ours: int, theirs: int) -> None:
        """Use these descriptors, which are the link's from now on."""
        loop = asyncio.get_running_loop()
        for fd in (ours, theirs):
            with contextlib.suppress(OSError):
                # So that a request is written at once: half of one could be all that arrives.
                fcntl.fcntl(fd, _SET_PIPE_SIZE, PIPE_BYTES)
        self._copy = os.dup(ours)
        self._writer, _ = await loop.connect_write_pipe(lambda: self._flow, FileIO(ours, "wb"))
        self._reader, _ = await loop.connect_read_pipe(lambda: self._lines, FileIO(theirs, "rb"))

    def skip_torn_line(self) -> None:
        """End a message that an earlier gate may have begun."""
        if self._writer is not None:
            self._write(self._writer, b"\n")

    @property
    def is_answered_at_once(self) -> bool:
        return False

    @property
    def place(self) -> int:
        return self._queued

    def has_read(self, place: int) -> bool:
        """What a server left in its pipe when it died, it never saw."""
        if self._copy < 0 or self._writer is None:
            return True
        buffer = bytearray(4)
        try:
            fcntl.ioctl(self._copy, termios.FIONREAD, buffer)
        except OSError:
            return True
        unread = int.from_bytes(buffer, sys.byteorder) + self._writer.get_write_buffer_size()
        return place < self._queued - unread

    def _write(self, writer: asyncio.WriteTransport, data: bytes) -> None:
        self._queued += len(data)
        writer.write(data)

    async def send(self, message: Message) -> None:
        if self._writer is None or self._writer.is_closing() or self._lines.is_lost:
            raise NotSent("it has ended")
        self._write(self._writer, msgspec.json.encode(message) + b"\n")
        if self._writer.is_closing():
            raise NotSent("it has ended")  # nothing of it could be written
        await self._flow.writable()

    async def close(self) -> None:
        self._lines.forget()
        if self._writer is not None:
            self._writer.abort()
        if self._reader is not None:
            self._reader.close()
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1


class _Flow(asyncio.BaseProtocol):
    """Lets a writer wait while the server does not read."""

    def __init__(self) -> None:
        self._is_free = asyncio.Event()
        self._is_free.set()

    def pause_writing(self) -> None:
        self._is_free.clear()

    def resume_writing(self) -> None:
        self._is_free.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_free.set()

    async def writable(self) -> None:
        await self._is_free.wait()


class _Lines(asyncio.Protocol):
    """What the server says, message by message."""

    def __init__(
        self, on_message: Callable[[Message], None], on_lost: Callable[[], None], name: str
    ) -> None:
        self._on_message: Callable[[Message], None] | None = on_message
        self._on_lost: Callable[[], None] | None = on_lost
        self._name = name
        self._pieces: list[bytes] = []
        self._held = 0
        self._is_skipping = False
        self.is_lost = False
        self.noise = 0
        """Lines that were no messages."""

    def forget(self) -> None:
        self._on_message = self._on_lost = None

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._pieces:
                line = b"".join([*self._pieces, line])
                self._pieces, self._held = [], 0
            if self._is_skipping:
                self._is_skipping = False
            else:
                self._take(line)
        if rest and not self._is_skipping:
            self._pieces.append(rest)
            self._held += len(rest)
            if self._held > LONGEST_MESSAGE:
                _log.error(
                    "%s: a message of more than %s bytes is left out", self._name, LONGEST_MESSAGE
                )
                self._pieces, self._held, self._is_skipping = [], 0, True

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = None
        if not isinstance(message, dict) or self._on_message is None:
            self.noise += 1
            if self.noise <= 20:
                _log.info("%s, stdout: %s", self._name, line[:200].decode("utf-8", "replace"))
            return
        self._on_message(cast("Message", message))

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            if self._on_lost is not None:
                self._on_lost()
