"""Observers of runs: the monitors of health, resources, files, ports and schedules.

An observer is told what happens to a runner, in the turn in which it happens, and may call the
runner's methods later. It never changes a state itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from holdfast.adapters.own_log import logger
from holdfast.rules.health import Condition
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import RecoverySpec

if TYPE_CHECKING:
    from holdfast.engine.runner.declaration import Declaration, Overrides
    from holdfast.engine.runner.live_run import LiveRun
    from holdfast.engine.runner.run_slot import RunSlot
    from holdfast.engine.runner.runner import Runner
    from holdfast.keeper.protocol.messages import SpawnRequest

_log = logger("observers")


class MonitoredRun(Protocol):
    """A run that monitors judge: a `Runner` stands for its current one, a `RunSlot` for a
    candidate."""

    name: str

    @property
    def run(self) -> LiveRun | None: ...

    @property
    def declaration(self) -> Declaration: ...

    @property
    def launched(self) -> ServiceSpec | None: ...

    @property
    def overrides(self) -> Overrides | None: ...

    @property
    def ports(self) -> dict[str, int] | None: ...

    @property
    def condition(self) -> Condition: ...

    def judge(self, condition: Condition) -> None:
        """Take the condition that the probes found it in."""

    def tell_unready(self, reason: str) -> None:
        """It has had its time to become ready."""

    def end_as_failure(self, cause: str, reason: str, grace: float | None = None) -> bool:
        """End it and count its end as a failure."""

    def remedy(self, cause: str, recovery: RecoverySpec, reason: str) -> None:
        """Do what the service declares about a cause."""


class RunObserver:
    """Told of every service. A method that is not overridden costs nothing."""

    def spawning(self, runner: Runner, message: SpawnRequest) -> None:
        """A run is about to be requested; an observer may add to the request."""

    def run_began(self, runner: Runner) -> None:
        """A run has its process, or was found alive by this supervisor."""

    def run_over(self, runner: Runner) -> None:
        """The run is being ended, or its main process is gone. May come twice."""

    def candidate_spawning(self, candidate: RunSlot, message: SpawnRequest) -> None:
        """A candidate is about to be asked for, beside the run that it may replace."""

    def candidate_began(self, candidate: RunSlot) -> None:
        """The candidate has its process, and has to prove itself."""

    def candidate_over(self, candidate: RunSlot) -> None:
        """The candidate replaced the other run (`run_began` follows), or it has to go."""

    def changed(self, runner: Runner) -> None:
        """The state or the condition of the service changed."""

    def declared(self, runner: Runner) -> None:
        """The service has a new declaration."""

    def removed(self, runner: Runner) -> None:
        """The service is forgotten."""


HOOKS = tuple(name for name in vars(RunObserver) if not name.startswith("_"))


class RunObservers:
    """All observers. A fault of one reaches neither the runner nor the other observers."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[..., None]]] = {hook: [] for hook in HOOKS}

    def add(self, observer: RunObserver) -> None:
        """Tell this observer, from now on, of everything that it has a method for."""
        for hook in HOOKS:
            if getattr(type(observer), hook) is not getattr(RunObserver, hook):
                self._listeners[hook].append(getattr(observer, hook))

    def spawning(self, runner: Runner, message: SpawnRequest) -> None:
        self._notify("spawning", runner, message)

    def run_began(self, runner: Runner) -> None:
        self._notify("run_began", runner)

    def run_over(self, runner: Runner) -> None:
        self._notify("run_over", runner)

    def candidate_spawning(self, candidate: RunSlot, message: SpawnRequest) -> None:
        self._notify("candidate_spawning", candidate, message)

    def candidate_began(self, candidate: RunSlot) -> None:
        self._notify("candidate_began", candidate)

    def candidate_over(self, candidate: RunSlot) -> None:
        self._notify("candidate_over", candidate)

    def changed(self, runner: Runner) -> None:
        self._notify("changed", runner)

    def declared(self, runner: Runner) -> None:
        self._notify("declared", runner)

    def removed(self, runner: Runner) -> None:
        self._notify("removed", runner)

    def _notify(self, hook: str, *facts: object) -> None:
        for tell in self._listeners[hook]:
            try:
                tell(*facts)
            except Exception:  # noqa: BLE001 - the border between a service and its monitors
                _log.exception("a monitor failed: %s", getattr(tell, "__qualname__", tell))
