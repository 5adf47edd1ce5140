"""The configured values that are redacted now, from the declarations and settings in force.

They are kept in memory only. Processes that read logs themselves (the gate, the owner's command
line) ask for them, and again when their number has changed.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.engine.roster import Roster
from holdfast.engine.runner.observers import RunObserver, RunObservers
from holdfast.engine.settings import CurrentSettings
from holdfast.rules.secrets import MOST_VALUES, values_of
from holdfast.secrets import redaction
from holdfast.vocabulary.specs.settings import Settings

if TYPE_CHECKING:
    from holdfast.engine.runner.runner import Runner
    from holdfast.keeper.protocol.messages import SpawnRequest

_log = logger("hiding")


class ConfiguredSecrets(RunObserver):
    """The configured secrets of this Holdfast. Sets them for this process, too."""

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
        """Changes with the values, and from one supervisor to the next."""
        self._refresh()
        return self._number

    @property
    def values(self) -> list[str]:
        self._refresh()
        return self._values

    def declared(self, runner: Runner) -> None:
        self._refresh_soon()

    def spawning(self, runner: Runner, message: SpawnRequest) -> None:
        if runner.overrides is not None:
            self._refresh()

    def _on_settings(self, settings: Settings) -> None:
        self._refresh_soon()

    def _refresh_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._refresh)

    def _refresh(self) -> None:
        self._is_due = False
        settings = self._settings.now
        pairs = [(runner.declaration, runner.overrides) for runner in self._roster.runners.values()]
        # Compared by identity: these objects are never changed, only replaced.
        basis = (settings, *(part for pair in pairs for part in pair))
        known = self._basis
        if known is not None and len(known) == len(basis) and all(map(operator.is_, known, basis)):
            return
        self._basis = basis
        specs = [declaration.spec for declaration, _ in pairs]
        environs = {declaration.environ_key: declaration.environ for declaration, _ in pairs}
        variables = [overrides.env_vars for _, overrides in pairs if overrides is not None]
        specs += [
            msgspec.structs.replace(declaration.spec, argv=overrides.args)
            for declaration, overrides in pairs
            if overrides is not None and overrides.args
        ]
        values = values_of(specs, [*variables, *environs.values()], settings)
        if self._number and values == self._values:
            return
        if len(values) >= MOST_VALUES > len(self._values):
            _log.warning(
                "more than %d values are secrets; the rest is hidden by name and shape only",
                MOST_VALUES,
            )
        self._values, self._number = values, time.time_ns()
        redaction.set_values(values)
