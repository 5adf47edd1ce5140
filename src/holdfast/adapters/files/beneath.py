"""Opens what is below a folder, and nothing else, whatever others rename meanwhile.

Links are never followed and mounts never entered. The kernel enforces this (`openat2`) where it
can. Elsewhere each name is opened beneath the descriptor of the name before it. Both ways behave
alike, down to the error: ELOOP for a link, EXDEV for a mount.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_PATH: int = getattr(os, "O_PATH", 0)
_GLANCE = _PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""Enough to see what something is, without waking a device."""
STEP = (_PATH or os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPENAT2 = 437
_NO_SYMLINKS = 0x04
_BENEATH = 0x01 | 0x02 | _NO_SYMLINKS | 0x08
"""RESOLVE_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS and _BENEATH."""
_CACHED = 0x20
"""RESOLVE_CACHED of Linux 5.12: EAGAIN where a disk or a network would have to be asked."""
_MOST_TRIES = 20

Opener = Callable[[int, Sequence[str], int], int]
"""Takes the descriptor of a folder, names below it and flags; returns a descriptor or raises
OSError.
"""


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class _Kernel:
    """`openat2` of Linux 5.6 and later."""

    def __init__(self, resolve: int = _BENEATH) -> None:
        self._resolve = resolve
        self._tries = 1 if resolve & _CACHED else _MOST_TRIES
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long

    def __call__(self, folder: int, names: Sequence[str], flags: int) -> int:
        path = os.fsencode("/".join(names) or ".")
        # O_NOFOLLOW would give ENOTDIR for a link to a folder; no link is resolved either way.
        how = _How(flags & ~os.O_NOFOLLOW | os.O_CLOEXEC, 0, self._resolve)
        for _ in range(self._tries):
            opened: int = self._syscall(
                ctypes.c_long(_OPENAT2),
                ctypes.c_int(folder),
                ctypes.c_char_p(path),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
            if opened >= 0:
                return opened
            code = ctypes.get_errno()
            if code not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(code, os.strerror(code), os.fsdecode(path))


def by_steps(folder: int, names: Sequence[str], flags: int) -> int:
    """Open one name after the other, each beneath the one before."""
    if not names:
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=folder)
    mount = _mount_of(folder)
    here = folder
    try:
        for number, name in enumerate(names):
            is_last = number == len(names) - 1
            above, here = here, _step(here, name, flags if is_last else STEP)
            if above != folder:
                os.close(above)
            if _mount_of(here) != mount:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    except BaseException:
        if here != folder:
            os.close(here)
        raise
    return here


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.EMLINK) and _is_link(folder, name):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _mount_of(descriptor: int) -> int:
    """Return a number for the mount, which differs even for two mounts of one file system."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
                for line in file:
                    if line.startswith(b"mnt_id:"):
                        return int(line.split()[1])
        except OSError:
            pass
    return os.fstat(descriptor).st_dev


def best() -> Opener:
    """Return the kernel's opener if it works here."""
    if sys.platform != "linux":
        return by_steps
    kernel = _Kernel()
    return kernel if _works(kernel) else by_steps


def at_once(opener: Opener) -> tuple[Opener, Opener] | None:
    """Return openers that never wait for a disk or network: by a whole path, and beneath a folder.

    None if this opener is not the kernel's, or the kernel cannot do it.
    """
    if not isinstance(opener, _Kernel):
        return None
    anywhere, below = _Kernel(_NO_SYMLINKS | _CACHED), _Kernel(_BENEATH | _CACHED)
    return (anywhere, below) if _works(below) else None


def _works(kernel: _Kernel) -> bool:
    try:
        here = os.open("/", STEP)
        try:
            os.close(kernel(here, (), STEP))
        finally:
            os.close(here)
    except OSError:  # an old kernel, or a filter of system calls
        return False
    return True


class NoFile(OSError):
    """There is something, but no file: a folder, a pipe, a device, a socket."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, kind)
        self.kind = kind


def open_file(
    opener: Opener,
    folder: int,
    names: Sequence[str],
    admit: Callable[[os.stat_result], None] | None = None,
) -> tuple[int, os.stat_result]:
    """Return a descriptor to read a file with; never waits, and wakes no device."""
    admit = admit or check_file
    if _PATH:
        glance = opener(folder, names, _GLANCE)
        try:
            admit(os.fstat(glance))
        finally:
            os.close(glance)
    opened = opener(folder, names, FILE)
    try:
        facts = os.fstat(opened)
        admit(facts)
    except BaseException:
        os.close(opened)
        raise
    return opened, facts


def check_file(facts: os.stat_result) -> None:
    """Raise OSError if this is no file."""
    if stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(facts.st_mode):
        raise NoFile(kind_of(facts.st_mode))


def kind_of(mode: int) -> str:
    for is_kind, kind in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
    ):
        if is_kind(mode):
            return kind
    return "device"
