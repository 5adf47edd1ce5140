"""The lock of a state folder: one keeper at a time has it, as long as a copy of it is open."""

from __future__ import annotations

import fcntl
import os
import time

from holdfast.system.private_files import open_plain

ASKERS_SECONDS = 10.0
_LOOK_SECONDS = 0.01


class AlreadyLocked(Exception):
    """Another keeper holds the lock."""


def take(state: str) -> int:
    """Take the lock; returns its descriptor, or raises AlreadyLocked."""
    fd = _open(state)
    deadline = time.monotonic() + ASKERS_SECONDS
    while not _can_lock(fd, fcntl.LOCK_EX):
        # A program that asks whether a keeper lives shares the lock for a moment, which is long on
        # a busy machine. A keeper never shares it.
        if not _can_lock(fd, fcntl.LOCK_SH) or time.monotonic() > deadline:
            os.close(fd)
            raise AlreadyLocked(f"another keeper holds {state}")
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(_LOOK_SECONDS)
    return fd


def renew(state: str, fd: int) -> None:
    """Lock the file that is there now, under the same descriptor. Raises OSError if it cannot be
    locked now."""
    fresh = _open(state)
    try:
        if not os.path.sameopenfile(fd, fresh):
            fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.dup2(fresh, fd, inheritable=False)
    finally:
        os.close(fresh)


def _open(state: str) -> int:
    return open_plain(os.path.join(state, "lock"), os.O_RDWR | os.O_CREAT)


def _can_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
