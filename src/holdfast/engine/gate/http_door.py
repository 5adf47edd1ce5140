"""Where the gate listens: its socket, its certificate, and notes about both.

`port_conflicts` resolves a port that another process holds. That takes a moment; everything else
goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from holdfast.adapters.own_log import logger
from holdfast.engine.gate.listeners import Listener, Listeners, PortTaken
from holdfast.engine.runner.environment import HistoryRecorder
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.names import BROWSER_HOST
from holdfast.vocabulary.specs.settings import HttpSpec

if TYPE_CHECKING:
    from holdfast.engine.gate.port_conflicts import PortConflicts

SOCKET = "http"
DASHBOARD = "dashboard"
"""A second socket with the same pages."""
SETTLED_SECONDS = 3.0
CERTIFICATE, KEY = "gate.crt", "gate.key"
_KNOWS_LOCALHOST: bool = sys.platform == "linux"
"""Whether browsers resolve every name below `localhost` to this machine."""
_HERE = ("127.0.0.1", "::1", "0.0.0.0", "::")
_log = logger("gate")


class HttpDoor:
    """The one listening socket of the gate."""

    def __init__(
        self,
        listeners: Listeners,
        recorder: HistoryRecorder,
        *,
        state: str,
        new_conflicts: Callable[[], PortConflicts],
        addresses: dict[str, str],
        notes: dict[str, str],
    ) -> None:
        self._listeners = listeners
        self._recorder = recorder
        self._state = state
        self._new_conflicts = new_conflicts
        self._addresses = addresses
        self._notes = notes
        self._spec: HttpSpec | None = None
        self._settling: asyncio.Task[None] | None = None
        self._seen: tuple[float, str] | None = None
        self.has_failed = False
        """Whether it could not be opened where it should be."""

    @property
    def address(self) -> str:
        return self._addresses.get(SOCKET, "")

    @property
    def dashboard_address(self) -> str:
        """The second address with the same pages, if there is one."""
        return self._addresses.get(DASHBOARD, "")

    @property
    def note(self) -> str:
        """What there is to say about its address, or why it has none."""
        return self._notes.get(SOCKET, "")

    def open(
        self,
        spec: HttpSpec,
        then: Callable[[HttpSpec], None],
        end_leftovers: Callable[[], Awaitable[bool]],
    ) -> None:
        """Listen, now or in a moment, and call `then`."""
        self._stop_settling()
        self._spec, self.has_failed = spec, False
        try:
            listener = self._listeners.open(
                SOCKET, spec.host, spec.port, is_port_given=spec.is_port_given
            )
        except PortTaken:
            work = self._find_address(spec, then, end_leftovers)
            self._settling = asyncio.get_running_loop().create_task(work)
        except HoldfastError as error:
            self._fail(spec, error.message)
        else:
            self._opened(spec, listener)
            self._open_dashboard(spec)
            then(spec)

    def close(self) -> None:
        self._stop_settling()
        self._spec = None
        self._addresses.pop(SOCKET, None)
        self._notes.pop(SOCKET, None)
        self._listeners.close(SOCKET)
        self._close_dashboard()

    async def settled(self) -> None:
        """Return when it is known whether there is an address; after a short time in any case."""
        if self._settling is not None:
            await asyncio.wait([self._settling], timeout=SETTLED_SECONDS)

    def certificate(self, spec: HttpSpec | None) -> tuple[str, str] | None:
        """Return the files of certificate and key, if TLS is configured."""
        if spec is None:
            return None
        if spec.self_made:
            return os.path.join(self._state, CERTIFICATE), os.path.join(self._state, KEY)
        return (spec.certificate, spec.key) if spec.certificate and spec.key else None

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate, as browsers write it."""
        files = self.certificate(self._spec)
        if files is None:
            return None
        try:
            changed = os.stat(files[0]).st_mtime
            if self._seen is None or self._seen[0] != changed:
                self._seen = (changed, _fingerprint(files[0]))
        except (OSError, ValueError):
            return None  # the gate is about to make it
        return self._seen[1]

    @property
    def browser_address(self) -> str | None:
        """The address that a browser should use.

        Not 127.0.0.1 if possible: a browser sends the cookies of a host to all of its ports, and
        programs under development listen there.
        """
        address, spec = self.dashboard_address or self.address, self._spec
        if not address or spec is None:
            return None
        scheme, _, authority = address.partition("://")
        port = authority.rpartition(":")[2]
        if spec.host not in _HERE:
            return spec.allowed_origins[0] if spec.allowed_origins else address
        if spec.certificate:
            return f"{scheme}://localhost:{port}"
        if _KNOWS_LOCALHOST:
            return f"{scheme}://{BROWSER_HOST}:{port}"
        return f"{scheme}://{'[::1]' if ':' in spec.host else '127.0.0.1'}:{port}"

    async def _find_address(
        self,
        spec: HttpSpec,
        then: Callable[[HttpSpec], None],
        end_leftovers: Callable[[], Awaitable[bool]],
    ) -> None:
        files = self.certificate(spec)
        try:
            settled = await self._new_conflicts().settle(
                SOCKET,
                spec.host,
                spec.port,
                is_port_given=spec.is_port_given,
                certificate=files[0] if files and self.fingerprint else None,
                end_leftovers=end_leftovers,
            )
        except HoldfastError as error:
            self._fail(spec, error.message)
        except Exception:  # noqa: BLE001 - a door must not take the others with it
            _log.exception("HTTP could not be opened")
            self._fail(spec, f"port {spec.port} on {spec.host} is in use")
        else:
            note = settled.note and f"{settled.note}; using {settled.listener.port}"
            self._opened(spec, settled.listener, note, is_handed_over=settled.is_handed_over)
            self._open_dashboard(spec)
            then(spec)

    def _opened(
        self, spec: HttpSpec, listener: Listener, note: str = "", *, is_handed_over: bool = False
    ) -> None:
        scheme = "https" if self.certificate(spec) else "http"
        address = f"{scheme}://{listener.address}"
        listener.sock.close()
        self._notes.pop(SOCKET, None)
        if note:
            self._notes[SOCKET] = note
        if self._addresses.get(SOCKET) != address:
            self._addresses[SOCKET] = address
            more: dict[str, Any] = {"note": note} if note else {}
            more |= {"handed_over": True} if is_handed_over else {}
            self._recorder.event(EventKind.DOOR_OPENED, door=SOCKET, address=address, **more)

    def _open_dashboard(self, spec: HttpSpec) -> None:
        """Listen at the second port, too. Without it everything goes on at the first."""
        if spec.dashboard_port is None:
            self._close_dashboard()
            return
        try:
            listener = self._listeners.open(
                DASHBOARD, spec.host, spec.dashboard_port, is_port_given=True
            )
        except HoldfastError as error:
            self._close_dashboard()
            self._notes[DASHBOARD] = error.message
            facts: dict[str, Any] = {"port": spec.dashboard_port, "reason": error.message}
            self._recorder.event(EventKind.DOOR_FAILED, door=DASHBOARD, **facts)
            return
        address = f"{'https' if self.certificate(spec) else 'http'}://{listener.address}"
        listener.sock.close()
        self._notes.pop(DASHBOARD, None)
        if self._addresses.get(DASHBOARD) != address:
            self._addresses[DASHBOARD] = address
            self._recorder.event(EventKind.DOOR_OPENED, door=DASHBOARD, address=address)

    def _close_dashboard(self) -> None:
        self._addresses.pop(DASHBOARD, None)
        self._notes.pop(DASHBOARD, None)
        self._listeners.close(DASHBOARD)

    def _fail(self, spec: HttpSpec, why: str) -> None:
        _log.error("there is no HTTP: %s", why)
        if SOCKET in self._addresses:
            why = f"{why}; it stays where it was"
        self._notes[SOCKET] = why
        self.has_failed = True
        self._recorder.event(EventKind.DOOR_FAILED, door=SOCKET, port=spec.port, reason=why)

    def _stop_settling(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None


def _fingerprint(path: str) -> str:
    import hashlib
    import ssl

    with open(path, encoding="ascii") as file:
        text = file.read()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    first = text[text.index(begin) : text.index(end) + len(end)]
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest().upper()
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))
