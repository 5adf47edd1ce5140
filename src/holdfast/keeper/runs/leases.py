"""Leases: a run whose lease is not renewed in time is ended.

The lease of a job runs on without a supervisor. The lease of a session pauses while there is none,
so that an outage of ours ends nobody's work. Time is monotonic.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.loop import Loop, Timer
    from holdfast.keeper.protocol.messages import LeaseKind, LeaseSettings


class RunLease:
    """One run's lease: armed, paused or expired."""

    __slots__ = ("_loop", "_on_expiry", "_remaining", "_timer", "kind", "seconds")

    def __init__(
        self,
        seconds: float,
        kind: LeaseKind,
        loop: Loop,
        on_expiry: Callable[[], None],
        remaining: float | None = None,
    ) -> None:
        self.seconds = seconds
        self.kind = kind
        self._loop = loop
        self._on_expiry = on_expiry
        self._remaining = seconds if remaining is None else remaining
        self._timer: Timer | None = None

    def arm(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._remaining, self._expire)

    def pause(self) -> None:
        if self._timer is not None:
            self._remaining = self.remaining()
            self._timer.cancel()
            self._timer = None

    def remaining(self) -> float:
        if self._timer is None:
            return self._remaining
        return max(0.0, self._timer.due - self._loop.now())

    def facts(self) -> LeaseSettings:
        return {"seconds": self.seconds, "kind": self.kind}

    def _expire(self) -> None:
        self._timer = None
        self._remaining = 0.0
        self._on_expiry()
