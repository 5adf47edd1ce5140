"""Who accompanies the runs of services: monitors of health, resources, files, schedules.

An observer is told what happens to a runner, in the turn in which it happens, and may call
its methods later. It never changes a state itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.adapters.own_log import logger

_log = logger("observers")


class RunObserver:
    """Told of every service; does nothing unless it says so."""

    def spawning(self, runner: Any, message: dict[str, Any]) -> None:
        """A run is about to be asked for; what it needs may be added to the request."""

    def run_began(self, runner: Any) -> None:
        """A run has its process, or was found alive by this supervisor."""

    def run_over(self, runner: Any) -> None:
        """The run is being ended, or its main process is gone; may come twice."""

    def candidate_spawning(self, overlap: Any, message: dict[str, Any]) -> None:
        """A second run is about to be asked for, beside the one that lives."""

    def candidate_began(self, overlap: Any) -> None:
        """It has its process, and is to prove itself."""

    def candidate_over(self, overlap: Any) -> None:
        """It took the place of the other one (`run_began` follows), or it has to go."""

    def changed(self, runner: Any) -> None:
        """Its state or its condition is another."""

    def declared(self, runner: Any) -> None:
        """Its declaration is new or another."""

    def removed(self, runner: Any) -> None:
        """It is forgotten."""


HOOKS = tuple(name for name in vars(RunObserver) if not name.startswith("_"))


class RunObservers:
    """All observers; a fault of one reaches neither the runner nor the others."""

    def __init__(self) -> None:
        self._told: dict[str, list[Callable[..., None]]] = {hook: [] for hook in HOOKS}

    def add(self, observer: RunObserver) -> None:
        """From now on it is told of what it wants to know; every start passes here."""
        for hook in HOOKS:
            if getattr(type(observer), hook) is not getattr(RunObserver, hook):
                self._told[hook].append(getattr(observer, hook))

    def spawning(self, runner: Any, message: dict[str, Any]) -> None:
        self._tell("spawning", runner, message)

    def run_began(self, runner: Any) -> None:
        self._tell("run_began", runner)

    def run_over(self, runner: Any) -> None:
        self._tell("run_over", runner)

    def candidate_spawning(self, overlap: Any, message: dict[str, Any]) -> None:
        self._tell("candidate_spawning", overlap, message)

    def candidate_began(self, overlap: Any) -> None:
        self._tell("candidate_began", overlap)

    def candidate_over(self, overlap: Any) -> None:
        self._tell("candidate_over", overlap)

    def changed(self, runner: Any) -> None:
        self._tell("changed", runner)

    def declared(self, runner: Any) -> None:
        self._tell("declared", runner)

    def removed(self, runner: Any) -> None:
        self._tell("removed", runner)

    def _tell(self, hook: str, *facts: Any) -> None:
        for tell in self._told[hook]:
            try:
                tell(*facts)
            except Exception:  # noqa: BLE001 - the border between a service and its monitors
                _log.exception("a monitor failed: %s", getattr(tell, "__qualname__", tell))
