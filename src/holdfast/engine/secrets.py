"""Which values are hidden now: learnt from the declarations and settings in force.

Kept in memory only. Whoever reads logs beside us (the gate, the owner's command line) asks for
them, and again when the number under which they are known is another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.engine.roster import Roster
from holdfast.engine.runner.observers import RunObserver, RunObservers
from holdfast.engine.settings import CurrentSettings
from holdfast.rules import secrets as hiding
from holdfast.secrets import redaction
from holdfast.vocabulary.specs.settings import Settings

_log = logger("hiding")


class Hiding(RunObserver):
    """The configured secrets of this Holdfast."""

    def __init__(
        self,
        roster: Roster,
        settings: CurrentSettings,
        observers: RunObservers,
        call_soon: Callable[..., Any],
    ) -> None:
        self._roster = roster
        self._settings = settings
        self._call_soon = call_soon
        self._is_due = False
        self._basis: tuple[object, ...] | None = None
        self._values: list[str] = []
        self._number = 0
        observers.add(self)
        settings.listen(self._on_settings)

    @property
    def number(self) -> int:
        """Another one whenever there are other values, also those of another supervisor."""
        self._learn()
        return self._number

    @property
    def values(self) -> list[str]:
        self._learn()
        return self._values

    def declared(self, runner: Any) -> None:
        self._learn_soon()

    def spawning(self, runner: Any, message: dict[str, Any]) -> None:
        if runner.overrides is not None:
            self._learn()

    def _on_settings(self, settings: Settings) -> None:
        self._learn_soon()

    def _learn_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._learn)

    def _learn(self) -> None:
        self._is_due = False
        runners, settings = self._roster.runners.values(), self._settings.now
        # The very objects: none of them is ever changed, only replaced.
        basis = (settings, *(part for it in runners for part in (it.declaration, it.overrides)))
        known = self._basis
        if known is not None and len(known) == len(basis) and all(map(_is_same, known, basis)):
            return
        self._basis = basis
        environs = {it.declaration.environ_key: it.declaration.environ for it in runners}
        overrides = [it.overrides.env_vars for it in runners if it.overrides is not None]
        specs = [it.declaration.spec for it in runners]
        specs += [
            msgspec.structs.replace(it.declaration.spec, argv=it.overrides.args)
            for it in runners
            if it.overrides is not None and it.overrides.args
        ]
        values = hiding.values_of(specs, [*overrides, *environs.values()], settings)
        if self._number and values == self._values:
            return
        if len(values) >= hiding.MOST_VALUES > len(self._values):
            _log.warning(
                "more than %d values are secrets; the rest is hidden by name and shape only",
                hiding.MOST_VALUES,
            )
        self._values, self._number = values, time.time_ns()
        redaction.learn(values)


def _is_same(one: object, other: object) -> bool:
    return one is other
