"""Who keeps a state folder, and who may be its next keeper, told by the kernel.

A claim is a name that ends with its holders and that nobody can delete, as files can be. Keeper
and supervisor hold it together, as they hold the lock: it outlives the keeper until a successor
goes on with it. Whoever calls the name asks for the files to be made anew. Where the system has
no such names (they are Linux's), nobody is known by one.

A token is one byte in a pipe. Several supervisors may see the same keeper die; the one that reads
the byte takes its place. Standard library only.
"""

from __future__ import annotations

import _socket
import os
import sys

_LONGEST = 100


def claim(state: str) -> int | None:
    """The name of this folder's keeper, for as long as this is open; None: it cannot be had."""
    if sys.platform != "linux":
        return None
    # `socket` around it would be loaded before the first supervisor could be.
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    try:
        sock.bind(_name(state))
        sock.listen()
    except OSError:
        sock.close()
        return None
    return sock.detach()


def holders(state: str) -> list[int]:
    """The processes of this user that hold the claim of this folder."""
    if sys.platform != "linux":
        return []
    wanted = _name(state).replace(b"\0", b"@")
    with open("/proc/net/unix", "rb") as file:
        rows = [line.split(None, 7) for line in file]
    inodes = {row[6] for row in rows if len(row) == 8 and row[7].rstrip(b"\n") == wanted}
    sockets = {b"socket:[%s]" % inode for inode in inodes}
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and sockets & _files_of(pid)]


def _files_of(pid: str) -> set[bytes]:
    """What a process has open; nothing of one that is gone or of another user."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}".encode()))
    except OSError:
        return found
    return found


def new_token() -> int:
    """A fresh token, as the descriptor by which supervisors can take it."""
    reader, writer = os.pipe()
    os.write(writer, b"1")
    os.close(writer)
    return reader


def take_token(fd: int) -> bool:
    """Whether it is ours now; False: another process has taken it."""
    return os.read(fd, 1) != b""


def call(state: str) -> bool:
    """Ask who keeps this folder for its files; False if nobody of this user is known to."""
    if sys.platform != "linux":
        return False
    import socket

    from holdfast.system.peers import credentials

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.connect(_name(state))
            return credentials(sock)[0] == os.getuid()
        except BlockingIOError:
            return True  # so many have called that it is busy with them
        except OSError:
            return False


def _name(state: str) -> bytes:
    """The same for all who see the same folders, and short enough."""
    seen = os.stat("/proc/self/ns/mnt").st_ino
    name = b"\0holdfast-%d-%d-%s" % (os.getuid(), seen, os.fsencode(os.path.abspath(state)))
    if len(name) <= _LONGEST:
        return name
    from hashlib import blake2b

    return b"\0holdfast-" + blake2b(name, digest_size=20).hexdigest().encode()
