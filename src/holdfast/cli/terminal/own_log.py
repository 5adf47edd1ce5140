"""Shows Holdfast's own log on standard error while it is written, over rotations.

Reads on when it is told that there is more, and never waits. The writer is the supervisor's
`adapters/own_log.py`; of the format only the beginning of a record and its level are known here.
"""

from __future__ import annotations

import os
import re
import sys

from holdfast.system.lines import LineBuffer
from holdfast.system.places import generations
from holdfast.system.private_files import open_plain

QUIET = frozenset({"trace", "debug", "info"})
PIECE_BYTES = 65536
TRIES = 100
"""How often to look at files while they are rotated; the next wake-up tries again."""
_RECORD = re.compile(
    rb'(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} |\{"time": [\d.e+-]+, "level": ")(\w+)'
)
"""How a record begins, for people or as JSON; a line of a traceback does not."""


class OwnLog:
    """Shows what is written from now on: warnings and worse, or everything. It keeps the file open
    that it reads, so that a rotation loses nothing."""

    def __init__(self, path: str) -> None:
        self._names = generations(path)
        self._is_all = self._is_shown = False
        self._lines = LineBuffer()
        files = map(_open, self._names)
        self._fd = next((fd for fd in files if fd is not None), None)
        if self._fd is not None:
            os.lseek(self._fd, 0, os.SEEK_END)

    def show_all(self) -> None:
        """From now on, show records of every level."""
        self._is_all = self._is_shown = True

    def show(self) -> None:
        """Show what was written since the last time."""
        self._read()
        while (newer := self._newer()) is not None:
            self._read()  # what was written between the last read and the rotation
            self._close()
            self._fd = newer
            self._read()

    def finish(self) -> None:
        """Show the rest, even a last line without an end."""
        self.show()
        if self._lines.size:
            self._take(b"\n")
        self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> None:
        if self._fd is None:
            return
        if os.fstat(self._fd).st_size < os.lseek(self._fd, 0, os.SEEK_CUR):
            os.lseek(self._fd, 0, os.SEEK_SET)  # the file was truncated
        while piece := os.read(self._fd, PIECE_BYTES):
            self._take(piece)

    def _take(self, piece: bytes) -> None:
        lines = self._lines.feed(piece)
        if text := b"".join(line + b"\n" for line in lines if self._shows(line)):
            _write(text.decode(errors="backslashreplace"))

    def _shows(self, line: bytes) -> bool:
        """Return whether a line is shown, by the level of the record that it belongs to."""
        if not self._is_all and (start := _RECORD.match(line)):
            self._is_shown = start[1].decode().lower() not in QUIET
        return self._is_shown

    def _newer(self) -> int | None:
        """Open the file that follows the current one, if that was rotated."""
        for _ in range(TRIES):
            found = [_identity(name) for name in self._names]
            own = None if self._fd is None else _identity(self._fd)
            is_gone = own is not None and own not in found
            at = found.index(own) if own in found and own is not None else len(found)
            since = _modified(self._fd) if is_gone and self._fd is not None else 0
            newer = [n for n in range(at) if found[n] and _modified(self._names[n]) >= since]
            if not newer:
                return None
            place = max(newer)
            fd = _open(self._names[place])
            # If the files have changed, a rotation was under way and this is another file.
            if fd is not None:
                if [_identity(fd), *map(_identity, self._names[place + 1 :])] == found[place:]:
                    if is_gone:
                        _write(
                            "holdfast: some of its own log was removed before it could be shown\n"
                        )
                    return fd
                os.close(fd)
        return None


def _open(name: str) -> int | None:
    try:
        return open_plain(name, os.O_RDONLY)
    except OSError:
        return None


def _identity(file: str | int) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _modified(file: str | int) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def _write(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text)
    sys.stderr.flush()
