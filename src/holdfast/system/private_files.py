"""Files of our own, opened only if they are plain files.

A folder, a FIFO, a socket or a device in the place of one is refused with an error that names it,
and never blocks: a FIFO would, for as long as nobody is at its other end. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat


class NotPlain(OSError):
    """Something else lies in the place of a file of ours."""


def open_plain(path: str, flags: int, mode: int = 0o600) -> int:
    """A descriptor as `os.open` gives it, not inherited; OSError if this is no plain file."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise NotPlain(errno.EINVAL, "it is not a plain file; remove or rename it", path)


def read_plain(path: str, largest: int = -1) -> bytes:
    """The content, or as much of it as asked for."""
    with open(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read(largest)
