"""Process facts on macOS, read from libproc and sysctl.

Owns the layout of the kernel's structures there; imported on macOS only, by `host`.
There is no subreaper and no pidfd: a process that leaves its session and scrubs its
environment cannot be found once its parent is gone.
"""

from __future__ import annotations

import ctypes
import os
import struct

OPEN_MAX = 10240

Found = tuple[int, int, str, str, str, int, int]

_PROC_PIDTBSDINFO = 3
_BSD_INFO = struct.Struct("<12I16s32s5IiQQ")
_STATES = {1: "I", 2: "R", 3: "S", 4: "T", 5: "Z"}
_CTL_KERN = 1
_KERN_PROCARGS2 = 49

_libc = ctypes.CDLL(None, use_errno=True)


def boot_id() -> str:
    size = ctypes.c_size_t(64)
    buffer = ctypes.create_string_buffer(size.value)
    _libc.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, 0)
    return buffer.value.decode()


def pids() -> list[int]:
    room = _libc.proc_listallpids(None, 0) + 64
    buffer = (ctypes.c_int * room)()
    count = _libc.proc_listallpids(buffer, ctypes.sizeof(buffer))
    return [pid for pid in buffer[: max(count, 0)] if pid > 0]


def process(pid: int) -> Found | None:
    buffer = ctypes.create_string_buffer(_BSD_INFO.size)
    # Argument 1 asks for zombies too.
    size = _libc.proc_pidinfo(pid, _PROC_PIDTBSDINFO, ctypes.c_uint64(1), buffer, _BSD_INFO.size)
    if size != _BSD_INFO.size:
        return None
    fields = _BSD_INFO.unpack(buffer.raw)
    name = (fields[13].split(b"\0")[0] or fields[12].split(b"\0")[0]).decode("utf-8", "replace")
    try:
        session = os.getsid(pid)
    except OSError:
        session = 0
    start_time = f"{fields[20]}.{fields[21]:06d}"
    return pid, fields[4], name, _STATES.get(fields[1], "?"), start_time, session, fields[15]


def environment(pid: int) -> bytes | None:
    """Environment strings of a process of the same user, separated by NUL."""
    size = ctypes.c_size_t(1 << 20)
    buffer = ctypes.create_string_buffer(size.value)
    name = (ctypes.c_int * 3)(_CTL_KERN, _KERN_PROCARGS2, pid)
    if _libc.sysctl(name, 3, buffer, ctypes.byref(size), None, 0) != 0 or size.value < 4:
        return None
    data = buffer.raw[: size.value]
    (argument_count,) = struct.unpack_from("<i", data)
    # count, path of the program, padding, arguments, environment
    _, _, rest = data[4:].partition(b"\0")
    return b"\0".join(rest.lstrip(b"\0").split(b"\0")[argument_count:])
