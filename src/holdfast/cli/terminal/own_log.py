"""Holdfast's own log on standard error, as it is written: a cursor in a file that is rotated.

Reads on when told that there is more, and never waits. The writer is the supervisor's
(`adapters/own_log.py`); a line's form is known here as far as its level.
"""

from __future__ import annotations

import os
import re
import sys

from holdfast.system.places import generations
from holdfast.system.private_files import open_plain

QUIET = frozenset({"trace", "debug", "info"})
PIECE_BYTES = 65536
TRIES = 100
"""So often files are looked at that are being rotated; the next wake-up tries again."""
_RECORD = re.compile(
    rb'(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} |\{"time": [\d.e+-]+, "level": ")(\w+)'
)
"""How a record begins, for people or as JSON; a line of a traceback does not."""


class OwnLog:
    """Begins at the log's end: what is written from here on is shown, warnings and worse, or
    all of it. Holds the file that it reads, so that a rotation takes nothing away."""

    def __init__(self, path: str) -> None:
        self._names = generations(path)
        self._is_all = self._is_shown = False
        self._rest = b""
        opened = map(_opened, self._names)
        self._fd = next((fd for fd in opened if fd is not None), None)
        if self._fd is not None:
            os.lseek(self._fd, 0, os.SEEK_END)

    def show_all(self) -> None:
        """From here on, also what is no trouble."""
        self._is_all = self._is_shown = True

    def show(self) -> None:
        """Show what was written since."""
        self._read()
        while (newer := self._newer()) is not None:
            self._read()  # what was written between the last look and the rotation
            self._leave()
            self._fd = newer
            self._read()

    def finish(self) -> None:
        """Show what is left, and a last line that nobody will end."""
        self.show()
        if self._rest:
            self._take(b"\n")
        self._leave()

    def _leave(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> None:
        if self._fd is None:
            return
        if os.fstat(self._fd).st_size < os.lseek(self._fd, 0, os.SEEK_CUR):
            os.lseek(self._fd, 0, os.SEEK_SET)  # somebody has emptied it
        while piece := os.read(self._fd, PIECE_BYTES):
            self._take(piece)

    def _take(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if told := b"".join(line + b"\n" for line in lines if self._is_told(line)):
            _say(told.decode(errors="backslashreplace"))

    def _is_told(self, line: bytes) -> bool:
        """By the level of its record, which may have begun before it."""
        if not self._is_all and (begun := _RECORD.match(line)):
            self._is_shown = begun[1].decode().lower() not in QUIET
        return self._is_shown

    def _newer(self) -> int | None:
        """The file that was begun after the one that is read, if that was rotated."""
        for _ in range(TRIES):
            found = [_identity(name) for name in self._names]
            own = None if self._fd is None else _identity(self._fd)
            is_gone = own is not None and own not in found
            at = found.index(own) if own in found and own is not None else len(found)
            since = _changed(self._fd) if is_gone and self._fd is not None else 0
            newer = [n for n in range(at) if found[n] and _changed(self._names[n]) >= since]
            if not newer:
                return None
            place = max(newer)
            fd = _opened(self._names[place])
            # All are as they were, or a rotation was under way and another file was opened.
            if fd is not None:
                if [_identity(fd), *map(_identity, self._names[place + 1 :])] == found[place:]:
                    if is_gone:
                        _say("holdfast: some of its own log was removed before it could be shown\n")
                    return fd
                os.close(fd)
        return None


def _opened(name: str) -> int | None:
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


def _changed(file: str | int) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def _say(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text)
    sys.stderr.flush()
