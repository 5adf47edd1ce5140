"""The timers of one service, by name. A timer that is set again replaces the earlier one."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from holdfast.engine.runner.environment import CallLater, PendingCall


class TimerName(Enum):
    """The moments that a runner waits for."""

    START = "the run has been up for its start_seconds"
    BACK_OFF = "the next start is due"
    STABLE = "the run has been up for so long that earlier failures no longer count"
    CANDIDATE_START = "the candidate has been up for its start_seconds"
    CANDIDATE_READY = "the candidate has had its time to become ready"


class Timers:
    """At most one timer of each name."""

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._timers: dict[TimerName, PendingCall] = {}

    def set(self, name: TimerName, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after so many seconds."""

        def fire() -> None:
            self._timers.pop(name, None)
            callback()

        self.cancel(name)
        self._timers[name] = self._call_later(seconds, fire)

    def is_set(self, name: TimerName) -> bool:
        return name in self._timers

    def cancel(self, *names: TimerName) -> None:
        for name in names:
            timer = self._timers.pop(name, None)
            if timer is not None:
                timer.cancel()

    def cancel_all(self) -> None:
        self.cancel(*self._timers)
