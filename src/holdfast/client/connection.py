"""A connection to the line door: asks commands, reads answers and streams.

Synchronous. It knows the frames on the wire, not the meaning of the commands. It starts nothing
and does not look for a Holdfast (`discovery` does).
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from holdfast.system.lean_json import encoded, loads
from holdfast.system.lines import LineBuffer
from holdfast.vocabulary.errors import HoldfastError, NoDaemon, Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Frame = dict[str, Any]

READ_SIZE = 256 * 1024
LONGEST_REQUEST = 8 * 1024 * 1024 - 1
"""The line door closes the connection at a longer line."""
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


class Unreachable(NoDaemon, ConnectionError):
    """Nobody listens there. Also a ConnectionError, as programs expect of a socket."""


class ConnectionLost(Unreachable):
    """The supervisor closed the connection before it answered."""


def _listener_of(sock: _socket.socket) -> int:
    """The user whose process listens at the other end. `system.peers` has more to say, but imports
    `socket`."""
    if sys.platform == "darwin":
        credentials = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
    else:
        credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


class Connection:
    """One client of a line door. Several requests may be under way at once."""

    def __init__(
        self, path: str, *, connect_seconds: float = 5.0, owner: int | None = None
    ) -> None:
        """Connect. Raises Refused unless the listener is this user, root, or the `owner`: requests
        may hold secrets."""
        self.path = path
        self._line_buffer = LineBuffer()
        self._lines: list[bytes] = []
        """Received, and not read yet."""
        self._frames: list[Frame] = []
        self._last_id = 0
        self.on_notice: Callable[[Frame], object] = lambda notice: None
        """Called with what an answer waits for."""
        # Importing `socket` would cost every call of the CLI as much as this whole package.
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._socket.settimeout(connect_seconds)
        try:
            self._socket.connect(path)
        except PermissionError as error:
            self._socket.close()
            raise Refused(
                f"{path}: {error.strerror}", "this Holdfast belongs to another user"
            ) from None
        except OSError as error:
            self._socket.close()
            raise Unreachable(f"nobody answers at {path}: {error.strerror or error}") from None
        self._socket.settimeout(None)
        if _listener_of(self._socket) not in (os.geteuid(), 0, owner):
            self._socket.close()
            raise Refused(f"{path} belongs to another user", "remove it, or ask them to")

    def ask(self, command: str, /, **fields: Any) -> dict[str, Any]:
        """Ask one command and wait for its answer; raises the error that came instead."""
        return self.answer(self.send(command, **fields))

    def stream(self, command: str, /, **fields: Any) -> Iterator[dict[str, Any]]:
        """Ask a streaming command; yields its items until it ends or the caller stops."""
        request = self.send(command, **fields)
        while True:
            frame = self._frame_of(request)
            if "item" in frame:
                yield frame["item"]
                continue
            _result_of(frame)
            return

    def send(self, command: str, /, **fields: Any) -> int:
        """Send a request without waiting; the returned id marks the frames that answer it."""
        self._last_id += 1
        line = encoded({"id": self._last_id, "command": command, **fields})
        if len(line) > LONGEST_REQUEST:
            raise _too_long(command, fields, len(line))
        try:
            self._socket.sendall(line + b"\n")
        except OSError:
            raise _lost() from None
        return self._last_id

    def answer(self, request: int, seconds: float | None = None) -> dict[str, Any]:
        """The final answer to a request; TimeoutError when it takes longer than `seconds`."""
        return _result_of(self._frame_of(request, seconds))

    def receive(self, seconds: float | None = None) -> Frame | None:
        """The next frame of any request, or None if none came in time."""
        if self._frames:
            return self._frames.pop(0)
        try:
            return self._read(seconds)
        except TimeoutError:
            return None

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_frame(self) -> bool:
        """Return whether `receive` has a frame without reading the socket."""
        return bool(self._frames) or bool(self._lines)

    def _frame_of(self, request: int, seconds: float | None = None) -> Frame:
        for place, frame in enumerate(self._frames):
            if frame.get("id") == request:
                return self._frames.pop(place)
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            frame = self._read(left)
            if frame.get("id") == request:
                return frame
            if frame.get("id") is None and frame.get("ok") is False:
                raise error_from(frame.get("error", {}))
            self._frames.append(frame)

    def _read(self, seconds: float | None) -> Frame:
        deadline = None if seconds is None else time.monotonic() + seconds
        while "notice" in (frame := self._next(deadline)):
            self.on_notice(frame["notice"])
        return frame

    def _next(self, deadline: float | None) -> Frame:
        while not self._lines:
            if deadline is not None:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                piece = self._socket.recv(READ_SIZE)
            except TimeoutError:
                raise  # it is an OSError, too
            except OSError:
                piece = b""
            finally:
                if deadline is not None:
                    self._socket.settimeout(None)
            if not piece:
                raise _lost()
            self._lines = self._line_buffer.feed(piece)
        frame: Frame = loads(self._lines.pop(0))
        return frame


def error_from(fields: dict[str, Any]) -> HoldfastError:
    """The error that these fields describe, in its class."""
    code = fields.get("code", "failed")
    kind = _KINDS.get(code, HoldfastError)
    error = kind(fields.get("message", "it failed"), fields.get("hint", ""), fields.get("details"))
    error.__dict__["code"] = code
    return error


def _result_of(frame: Frame) -> dict[str, Any]:
    if frame.get("ok"):
        result: dict[str, Any] = frame.get("result") or {}
        return result
    raise error_from(frame.get("error") or {})


def _too_long(command: str, fields: Frame, size: int) -> UsageError:
    """The error of a request that is too long. It names fields and sizes, never values, which may
    be secrets."""
    sizes = {f"the field {name}": len(encoded(value)) for name, value in fields.items()}
    for name, value in (fields.get("environment") or {}).items():
        sizes[f"the variable {name}"] = len(encoded(value))
    for place, word in enumerate(fields.get("argv") or ()):
        sizes[f"argument {place}"] = len(encoded(word))
    # The longest part says more than the whole list or mapping.
    for name, parts in (("environment", "variable"), ("argv", "argument")):
        if any(parts in size for size in sizes):
            sizes.pop(f"the field {name}", None)
    longest = max(sizes, key=lambda name: sizes[name])
    return UsageError(
        f"{command}: the request has {size:,} bytes, of at most {LONGEST_REQUEST:,}; "
        f"{longest} takes most, {sizes[longest]:,}",
        "make the environment or the arguments smaller; what is long belongs in a file",
    )


def _lost() -> ConnectionLost:
    return ConnectionLost(
        "the supervisor went away before it answered",
        "`holdfast status` tells how things are now",
    )


def _kinds() -> dict[str, type[HoldfastError]]:
    kinds: list[type[HoldfastError]] = [*HoldfastError.__subclasses__()]
    for kind in kinds:
        kinds += kind.__subclasses__()
    # Of several classes with one code, the one nearest to the root of the tree.
    return {kind.code: kind for kind in reversed(kinds)}


_KINDS = _kinds()
