"""Framing of the keeper's protocol: JSON lines with descriptors beside them.

Used by both ends. Owns the bytes in flight (half-read lines, unsent messages and the
descriptors that travel with them); knows no word of the protocol and never blocks.
"""

from __future__ import annotations

import array
import errno
import os
import socket

from holdfast.system import lean_json
from holdfast.system.lines import LineBuffer, LineTooLong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Message = Mapping[str, Any]
    Received = dict[str, Any]
    Encode = Callable[[Message], bytes]
    Load = Callable[[bytes], Any]


MAX_DESCRIPTORS = 253
READ_SIZE = 64 * 1024
# Descriptors in one call. A peer without room for all loses the descriptors of the whole call.
_TOGETHER = 96
_ANCILLARY_SIZE = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
_RECEIVE_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
# Errors after which the connection still works: the kernel has no room at the moment.
_FOR_NOW = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)


class WireError(Exception):
    """The peer broke the framing, and the connection is of no further use."""


def encode(message: Message) -> bytes:
    """One message as one line."""
    return lean_json.encoded(message) + b"\n"


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The bytes and descriptors that have come; no bytes mean that the peer is gone."""
    data, ancillary, _, _ = sock.recvmsg(READ_SIZE, _ANCILLARY_SIZE, _RECEIVE_FLAGS)
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if not _RECEIVE_FLAGS:
        for fd in fds:
            os.set_inheritable(fd, False)
    return data, list(fds)


class Inbox:
    """Turns received pieces into messages, each with its own descriptors."""

    __slots__ = ("_fds", "_lines", "_load")

    def __init__(self, max_line: int = 64 << 20, load: Load = lean_json.loads) -> None:
        self._load = load
        self._lines = LineBuffer(max_line)
        self._fds: list[int] = []

    def feed(self, data: bytes, fds: Sequence[int] = ()) -> list[tuple[Received, list[int]]]:
        """The messages that this piece completes. The caller owns their descriptors."""
        self._fds.extend(fds)
        try:
            lines = self._lines.feed(data)
        except LineTooLong:
            raise WireError("a message is too long") from None
        messages: list[tuple[Received, list[int]]] = []
        try:
            for line in filter(None, lines):
                messages.append(self._decode(line))  # noqa: PERF401 - those before a bad one are needed
        except WireError:
            # The caller does not get these messages: their descriptors stay ours, to be closed.
            self._fds[:0] = [fd for _, own in messages for fd in own]
            raise
        return messages

    def _decode(self, line: bytes) -> tuple[Received, list[int]]:
        try:
            message = self._load(line)
        except (ValueError, RecursionError) as error:
            raise WireError(f"not JSON: {error}") from None
        if not isinstance(message, dict):
            raise WireError("a message must be an object")
        count = message.get("fds", 0)
        if not isinstance(count, int) or count < 0:
            raise WireError("a message must count its descriptors")
        # Fewer may have come: the kernel drops descriptors that a receiver has no room for.
        mine, self._fds = self._fds[:count], self._fds[count:]
        return message, mine

    def state(self) -> tuple[bytes, list[int]]:
        """The bytes and descriptors of messages that are not complete yet."""
        return self._lines.unfinished, list(self._fds)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


def _copies(fds: Sequence[int]) -> list[int]:
    """A copy of each descriptor; none if not all can be copied."""
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))  # noqa: PERF401 - those made before a failure are needed
    except OSError:
        for fd in copies:
            os.close(fd)
        return []
    return copies


class Outbox:
    """Messages that wait for room in a socket."""

    __slots__ = ("_encode", "_queue", "is_refused", "size")

    def __init__(self, encode: Encode = encode) -> None:
        self._encode = encode
        # The kernel has no memory, or too many unread descriptors are in flight. The socket does
        # not tell when that is over: try again after a while.
        self.is_refused = False
        # The queue's descriptors are copies of our own, which are closed once they are sent.
        self._queue: list[tuple[bytes, list[int]]] = []
        self.size = 0

    def put(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Queue a message. The descriptors are copied, and the caller keeps its own. If no copy can
        be made, the message goes without them: a link is worth more than a spare."""
        copies = _copies(fds)
        if copies:
            message = {**message, "fds": len(copies)}
        self.put_raw(self._encode(message), copies)

    def put_raw(self, data: bytes, fds: list[int]) -> None:
        self._queue.append((data, fds))
        self.size += len(data)

    def send_now(self, sock: socket.socket, message: Message, fds: Sequence[int] = ()) -> bool:
        """Send at once if nothing waits, without a copy of the descriptors; queue it otherwise."""
        if self._queue:
            self.put(message, fds)
            return self.flush(sock)
        data = self._encode({**message, "fds": len(fds)} if fds else message)
        sent = self._send(sock, data, fds)
        if sent == len(data):
            return True
        if sent:
            self.put_raw(data[sent:], [])
        else:
            self.put(message, fds)
        return False

    def flush(self, sock: socket.socket) -> bool:
        """Send what the socket takes; True when nothing is left. Raises OSError if the socket will
        take nothing any more."""
        while self._queue:
            data, fds, count = self._next()
            sent = self._send(sock, data, fds)
            self.size -= sent
            if sent:
                for fd in fds:
                    os.close(fd)
            if sent < len(data):
                del self._queue[: count - 1]
                self._queue[0] = (data[sent:], [] if sent else fds)
                return False
            del self._queue[:count]
        return True

    def try_flush(self, sock: socket.socket) -> None:
        """Flush, and ignore a peer that is gone: the connection will notice that."""
        try:
            self.flush(sock)
        except OSError:
            return

    def _next(self) -> tuple[bytes, list[int], int]:
        """As many messages as may go out in one call. Each says how many of the descriptors are its
        own, so several may travel together."""
        if len(self._queue) == 1:
            return (*self._queue[0], 1)
        pieces: list[bytes] = []
        fds: list[int] = []
        size = 0
        for data, own in self._queue:
            if pieces and (size >= READ_SIZE or len(fds) + len(own) > _TOGETHER):
                break
            pieces.append(data)
            fds += own
            size += len(data)
        return b"".join(pieces), fds, len(pieces)

    def _send(self, sock: socket.socket, data: bytes, fds: Sequence[int]) -> int:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.is_refused = False
        try:
            return sock.sendmsg([data], rights)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in _FOR_NOW:
                raise
            self.is_refused = True
            return 0

    @property
    def is_empty(self) -> bool:
        return not self._queue

    def state(self) -> list[tuple[bytes, list[int]]]:
        return list(self._queue)

    def close(self) -> None:
        for _, fds in self._queue:
            for fd in fds:
                os.close(fd)
        self._queue.clear()
        self.size = 0
