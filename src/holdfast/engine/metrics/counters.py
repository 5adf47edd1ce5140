"""Counts what Holdfast itself has done since this supervisor began.

Written on the hot path: a method here is a few additions.
"""

from __future__ import annotations

from holdfast.vocabulary.events import Event, EventKind

_STARTED = EventKind.PROCESS_STARTED.value
_FAILURES = (EventKind.START_FAILED.value, EventKind.CONDEMNED.value)


class SupervisorCounters:
    """Counts that only grow."""

    __slots__ = (
        "commands", "events", "failures", "handler_seconds", "lag_max", "lag_seconds", "lags",
        "restarts", "spawn_seconds", "spawns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.commands: dict[str, int] = {}
        """Dispatched commands, by name."""
        self.handler_seconds = 0.0
        """The time that handlers held the loop."""
        self.events = 0
        """Stored events."""
        self.spawns = 0
        self.spawn_seconds = 0.0
        """The time from a request to the keeper to its answer."""
        self.restarts = 0
        """Automatic restarts."""
        self.failures = 0
        """Starts that failed, and runs that were ended as a failure."""
        self.lags = 0
        self.lag_seconds = 0.0
        """How late the loop was when a sample was due."""
        self.lag_max = 0.0

    def dispatched(self, command: str, seconds: float) -> None:
        self.commands[command] = self.commands.get(command, 0) + 1
        self.handler_seconds += seconds

    def stored(self, events: list[Event]) -> None:
        self.events += len(events)
        for event in events:
            if event.kind == _STARTED:
                self.restarts += bool(event.data.get("restarted"))
            elif event.kind in _FAILURES:
                self.failures += 1

    def spawned(self, seconds: float) -> None:
        self.spawns += 1
        self.spawn_seconds += seconds

    def lagged(self, seconds: float) -> None:
        late = max(0.0, seconds)
        self.lags += 1
        self.lag_seconds += late
        self.lag_max = max(self.lag_max, late)
