"""Facts about processes on macOS, of any user, by `sysctl`.

Owns the layout of the kernel's structures there. Imported on macOS only; standard library only.
There is no subreaper and no pidfd. The environment of the system's own programs (/bin, /usr/bin) is
hidden, so one of those that leaves its session cannot be found once its parent is gone.
"""

from __future__ import annotations

import ctypes
import os
import struct

OPEN_MAX = 10240
"""The most descriptors that every process may have, where the hard limit is infinite."""

Facts = tuple[int, int, str, str, str, int, int]
"""Pid, parent, name, state, start time, session and process group."""

_CTL_KERN = 1
_KERN_PROC, _KERN_PROC_ALL, _KERN_PROC_PID = 14, 0, 1
_KERN_PROCARGS2, _KERN_ARGMAX = 49, 8
# struct kinfo_proc: p_starttime, p_stat, p_pid, p_comm, e_ucred.cr_uid, e_ppid, e_pgid.
_KINFO = struct.Struct("<qi24xb3xi199x17s160xI136xii80x")
_MOST_TRIES = 5
_STATES = {1: "I", 2: "R", 3: "S", 4: "T", 5: "Z"}

_libc = ctypes.CDLL(None, use_errno=True)
_room_of_arguments: list[int] = []


def boot_id() -> str:
    size = ctypes.c_size_t(64)
    buffer = ctypes.create_string_buffer(size.value)
    none = ctypes.c_size_t(0)
    _libc.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, none)
    return buffer.value.decode()


def processes() -> list[Facts]:
    """Return every process of the machine, zombies included."""
    everybody = (_KERN_PROC, _KERN_PROC_ALL)
    for _ in range(_MOST_TRIES):
        # Some processes may have come between the two calls.
        data = _ask(everybody, _size(everybody) * 5 // 4)
        if data is not None:
            whole = len(data) // _KINFO.size * _KINFO.size
            every = _KINFO.iter_unpack(data[:whole])
            # Without the kernel itself: the session of pid 0 would be our own.
            return [_facts(*fields) for fields in every if fields[3] > 0]
    return []


def process(pid: int) -> Facts | None:
    fields = _fields_of(pid)
    return None if fields is None else _facts(*fields)


def user_of(pid: int) -> int | None:
    fields = _fields_of(pid)
    return None if fields is None else fields[5]


def environment(pid: int) -> bytes | None:
    """Return the environment of a process of the same user, separated by NUL; nothing of a program
    that the system protects."""
    if not _room_of_arguments:
        answer = _ask((_KERN_ARGMAX,), 4)
        # More room than that is an error.
        _room_of_arguments.append(struct.unpack("<i", answer)[0] if answer else 1 << 18)
    data = _ask((_KERN_PROCARGS2, pid), _room_of_arguments[0])
    if data is None or len(data) < 4:
        return None
    (argument_count,) = struct.unpack_from("<i", data)
    # count, path of the program, padding, arguments, environment
    _, _, rest = data[4:].partition(b"\0")
    return b"\0".join(rest.lstrip(b"\0").split(b"\0")[argument_count:])


def _fields_of(pid: int) -> tuple[int, int, int, int, bytes, int, int, int] | None:
    data = _ask((_KERN_PROC, _KERN_PROC_PID, pid), _KINFO.size)
    return _KINFO.unpack(data) if data is not None and len(data) == _KINFO.size else None


def _facts(
    seconds: int, micros: int, state: int, pid: int, name: bytes, _: int, ppid: int, pgid: int
) -> Facts:
    try:
        session = os.getsid(pid)
    except OSError:
        session = 0
    text = name.partition(b"\0")[0].decode("utf-8", "replace")
    start_time = f"{seconds}.{micros:06d}"
    return pid, ppid, text, _STATES.get(state, "?"), start_time, session, pgid


def _size(question: tuple[int, ...]) -> int:
    """Return how many bytes the answer would have now."""
    size = ctypes.c_size_t(0)
    return size.value if _sysctl(question, None, size) else 0


def _ask(question: tuple[int, ...], room: int) -> bytes | None:
    buffer, size = ctypes.create_string_buffer(max(room, 1)), ctypes.c_size_t(room)
    return ctypes.string_at(buffer, size.value) if _sysctl(question, buffer, size) else None


def _sysctl(
    question: tuple[int, ...], buffer: ctypes.Array[ctypes.c_char] | None, size: ctypes.c_size_t
) -> bool:
    name = (ctypes.c_int * (len(question) + 1))(_CTL_KERN, *question)
    count, none = ctypes.c_uint(len(name)), ctypes.c_size_t(0)
    return bool(_libc.sysctl(name, count, buffer, ctypes.byref(size), None, none) == 0)
