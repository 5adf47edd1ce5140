"""A stand-in for Python on macOS: runs Holdfast here with what only Linux has taken away.

Holdfast's own modules, and only they, find `sys.platform` to be «darwin»; no pidfd, splice, memfd,
epoll, prctl, waitid, abstract sockets or MSG_CMSG_CLOEXEC; neither /proc nor /sys; socket paths of
103 bytes at most; 256 descriptors, of infinitely many; a C library that knows `sysctl` (`Library`)
and a `kqueue` that tells of exits. Those two take their facts from /proc.

It can show that the branches for macOS run, agree with each other and with the rest, and that
nothing leans on Linux unnoticed. It cannot show that macOS behaves as it is said to here: layouts
and meanings come from Apple's headers and sources, and terminals, pipes, sockets and signals are
still Linux's. Libraries of others (psutil, asyncio) see Linux as it is.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import builtins
import ctypes
import errno
import functools
import os
import resource
import runpy
import select
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SOFT_LIMIT, HARD_LIMIT, MOST_FILES = 256, (1 << 63) - 1, 61440
LONGEST_PATH = 103
ARGUMENTS_ROOM = 1 << 20
PROTECTED = ("/bin/", "/usr/bin/")
_real_open, _real_import = builtins.open, builtins.__import__


class Facade:
    """A module as macOS has it: some names are missing, some are others."""

    def __init__(self, real: Any, missing: Iterable[str] = (), **given: Any) -> None:
        self.__dict__.update(_real=real, _missing=tuple(missing), **given)

    def __getattr__(self, name: str) -> Any:
        real = self.__dict__["_real"]
        if name.startswith(self.__dict__["_missing"]):
            raise AttributeError(f"module {real.__name__!r} has no attribute {name!r}")
        return getattr(real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_real"], name, value)


class Library:
    """The two functions of the system's C library that Holdfast calls there."""

    def sysctlbyname(self, name: bytes, buffer: Any, size: Any, *_: object) -> int:
        assert name == b"kern.bootsessionuuid", name
        told = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip().upper()
        return self._answer(told + b"\0", buffer, size)

    def sysctl(self, name: Any, count: Any, buffer: Any, size: Any, *_: object) -> int:
        match list(name)[: count.value]:
            case [1, 8]:
                return self._answer(struct.pack("<i", ARGUMENTS_ROOM), buffer, size)
            case [1, 14, 0]:
                every = [pid for pid in os.listdir("/proc") if pid.isdigit()]
                told = b"".join(_kinfo(int(pid)) for pid in every)
                return self._answer(told, buffer, size)
            case [1, 14, 1, pid]:
                return self._answer(_kinfo(pid), buffer, size)
            case [1, 49, pid]:
                if size._obj.value - 4 > ARGUMENTS_ROOM:
                    return -1
                told = _arguments(pid)
                return self._answer(told, buffer, size) if told else -1
            case asked:
                raise AssertionError(f"sysctl {asked}")

    @staticmethod
    def _answer(told: bytes, buffer: Any, size: Any) -> int:
        if buffer is not None:
            if len(told) > size._obj.value:
                return -1
            ctypes.memmove(buffer, told, len(told))
        size._obj.value = len(told)
        return 0


