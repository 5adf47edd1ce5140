"""What was refused and decided since this supervisor began: counts, nothing more."""

from __future__ import annotations

from collections import Counter

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.authority import SecurityMetrics


class SecurityTallies:
    """Counts that only grow; every label is one of a few words."""

    def __init__(self) -> None:
        self._refusals: Counter[tuple[str, str, str]] = Counter()
        self._approvals: Counter[str] = Counter()

    def refused(self, cause: str, actor: Actor) -> None:
        self._refusals[cause, actor.door.value, actor.role.value] += 1

    def decided(self, state: str) -> None:
        self._approvals[state] += 1

    def told(self, *, waiting: int, lockdowns: int, locked_down: bool) -> SecurityMetrics:
        return SecurityMetrics(
            refusals=[
                {"reason": cause, "door": door, "role": role, "count": count}
                for (cause, door, role), count in sorted(self._refusals.items())
            ],
            approvals=dict(self._approvals),
            approvals_waiting=waiting,
            lockdowns=lockdowns,
            locked_down=locked_down,
        )
