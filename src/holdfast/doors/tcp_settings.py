"""Opens and closes the TCP door as the settings say, and announces where it listens, or why not.

If the door cannot be opened, it is tried again with the next settings. Services never wait for a
port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.adapters.own_log import logger
from holdfast.app.application import Application
from holdfast.engine.gate.listeners import Listener, Listeners, PortTaken
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.settings import DoorSpec, Settings

if TYPE_CHECKING:
    from holdfast.doors.tcp import TcpDoor
    from holdfast.engine.gate.port_conflicts import PortConflicts

_log = logger("doors")


class ConfiguredTcpDoor:
    """The TCP door as the settings want it."""

    def __init__(
        self,
        application: Application,
        listeners: Listeners,
        announce: Callable[..., None],
        addresses: dict[str, str],
        notes: dict[str, str],
        taken: Callable[[], PortConflicts],
    ) -> None:
        self._application = application
        self._tcp: TcpDoor | None = None
        self._listeners = listeners
        self._announce = announce
        self._wanted: DoorSpec | None = None
        self._work: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._addresses = addresses
        self._notes = notes
        self._taken = taken

    def on_settings(self, settings: Settings) -> None:
        self._wanted = settings.door
        self._changed.set()

    def try_again(self) -> None:
        """Try to open the door again; the port may be free now."""
        self._changed.set()

    def begin(self) -> None:
        """Open the door from now on, because the keeper has handed over its sockets."""
        self._work = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
        if self._tcp is not None:
            await self._tcp.close()

    async def _follow(self) -> None:
        applied: tuple[Any, ...] | None = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = self._wanted
            facts = (wanted.host, wanted.port, wanted.is_port_given) if wanted else None
            if wanted is not None and not wanted.tcp:
                facts = None
            if facts == applied and "tcp" in self._addresses:
                continue
            applied = facts
            try:
                await self._apply(wanted if facts else None)
            except Exception:  # noqa: BLE001 - a door must not take the others with it
                _log.exception("the tcp door could not be opened")

    async def _apply(self, wanted: DoorSpec | None) -> None:
        if wanted is None:
            await self._close()
            self._notes.pop("tcp", None)
            return
        host = wanted.host.strip("[]")
        host = "127.0.0.1" if host == "localhost" else host
        try:
            listener, note = await self._listener(host, wanted)
        except HoldfastError as error:
            await self._close()
            self._notes["tcp"] = error.message
            _log.error("the tcp door stays closed: %s", error.message)
            self._announce(
                EventKind.DOOR_FAILED, door="tcp", port=wanted.port, reason=error.message
            )
            return
        self._notes.pop("tcp", None)
        if note:
            self._notes["tcp"] = note
        if self._tcp is None:
            # Imported late, so that the supervisor's first answer does not wait for it.
            from holdfast.doors.tcp import TcpDoor

            self._tcp = TcpDoor(self._application)
        await self._tcp.open(listener.sock)
        is_new = self._addresses.get("tcp") != listener.address
        self._addresses["tcp"] = listener.address
        if is_new:
            more = {"note": note} if note else {}
            self._announce(EventKind.DOOR_OPENED, door="tcp", address=listener.address, **more)

    async def _listener(self, host: str, wanted: DoorSpec) -> tuple[Listener, str]:
        """Return where to listen, with a note. A port that another program uses is left to it."""
        given = wanted.is_port_given
        try:
            return self._listeners.open("tcp", host, wanted.port, is_port_given=given), ""
        except PortTaken:
            settled = await self._taken().settle("tcp", host, wanted.port, is_port_given=given)
        return settled.listener, f"{settled.note}; using {settled.listener.port}"

    async def _close(self) -> None:
        if self._tcp is not None:
            await self._tcp.close()
        self._listeners.close("tcp")
        self._addresses.pop("tcp", None)
