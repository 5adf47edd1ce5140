"""The claim of a keeper on a state folder, and the token for its succession.

A claim is an abstract socket name. Nobody can delete it, as files can be deleted, and it ends with
the last process that holds it. Keeper and supervisor hold it together, like the lock, so that it
survives the keeper until a successor takes over. A process that connects to the name asks the
keeper to make its files again. Only Linux has such names.

A token is one byte in a pipe. Several supervisors may see the same keeper die. The one that reads
the byte takes its place. Standard library only.
"""

from __future__ import annotations

import _socket
import os
import sys

_LONGEST = 100


def claim(state: str) -> int | None:
    """Claim this folder for as long as the descriptor is open; None if another process has it."""
    if sys.platform != "linux":
        return None
    # `socket` would have to be imported before the first supervisor is started.
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    try:
        sock.bind(_name(state))
        sock.listen()
    except OSError:
        sock.close()
        return None
    return sock.detach()


def holders(state: str) -> list[int]:
    """Return the processes of this user that hold the claim of this folder."""
    if sys.platform != "linux":
        return []
    wanted = _name(state).replace(b"\0", b"@")
    with open("/proc/net/unix", "rb") as file:
        rows = [line.split(None, 7) for line in file]
    inodes = {row[6] for row in rows if len(row) == 8 and row[7].rstrip(b"\n") == wanted}
    sockets = {b"socket:[%s]" % inode for inode in inodes}
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and sockets & _files_of(pid)]


def _files_of(pid: str) -> set[bytes]:
    """Return what a process has open; nothing if it is gone or another user's."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}".encode()))
    except OSError:
        return found
    return found


def new_token() -> int:
    """Create a token, and return the descriptor by which supervisors can take it."""
    reader, writer = os.pipe()
    os.write(writer, b"1")
    os.close(writer)
    return reader


def take_token(fd: int) -> bool:
    """Take the token; return False if another process has taken it."""
    return os.read(fd, 1) != b""


def call(state: str) -> bool:
    """Ask the keeper of this folder to make its files again; return False if there is none."""
    if sys.platform != "linux":
        return False
    import socket

    from holdfast.system.peers import credentials

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.connect(_name(state))
            return credentials(sock)[0] == os.getuid()
        except BlockingIOError:
            return True  # its queue of callers is full
        except OSError:
            return False


def _name(state: str) -> bytes:
    """Return a name that is the same for all processes that see the same folders."""
    namespace = os.stat("/proc/self/ns/mnt").st_ino
    name = b"\0holdfast-%d-%d-%s" % (os.getuid(), namespace, os.fsencode(os.path.abspath(state)))
    if len(name) <= _LONGEST:
        return name
    from hashlib import blake2b

    return b"\0holdfast-" + blake2b(name, digest_size=20).hexdigest().encode()
