"""The user and the processes behind a TCP connection of this machine, by the kernel's socket table.

Linux only. Nothing is found on other systems, and for a socket that no visible process has open:
one that was closed already, that waits in another socket, or that belongs to a process whose
descriptors are hidden. Whoever asks must treat that as a stranger. Reads only; standard library
only. Looks at the descriptors of every process: call it in a thread.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from holdfast.system import processes
from holdfast.system.kernel_files import names_in, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.system.processes import Process

    Address = tuple[str, int]

_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9
_MAPPED = b"\0" * 10 + b"\xff" * 2


class TcpPeer:
    """The user that made a socket, and every process that has it open."""

    __slots__ = ("processes", "uid")

    def __init__(self, uid: int, processes: list[Process]) -> None:
        self.uid = uid
        self.processes = processes


def find(ours: Address, theirs: Address) -> TcpPeer | None:
    """Return the user and processes at the other end of a connection, if they are known."""
    if sys.platform != "linux":
        return None
    found = _socket_between(theirs, ours)
    if found is None:
        return None
    uid, inode = found
    holders = _holders_of(inode)
    return TcpPeer(uid, holders) if holders else None


def _socket_between(local: Address, remote: Address) -> tuple[int, int] | None:
    """Return user and inode of the socket with this local address, connected to the other one."""
    try:
        wanted = {(_hex(local, name), _hex(remote, name)) for name in ("tcp", "tcp6")}
    except (OSError, ValueError):
        return None
    for name in ("tcp", "tcp6"):
        for line in (read(f"/proc/self/net/{name}") or b"").splitlines()[1:]:
            fields = line.split()
            if len(fields) > _INODE and (fields[_LOCAL], fields[_REMOTE]) in wanted:
                inode = int(fields[_INODE])
                # A socket without inode belongs to no process any more.
                return (int(fields[_USER]), inode) if inode else None
    return None


def _hex(address: Address, table: str) -> bytes:
    """Return an address as the kernel's table writes it: words of 32 bits, as numbers."""
    host, port = address
    host = host.partition("%")[0]
    if ":" in host:
        packed = socket.inet_pton(socket.AF_INET6, host)
        if table == "tcp" and packed.startswith(_MAPPED):
            packed = packed[len(_MAPPED) :]
    else:
        packed = socket.inet_aton(host)
        if table == "tcp6":
            packed = _MAPPED + packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return b"".join(b"%08X" % word for word in words) + b":%04X" % port


def _holders_of(inode: int) -> list[Process]:
    """Return every process that has the socket open; nothing if one of them ended meanwhile."""
    wanted, found = f"socket:[{inode}]", []
    for name in names_in("/proc"):
        if name.isdigit() and _has_open(name, wanted):
            holder = processes.live_process(int(name))
            if holder is None:
                return []
            found.append(holder)
    return found


def _has_open(pid: str, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = names_in(folder)
    except OSError:
        return False
    for number in numbers:
        try:
            if os.readlink(f"{folder}/{number}") == wanted:
                return True
        except OSError:
            continue
    return False
