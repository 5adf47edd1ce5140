"""How the runs of one service end, and what follows: back-off, another start, or rest.

The half of the runner that answers the keeper's notices. The state itself is changed by
`ServiceRunner._move` alone, by the table.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.engine.runner import exits
from holdfast.engine.runner.environment import Reply
from holdfast.engine.runner.live_run import LastExit, LiveRun
from holdfast.engine.runner.service import Report, Service
from holdfast.rules.lifecycle import restart as restarts
from holdfast.rules.lifecycle.recovery import after_ending
from holdfast.rules.lifecycle.restart import Again, Ending, Stay
from holdfast.rules.lifecycle.table import Cause
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.quantities import parse_signal
from holdfast.vocabulary.specs.workflows import RecoverySpec
from holdfast.vocabulary.states import ALIVE, Desired, State


class Verdict(msgspec.Struct, frozen=True):
    """Why a live run is being ended, as a failure of its own."""

    reason: str
    seconds: float
    is_start: bool
    cause: str

    def ending(self) -> Ending:
        return Ending(self.seconds, verdict=self.reason, is_start=self.is_start, cause=self.cause)


class RunEndings(Service):
    """What a service does when a run of it is over."""

    _on_failed: Callable[[Any], None]
    """Told when a service that is wanted has failed and is left so."""

    @abstractmethod
    def _move(self, cause: Cause) -> bool:
        """Apply a cause by the table; true if the state changed."""

    @abstractmethod
    def _begin(self, *, again: bool) -> None:
        """Start a run, as soon as it is admitted."""

    # Judgement

    def end_as_failure(self, cause: str, reason: str, grace: float | None = None) -> bool:
        """End the live run and count its end as a failure, whatever its exit code."""
        run = self.run
        if run is None or run.main_gone or self.state not in ALIVE:
            return False
        seconds = self._environment.clock.monotonic() - run.started_mono
        self._verdict = Verdict(reason, seconds, self.state is State.STARTING, cause)
        self._event(Kind.CONDEMNED, cause=cause, reason=reason)
        self._move(Cause.STOP)
        self._end(grace)
        return True

    def stop_for(self, cause: str, reason: str) -> None:
        """Want it stopped, because of trouble that it made."""
        self._event(Kind.RECOVERY, cause=cause, action="stop", reason=reason)
        self._cause_of_stop = Ending(0.0, verdict=reason, cause=cause)
        self.stop(because=reason)

    def cannot_start(self, reason: str, stage: str) -> None:
        """A start that is due fails before there is a process."""
        self.last_exit, self.waiting_for = LastExit(), ()
        if self._move(Cause.START):
            self._conclude(Ending(0.0, spawn_error=reason), stage)

    def refuse(self, reason: str) -> None:
        """A start that is due is not to be, because the host is too busy."""
        cause = restarts.REFUSED_AGAIN if self.state is State.BACKOFF else restarts.REFUSED
        self.last_exit, self.waiting_for = LastExit(), ()
        if self._move(Cause.START):
            self._conclude(Ending(0.0, spawn_error=reason, cause=cause), "room")

    def remedy(self, cause: str, recovery: RecoverySpec, reason: str) -> None:
        """Do what the service's `recovery:` says about a cause, beside restarting."""
        is_up = self.run is not None and self.run.is_up
        if recovery.action == "stop" and is_up:
            self.stop_for(cause, reason)
            return
        self._event(Kind.RECOVERY, cause=cause, action=recovery.action, reason=reason)
        match recovery.action:
            case "signal" if self.run is not None and is_up and recovery.signal is not None:
                number = parse_signal(recovery.signal)
                message = {"do": "signal", "run_id": self.run.run_id, "signal": number}
                self._environment.keeper.request({**message, "to": "main"}, lambda _: None)
            case "command":
                self._environment.remedies.run(self, cause, recovery, reason)
            case _:
                pass  # it was told

    def tell_unready(self, reason: str) -> None:
        """Whoever waits for its readiness has waited long enough; the run goes on."""
        if self.condition.is_ready is False or self.condition.is_started is False:
            self._waiters.failed(self.outcome("failed", f"not ready: {reason}"))

    # Notices of the keeper

    def on_exit(self, facts: dict[str, Any]) -> None:
        """The main process of a run ended."""
        run = self.run
        if run is None or run.run_id != facts["run_id"] or run.main_gone:
            self.account(facts)
            return
        ending = self._record_exit(facts)
        run.main_gone = True
        run.is_empty = bool(facts.get("empty", True))
        self._environment.observers.run_over(self)
        if self.state is State.STOPPING:
            spec, cause_of_stop = self.declaration.spec, self._cause_of_stop
            self.reason = restarts.reason_of(spec, cause_of_stop or ending)
            self.error_type = restarts.error_type(spec, cause_of_stop) if cause_of_stop else None
            return
        if run.is_empty:
            self.run = None
        self._conclude(ending, None)

    def on_ended(self, notice: dict[str, Any]) -> None:
        """The last process of a run is gone, or it could not be killed."""
        if self.run is None or self.run.run_id != notice["run_id"]:
            return
        report = notice.get("report") or []
        self._event(Kind.TREE_ENDED, report=report, seconds=notice.get("seconds"))
        if notice.get("empty", True):
            self._tree_gone(report)
            return
        self._is_unkillable = True
        self.reason = "processes are left that could not be killed"
        self._move(Cause.UNKILLABLE)
        self._waiters.stopped(self.outcome("failed", self.reason, report))
        self._waiters.failed(self.outcome("failed", self.reason, report))

    def account(self, facts: dict[str, Any]) -> None:
        """Record the exit of a run that is not the current one, exactly once."""
        ending = self._record_exit(facts)
        if not exits.was_asked_for(facts):
            decision = restarts.decide(self.declaration.spec, self.counters, ending, 0.5)
            self.counters = decision.counters

    @abstractmethod
    def stop(self, *, grace: float | None = None, because: str | None = None) -> Any:
        """Want it stopped."""

    # Ending

    def _conclude(self, ending: Ending, stage: str | None) -> None:
        """A run ended by itself or never began: decide what follows, in this turn."""
        spec = self.declaration.spec
        is_success = restarts.is_success(spec, ending)
        self.error_type = restarts.error_type(spec, ending)
        if restarts.is_start_failure(spec, ending):
            reason = restarts.reason_of(spec, ending)
            error_type = self.error_type.value if self.error_type is not None else None
            self._event(Kind.START_FAILED, reason=reason, stage=stage, error_type=error_type)
        decision = restarts.decide(spec, self.counters, ending, self._environment.random())
        decision, remedy = after_ending(spec, ending, decision)
        self.counters, self.reason = decision.counters, decision.reason
        self._cancel_timer()
        if ending.spawn_error is not None:
            self._move(Cause.SPAWN_FAILED)
        else:
            self._move(Cause.EXIT_SUCCESS if is_success else Cause.EXIT_FAILURE)
        is_wanted = self.desired is Desired.RUNNING and not self.is_retiring
        is_immediate = isinstance(decision, Again) and decision.delay <= 0 and self.run is None
        if isinstance(decision, Again) and is_wanted and not is_immediate:
            self._back_off(decision)
        if is_success:
            self._waiters.started(self.outcome)
        else:
            self._waiters.failed(self.outcome("failed", self.reason))
        if isinstance(decision, Stay):
            self._settle(decision, is_success)
        elif is_immediate and is_wanted:
            self._begin(again=True)
        if remedy is not None and self.desired is Desired.RUNNING:
            self.remedy(remedy.cause, remedy.recovery, decision.reason)

    def _settle(self, decision: Stay, is_success: bool) -> None:
        if decision.is_suppressed:
            self._event(Kind.SUPPRESSED, reason=decision.reason)
        if self.desired is Desired.RUNNING:
            self._publish_desired(self.state.value)
            if not is_success:
                self._on_failed(self)

    def _back_off(self, decision: Again) -> None:
        self._move(Cause.RESTART_PLANNED)
        self.next_start_at = self._environment.clock.time() + decision.delay
        self.due_mono = self._environment.clock.monotonic() + decision.delay
        self._set_timer(decision.delay, self._restart_due)
        self._event(Kind.RESTART_SCHEDULED, delay=round(decision.delay, 3), reason=decision.reason)

    def _restart_due(self) -> None:
        self._timer = None
        if self.state is not State.BACKOFF:
            return
        if self.run is not None:
            self._is_due = True
        else:
            self._begin(again=True)

    def _end(self, grace: float | None) -> None:
        run = self.run
        if run is None:
            return
        self._cancel_timer()
        self._environment.observers.run_over(self)
        message: dict[str, Any] = {"do": "end", "run_id": run.run_id}
        if grace is not None:
            message["grace"] = grace
        self._environment.keeper.request(message, lambda reply: self._on_end_reply(run, reply))

    def _on_end_reply(self, run: LiveRun, reply: Reply) -> None:
        if reply.get("ok") or self.run is not run or run.pid is None:
            return
        # The keeper no longer has it: its exit notice came before this reply, or never will.
        if not run.main_gone:
            clock = self._environment.clock
            self.on_exit(run.unknown_exit(self.name, clock.time(), clock.monotonic()))
        if self.run is run and run.is_empty:
            self._tree_gone([])

    def _tree_gone(self, report: Report) -> None:
        self.run = None
        self._is_unkillable = False
        verdict, self._verdict = self._verdict, None
        if verdict is not None and self._move(Cause.ENDED_AS_FAILURE):
            self._waiters.stopped(self.outcome("stopped", report=report))
            self._conclude(verdict.ending(), None)
            return
        if self._move(Cause.TREE_GONE):
            self._after_stop(report)
            return
        self._waiters.stopped(self.outcome("stopped", report=report))
        if self._is_due and self.desired is Desired.RUNNING:
            self._begin(again=self.state is State.BACKOFF)

    def _after_stop(self, report: Report) -> None:
        self._waiters.stopped(self.outcome("stopped", report=report))
        if self.desired is Desired.RUNNING and not self.awaits_schedule:
            self._begin(again=False)

    def _record_exit(self, facts: dict[str, Any]) -> Ending:
        spec, verdict = self.declaration.spec, self._verdict
        understood = exits.understand(spec, facts)
        self.last_exit, self.accounted = understood.last, facts["run_id"]
        error = restarts.error_type(spec, verdict.ending() if verdict else understood.ending)
        if self.state is State.STOPPING and verdict is None:
            # It was asked to end: by request, or for trouble that it made.
            error = restarts.error_type(spec, self._cause_of_stop) if self._cause_of_stop else None
        exits.record(self._environment.recorder, facts, understood, error)
        self.save()
        return understood.ending
