"""inotify, the kernel's report of changed files on Linux: one descriptor, no thread, no polling.

Uses three functions of the C library. Each call lets other threads run. The constructor of
watchfiles does not: it takes 70 ms for 5,000 folders.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, OVERFLOW, IGNORED, ISDIR = 0x400, 0x800, 0x4000, 0x8000, 0x40000000
ONLYDIR = 0x01000000
WANTED = CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | ONLYDIR
READ_BYTES = 16 * 1024
"""About 400 changes: what is matched in one turn of the loop."""
_HEAD = struct.Struct("iIII")


class InotifyEvent(NamedTuple):
    """A change of a name in a folder; without a name, of the folder itself.

    After an overflow nothing is known.
    """

    folder: str
    name: str
    is_folder: bool
    is_new: bool
    is_moved_away: bool
    is_overflow: bool = False


class Inotify:
    """Watched folders; raises OSError with ENOSPC or EMFILE at the kernel's limits."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._call(self._libc.inotify_init1, os.O_CLOEXEC | os.O_NONBLOCK)
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._adding = threading.Lock()

    @property
    def folders(self) -> set[str]:
        return set(self._numbers)

    def add(self, folder: str) -> bool:
        """Watch a folder, from any thread; return False if it does not exist."""
        wanted = os.fsencode(folder), ctypes.c_uint32(WANTED)
        with self._adding:
            try:
                number = self._call(self._libc.inotify_add_watch, self.fd, *wanted)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                return False
            if (old := self._paths.get(number)) is not None and old != folder:
                self._numbers.pop(old, None)
            self._paths[number], self._numbers[folder] = folder, number
        return True

    def drop(self, folder: str) -> None:
        number = self._numbers.pop(folder, None)
        if number is not None:
            self._paths.pop(number, None)
            try:
                self._call(self._libc.inotify_rm_watch, self.fd, number)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise

    def read(self) -> Iterator[InotifyEvent]:
        """Yield the changes since the last call."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            number, mask, _, length = _HEAD.unpack_from(data, place)
            begin = place + _HEAD.size
            name = data[begin : begin + length].rstrip(b"\0")
            place = begin + length
            if mask & OVERFLOW:
                yield InotifyEvent("", "", False, False, False, is_overflow=True)
                continue
            folder = self._paths.get(number) or self._just_added(number)
            if folder is None:
                continue
            if mask & IGNORED:
                self._paths.pop(number, None)
                if self._numbers.get(folder) == number:
                    del self._numbers[folder]
            elif name:
                is_new = bool(mask & (CREATE | MOVED_TO))
                is_moved_away = bool(mask & MOVED_FROM)
                yield InotifyEvent(
                    folder, os.fsdecode(name), bool(mask & ISDIR), is_new, is_moved_away
                )
            elif mask & (MOVE_SELF | DELETE_SELF):
                if mask & MOVE_SELF:
                    self.drop(folder)
                yield InotifyEvent(folder, "", is_folder=True, is_new=False, is_moved_away=True)

    def close(self) -> None:
        os.close(self.fd)

    def _just_added(self, number: int) -> str | None:
        """Return the folder: the kernel may report it before the thread that added it knows its
        number.
        """
        with self._adding:
            return self._paths.get(number)

    @staticmethod
    def _call(function: object, *arguments: object) -> int:
        answer: int = function(*arguments)  # type: ignore[operator]
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer
