"""The ports that all Holdfasts of one user have leased: one file in the user's state folder.

Locked while it is read and written, so that no port is leased twice. Blocking: use a thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.rules import ports as port_leases
from holdfast.rules.ports import LeaseHolder, PortLease, PortRequest
from holdfast.system.places import lock_is_held
from holdfast.system.private_files import NotPlain, open_plain, read_plain, replace_file
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.readers import reader

_decode = reader(list[PortLease])
LOCK_SECONDS = 5.0
"""How long to wait for another Holdfast: it holds the lock for milliseconds, unless it is stopped.
"""
_AGAIN_SECONDS = 0.02
_log = logger("ports")


class PortRegistry:
    """All leases of this user on this machine."""

    def __init__(self, folder: str, state: str, project: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "ports.json")
        self._state = os.path.realpath(state)
        self._project = project
        self._is_held_up = False

    def lease(self, service: str, ports: dict[str, int], span: tuple[int, int]) -> dict[str, int]:
        """Return the ports of a service, the same as before if they are free; raises
        `PortUnavailable`.
        """
        asked = PortRequest(self._holder(service), self._project, ports, span, time.time())
        with self._locked():
            found, leases = port_leases.assign(self._load(), asked, is_free, lock_is_held)
            try:
                self._save(leases)
            except OSError as error:
                # The port is free: a full disk keeps no service from starting.
                _log.error("%s cannot be written, a lease is not on it: %s", self._path, error)
        return found

    def rest(self, service: str) -> None:
        """Note that its run is over; the ports stay reserved."""
        self._change(lambda leases: port_leases.rested(leases, self._holder(service)))

    def forget(self, service: str) -> None:
        self._change(lambda leases: port_leases.without(leases, self._holder(service)))

    def all(self) -> list[PortLease]:
        """Return every lease, except those of Holdfasts that are gone."""
        try:
            return self._load()
        except OSError as error:
            raise Failed(f"the list of leases cannot be read: {error}") from error

    def is_own(self, lease: PortLease) -> bool:
        """Return whether it is a lease of this Holdfast."""
        return lease.state == self._state

    def _change(self, change: Callable[[list[PortLease]], list[PortLease]]) -> None:
        with self._locked():
            before = self._load()
            after = change(before)
            if after != before:
                self._save(after)

    def _holder(self, service: str) -> LeaseHolder:
        return LeaseHolder(self._state, service)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, "ports.lock")
        lock = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            # After one timeout nobody waits again: many services may be about to start.
            patience, self._is_held_up = 0.0 if self._is_held_up else LOCK_SECONDS, True
            _wait_for(lock, path, patience)
            self._is_held_up = False
            yield
        finally:
            os.close(lock)

    def _load(self) -> list[PortLease]:
        try:
            leases = _decode(read_plain(self._path))
        except FileNotFoundError:
            return []
        except (NotPlain, msgspec.MsgspecError) as error:
            # A lease is also checked by binding, so losing the list is better than starting
            # nothing.
            _log.error("%s cannot be read, leases begin anew: %s", self._path, error)
            return []
        # The leases of a removed state folder are void.
        return [lease for lease in leases if os.path.isdir(lease.state)]

    def _save(self, leases: list[PortLease]) -> None:
        replace_file(self._path, msgspec.json.format(msgspec.json.encode(leases)))


def _wait_for(lock: int, path: str, seconds: float) -> None:
    """Wait for the lock, but not for ever as the kernel would."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                message = f"another Holdfast holds {path} for {LOCK_SECONDS:g} s: is it stopped?"
                raise TimeoutError(message) from None
        time.sleep(_AGAIN_SECONDS)


def is_free(port: int) -> bool:
    """Return whether nobody listens there, at any address of this machine."""
    families = [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET, "127.0.0.1")]
    if socket.has_ipv6:
        families += [(socket.AF_INET6, "::"), (socket.AF_INET6, "::1")]
    return all(_binds(family, host, port) for family, host in families)


def _binds(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family is socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((host, port))
    except OSError as error:
        # Other errors (no such address family, a port only for root) say nothing about that.
        return error.errno != errno.EADDRINUSE
    return True