def _kinfo(pid: int) -> bytes:
    """A `struct kinfo_proc`, offset by offset as <sys/proc.h> and <sys/sysctl.h> lay it out."""
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return b""
    name = data[data.index(b"(") + 1 : data.rindex(b")")]
    fields = data[data.rindex(b")") + 2 :].split()
    ticks, each = int(fields[19]), os.sysconf("SC_CLK_TCK")
    kinfo = bytearray(648)
    state = {b"Z": 5, b"X": 5, b"T": 4, b"t": 4}.get(fields[0], 2)
    struct.pack_into("<q", kinfo, 0, _booted() + ticks // each)
    struct.pack_into("<i", kinfo, 8, ticks % each * (1_000_000 // each))
    struct.pack_into("<b", kinfo, 36, state)
    struct.pack_into("<i", kinfo, 40, pid)
    struct.pack_into("<16s", kinfo, 243, name)
    struct.pack_into("<I", kinfo, 420, uid)
    struct.pack_into("<ii", kinfo, 560, int(fields[1]), int(fields[2]))
    return bytes(kinfo)


@functools.cache
def _booted() -> int:
    text = Path("/proc/stat").read_text()
    return int(text.split("btime ", 1)[1].split()[0])


def _arguments(pid: int) -> bytes:
    """As KERN_PROCARGS2 tells: the system's own programs show no environment."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
    if program.startswith(PROTECTED) and "python" not in program:
        environment = b""
    count = struct.pack("<i", words.count(b"\0"))
    return count + program.encode() + b"\0" * 5 + words + environment


class Kevent:
    """What was asked for, and what came of it."""

    def __init__(self, ident: int, filter: int, flags: int, fflags: int) -> None:  # noqa: A002
        assert (filter, flags, fflags) == (-5, 0x1 | 0x10, 0x80000000)
        self.ident = ident


class Kqueue:
    """Tells of exits only; a process that has ended cannot be watched any more."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._pids: dict[int, int] = {}

    def fileno(self) -> int:
        return self._poll.fileno()

    def control(self, asked: list[Kevent] | None, most: int, timeout: float = 0) -> list[Kevent]:
        for event in asked or ():
            if _kinfo(event.ident)[36:37] in (b"", b"\5"):
                raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
            fd = os.pidfd_open(event.ident)
            self._pids[fd] = event.ident
            self._poll.register(fd, select.EPOLLIN)
        told = []
        for fd, _ in self._poll.poll(timeout, most) if most else ():
            self._poll.unregister(fd)
            os.close(fd)
            told.append(Kevent(self._pids.pop(fd), -5, 0x11, 0x80000000))
        return told


def _is_hidden(path: object) -> bool:
    return isinstance(path, str) and path.startswith(("/proc", "/sys/"))


def _refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    def refused(path: Any = ".", *args: Any, **options: Any) -> Any:
        if _is_hidden(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return function(path, *args, **options)

    return refused


def _denying(function: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda path: not _is_hidden(path) and function(path)


def _is_ours(names: dict[str, Any] | None) -> bool:
    return str((names or {}).get("__name__")).partition(".")[0] == "holdfast"


def _opening(file: Any, *args: Any, **options: Any) -> Any:
    if _is_hidden(file) and _is_ours(sys._getframe(1).f_globals):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
    return _real_open(file, *args, **options)


def _importing(
    name: str,
    globals: Any = None,  # noqa: A002 - the names that Python gives them
    locals: Any = None,  # noqa: A002
    fromlist: Any = (),
    level: int = 0,
) -> Any:
    found = _real_import(name, globals, locals, fromlist, level)
    top = name.partition(".")[0]
    if level or top not in FACADES or not _is_ours(globals):
        return found
    facade = FACADES[top]
    return facade.path if name == "os.path" and fromlist else facade


def _told_of_peer(sock: Any, level: int, name: int, size: int, ask: Callable[..., Any]) -> Any:
    """LOCAL_PEERCRED and LOCAL_PEERPID in the place of SO_PEERCRED."""
    if sock.family == socket.AF_UNIX and (level, name) in ((0, 1), (0, 2)):
        pid, uid, gid = struct.unpack("3i", ask(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return struct.pack("=i", pid) if name == 2 else struct.pack("=IIhxxI60x", 0, uid, 1, gid)
    if level == socket.SOL_SOCKET and name in (socket.SO_PEERCRED, 77):
        raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))
    return ask(level, name, size) if size else ask(level, name)


def _check_address(address: Any) -> None:
    path = os.fsencode(address) if isinstance(address, (str, bytes)) else b""
    if path.startswith(b"\0") or len(path) > LONGEST_PATH:
        raise OSError("AF_UNIX path too long")


class _Plain(_socket.socket):
    def getsockopt(self, level: int, name: int, size: int = 0) -> Any:
        return _told_of_peer(self, level, name, size, super().getsockopt)

    def connect(self, address: Any) -> None:
        _check_address(address)
        super().connect(address)


def _change_sockets() -> None:
    """Of the one class that everybody's sockets have."""
    sockets: Any = socket.socket
    plain = _socket.socket

    def getsockopt(sock: Any, level: int, name: int, size: int = 0) -> Any:
        return _told_of_peer(sock, level, name, size, lambda *it: plain.getsockopt(sock, *it))

    def bind(sock: Any, address: Any) -> None:
        _check_address(address)
        plain.bind(sock, address)

    def connect(sock: Any, address: Any) -> None:
        _check_address(address)
        plain.connect(sock, address)

    sockets.getsockopt, sockets.bind, sockets.connect = getsockopt, bind, connect


def _getrlimit(number: int) -> tuple[int, int]:
    soft, hard = resource.getrlimit(number)
    return (soft, HARD_LIMIT) if number == resource.RLIMIT_NOFILE else (soft, hard)


def _setrlimit(number: int, limits: tuple[int, int]) -> None:
    if number != resource.RLIMIT_NOFILE:
        resource.setrlimit(number, limits)
        return
    if not 0 <= limits[0] <= MOST_FILES:
        raise ValueError("not allowed to raise maximum limit")
    hard = resource.getrlimit(number)[1]
    resource.setrlimit(number, (min(limits[0], hard), hard))


def _clock_gettime(clock: int) -> float:
    if clock not in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_PROCESS_CPUTIME_ID):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return time.clock_gettime(clock)


def _signals() -> set[int]:
    return set(range(1, 32))


_TESTS = ("exists", "lexists", "isdir", "isfile")
_NO_REAL_TIME = ("SIGRT", "pidfd_send_signal")
_OS = Facade(
    os,
    (
        "pidfd_open", "splice", "memfd_create", "MFD_", "sched_", "eventfd", "waitid", "P_",
        "pipe2", "fdatasync", "posix_fadvise", "posix_fallocate", "copy_file_range", "getrandom",
        "getxattr", "setxattr", "O_PATH", "O_TMPFILE", "O_DIRECT", "getresuid", "unshare",
    ),
    path=Facade(os.path, (), **{it: _denying(getattr(os.path, it)) for it in _TESTS}),
    **{
        it: _refusing(getattr(os, it))
        for it in ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access")
    },
)  # fmt: skip
_OS.__dict__["O_DIRECTORY"] = os.O_DIRECTORY
FACADES = {
    "sys": Facade(sys, platform="darwin"),
    "os": _OS,
    "select": Facade(
        select, ("epoll", "EPOLL"), kqueue=Kqueue, kevent=Kevent, KQ_FILTER_PROC=-5,
        KQ_EV_ADD=0x1, KQ_EV_ONESHOT=0x10, KQ_NOTE_EXIT=0x80000000,
    ),
    "selectors": Facade(selectors, ("Epoll",), DefaultSelector=selectors.PollSelector),
    "ctypes": Facade(ctypes, CDLL=lambda *_, **__: Library()),
    "socket": Facade(socket, ("MSG_CMSG_CLOEXEC", "SO_PEERCRED", "SO_PASSCRED", "SCM_CREDENTIALS")),
    "_socket": Facade(_socket, ("SO_PEERCRED",), socket=_Plain),
    "signal": Facade(signal, _NO_REAL_TIME, valid_signals=_signals),
    "_signal": Facade(_signal, _NO_REAL_TIME, valid_signals=_signals),
    "time": Facade(time, ("CLOCK_BOOTTIME",), clock_gettime=_clock_gettime),
    "resource": Facade(
        resource, RLIM_INFINITY=HARD_LIMIT, getrlimit=_getrlimit, setrlimit=_setrlimit
    ),
}  # fmt: skip


def main(own: str, arguments: list[str]) -> None:
    """Do what `python ARGUMENTS` would do there; `own` is this Python's path."""
    sys.executable = own
    builtins.open = _opening
    builtins.__import__ = _importing
    _change_sockets()
    while arguments[0] in ("-I", "-S"):
        del arguments[0]
    match arguments:
        case ["-c", code, *_]:
            sys.argv[:] = ["-c", *arguments[2:]]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case ["-m", module, *_]:
            # Somebody's shell begins here.
            resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, resource.getrlimit(7)[1]))
            sys.argv[:] = [module, *arguments[2:]]
            sys.path[0] = os.getcwd()
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [program, *_]:
            sys.argv[:] = arguments
            runpy.run_path(program, run_name="__main__")


def install(folder: Path) -> Path:
    """An executable «python» in this folder that is the stand-in."""
    path = folder / "python-of-macos"
    here = Path(__file__).parent
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[0] = {str(here)!r}\nimport standin\n"
        f"standin.main({str(path)!r}, sys.argv[1:])\n"
    )
    path.chmod(0o755)
    return path
