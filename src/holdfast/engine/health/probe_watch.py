"""One probe in one run: how it asks, what it knows, when it is asked next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.adapters.probes import Finding
from holdfast.engine.runner.environment import Timer
from holdfast.engine.runner.runner import Runner
from holdfast.rules import health
from holdfast.rules.health import Plan, Tally
from holdfast.vocabulary.specs.probes import ProbeSpec

Then = Callable[[Finding], None]


class Check(Protocol):
    """How one probe asks of one run; at most one question at a time."""

    def begin(self) -> None:
        """The probe's time has come."""

    def ask(self, then: Then) -> None:
        """Call `then` with the answer, now or later."""

    def drop(self) -> None:
        """Forget the question: nobody wants the answer any more."""

    def close(self) -> None:
        """The run is over."""


class Prober(Protocol):
    def open(self, runner: Runner, probe: ProbeSpec, on_told: Callable[[], None]) -> Check:
        """`on_told` is called when there is something to ask for before its time."""


class RunProbe:
    """One probe in one run."""

    def __init__(self, probe: ProbeSpec, tally: Tally) -> None:
        self.probe = probe
        self.tally = tally
        self.has_passed = tally.verdict is True
        self.plan = Plan(0.0, 0.0)
        self.timer: Timer | None = None
        self.check: Check
        self.is_begun = self.is_asking = self.is_due = False
        self.listeners: list[Then] = []
        self.told_at = float("-inf")
        self.untold = 0
        """Failed checks since the last one that was an event."""

    @property
    def is_told_once(self) -> bool:
        """Whether there is nothing more to ask once it has passed."""
        return self.probe.kind in health.TOLD_BY_THE_SERVICE and "liveness" not in self.probe.roles

    @property
    def is_watchdog(self) -> bool:
        return self.probe.kind == "notify" and "liveness" in self.probe.roles

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def drop(self) -> None:
        """Forget the timer and the question."""
        self.cancel()
        if self.is_asking:
            self.is_asking = self.is_due = False
            self.check.drop()
            self.answer_listeners(Finding(False, "the run ended or was paused meanwhile"))

    def answer_listeners(self, finding: Finding) -> None:
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener(finding)
