"""Restarts several services one at a time, so that at most one of them is away.

A failure or a lockdown ends it, and the answer names those that still have their old run. Services
that depend on them wait until the last one is done, and restart once, not once for each. A reload
has its own order, and spares dependents in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.engine.admission.admission import DependencyAdmission
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import HistoryRecorder
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.instances import RollingResult
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.states import Desired, State

UP = (State.RUNNING, State.PAUSED)
LOCKED = "a lockdown began meanwhile"


class Rolling:
    """Restarts services one at a time."""

    def __init__(
        self, roster: Roster, admission: DependencyAdmission, recorder: HistoryRecorder
    ) -> None:
        self._roster = roster
        self._admission = admission
        self._recorder = recorder
        self._busy: set[str] = set()

    async def restart(
        self, names: list[str], *, ready_seconds: float, is_held: Callable[[], bool]
    ) -> RollingResult:
        """Restart these in their order, until `is_held`; return the outcome of each."""
        taken = [name for name in names if name in self._busy]
        if taken:
            runner = self._roster.runners[taken[0]]
            failed = runner.outcome("failed", "a rolling restart of it is under way")
            return RollingResult(services={taken[0]: failed}, remaining=names, reason=failed.reason)
        self._busy.update(names)
        try:
            with self.sparing_dependents(names):
                return await self._roll(names, ready_seconds, is_held)
        finally:
            self._busy.difference_update(names)

    @contextmanager
    def sparing_dependents(self, names: Iterable[str]) -> Iterator[None]:
        """Let new runs of these restart no dependent meanwhile; afterwards they do."""
        names = list(names)
        self._admission.calm(names)
        try:
            yield
        finally:
            self._admission.settle(names)

    def follow(self, name: str, *, wait: bool) -> asyncio.Future[Outcome] | None:
        """Restart a spared dependent now if a service that it needs has a new run; None: it has
        not.
        """
        runner = self._roster.runners[name]
        reason = self._admission.reason_to_follow(runner)
        return None if reason is None else runner.restart_after(reason, wait=wait)

    async def _roll(
        self, names: list[str], ready_seconds: float, is_held: Callable[[], bool]
    ) -> RollingResult:
        outcomes: dict[str, Outcome] = {}
        remaining, reason = list(names), None
        for number, name in enumerate(names, start=1):
            runner = self._roster.runners.get(name)
            remaining.remove(name)
            if runner is None:
                continue
            if runner.desired is not Desired.RUNNING:
                outcomes[name] = runner.outcome("already_stopped")
                continue
            reason = LOCKED if is_held() else self._lost(outcomes)
            if reason is not None:
                remaining.insert(0, name)
                break
            self._record_step(name, step=number, of=len(names))
            outcome = outcomes[name] = await self._one(runner, ready_seconds)
            self._roster.remember(runner)
            self._record_step(name, step=number, of=len(names), outcome=outcome.outcome)
            if outcome.outcome != "restarted":
                reason = f"{name}: {outcome.reason or outcome.outcome}"
                break
        restarted = [name for name, outcome in outcomes.items() if outcome.outcome == "restarted"]
        data: dict[str, Any] = {"restarted": restarted, "remaining": remaining, "reason": reason}
        self._recorder.event(EventKind.ROLLING_FINISHED, **data)
        for name in remaining:
            if (runner := self._roster.runners.get(name)) is not None:
                outcomes[name] = runner.outcome("not_restarted")
        return RollingResult(services=outcomes, remaining=remaining, reason=reason)

    def _lost(self, outcomes: dict[str, Outcome]) -> str | None:
        """Return which service came up and is away again: then the others keep their old run."""
        for name, outcome in outcomes.items():
            runner = self._roster.runners.get(name)
            if runner is None or outcome.outcome != "restarted":
                continue
            if runner.desired is Desired.RUNNING and runner.state not in UP:
                outcomes[name] = runner.outcome("failed", runner.reason or "it did not stay up")
                return f"{name}: it came up and is {runner.state.value} again"
        return None

    async def _one(self, runner: Runner, ready_seconds: float) -> Outcome:
        spec = runner.declaration.spec
        if spec.overlap and runner.state is State.RUNNING:
            outcome: Outcome = await runner.replace_run(ready_seconds=ready_seconds)
            return outcome
        future: asyncio.Future[Outcome] = runner.restart(wait=True, cause="rolling")
        # Stopping takes its grace, staying up its start_seconds; what is left is for readiness.
        limit = spec.stop.grace + spec.start_seconds + ready_seconds
        done, _ = await asyncio.wait([future], timeout=limit)
        if done:
            return future.result()
        late: Outcome = runner.outcome("failed", f"it is not ready after {ready_seconds:g} s")
        return late

    def _record_step(self, name: str, **data: Any) -> None:
        self._recorder.event(EventKind.ROLLING_STEP, name, **data)
