"""The last good run of each service, and the declaration it was started with.

A run was good if it lasted for `reset_after`, ended successfully, or was stopped by request after
it had been up. Kept in the keeper's memory, because a declaration holds values of variables and the
database must not. A declaration that equals the present one is not kept twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import PendingCall, RunnerEnvironment
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.rules import plan
from holdfast.vocabulary.specs.services import Applies, ServiceSpec
from holdfast.vocabulary.states import State

_log = logger("good_runs")


class GoodRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that went well."""

    run: int
    at: float
    spec: ServiceSpec | None = None
    """The declaration it was started with; None: the present one."""


class GoodRuns(RunObserver):
    """Remembers the last good run of every service."""

    def __init__(self, environment: RunnerEnvironment) -> None:
        self._environment = environment
        self._good: dict[str, GoodRun] = {}
        self._kept: dict[str, str] = {}
        self._timers: dict[str, PendingCall] = {}
        self._up: dict[str, int] = {}
        """The number of the newest run of each service that has been up."""
        self._declared: dict[str, ServiceSpec] = {}
        """The declaration that a good run with `spec` None was started with."""

    def restore(self, kept: Mapping[str, str]) -> None:
        for name, value in keeper_memory.good_run.entries(kept):
            try:
                self._good[name] = msgspec.json.decode(value, type=GoodRun)
            except msgspec.MsgspecError as error:
                key = keeper_memory.good_run(name)
                _log.warning("the last good run in %s is not understood: %s", key, error)

    def of(self, runner: Runner) -> tuple[GoodRun, ServiceSpec] | None:
        """Return the last good run and its declaration; None: there was none."""
        good = self._good.get(runner.name)
        return None if good is None else (good, good.spec or runner.declaration.spec)

    def run_began(self, runner: Runner) -> None:
        self._cancel(runner.name)
        run = runner.run
        if run is None:
            return
        self._compare(runner, run.run_id)
        age = self._environment.clock.monotonic() - run.started_mono
        wait = max(0.0, runner.declaration.spec.restart.reset_after - age)

        def lasted() -> None:
            if runner.run is run and not run.main_gone:
                self._mark(runner)

        self._timers[runner.name] = self._environment.call_later(wait, lasted)

    def _compare(self, runner: Runner, run_id: str) -> None:
        """Record how the declaration of a new run differs from that of the last good one."""
        found = self.of(runner)
        if found is None or found[0].run >= runner.number:
            return
        now = runner.launched or runner.declaration.spec
        fields = [
            name
            for when in (Applies.BY_RESTART, Applies.IN_PLACE)
            for name in plan.differences(found[1], now, when)
        ]
        self._environment.recorder.run_compared(run_id, fields)

    def run_over(self, runner: Runner) -> None:
        self._cancel(runner.name)

    def changed(self, runner: Runner) -> None:
        match runner.state:
            case State.RUNNING:
                self._up[runner.name] = runner.number
            case State.EXITED:
                self._mark(runner)
            case State.STOPPED if self._up.get(runner.name) == runner.number:
                self._mark(runner)
            case _:
                pass

    def declared(self, runner: Runner) -> None:
        """Keep the declaration of a good run once it is no longer the present one."""
        declared = runner.declaration.spec
        good, before = self._good.get(runner.name), self._declared.get(runner.name)
        self._declared[runner.name] = declared
        before = before if good is None or good.spec is None else good.spec
        if good is not None and before is not None:
            self._remember(runner.name, msgspec.structs.replace(good, spec=before), declared)

    def removed(self, runner: Runner) -> None:
        self._cancel(runner.name)
        self._up.pop(runner.name, None)
        self._declared.pop(runner.name, None)
        if self._good.pop(runner.name, None) is not None:
            self._kept.pop(runner.name, None)
            self._environment.keeper.keep(keeper_memory.good_run(runner.name), None)

    def _mark(self, runner: Runner) -> None:
        declared = runner.declaration.spec
        spec = getattr(runner, "launched", None) or declared
        self._declared[runner.name] = declared
        good = GoodRun(run=runner.number, at=self._environment.clock.time(), spec=spec)
        self._remember(runner.name, good, declared)

    def _remember(self, name: str, good: GoodRun, declared: ServiceSpec) -> None:
        if good.spec == declared:
            good = msgspec.structs.replace(good, spec=None)
        self._good[name] = good
        text = msgspec.json.encode(good).decode()
        if self._kept.get(name) != text:
            self._kept[name] = text
            self._environment.keeper.keep(keeper_memory.good_run(name), text)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
