"""Counts refusals and decisions in this project, and nothing more.

The counts only grow, even when the supervisor is replaced: they are stored about once a second
while they change. A killed supervisor loses at most the last second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.authority import SecurityMetrics

KEY = "security_tallies"
"""The name under which they are stored."""
SAVE_SECONDS = 1.0
_log = logger("security_tallies")


class StoredCounts(msgspec.Struct, frozen=True):
    """The counts as they are stored."""

    refusals: list[tuple[str, str, str, int]] = []
    approvals: dict[str, int] = {}
    lockdowns: int = 0


class SecurityCounters:
    """Counts; every label is one of a few words."""

    def __init__(self) -> None:
        self._refusals: Counter[tuple[str, str, str]] = Counter()
        self._approvals: Counter[str] = Counter()
        self._lockdowns = 0
        self._is_saving = False
        self._save: Callable[[str], None] | None = None
        self._later: Callable[[float, Callable[[], None]], Any] | None = None

    def restore(
        self,
        text: str | None,
        save: Callable[[str], None],
        later: Callable[[float, Callable[[], None]], Any],
    ) -> None:
        """Continue with the stored counts, and store every change from now on."""
        self._save, self._later = save, later
        try:
            stored = msgspec.json.decode(text, type=StoredCounts) if text else StoredCounts()
        except msgspec.MsgspecError as error:
            _log.error("the stored security counts cannot be read: %s", error)
            stored = StoredCounts()
        for cause, door, role, count in stored.refusals:
            self._refusals[cause, door, role] += count
        self._approvals.update(stored.approvals)
        self._lockdowns += stored.lockdowns

    def refused(self, cause: str, actor: Actor) -> None:
        self._refusals[cause, actor.door.value, actor.role.value] += 1
        self._changed()

    def decided(self, state: str) -> None:
        self._approvals[state] += 1
        self._changed()

    def locked_down(self) -> None:
        self._lockdowns += 1
        self._changed()

    def save(self) -> None:
        self._is_saving = False
        if self._save is not None:
            refusals = [(*labels, count) for labels, count in self._refusals.items()]
            stored = StoredCounts(refusals, dict(self._approvals), self._lockdowns)
            self._save(msgspec.json.encode(stored).decode())

    def _changed(self) -> None:
        if not self._is_saving and self._later is not None:
            self._is_saving = True
            self._later(SAVE_SECONDS, self.save)

    def metrics(self, *, waiting: int, locked_down: bool) -> SecurityMetrics:
        return SecurityMetrics(
            refusals=[
                {"reason": cause, "door": door, "role": role, "count": count}
                for (cause, door, role), count in sorted(self._refusals.items())
            ],
            approvals=dict(self._approvals),
            approvals_waiting=waiting,
            lockdowns=self._lockdowns,
            locked_down=locked_down,
        )
