"""A runner whose run can be relieved by a new one that is started beside it.

Keeps what `overlap` is an exception to: while a second run is being ended nothing is
started, and a service is stopped only when no process of either run is left.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from holdfast.engine.runner.declaration import Overrides
from holdfast.engine.runner.live_run import LiveRun
from holdfast.engine.runner.overlap import Overlap, second_run
from holdfast.engine.runner.service import Report
from holdfast.engine.runner.service_runner import ServiceRunner
from holdfast.rules.lifecycle.restart import Again, Counters
from holdfast.rules.lifecycle.table import Cause
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.states import Desired, State


class RelievedRunner(ServiceRunner):
    """The state machine of one service, with a place for a second run."""

    _held_report: Report | None = None
    """The report of its own run, while a second one is still to end."""

    # Requests

    def replace_run(self, *, ready_seconds: float) -> asyncio.Future[Outcome]:
        """Start a new run beside the live one, and end that when the new one is ready."""
        if self.overlap is not None:
            return self._waiters.at_once(self.outcome("failed", "a restart of it is under way"))
        if self.state is not State.RUNNING or self.is_retiring:
            reason = f"it is {self.state.value}, so there is nothing to relieve"
            return self._waiters.at_once(self.outcome("failed", reason))
        self._want(Desired.RUNNING)
        self.overlap = Overlap(self, self._environment, second_run(self, self._environment))
        future = self.overlap.begin(ready_seconds)
        self.save()
        return future

    def restart(
        self, *, wait: bool = True, overrides: Overrides | None = None
    ) -> asyncio.Future[Outcome]:
        if self.overlap is not None:
            self.overlap.end(None)
        return super().restart(wait=wait, overrides=overrides)

    def stop(
        self, *, grace: float | None = None, because: str | None = None, by_hand: bool = False
    ) -> asyncio.Future[Outcome]:
        if self.overlap is None:
            return super().stop(grace=grace, because=because, by_hand=by_hand)
        self.overlap.end(grace)
        if self.run is not None:
            return super().stop(grace=grace, because=because, by_hand=by_hand)
        future = self._waiters.await_stop()
        super().stop(grace=grace, because=because, by_hand=by_hand)
        return future

    # The run on trial

    def new_future(self) -> asyncio.Future[Any]:
        return self._waiters.new_future()

    def promote_candidate(self) -> None:
        """The run on trial is ready: it takes the place of the service's own."""
        overlap, old = self.overlap, self.run
        assert overlap is not None
        if old is None and self.state is not State.STOPPING and self.desired is Desired.RUNNING:
            self._take_place(overlap)
        elif old is not None and self.state in (State.RUNNING, State.PAUSED):
            if self.state is State.PAUSED:
                self._move(Cause.RESUME)
            self._environment.observers.run_over(self)
            self._take_run(overlap)
            overlap.promoted(old)
            self._environment.observers.run_began(self)
            self._waiters.changed()
            self._environment.observers.changed(self)

    def second_gone(self, overlap: Overlap) -> None:
        """No process of the second run is left."""
        if self.overlap is not overlap:
            return
        self.overlap = None
        report, self._held_report = self._held_report, None
        if report is not None:
            self._tree_gone(report)
        elif self.run is None and self.state is not State.STOPPING:
            self._waiters.stopped(self.outcome("stopped"))
            if self._is_due and self.desired is Desired.RUNNING:
                self._begin(again=self.state is State.BACKOFF)

    def adopt_second(self, run: dict[str, Any]) -> None:
        """Of two runs that an earlier supervisor left, end the one that is not to stay."""
        second = LiveRun.of(run, self._environment.clock.monotonic())
        self.number = max(self.number, second.number)
        self.overlap = Overlap(self, self._environment, second)
        self.overlap.adopt_ending()

    def _take_place(self, overlap: Overlap) -> None:
        """Its own run is gone already: the one on trial is the next."""
        run = overlap.run
        self._is_due = False
        if not overlap.is_proven and overlap.future is not None:
            self._waiters.join_start(overlap.future, "restarted")
            overlap.future = None
        self._take_run(overlap)
        self._move(Cause.START)
        overlap.promoted(None)
        self._environment.observers.run_began(self)
        age = self._environment.clock.monotonic() - run.started_mono
        self._await_stay(run, self.declaration.spec.start_seconds - age)

    def _take_run(self, overlap: Overlap) -> None:
        run = overlap.run
        self._cancel_timer()
        self.run, self.last_run_id = run, run.run_id
        self.launched, self.overrides = overlap.launched, None
        self.condition, self._has_stayed = overlap.condition, overlap.is_proven
        self.counters, self.reason, self.error_type = Counters(), None, None
        self._verdict = None
        self._keep_condition(run.run_id)
        self.save()

    # What happens to runs

    def on_exit(self, facts: dict[str, Any]) -> None:
        if self.overlap is not None and self.overlap.owns(facts["run_id"]):
            self.overlap.on_exit(facts)
        else:
            super().on_exit(facts)

    def on_ended(self, notice: dict[str, Any]) -> None:
        if self.overlap is not None and self.overlap.owns(notice["run_id"]):
            self.overlap.on_ended(notice)
        else:
            super().on_ended(notice)

    def _begin(self, *, again: bool) -> None:
        overlap = self.overlap
        if overlap is None:
            super()._begin(again=again)
        elif overlap.run.is_up and not overlap.is_ending:
            self._take_place(overlap)
        else:
            self._is_due = True
            overlap.end(None)

    def _back_off(self, decision: Again) -> None:
        overlap = self.overlap
        if overlap is not None and overlap.run.is_up and not overlap.is_ending:
            decision = replace(decision, delay=0.0)  # the next run is there already
        super()._back_off(decision)

    def _tree_gone(self, report: Report) -> None:
        if self.overlap is not None and self.overlap.is_ending and self.state is State.STOPPING:
            self.run, self._held_report = None, report
            return
        super()._tree_gone(report)
