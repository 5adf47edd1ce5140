"""Listening sockets of the network doors: bound here, held by the keeper.

A new supervisor goes on with the same sockets, so no connection is refused meanwhile. A port
that somebody else has is left to them; who it is, is told.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import NamedTuple

from holdfast.adapters import processes
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.vocabulary.errors import Failed

TRIES = 50
BACKLOG = 128


class Listener(NamedTuple):
    """A socket that listens, and where."""

    sock: socket.socket
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listeners:
    """At most one listening socket for each name of a door."""

    def __init__(self, link: KeeperLink) -> None:
        self._link = link

    def open(self, name: str, host: str, port: int, *, is_port_given: bool) -> Listener:
        """The socket of a door, the one that is held already where it is the same.

        Without a given port the next free one will do.
        """
        asked = f"{host} {port} {int(is_port_given)}"
        held = self._link.held.get(_key(name))
        if held is not None and self._link.kept.get(_key(name)) == asked:
            return _listener(socket.socket(fileno=os.dup(held)))
        self.close(name)
        sock = _bound(host, port, 1 if is_port_given else TRIES)
        self._link.hold(_key(name), os.dup(sock.fileno()))
        self._link.keep(_key(name), asked)
        return _listener(sock)

    def close(self, name: str) -> None:
        """Give the socket back; who connects is refused from now on."""
        self._link.release(_key(name))
        self._link.keep(_key(name), None)

    def holder(self, port: int) -> str | None:
        """Who has a port; slow, for another thread."""
        return processes.holder_of_port(port)


def _key(name: str) -> str:
    return f"listen:{name}"


def _listener(sock: socket.socket) -> Listener:
    host, port = sock.getsockname()[:2]
    return Listener(sock, host, port)


def _bound(host: str, port: int, tries: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, min(port + tries, 65536)):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host.strip("[]"), number))
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE:
                raise Failed(f"cannot listen on {host}:{number}: {error.strerror}") from error
            continue
        return sock
    raise Failed(
        f"port {port} on {host} is in use", "choose another `port:`, or end the other program"
    )
