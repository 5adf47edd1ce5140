"""Listening sockets of the network doors: bound here, held by the keeper.

A new supervisor continues with the same sockets, so no connection is refused meanwhile. A port that
another process holds is never taken by force: `port_conflicts` finds out who holds it.
"""

from __future__ import annotations

import errno
import os
import socket

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.vocabulary.errors import Failed

TRIES = 50
BACKLOG = 128


class PortTaken(Failed):
    """Another process listens there."""


class Listener(msgspec.Struct, frozen=True):
    """A listening socket, and its address."""

    sock: socket.socket
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listeners:
    """At most one listening socket for each door."""

    def __init__(self, link: KeeperLink) -> None:
        self._link = link

    def open(self, name: str, host: str, port: int, *, is_port_given: bool) -> Listener:
        """Return the socket of a door; the held one if its address is the same.

        Raises PortTaken if another process listens there; a held socket stays open then.
        """
        held = self._link.held.get(keeper_memory.listener(name))
        if held is not None and self._link.kept.get(keeper_memory.listener(name)) == _asked(
            host, port, is_port_given
        ):
            return _listener(socket.socket(fileno=os.dup(held)))
        try:
            sock = _bound(host, port)
        except PortTaken:
            if held is None or not _is_at(held, port):
                raise
            # The port is ours, at another address.
            self.close(name)
            sock = _bound(host, port)
        return self._hold(name, sock, _asked(host, port, is_port_given))

    def open_next(self, name: str, host: str, port: int) -> Listener:
        """Listen on the first free port after a taken one, if the user did not ask for that very
        port.
        """
        for number in range(port + 1, min(port + TRIES, 65536)):
            try:
                sock = _bound(host, number)
            except PortTaken:
                continue
            return self._hold(name, sock, _asked(host, port, False))
        raise PortTaken(f"ports {port} to {port + TRIES - 1} on {host} are all in use")

    def close(self, name: str) -> None:
        """Release the socket; connections are refused from now on."""
        self._link.release(keeper_memory.listener(name))
        self._link.keep(keeper_memory.listener(name), None)

    def open_unix(self, name: str, path: str) -> None:
        """Listen at a Unix socket that only this user can open."""
        held = self._link.held.get(keeper_memory.listener(name))
        if (
            held is not None
            and self._link.kept.get(keeper_memory.listener(name)) == path
            and os.path.exists(path)
        ):
            return
        self.close_unix(name, path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            try:
                sock.bind(path)
                os.chmod(path, 0o600)
                sock.listen(BACKLOG)
            except OSError as error:
                raise Failed(f"cannot listen at {path}: {error.strerror}") from error
            self._link.hold(keeper_memory.listener(name), os.dup(sock.fileno()))
            self._link.keep(keeper_memory.listener(name), path)

    def close_unix(self, name: str, path: str) -> None:
        self.close(name)
        try:
            os.unlink(path)
        except OSError:
            pass

    def _hold(self, name: str, sock: socket.socket, asked: str) -> Listener:
        self.close(name)
        self._link.hold(keeper_memory.listener(name), os.dup(sock.fileno()))
        self._link.keep(keeper_memory.listener(name), asked)
        return _listener(sock)


def _asked(host: str, port: int, is_port_given: bool) -> str:
    return f"{host} {port} {int(is_port_given)}"


def _is_at(descriptor: int, port: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        return bool(sock.getsockname()[1] == port)


def _listener(sock: socket.socket) -> Listener:
    host, port = sock.getsockname()[:2]
    return Listener(sock, host, port)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Failed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host.strip("[]"), port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} on {host} is in use") from None
        raise Failed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return sock
