"""One service: the sole writer of its state, driven by calls on the loop's thread.

What is *desired* (running, stopped) is set by requests and survives. What *is* (`state`) follows
from requests, the keeper's notices and timers, all of them through the table in
`rules.lifecycle.table`. There is no task and no queue: a method call is a cause.

A run is started only when no process of the previous one is left, so a service has exactly one
run. There is one exception: `replace_run` starts a candidate beside the current run. When the
candidate has proven itself, the two change places, and the old run is ended. A candidate that
fails is ended, and the current run never notices. While a second run is being ended nothing is
started, and a service is stopped only when no process of either run is left.

Read it in this order: requests, findings of the monitors, starting a run, reports of the keeper,
after an end, replacing a run, restoring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.adapters.run_ids import new_run_id
from holdfast.adapters.store.state_tables import ServiceRecord
from holdfast.engine.runner import exits, views
from holdfast.engine.runner.declaration import Declaration, Overrides
from holdfast.engine.runner.environment import RunnerEnvironment
from holdfast.engine.runner.facts import Facts
from holdfast.engine.runner.live_run import LastExit, LiveRun
from holdfast.engine.runner.memory import ServiceMemory
from holdfast.engine.runner.remains import Remains
from holdfast.engine.runner.run_slot import RunSlot
from holdfast.engine.runner.timers import TimerName, Timers
from holdfast.engine.runner.waiters import NewFuture, Waiters
from holdfast.rules import health
from holdfast.rules.admission.conditions import Prospect
from holdfast.rules.health import Condition
from holdfast.rules.lifecycle import restart as restarts
from holdfast.rules.lifecycle import restoring
from holdfast.rules.lifecycle.recovery import after_ending
from holdfast.rules.lifecycle.restart import (
    SPACING_SECONDS,
    Counters,
    Ending,
    NoRestart,
    RestartAfter,
    RunVerdict,
)
from holdfast.rules.lifecycle.restoring import Continuation, FoundRun, Snapshot, UnseenExit
from holdfast.rules.lifecycle.table import Cause, next_state
from holdfast.rules.plan import Trace
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.quantities import parse_signal
from holdfast.vocabulary.services import Outcome, ServiceStatus
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import RecoverySpec
from holdfast.vocabulary.states import ALIVE, Desired, ErrorType, State

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from holdfast.engine.runner.facts import FactChanges
    from holdfast.keeper.protocol.messages import (
        EndedNotice,
        EndedProcess,
        ExitFacts,
        RefusalFacts,
        Reply,
        RunFacts,
    )

Report = Sequence["EndedProcess"]
"""How each process of a tree ended, as the keeper tells it."""
_START_UNDER_WAY = (TimerName.START, TimerName.BACK_OFF)
_CANDIDATE = (TimerName.CANDIDATE_START, TimerName.CANDIDATE_READY)
_UNKILLABLE = "processes are left that could not be killed"


class Runner:
    """The state machine of one service, its runs, and everybody who waits for them."""

    def __init__(
        self,
        declaration: Declaration,
        environment: RunnerEnvironment,
        *,
        new_future: NewFuture,
        on_failed: Callable[[Runner], None],
    ) -> None:
        """`on_failed` is called when the service is wanted, has failed and is left so."""
        self.name = declaration.spec.name
        self._environment = environment
        self._memory = ServiceMemory(self.name, environment.keeper)
        self._timers = Timers(environment.call_later)
        self._waiters = Waiters(new_future)
        self._on_failed = on_failed
        self.facts = Facts(
            declaration=declaration,
            since=environment.clock.time(),
            since_mono=environment.clock.monotonic(),
            ports=self._memory.ports(),
        )
        self.cached_status: views.CachedStatus | None = None
        """Kept for `views`."""
        self._current: RunSlot | None = None
        """The slot of `run`."""
        self._is_due = False
        """A start is due as soon as no process of the last run is left."""
        self._verdict: RunVerdict | None = None
        """Why the current run is being ended as a failure."""
        self._cause_of_stop: Ending | None = None
        """The trouble for which it is being stopped."""
        self._restart_cause: str | None = None
        """Why the next start is a restart; None: it is none."""
        self._candidate_failure: str | None = None
        self._held_report: Report | None = None
        """How the current run ended, while a second one is still to end."""
        self.is_start_due = False
        """An earlier supervisor was still to start it, whatever its state says."""
        self.ending_run: str | None = None
        """The run that was being ended when keeper and supervisor died."""

    # Requests

    def start(self, *, wait: bool = True) -> asyncio.Future[Outcome]:
        """Want it running; a run that lives is left alone."""
        if self.facts.in_doubt is not None and self.run is None:
            self._want(Desired.STOPPED)
            self._change(reason=self.facts.in_doubt)
            return self._waiters.at_once(self.outcome("failed", self.reason))
        self._want(Desired.RUNNING)
        if self.state in (State.RUNNING, State.PAUSED):
            return self._waiters.at_once(self.outcome("already_running"))
        if self.state is State.STARTING:
            if not wait and self.run is not None and self.run.is_up:
                return self._waiters.at_once(self.outcome("already_running"))
            return self._waiters.await_start("already_running", until_up=wait)
        self._change(overrides=None)
        self._restart_cause = None
        future = self._waiters.await_start("started", until_up=wait)
        if self.state is not State.STOPPING:
            self._start_afresh()
        return future

    def restart(
        self, *, wait: bool = True, overrides: Overrides | None = None, cause: str = "request"
    ) -> asyncio.Future[Outcome]:
        """Stop it and start it again, without back-off, even if it is suppressed."""
        self._end_beside(None)
        is_start = self.state in (State.PENDING, State.STOPPED)
        self._restart_cause = None if is_start else cause
        self._want(Desired.RUNNING)
        self._change(overrides=overrides, counters=Counters())
        self._set_verdict(None)
        future = self._waiters.await_start("restarted", until_up=wait)
        if self.state in ALIVE:
            self._move(Cause.STOP)
            self._end(None)
        elif self.state is not State.STOPPING:
            self._start_afresh()
        return future

    def restart_after(
        self,
        reason: str,
        *,
        wait: bool = False,
        forgetting: Container[str] = (),
        cause: str = "dependency",
    ) -> asyncio.Future[Outcome]:
        """Restart it because something that it depends on has changed: a service that it needs has
        a new run, or it follows the runtime mode. `forgetting` are overridden variables."""
        self._event(EventKind.SERVICE_FOLLOWS, reason=reason)
        overrides = self.overrides
        if overrides is not None and forgetting:
            kept = {k: v for k, v in overrides.env_vars.items() if k not in forgetting}
            overrides = replace(overrides, env_vars=kept)
        return self.restart(wait=wait, overrides=overrides, cause=cause)

    def stop(
        self, *, grace: float | None = None, because: str | None = None, by_hand: bool = False
    ) -> asyncio.Future[Outcome]:
        """Want it stopped; done when no process of it is left."""
        self._end_beside(grace)
        has_ended = self.state in (State.EXITED, State.FAILED)
        was_due = self.desired is Desired.RUNNING and not has_ended
        self._want(Desired.STOPPED, by_hand=by_hand)
        self._is_due = False
        self._set_verdict(None)
        self._environment.admission.withdraw(self)
        self._change(waiting_for=(), prospect=None)
        self._timers.cancel(*_START_UNDER_WAY)
        was_stopping = self.state is State.STOPPING
        self._move(Cause.STOP)
        self._waiters.failed(self.outcome("failed", because or "a later request stopped it"))
        if not self.has_processes:
            return self._waiters.at_once(self.outcome("stopped" if was_due else "already_stopped"))
        future = self._waiters.await_stop()
        if not was_stopping or grace is not None:
            self._end(grace)
        return future

    def pause(self) -> asyncio.Future[Outcome]:
        """Freeze its processes."""
        return self._freeze(Cause.PAUSE, "paused", "already_paused")

    def resume(self) -> asyncio.Future[Outcome]:
        """Let frozen processes go on."""
        return self._freeze(Cause.RESUME, "resumed", "not_paused")

    def _freeze(self, cause: Cause, done: str, nothing: str) -> asyncio.Future[Outcome]:
        if next_state(self.state, cause) is None:
            return self._waiters.at_once(self.outcome(nothing))
        self.live_run_id()
        slot = self._current
        assert slot is not None, "live_run_id raises without a run"
        future: asyncio.Future[Outcome] = self._waiters.new_future()

        def on_reply(reply: Reply) -> None:
            if reply.get("ok") and self._current is slot and self.state in ALIVE:
                self._move(cause)
                outcome = self.outcome(done)
            else:
                error = reply.get("error") or {}
                outcome = self.outcome("failed", error.get("message") or "it ended meanwhile")
            if not future.done():
                future.set_result(outcome)

        if cause is Cause.PAUSE:
            slot.pause(on_reply)
        else:
            slot.resume(on_reply)
        return future

    def signal(self, number: int) -> None:
        """Send a signal to the main process of its run."""
        if self._current is not None:
            self._current.signal(number)

    def declare(self, declaration: Declaration) -> bool:
        """Take a declaration and apply to the live run what can be applied at once. The rest
        waits for the next start. True if there is such a rest."""
        before = self.declaration.spec
        self._change(declaration=declaration)
        spec, slot = declaration.spec, self._current
        if self.state is State.BACKOFF and spec.restart_policy == "never":
            self._timers.cancel(*_START_UNDER_WAY)
            self._move(Cause.GIVEN_UP)
            self._publish_desired(self.state.value)
        if slot is not None:
            slot.declaration = declaration
            if (spec.stop, spec.log) != (before.stop, before.log):
                slot.adjust(spec)
            if not slot.run.main_gone:
                self._renew_timers(slot, before)
        return self.is_outdated

    def _renew_timers(self, slot: RunSlot, before: ServiceSpec) -> None:
        run, spec = slot.run, self.declaration.spec
        age = self._environment.clock.monotonic() - run.started_mono
        is_awaited = self.state is State.STARTING and run.pid is not None and not slot.has_stayed
        if is_awaited and spec.start_seconds != before.start_seconds:
            self._await_stay(slot, spec.start_seconds - age)
        if self._timers.is_set(TimerName.STABLE) and spec.restart != before.restart:
            self._await_stability(slot, spec.restart.reset_after - age)

    def want_as_declared(self) -> None:
        """Want it before anybody starts it: if we die before that, a later supervisor starts it."""
        if self.declaration.spec.schedule is not None:
            self.await_schedule()
        else:
            self._want(Desired.RUNNING)

    def await_schedule(self) -> None:
        """Want it at the times of its schedule. A live run goes on, and so does a stop."""
        is_off = self.run is None or self.desired is Desired.STOPPED
        self._change(desired=Desired.RUNNING, stopped_by_hand=False)
        if is_off and self.state not in ALIVE:
            # Not `running`: it would be started at once, after a stop or by a new supervisor.
            self._publish_desired(State.PENDING.value)
        self.save()

    def retire(self) -> None:
        """Holdfast shuts down: start nothing any more."""
        self._change(is_retiring=True)

    def close(self) -> None:
        """Cancel its timers and answer its waiters. The service is of no further use."""
        self._change(is_removed=True)
        self._timers.cancel_all()
        self._environment.admission.withdraw(self)
        self._environment.observers.removed(self)
        self._memory.forget_run()
        self._set_verdict(None)
        self._waiters.failed(self.outcome("failed", "it was removed"))
        self._waiters.changed()

    # Facts that others decide

    def set_owner(self, owner: Owner | None) -> None:
        """The session that it runs for is another; None: it is the user's."""
        self._change(owner=owner)

    def set_ports(self, ports: dict[str, int] | None) -> None:
        """Other ports are leased for it; the next supervisor finds them, too."""
        if ports != self.ports:
            self._change(ports=ports)
            self._memory.keep_ports(ports)

    def set_scaled(self, words: str | None) -> None:
        """The number of its instances is another than the configured one, in words."""
        self._change(scaled=words)

    def set_next_scheduled(self, at: float | None) -> None:
        """Its schedule starts it next at this time."""
        self._change(next_scheduled=at)

    def settle_schedule(self, until: float) -> None:
        """All times of its schedule up to this one are settled."""
        if until != self.scheduled_until:
            self._change(scheduled_until=until)
            self.save()

    def set_leaving(self, is_leaving: bool) -> None:
        """It is being stopped to be removed, or stays after all."""
        self._change(is_leaving=is_leaving)

    def set_doubt(self, reason: str | None) -> None:
        """Start nothing, for this reason: a process may be an earlier run of it. None: start."""
        self._change(in_doubt=reason)

    def reserve_numbers(self, number: int) -> None:
        """Runs up to this number have existed."""
        if number > self.number:
            self._change(number=number)

    # Findings of the monitors

    def judge(self, condition: Condition) -> None:
        """Take the condition that the probes found the live run in."""
        slot, before = self._current, self.condition
        if slot is None or condition == before:
            return
        self._change(condition=condition)
        self._memory.keep_condition(slot.run.run_id, condition)
        if slot.has_stayed and self.state is State.STARTING:
            self._stayed_up(slot)
        elif before.is_ready is False and condition.is_ready and self.state is State.RUNNING:
            self._waiters.started(self.outcome)
        self._waiters.changed()
        self._environment.observers.changed(self)

    def tell_unready(self, reason: str) -> None:
        """Answer those who wait for its readiness, because it takes too long; the run goes on."""
        if self.condition.is_ready is False or self.condition.is_started is False:
            self._waiters.failed(self.outcome("failed", f"not ready: {reason}"))

    def end_as_failure(self, cause: str, reason: str, grace: float | None = None) -> bool:
        """End the live run and count its end as a failure, whatever its exit code."""
        run = self.run
        if run is None or run.main_gone or self.state not in ALIVE:
            return False
        seconds = self._environment.clock.monotonic() - run.started_mono
        self._set_verdict(RunVerdict(reason, seconds, self.state is State.STARTING, cause))
        self._event(EventKind.CONDEMNED, cause=cause, reason=reason, pid=run.pid)
        self._move(Cause.STOP)
        self._end(grace)
        return True

    def stop_for(self, cause: str, reason: str) -> None:
        """Want it stopped, because of trouble that it made."""
        self._event(EventKind.RECOVERY, cause=cause, action="stop", reason=reason)
        self._cause_of_stop = Ending(0.0, verdict=reason, cause=cause)
        self.stop(because=reason)

    def remedy(self, cause: str, recovery: RecoverySpec, reason: str) -> None:
        """Do what the service's `recovery:` says about a cause, beside restarting."""
        slot = self._current if self.run is not None and self.run.is_up else None
        if recovery.action == "stop" and slot is not None:
            self.stop_for(cause, reason)
            return
        self._event(EventKind.RECOVERY, cause=cause, action=recovery.action, reason=reason)
        match recovery.action:
            case "signal" if slot is not None and recovery.signal is not None:
                slot.signal(parse_signal(recovery.signal))
            case "command":
                self._environment.remedies.run(self, cause, recovery, reason)
            case _:
                pass  # the event is all there is to do

    def hold_back(self, waiting_for: tuple[str, ...], prospect: Prospect) -> None:
        """Its start may not begin yet. Clients that asked for it wait on only where that makes
        sense."""
        self._change(waiting_for=waiting_for)
        is_same = prospect is self.prospect
        # With the same prospect, those who asked earlier have their answer.
        if prospect > Prospect.BRIEF and (not is_same or self._waiters.has_new_starters):
            self._answer_waiting(f"waiting for {' and '.join(waiting_for)}", prospect)
        if is_same:
            return
        was_brief = self.prospect in (None, Prospect.BRIEF)
        self._change(prospect=prospect)
        if was_brief and prospect > Prospect.BRIEF:
            self._event(EventKind.SERVICE_WAITING, waiting_for=list(waiting_for))
        self._waiters.changed()
        self._environment.observers.changed(self)

    def _answer_waiting(self, reason: str, prospect: Prospect) -> None:
        if prospect is Prospect.NONE:
            self._waiters.failed(self.outcome("failed", reason))
        elif prospect is Prospect.TROUBLED:
            self._waiters.failed(self.outcome("waiting", reason))
        else:
            waiting = self.outcome("waiting", reason)
            self._waiters.started(lambda _: waiting, only_impatient=True)

    def cannot_start(self, reason: str, stage: str) -> None:
        """A start that is due fails before there is a process."""
        self._change(last_exit=LastExit(), waiting_for=())
        if self._move(Cause.START):
            self._conclude(Ending(0.0, spawn_error=reason), stage)

    def refuse(self, reason: str) -> None:
        """A start that is due does not take place, because the host is too busy."""
        cause = restarts.REFUSED_AGAIN if self.state is State.BACKOFF else restarts.REFUSED
        self._change(last_exit=LastExit(), waiting_for=())
        if self._move(Cause.START):
            self._conclude(Ending(0.0, spawn_error=reason, cause=cause), "room")

    # Starting a run

    def _start_afresh(self) -> None:
        """Start by request: earlier failures do not count any more."""
        self._timers.cancel(*_START_UNDER_WAY)
        self._change(counters=Counters())
        if self._current is None:
            self._begin(again=False)
        elif self._current.is_unkillable:
            self._waiters.failed(self.outcome("failed", self.reason))
        else:
            self._is_due = True

    def _begin(self, *, again: bool) -> None:
        """Start a run as soon as it is admitted; a candidate that lives is the next run."""
        beside = self.beside
        if beside is None:
            self._timers.cancel(*_START_UNDER_WAY)
            self._environment.admission.admit(self, lambda: self._spawn(again=again))
        elif beside.is_usable:
            self._start_with(beside)
        else:
            self._is_due = True
            self._end_beside(None)

    def _spawn(self, *, again: bool) -> None:
        assert self.run is None, "a run is started only when no process of the last one is left"
        spec = self.declaration.spec
        self._timers.cancel(*_START_UNDER_WAY)
        self._is_due = False
        self._change(waiting_for=(), prospect=None, condition=health.initial(spec))
        if self.is_retiring:
            self._waiters.failed(self.outcome("failed", "Holdfast is being shut down"))
            return
        slot = self._new_slot(self.overrides)
        self._take(slot)
        self._change(reason=None, error_type=None)
        self._cause_of_stop = None
        message = slot.spawn_message()
        self._environment.observers.spawning(self, message)
        slot.spawn(message, lambda: self._on_started(slot, again), self._on_spawn_refused)
        self._move(Cause.START)

    def _new_slot(self, overrides: Overrides | None) -> RunSlot:
        """A run with the next number."""
        clock = self._environment.clock
        self._change(number=self.number + 1)
        run = LiveRun(new_run_id(), self.number, clock.time(), clock.monotonic())
        launched = self.declaration.spec
        return RunSlot(self, self._environment, run, launched=launched, overrides=overrides)

    def _take(self, slot: RunSlot) -> None:
        """Make it the current run."""
        self._current = slot
        self._change(run=slot.run, last_run_id=slot.run.run_id, launched=slot.launched)

    def _vacate(self) -> None:
        """No process of the current run is left."""
        if self._current is not None:
            self._current.is_over = True
            self._current = None
            self._change(run=None)

    def _on_started(self, slot: RunSlot, again: bool) -> None:
        """The keeper has started the current run."""
        run = slot.run
        self._count_restart(self._restart_cause)
        self._event(EventKind.PROCESS_STARTED, pid=run.pid, number=run.number, restarted=again)
        if self.state is State.STARTING:
            self._waiters.started(self.outcome, only_impatient=True)
            self._await_stay(slot, self.declaration.spec.start_seconds)
        self._environment.observers.run_began(self)

    def _count_restart(self, cause: str | None) -> None:
        """Count a restart that took place; None: it was a start."""
        self._restart_cause = None
        if cause is not None:
            counts = {**self.facts.restarts, cause: self.facts.restarts.get(cause, 0) + 1}
            self._memory.keep_restarts(counts)
            self._change(restarts=counts)
            self.save()

    def _on_spawn_refused(self, error: RefusalFacts) -> None:
        message = str(error.get("message") or "the keeper could not start it")
        self._vacate()
        self._change(last_exit=LastExit())
        if self.state is State.STOPPING:
            self._change(reason=message)
            self._move(Cause.SPAWN_FAILED)
            self._after_stop([])
        else:
            self._conclude(Ending(0.0, spawn_error=message), error.get("stage"))

    def _await_stay(self, slot: RunSlot, seconds: float) -> None:
        """Call it started when it has lived so long."""
        self._timers.cancel(TimerName.START)
        if seconds <= 0:
            self._stayed_up(slot)
        else:
            self._timers.set(TimerName.START, seconds, lambda: self._stayed_up(slot))

    def _stayed_up(self, slot: RunSlot) -> None:
        if self._current is not slot or slot.run.main_gone:
            return
        slot.has_stayed = True
        if self.condition.is_started is False or not self._move(Cause.STAYED_UP):
            return
        self._change(counters=replace(self.counters, start_failures=0))
        if self.condition.is_ready is not False:
            self._waiters.started(self.outcome)
        self._await_stability(slot, self.declaration.spec.restart.reset_after)

    def _await_stability(self, slot: RunSlot, seconds: float) -> None:
        """Forget its failures when it has lived so long."""
        if self.counters == Counters():
            return

        def on_stable() -> None:
            if self._current is slot and not slot.run.main_gone:
                self._change(counters=Counters())
                self._event(EventKind.STABLE, pid=slot.run.pid)
                self.save()

        self._timers.set(TimerName.STABLE, max(0.0, seconds), on_stable)

    # Reports of the keeper

    def on_exit(self, facts: ExitFacts) -> None:
        """The main process of a run ended."""
        run_id = facts["run_id"]
        if self.beside is not None and self.beside.run.run_id == run_id:
            self._on_exit_beside(self.beside, facts)
            return
        run = self.run
        if run is None or run.run_id != run_id or run.main_gone:
            self.account(facts)
            return
        ending = self._record_exit(facts)
        run.main_gone = True
        run.is_empty = bool(facts.get("empty", True))
        self._environment.observers.run_over(self)
        if self.state is State.STOPPING:
            spec, cause = self.declaration.spec, self._cause_of_stop
            error_type = restarts.error_type(spec, cause) if cause else None
            self._change(reason=restarts.reason_of(spec, cause or ending), error_type=error_type)
            return
        if run.is_empty:
            self._vacate()
        self._conclude(ending, None)

    def on_ended(self, notice: EndedNotice) -> None:
        """The last process of a run is gone, or it could not be killed."""
        run_id, report = notice["run_id"], notice.get("report") or []
        if self.beside is not None and self.beside.run.run_id == run_id:
            self._on_ended_beside(self.beside, notice, report)
            return
        slot = self._current
        if slot is None or slot.run.run_id != run_id:
            return
        self._event(EventKind.TREE_ENDED, report=report, seconds=notice.get("seconds"))
        if notice.get("empty", True):
            self._tree_gone(report)
            return
        slot.is_unkillable = True
        self._change(reason=_UNKILLABLE)
        self._move(Cause.UNKILLABLE)
        self._waiters.stopped(self.outcome("failed", self.reason, report))
        self._waiters.failed(self.outcome("failed", self.reason, report))

    def on_lost(self, slot: RunSlot) -> None:
        """The keeper does not have a run that it was to end."""
        clock = self._environment.clock
        if not slot.run.main_gone:
            self.on_exit(slot.run.unknown_exit(self.name, clock.time(), clock.monotonic()))
        if slot.is_over or not slot.run.is_empty:
            return
        if slot is self.beside:
            self._beside_gone(slot)
        else:
            self._tree_gone([])

    def account(self, facts: ExitFacts, why: str | None = None) -> None:
        """Record the exit of a run that is not the current one, and count it. `why`: why its exit
        code is unknown."""
        ending = self._record_exit(facts, why)
        if not exits.was_asked_for(facts):
            decision = restarts.decide(self.declaration.spec, self.counters, ending, 0.5)
            self._change(counters=decision.counters)

    def _record_exit(self, facts: ExitFacts, why: str | None = None) -> Ending:
        spec, verdict = self.declaration.spec, self._verdict
        exit_ = exits.understand(spec, facts, why)
        self._change(last_exit=exit_.last, accounted=facts["run_id"])
        error = restarts.error_type(spec, verdict.ending() if verdict else exit_.ending)
        if self.state is State.STOPPING and verdict is None:
            # It was asked to end: by request, or for trouble that it made.
            cause = self._cause_of_stop
            error = restarts.error_type(spec, cause) if cause else None
        exits.record(self._environment.recorder, facts, exit_, error)
        self.save()
        return exit_.ending

    # After an end

    def _conclude(self, ending: Ending, stage: str | None) -> None:
        """A run ended by itself or never began: decide what follows, in this turn."""
        spec = self.declaration.spec
        is_success = restarts.is_success(spec, ending)
        error_type = restarts.error_type(spec, ending)
        self._change(error_type=error_type)
        if restarts.is_start_failure(spec, ending):
            reason, error = restarts.reason_of(spec, ending), error_type and error_type.value
            self._event(EventKind.START_FAILED, reason=reason, stage=stage, error_type=error)
        decision = restarts.decide(spec, self.counters, ending, self._environment.random())
        decision, remedy = after_ending(spec, ending, decision)
        self._change(counters=decision.counters, reason=decision.reason)
        self._timers.cancel(*_START_UNDER_WAY)
        if ending.spawn_error is not None:
            self._move(Cause.SPAWN_FAILED)
        else:
            self._move(Cause.EXIT_SUCCESS if is_success else Cause.EXIT_FAILURE)
        if isinstance(decision, RestartAfter) and ending.cause not in restarts.NEVER_BEGAN:
            self._restart_cause = ending.cause or ("exit" if is_success else "failure")
        is_wanted = self.desired is Desired.RUNNING and not self.is_retiring
        is_immediate = (
            isinstance(decision, RestartAfter) and decision.delay <= 0 and self.run is None
        )
        if isinstance(decision, RestartAfter) and is_wanted and not is_immediate:
            self._back_off(decision)
        if is_success:
            self._waiters.started(self.outcome)
        else:
            self._waiters.failed(self.outcome("failed", self.reason))
        if isinstance(decision, NoRestart):
            self._stay_down(decision, is_success)
        elif is_immediate and is_wanted:
            self._begin(again=True)
        if remedy is not None and self.desired is Desired.RUNNING:
            self.remedy(remedy.cause, remedy.recovery, decision.reason)

    def _stay_down(self, decision: NoRestart, is_success: bool) -> None:
        """Nothing is started again."""
        if decision.is_suppressed:
            self._event(EventKind.SUPPRESSED, reason=decision.reason)
        if self.desired is Desired.RUNNING:
            self._publish_desired(self.state.value)
            if not is_success:
                self._on_failed(self)

    def _back_off(self, decision: RestartAfter) -> None:
        """Start it again after a while; a candidate that lives takes its place at once."""
        delay = 0.0 if self.beside is not None and self.beside.is_usable else decision.delay
        clock = self._environment.clock
        self._move(Cause.RESTART_PLANNED)
        self._change(next_start_at=clock.time() + delay, due_mono=clock.monotonic() + delay)
        self._timers.set(TimerName.BACK_OFF, delay, self._restart_due)
        self._event(EventKind.RESTART_SCHEDULED, delay=round(delay, 3), reason=decision.reason)

    def _restart_due(self) -> None:
        if self.state is not State.BACKOFF:
            return
        if self.run is not None:
            self._is_due = True
        else:
            self._begin(again=True)

    def _end(self, grace: float | None) -> None:
        """Ask the keeper to end the current run."""
        if self._current is not None:
            self._timers.cancel(*_START_UNDER_WAY)
            self._environment.observers.run_over(self)
            self._current.end(grace)

    def _tree_gone(self, report: Report) -> None:
        """No process of the current run is left."""
        self._vacate()
        if self.beside is not None and self.beside.is_ending and self.state is State.STOPPING:
            self._held_report = report
            return
        verdict = self._verdict
        self._set_verdict(None)
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
        if self.desired is Desired.RUNNING and not self.facts.awaits_schedule:
            self._begin(again=False)

    # Replacing a run

    def replace_run(self, *, ready_seconds: float) -> asyncio.Future[Outcome]:
        """Start a candidate beside the live run, and end that run when the candidate is ready.
        Answered when one of the two is gone."""
        if self.beside is not None:
            return self._waiters.at_once(self.outcome("failed", "a restart of it is under way"))
        if self.state is not State.RUNNING or self.is_retiring:
            reason = f"it is {self.state.value}, so there is nothing to relieve"
            return self._waiters.at_once(self.outcome("failed", reason))
        self._want(Desired.RUNNING)
        candidate = self._new_slot(None)
        self._change(beside=candidate)
        self._candidate_failure = None
        future = self._waiters.await_replacement()
        message = candidate.spawn_message()
        self._memory.keep_leaving(candidate.run.run_id)
        self._environment.observers.candidate_spawning(candidate, message)
        candidate.spawn(
            message,
            lambda: self._on_candidate_started(candidate, ready_seconds),
            lambda error: self._on_candidate_refused(candidate, error),
        )
        self._overlap_event("begun", candidate, number=candidate.number)
        self.save()
        return future

    def _on_candidate_started(self, candidate: RunSlot, ready_seconds: float) -> None:
        run = candidate.run
        facts = {"pid": run.pid, "number": run.number, "restarted": True, "beside": True}
        self._event_of(run, EventKind.PROCESS_STARTED, **facts)
        if candidate.is_ending:
            candidate.end(None)
            return

        def on_stayed() -> None:
            candidate.has_stayed = True
            self.on_candidate_judged()

        late = f"it is not ready after {ready_seconds:g} s"
        seconds = candidate.declaration.spec.start_seconds
        self._timers.set(TimerName.CANDIDATE_START, seconds, on_stayed)
        self._timers.set(
            TimerName.CANDIDATE_READY,
            seconds + ready_seconds,
            lambda: self.on_candidate_failed(late),
        )
        self._environment.observers.candidate_began(candidate)

    def _on_candidate_refused(self, candidate: RunSlot, error: RefusalFacts) -> None:
        why = str(error.get("message") or "the keeper could not start it")
        self._candidate_failure = f"the new run failed: {why}"
        self._beside_gone(candidate)

    def on_candidate_judged(self) -> None:
        """The candidate has stayed up, or its condition is another: it may be ready now."""
        candidate = self.beside
        if candidate is None or candidate.is_ending or not candidate.has_stayed:
            return
        condition = candidate.condition
        if condition.is_started is not False and condition.is_ready is not False:
            candidate.is_proven = True
            self._promote(candidate)

    def on_candidate_failed(self, reason: str) -> None:
        """The candidate is no good: it goes, and the current run stays."""
        candidate = self.beside
        if candidate is not None and not candidate.is_ending:
            self._candidate_failure = f"the new run failed: {reason}"
            self._overlap_event("failed", candidate, number=candidate.number, reason=reason)
            self._end_beside(None)

    def _promote(self, candidate: RunSlot) -> None:
        """The candidate is ready: it changes places with the current run."""
        old = self._current
        if old is None:
            if self.state is not State.STOPPING and self.desired is Desired.RUNNING:
                self._start_with(candidate)
            return
        if self.state not in (State.RUNNING, State.PAUSED):
            return
        observers = self._environment.observers
        if self.state is State.PAUSED:
            self._move(Cause.RESUME)
        observers.run_over(self)
        self._take_candidate(candidate)
        self._change(beside=old)
        old.is_ending = True
        self._announce_promotion(candidate)
        self._memory.keep_leaving(old.run.run_id)
        if old.run.main_gone and old.run.is_empty:
            self._beside_gone(old)
        else:
            old.end(None)
        observers.run_began(self)
        self._waiters.changed()
        observers.changed(self)

    def _start_with(self, candidate: RunSlot) -> None:
        """The current run is gone already: the candidate is the next one."""
        self._is_due = False
        if not candidate.is_proven:
            self._waiters.await_start_instead()
        self._take_candidate(candidate)
        self._move(Cause.START)
        self._announce_promotion(candidate)
        self._memory.keep_leaving(None)
        self._change(beside=None)
        self._answer_replacement()
        self._environment.observers.run_began(self)
        age = self._environment.clock.monotonic() - candidate.run.started_mono
        self._await_stay(candidate, self.declaration.spec.start_seconds - age)

    def _take_candidate(self, candidate: RunSlot) -> None:
        self._timers.cancel(*_START_UNDER_WAY)
        candidate.has_stayed = candidate.is_proven
        self._take(candidate)
        self._change(
            overrides=None,
            condition=candidate.condition,
            counters=Counters(),
            reason=None,
            error_type=None,
        )
        self._count_restart("rolling")
        self._set_verdict(None)
        self._memory.keep_condition(candidate.run.run_id, candidate.condition)
        self.save()

    def _announce_promotion(self, candidate: RunSlot) -> None:
        self._timers.cancel(*_CANDIDATE)
        self._environment.observers.candidate_over(candidate)
        run = candidate.run
        self._overlap_event("promoted", candidate, number=run.number, pid=run.pid)

    def _end_beside(self, grace: float | None) -> None:
        """End the second run, if there is one: a candidate, or the run that was replaced."""
        slot = self.beside
        if slot is None:
            return
        was_ending, slot.is_ending = slot.is_ending, True
        if not was_ending:
            self._candidate_failure = self._candidate_failure or "a later request ended the new run"
            self._timers.cancel(*_CANDIDATE)
            self._environment.observers.candidate_over(slot)
        if slot.run.pid is not None and (not was_ending or grace is not None):
            slot.end(grace)

    def _on_exit_beside(self, slot: RunSlot, facts: ExitFacts) -> None:
        """The main process of the second run ended. Its exit belongs to the history only."""
        run = slot.run
        if run.main_gone:
            return
        run.main_gone, run.is_empty = True, bool(facts.get("empty", True))
        exit_ = exits.understand(slot.declaration.spec, facts)
        exits.record(self._environment.recorder, facts, exit_, None)
        self.on_candidate_failed(exit_.reason)
        if run.is_empty and not slot.is_end_asked:
            self._beside_gone(slot)

    def _on_ended_beside(self, slot: RunSlot, notice: EndedNotice, report: Report) -> None:
        seconds = notice.get("seconds")
        self._event_of(slot.run, EventKind.TREE_ENDED, report=report, seconds=seconds)
        if notice.get("empty", True):
            self._beside_gone(slot)
        else:
            self._candidate_failure = _UNKILLABLE
            self._answer_replacement()

    def _beside_gone(self, slot: RunSlot) -> None:
        """No process of the second run is left."""
        slot.is_over = True
        self._timers.cancel(*_CANDIDATE)
        self._memory.keep_leaving(None)
        self._change(beside=None)
        report, self._held_report = self._held_report, None
        if report is not None:
            self._tree_gone(report)
        elif self.run is None and self.state is not State.STOPPING:
            self._waiters.stopped(self.outcome("stopped"))
            if self._is_due and self.desired is Desired.RUNNING:
                self._begin(again=self.state is State.BACKOFF)
        self._answer_replacement()

    def _answer_replacement(self) -> None:
        if self._candidate_failure is None:
            self._waiters.replaced(self.outcome("restarted"))
            return
        goes_on = self.run is not None and self.run.is_up
        stays = "; the old one goes on" if goes_on else ""
        self._waiters.replaced(self.outcome("failed", self._candidate_failure + stays))

    # Restoring

    def recollect(self, record: ServiceRecord) -> None:
        """Take what the database says of a service that no keeper knows any more: after `down`, or
        when the keeper died with its supervisor."""
        self._take_lasting(record)
        self._change(trace=record.trace)
        is_wanted = record.desired is Desired.RUNNING
        if record.state is State.STOPPING:
            self.ending_run, self.is_start_due = record.run_id, is_wanted
        if is_wanted:
            self._change(scheduled_until=record.scheduled_until)

    def restore(self, remains: Remains) -> None:
        """Continue where an earlier supervisor was."""
        record, live, unseen = remains.corrected_record(), remains.run, remains.exits
        self._recall(remains)
        if record is not None:
            self._restore_record(record)
        for facts in (*unseen, *([live] if live else [])):
            self.reserve_numbers(facts.get("number") or 0)
        restored = restoring.restore(
            self._snapshot(remains),
            self._found_run(live) if live is not None else None,
            [_unseen_exit(facts) for facts in unseen],
        )
        is_changed = restored.state is not self.state
        for facts in unseen[:-1] if restored.step is Continuation.HANDLE_EXIT else unseen:
            self.account(facts)
        now = self._environment.clock.monotonic()
        slot = self._resume_run(LiveRun.of(live, now)) if live is not None else None
        self._restore_state(restored.state)
        if slot is not None and live is not None:
            if restored.step in (Continuation.WATCH_RUN, Continuation.AWAIT_END):
                if is_changed:
                    self._change(since=self._environment.clock.time(), since_mono=now)
                slot.has_stayed = restored.has_stayed
                self._watch_run(slot, live)
            else:
                slot.run.main_gone = restored.step is not Continuation.HANDLE_EXIT
        self._go_on(restored.step, unseen, is_tree_gone=slot is None)
        if is_changed or record != remains.record:
            self.save()
        for facts in remains.exits_aside:
            self._account_aside(facts)
        if remains.second is not None:
            self._end_second(remains.second)

    def _go_on(
        self, step: Continuation, unseen: Sequence[ExitFacts], *, is_tree_gone: bool
    ) -> None:
        """Take the step that follows from the restored state."""
        match step:
            case Continuation.HANDLE_EXIT:
                self._handle_unseen(unseen[-1], is_tree_gone=is_tree_gone)
            case Continuation.FINISH_STOP:
                self._verdict = self._memory.verdict_of(self.last_run_id)
                self._tree_gone([])
            case Continuation.START:
                self._begin(again=False)
            case Continuation.BACK_OFF:
                self._resume_back_off()
            case (
                Continuation.REST
                | Continuation.WATCH_RUN
                | Continuation.AWAIT_END
                | Continuation.AWAIT_TREE
            ):
                pass

    def _recall(self, remains: Remains) -> None:
        """Take what the keeper's memory says: how the live run was started, and what is wanted."""
        stored, run_id = remains.stored, remains.run["run_id"] if remains.run else None
        if stored is None:
            return
        is_that_run, trace = run_id == stored.launched_run, stored.trace
        launched = (is_that_run and stored.launched) or self.declaration.spec
        self._change(overrides=stored.overrides, launched=launched)
        if trace is not None and trace.run_id == run_id:
            self._change(launched=None, trace=trace)
        self.is_start_due = remains.desired == Desired.RUNNING.value
        self._change(awaits_schedule=remains.desired == State.PENDING.value)

    def _handle_unseen(self, newest: ExitFacts, *, is_tree_gone: bool) -> None:
        """Handle an exit of the time between two supervisors as if its notice came now."""
        if is_tree_gone:
            now = self._environment.clock.monotonic()
            self._resume_run(LiveRun.of_exit(newest, now))
        self.on_exit({**newest, "empty": is_tree_gone})
        if is_tree_gone and self.state is State.STOPPING:
            self._tree_gone([])

    def _account_aside(self, facts: ExitFacts) -> None:
        """Record the exit of a run beside another one: it belongs to the history, and is no
        failure of the service."""
        self.reserve_numbers(facts.get("number") or 0)
        exit_ = exits.understand(self.declaration.spec, facts)
        exits.record(self._environment.recorder, facts, exit_, None)

    def _end_second(self, run: RunFacts) -> None:
        """Of two runs that an earlier supervisor left, end the one that is not to stay."""
        second = LiveRun.of(run, self._environment.clock.monotonic())
        self.reserve_numbers(second.number)
        launched = self.declaration.spec
        slot = RunSlot(self, self._environment, second, launched=launched)
        slot.is_ending = True
        self._change(beside=slot)
        slot.end(None)

    def adopt(self, run: Mapping[str, Any], *, is_survivor: bool) -> None:
        """Take over a process that already runs, as the keeper describes it."""
        assert self.run is None, "a process is adopted only by a service without one"
        slot = self._resume_run(LiveRun.of(run, self._environment.clock.monotonic()))
        slot.run.adopted = True
        slot.launched = self._find_launched(slot.run)
        self._change(launched=slot.launched)
        if self.state is State.PENDING:
            self._move(Cause.ADOPT)
        else:
            self._timers.cancel(*_START_UNDER_WAY)
            self._move(Cause.START)
            self._move(Cause.STAYED_UP)
        if run.get("paused"):
            self._move(Cause.PAUSE)
        self._change(reason=None)
        self._want(Desired.RUNNING)
        slot.record_start()
        facts = {"pid": slot.run.pid, "number": slot.number, "is_survivor": is_survivor}
        self._event(EventKind.SERVICE_ADOPTED, **facts)
        self._environment.observers.run_began(self)

    def _snapshot(self, remains: Remains) -> Snapshot:
        spec, newest = self.declaration.spec, self.last_run_id
        if remains.run is not None:
            newest = remains.run["run_id"]
        elif remains.exits:
            newest = remains.exits[-1]["run_id"]
        return Snapshot(
            state=self.state,
            desired=self.desired,
            is_start_due=self.is_start_due,
            awaits_schedule=self.facts.awaits_schedule,
            has_schedule=spec.schedule is not None,
            start_seconds=spec.start_seconds,
            accounted=self.accounted,
            has_verdict=self._memory.verdict_of(newest) is not None,
        )

    def _found_run(self, live: RunFacts) -> FoundRun:
        return FoundRun(
            run_id=live["run_id"],
            is_ending=bool(live.get("ending")),
            is_paused=bool(live.get("paused")),
            age_seconds=live.get("age") or 0.0,
            is_starting_up=self._known_condition(live["run_id"]).is_started is False,
        )

    def _known_condition(self, run_id: str) -> Condition:
        """The condition of this run, as an earlier supervisor knew it."""
        return self._memory.condition_of(run_id) or health.initial(self.declaration.spec)

    def _resume_run(self, live: LiveRun) -> RunSlot:
        """Make a run the current one that another supervisor has started."""
        launched, overrides = self.launched, self.overrides
        slot = RunSlot(self, self._environment, live, launched=launched, overrides=overrides)
        self.reserve_numbers(live.number)
        self._take(slot)
        self._verdict = self._memory.verdict_of(live.run_id) or self._verdict
        return slot

    def _find_launched(self, live: LiveRun) -> ServiceSpec | None:
        """What an earlier Holdfast started it with: the present declaration, if the digest in the
        database fits."""
        trace = self.trace
        if trace is None:
            return None
        if trace.run_id != live.run_id:
            self._change(trace=None)
            return None
        return self.declaration.spec if trace.fits(self.declaration.spec) else None

    def _take_lasting(self, record: ServiceRecord) -> None:
        """Take the facts that outlive the keeper, which any supervisor takes up again."""
        self._change(
            number=record.number,
            restarts={**record.all_restarts, **self._memory.restarts()},
            accounted=record.accounted,
            stopped_by_hand=record.stopped_by_hand,
        )

    def _restore_record(self, record: ServiceRecord) -> None:
        """Take the whole record: the keeper, which knows the service, has gone on."""
        self._take_lasting(record)
        self._restore_state(record.state)
        self._change(
            desired=record.desired,
            since=record.since,
            reason=record.reason,
            counters=Counters(record.restarts, record.failures, record.start_failures),
            last_run_id=record.run_id,
            last_exit=LastExit(record.code, record.signal, record.seconds, record.log_bytes),
            next_start_at=record.next_start_at,
            scheduled_until=record.scheduled_until,
            error_type=record.error_type,
        )

    def _watch_run(self, slot: RunSlot, live: RunFacts) -> None:
        """Go on with a live run, or with its end."""
        spec, age = self.declaration.spec, live.get("age") or 0.0
        condition = self._known_condition(slot.run.run_id)
        self._change(condition=condition, reason=None, next_start_at=None)
        if self.state is State.STARTING and not slot.has_stayed:
            self._await_stay(slot, spec.start_seconds - age)
        elif self.state is State.RUNNING:
            self._await_stability(slot, spec.restart.reset_after - age)
        slot.record_start()
        self.save()
        if self.state is not State.STOPPING:
            self._environment.observers.run_began(self)
        elif (grace := (live.get("end") or {}).get("grace")) is not None:
            # A keeper that has given up tries again with the rest of the grace, and tells us.
            slot.end(grace)

    def _resume_back_off(self) -> None:
        clock, spec = self._environment.clock, self.declaration.spec
        remaining = (self.facts.next_start_at or 0.0) - clock.time()
        remaining = max(0.0, min(remaining, max(spec.restart.max_delay, SPACING_SECONDS)))
        self._change(due_mono=clock.monotonic() + remaining)
        self._restart_cause = "failure" if self.counters.failures else "exit"
        self._timers.set(TimerName.BACK_OFF, remaining, self._restart_due)

    # Views for others

    def status(self) -> ServiceStatus:
        return views.status_of(self, self._environment.clock.monotonic())

    def outcome(
        self, verb: str, reason: str | None = None, report: Report | None = None
    ) -> Outcome:
        return views.outcome_of(self.facts, verb, reason, report)

    def unfinished(self) -> Outcome:
        """The outcome of a start for a client that stops waiting before it is done."""
        if self.waiting_for:
            awaited = " and ".join(self.waiting_for)
        elif self.state is State.STOPPING:
            awaited = "its old run to end"
        else:
            return self.outcome("waiting", f"waiting to become ready ({self.state.value})")
        return self.outcome("waiting", f"waiting for {awaited}")

    def record(self) -> ServiceRecord:
        """The record that a later supervisor restores."""
        return views.record_of(self.facts)

    def save(self) -> None:
        """Write its record with the next transaction."""
        self._environment.recorder.save_service(self.name, self.record)

    def next_change(self) -> asyncio.Future[None]:
        """Done at the next change of its state."""
        return self._waiters.await_change()

    def live_run_id(self) -> str:
        """The run that requests can reach; raises Failed when there is none."""
        if self.run is None or not self.run.is_up:
            raise Failed(
                f"{self.name} is not running ({self.state.value})",
                f"`holdfast start {self.name}` starts it",
            )
        return self.run.run_id

    # Changing the facts

    def _move(self, cause: Cause) -> bool:
        """Apply a cause by the table; true if the state changed."""
        before = self.state
        after = next_state(before, cause)
        if after is None:
            return False
        clock = self._environment.clock
        self._change(
            state=after, since=clock.time(), since_mono=clock.monotonic(), next_start_at=None
        )
        data = {"from": before.value, "to": after.value, "cause": cause.value}
        if after is State.FAILED and self.reason:
            data["reason"] = self.reason
        self._event(EventKind.TRANSITION, **data)
        self._waiters.changed()
        self._environment.observers.changed(self)
        self.save()
        return True

    def _restore_state(self, state: State) -> None:
        """Resume in a state that an earlier supervisor's table led to."""
        self._change(state=state)

    def _want(self, desired: Desired, *, by_hand: bool = False) -> None:
        is_off = desired is Desired.STOPPED
        by_hand = is_off and (by_hand or self.stopped_by_hand)
        self._change(desired=desired, stopped_by_hand=by_hand)
        self._publish_desired(restoring.ENDED if is_off and not by_hand else desired.value)
        self.save()

    def _publish_desired(self, word: str) -> None:
        """Write the desired state into the keeper's memory."""
        self._change(awaits_schedule=word == State.PENDING.value)
        self._memory.publish_desired(word)

    def _set_verdict(self, verdict: RunVerdict | None) -> None:
        if verdict is not self._verdict:
            self._verdict = verdict
            self._memory.keep_verdict(self.last_run_id, verdict)

    def _change(self, **changes: Unpack[FactChanges]) -> None:
        """The only place where facts change."""
        self.facts = replace(self.facts, version=self.facts.version + 1, **changes)

    def _event(self, kind: EventKind, **data: Any) -> None:
        self._environment.recorder.event(kind, self.name, self.last_run_id, **data)

    def _event_of(self, run: LiveRun, kind: EventKind, **data: Any) -> None:
        self._environment.recorder.event(kind, self.name, run.run_id, **data)

    def _overlap_event(self, step: str, candidate: RunSlot, **data: Any) -> None:
        self._event_of(candidate.run, EventKind.OVERLAP, step=step, **data)

    # The facts, for reading

    @property
    def has_processes(self) -> bool:
        """Whether any process of it may exist."""
        return self.run is not None or self.beside is not None

    @property
    def has_verdict(self) -> bool:
        """Whether its live run is being ended as a failure."""
        return self._verdict is not None

    @property
    def is_outdated(self) -> bool:
        """Whether its run would be another process if it were started now."""
        return self.facts.is_outdated

    @property
    def state(self) -> State:
        return self.facts.state

    @property
    def desired(self) -> Desired:
        return self.facts.desired

    @property
    def declaration(self) -> Declaration:
        return self.facts.declaration

    @property
    def overrides(self) -> Overrides | None:
        return self.facts.overrides

    @property
    def run(self) -> LiveRun | None:
        return self.facts.run

    @property
    def beside(self) -> RunSlot | None:
        return self.facts.beside

    @property
    def launched(self) -> ServiceSpec | None:
        return self.facts.launched

    @property
    def condition(self) -> Condition:
        return self.facts.condition

    @property
    def counters(self) -> Counters:
        return self.facts.counters

    @property
    def reason(self) -> str | None:
        return self.facts.reason

    @property
    def trace(self) -> Trace | None:
        return self.facts.trace

    @property
    def error_type(self) -> ErrorType | None:
        return self.facts.error_type

    @property
    def since(self) -> float:
        return self.facts.since

    @property
    def seconds_in_state(self) -> float:
        """How long its state has been what it is, as far as this supervisor has seen."""
        return self._environment.clock.monotonic() - self.facts.since_mono

    @property
    def number(self) -> int:
        return self.facts.number

    @property
    def last_run_id(self) -> str | None:
        return self.facts.last_run_id

    @property
    def last_exit(self) -> LastExit:
        return self.facts.last_exit

    @property
    def accounted(self) -> str | None:
        return self.facts.accounted

    @property
    def stopped_by_hand(self) -> bool:
        return self.facts.stopped_by_hand

    @property
    def waiting_for(self) -> tuple[str, ...]:
        return self.facts.waiting_for

    @property
    def prospect(self) -> Prospect | None:
        return self.facts.prospect

    @property
    def is_retiring(self) -> bool:
        return self.facts.is_retiring

    @property
    def is_leaving(self) -> bool:
        return self.facts.is_leaving

    @property
    def is_removed(self) -> bool:
        return self.facts.is_removed

    @property
    def owner(self) -> Owner | None:
        return self.facts.owner

    @property
    def ports(self) -> dict[str, int] | None:
        return self.facts.ports

    @property
    def next_scheduled(self) -> float | None:
        return self.facts.next_scheduled

    @property
    def scheduled_until(self) -> float | None:
        return self.facts.scheduled_until


def _unseen_exit(facts: ExitFacts) -> UnseenExit:
    return UnseenExit(
        run_id=facts["run_id"],
        seconds=facts.get("seconds") or 0.0,
        was_asked_for=exits.was_asked_for(facts),
    )
