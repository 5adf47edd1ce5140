"""Who accompanies the runs of services: monitors of health, resources, files, schedules.

An attendant is told what happens to a runner, in the turn in which it happens, and may call
its methods later. It never changes a state itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.adapters.own_log import logger

_log = logger("attendants")


class Attendant:
    """Told of every service; does nothing unless it says so."""

    def spawning(self, runner: Any, message: dict[str, Any]) -> None:
        """A run is about to be asked for; what it needs may be added to the request."""

    def run_began(self, runner: Any) -> None:
        """A run has its process, or was found alive by this supervisor."""

    def run_over(self, runner: Any) -> None:
        """The run is being ended, or its main process is gone; may come twice."""

    def trial_spawning(self, overlap: Any, message: dict[str, Any]) -> None:
        """A second run is about to be asked for, beside the one that lives."""

    def trial_began(self, overlap: Any) -> None:
        """It has its process, and is to prove itself."""

    def trial_over(self, overlap: Any) -> None:
        """It took the place of the other one (`run_began` follows), or it has to go."""

    def changed(self, runner: Any) -> None:
        """Its state or its condition is another."""

    def declared(self, runner: Any) -> None:
        """Its declaration is new or another."""

    def removed(self, runner: Any) -> None:
        """It is forgotten."""


class Attendants:
    """All attendants; a fault of one reaches neither the runner nor the others."""

    def __init__(self) -> None:
        self._all: list[Attendant] = []

    def add(self, attendant: Attendant) -> None:
        self._all.append(attendant)

    def spawning(self, runner: Any, message: dict[str, Any]) -> None:
        self._tell(lambda attendant: attendant.spawning(runner, message))

    def run_began(self, runner: Any) -> None:
        self._tell(lambda attendant: attendant.run_began(runner))

    def run_over(self, runner: Any) -> None:
        self._tell(lambda attendant: attendant.run_over(runner))

    def trial_spawning(self, overlap: Any, message: dict[str, Any]) -> None:
        self._tell(lambda attendant: attendant.trial_spawning(overlap, message))

    def trial_began(self, overlap: Any) -> None:
        self._tell(lambda attendant: attendant.trial_began(overlap))

    def trial_over(self, overlap: Any) -> None:
        self._tell(lambda attendant: attendant.trial_over(overlap))

    def changed(self, runner: Any) -> None:
        self._tell(lambda attendant: attendant.changed(runner))

    def declared(self, runner: Any) -> None:
        self._tell(lambda attendant: attendant.declared(runner))

    def removed(self, runner: Any) -> None:
        self._tell(lambda attendant: attendant.removed(runner))

    def _tell(self, tell: Callable[[Attendant], None]) -> None:
        for attendant in self._all:
            try:
                tell(attendant)
            except Exception:  # noqa: BLE001 - the border between a service and its monitors
                _log.exception("%s failed", type(attendant).__name__)
