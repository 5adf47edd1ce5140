"""Small files and folders in which the kernel tells something, or is told.

Owns one descriptor that is kept for when no other is left. Knows nothing of what the files
say; what cannot be read is None.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Seen = TypeVar("Seen")

_FULL = (errno.EMFILE, errno.ENFILE)
_reserve = [-1]


def reserve() -> None:
    """Keep a descriptor for the moment when no other is left: a process that cannot be looked at
    would be taken for dead."""
    if _reserve[0] < 0:
        try:
            _reserve[0] = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return


def _looking(look: Callable[[str], Seen], path: str) -> Seen:
    """What a look at a kernel file or folder tells, also when only the reserve is left for it."""
    try:
        return look(path)
    except OSError as error:
        if error.errno not in _FULL or _reserve[0] < 0:
            raise
    os.close(_reserve[0])
    _reserve[0] = -1
    try:
        return look(path)
    finally:
        reserve()


def names_in(folder: str) -> list[str]:
    return _looking(os.listdir, folder)


def read(path: str) -> bytes | None:
    """The whole of a small kernel file, or None when it is not there (any more)."""
    try:
        return _looking(_contents, path)
    except OSError:
        return None


def _contents(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        data = os.read(fd, 65536)
        if data:
            while more := os.read(fd, 65536):
                data += more
        return data
    finally:
        os.close(fd)


def write(path: str, data: bytes) -> bool:
    """Write a kernel file in one call; False when the kernel refuses."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, data)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
