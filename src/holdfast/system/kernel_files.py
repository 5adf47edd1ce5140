"""Small files and folders in which the kernel tells something, or is told.

Owns one descriptor that is kept for the moment when no other is left. Knows nothing of the content
of the files. A file that cannot be read is None.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Answer = TypeVar("Answer")

_FULL = (errno.EMFILE, errno.ENFILE)
_reserve = [-1]


def reserve() -> None:
    """Keep a descriptor for the moment when no other is left. Without one, a live process could
    not be looked at and would be taken for dead."""
    if _reserve[0] < 0:
        try:
            _reserve[0] = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return


def _with_reserve(look: Callable[[str], Answer], path: str) -> Answer:
    """Look at a kernel file or folder, with the kept descriptor if no other is left."""
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
    """Return the names in a folder; raises OSError."""
    return _with_reserve(os.listdir, folder)


def read(path: str) -> bytes | None:
    """Return the whole content, or None if the file is not there (any more)."""
    try:
        return _with_reserve(_read_all, path)
    except OSError:
        return None


def read_short(path: str) -> bytes | None:
    """Return the whole content of a file of short lines. Saves one call for most files, because the
    kernel fills about a page with whole lines: a short answer is all there is."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(fd, 16384)
        if len(data) > 2048:
            while more := os.read(fd, 65536):
                data += more
        return data
    except OSError:
        return None
    finally:
        os.close(fd)


def _read_all(path: str) -> bytes:
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
    """Write a kernel file in one call; return False if the kernel refuses."""
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
