"""The last question before a start: does the host have room, by the configured limits?

It asks the inner admission first. A busy host refuses a start, or with `queue_when_busy` queues it.
It looks again when a service ended, and every few seconds while a start waits.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.adapters.metrics.host import HostUsage, host_usage
from holdfast.engine.runner.environment import Admission, PendingCall
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.rules import limits
from holdfast.rules.admission.conditions import Prospect
from holdfast.rules.limits import HostLoad
from holdfast.vocabulary.specs.resources import HostLimits
from holdfast.vocabulary.specs.settings import Settings

LOOK_SECONDS = 2.0
"""The time between two looks at the host, made only if a limit depends on them."""
SHORTEST_SECONDS = 0.2
"""A shorter time says nothing about processors."""


class HostCapacity(RunObserver):
    """Admits a start if the inner admission does and the host has room."""

    def __init__(
        self,
        inner: Admission,
        call_later: Callable[[float, Callable[[], None]], PendingCall],
        live_runs: Callable[[], int],
        measure: Callable[[], HostUsage] = host_usage,
    ) -> None:
        self.cpu: float | None = None
        """Percent of all processors, smoothed."""
        self.memory: float | None = None
        self._inner = inner
        self._call_later = call_later
        self._live_runs = live_runs
        self._measure = measure
        self._limits = HostLimits()
        self._last: HostUsage | None = None
        self._timer: PendingCall | None = None
        self._waiting: dict[str, tuple[Runner, Callable[[], None]]] = {}
        self._is_due = False

    def use(self, settings: Settings) -> None:
        """Apply these settings."""
        self._limits = settings.limits
        if self._needs_host:
            self._look()
        self._recheck()

    def admit(self, runner: Runner, begin: Callable[[], None]) -> None:
        self._waiting.pop(runner.name, None)
        self._inner.admit(runner, lambda: self._arrive(runner, begin))

    def withdraw(self, runner: Runner) -> None:
        self._waiting.pop(runner.name, None)
        self._inner.withdraw(runner)

    def changed(self, runner: Runner) -> None:
        if self._waiting and runner.run is None:
            self._recheck()

    def removed(self, runner: Runner) -> None:
        self._waiting.pop(runner.name, None)

    def take(self, now: HostUsage | None) -> None:
        """Use what was measured of the host; None means that it could not be measured."""
        if now is None:
            return
        last = self._last
        if last is not None:
            percent = now.percent_since(last)
            seconds = (now.all_seconds - last.all_seconds) / _processors()
            if percent is None or seconds < SHORTEST_SECONDS:
                return
            self.cpu = limits.smooth(self.cpu, percent, seconds)
            self.memory = limits.smooth(self.memory, now.memory_percent, seconds)
        else:
            self.memory = now.memory_percent
        self._last = now

    def obstacle(self) -> str | None:
        """Return why nothing may be started now; None: it may."""
        if self._limits == HostLimits():
            return None
        if self._needs_host and self.cpu is None:
            self._measure_now()
        measured = HostLoad(self._live_runs(), self.cpu, self.memory)
        return limits.obstacle(self._limits, measured)

    @property
    def _needs_host(self) -> bool:
        return self._limits.max_cpu is not None or self._limits.max_memory is not None

    def _arrive(self, runner: Runner, begin: Callable[[], None]) -> None:
        words = self.obstacle()
        if words is None:
            begin()
        elif not self._limits.queue_when_busy:
            runner.refuse(words)
        else:
            self._waiting[runner.name] = (runner, begin)
            runner.hold_back((f"room on this host: {words}",), Prospect.TROUBLED)
            self._recheck_later()

    def _recheck(self) -> None:
        # In a turn of its own, because the service that changed has not finished changing.
        if self._waiting and not self._is_due:
            self._is_due = True
            self._call_later(0, self._admit_waiting)

    def _admit_waiting(self) -> None:
        self._is_due = False
        for name, (runner, begin) in list(self._waiting.items()):
            if (words := self.obstacle()) is not None:
                runner.hold_back((f"room on this host: {words}",), Prospect.TROUBLED)
                return
            if self._waiting.pop(name, None) is not None:
                begin()

    def _look(self) -> None:
        self._timer = None
        self._measure_now()
        self._recheck()
        self._recheck_later()

    def _recheck_later(self) -> None:
        if self._timer is None and (self._needs_host or self._waiting):
            self._timer = self._call_later(LOOK_SECONDS, self._look)

    def _measure_now(self) -> None:
        try:
            self.take(self._measure())
        except (OSError, ValueError):
            self.cpu = self.memory = None  # unknown: it refuses nothing


def _processors() -> int:
    import os

    return os.cpu_count() or 1
