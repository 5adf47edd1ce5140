"""That somebody keeps a state folder, told by the kernel: by a name that ends with its process
and that nobody can delete, as its files can be. Whoever calls that name asks for the files.

Where the system has no such names (they are Linux's) nobody is known by one. Standard library only.
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


def call(state: str) -> bool:
    """Ask who keeps this folder for its files; False if nobody of this user is known to."""
    if sys.platform != "linux":
        return False
    import socket

    from holdfast.kinship import credentials

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
