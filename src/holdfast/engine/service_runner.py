"""One service: the sole writer of its state, driven by calls on the loop's thread.

What is *desired* (running, stopped) is set by requests and survives; what *is* (`state`)
follows from requests, the keeper's notices and timers, all of them through the table in
`rules.lifecycle`. A run is started only when no process of the previous one is left, so
there is exactly one instance, ever. No task and no queue: a method call is a cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.adapters.own_log import logger
from holdfast.adapters.state_store import ServiceRecord
from holdfast.engine import views
from holdfast.engine.answers import Answers, NewFuture
from holdfast.engine.declaration import Declaration, Overrides, spawn_message
from holdfast.engine.live_run import LastExit, LiveRun
from holdfast.engine.ports import Ports, Reply, Timer
from holdfast.rules import restart as restarts
from holdfast.rules.lifecycle import Cause, next_state
from holdfast.rules.restart import Again, Counters, Ending, Stay
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.names import new_run_id
from holdfast.vocabulary.results import Outcome, ServiceStatus
from holdfast.vocabulary.states import Desired, State

_log = logger("service_runner")

_NOT_OUR_CHILD = "it was not a child of the keeper, and the kernel does not tell"
_ALIVE = (State.STARTING, State.RUNNING, State.PAUSED)
Report = list[dict[str, Any]]


class ServiceRunner:
    """The state machine of one service."""

    def __init__(
        self,
        declaration: Declaration,
        ports: Ports,
        *,
        new_future: NewFuture,
        on_failed: Callable[[ServiceRunner], None],
    ) -> None:
        self.name = declaration.spec.name
        self.declaration = declaration
        self.overrides: Overrides | None = None
        self.applied: str | None = None
        """Digest of the declaration that the live run was started with."""
        self.state = State.PENDING
        self.desired = Desired.STOPPED
        self.since = ports.clock.time()
        self.reason: str | None = None
        self.counters = Counters()
        self.number = 0
        self.run: LiveRun | None = None
        """Not None while any process of a run may exist: nothing may be started then."""
        self.last_run_id: str | None = None
        self.last_exit = LastExit()
        self.is_retiring = False
        """While Holdfast shuts down nothing is started."""
        self.accounted: str | None = None
        """The run whose exit the counters include already."""
        self._kept_word: str | None = None
        self.next_start_at: float | None = None
        self._timer: Timer | None = None
        self._reset_timer: Timer | None = None
        self._is_due = False
        self._is_unkillable = False
        self._ports = ports
        self._answers = Answers(new_future)
        self._view = views.StatusView()
        self._on_failed = on_failed

    # Requests

    def start(
        self, *, wait: bool = True, overrides: Overrides | None = None
    ) -> asyncio.Future[Outcome]:
        """Want it running; what runs already is left alone."""
        self._want(Desired.RUNNING)
        if self.state in (State.RUNNING, State.PAUSED):
            return self._answers.at_once(self.outcome("already_running"))
        if self.state is State.STARTING:
            if not wait and self.run is not None and self.run.is_up:
                return self._answers.at_once(self.outcome("already_running"))
            return self._answers.await_start("already_running", until_up=wait)
        self.overrides = overrides
        future = self._answers.await_start("started", until_up=wait)
        if self.state is not State.STOPPING:
            self._start_afresh()
        return future

    def restart(
        self, *, wait: bool = True, overrides: Overrides | None = None
    ) -> asyncio.Future[Outcome]:
        """Stop and start again, without back-off, even if suppressed."""
        self._want(Desired.RUNNING)
        self.overrides = overrides
        self.counters = Counters()
        future = self._answers.await_start("restarted", until_up=wait)
        if self.state in _ALIVE:
            self._move(Cause.STOP)
            self._end(None)
        elif self.state is not State.STOPPING:
            self._start_afresh()
        return future

    def stop(self, *, grace: float | None = None) -> asyncio.Future[Outcome]:
        """Want it stopped; done when no process of it is left."""
        self._want(Desired.STOPPED)
        self._is_due = False
        self._cancel_timer()
        was_stopping = self.state is State.STOPPING
        self._move(Cause.STOP)
        self._answers.failed(self.outcome("failed", "a later request stopped it"))
        if self.run is None:
            return self._answers.at_once(self.outcome("already_stopped"))
        future = self._answers.await_stop()
        if not was_stopping or grace is not None:
            self._end(grace)
        return future

    def pause(self) -> asyncio.Future[Outcome]:
        return self._freeze(Cause.PAUSE, "pause", "paused", "already_paused")

    def resume(self) -> asyncio.Future[Outcome]:
        return self._freeze(Cause.RESUME, "resume", "resumed", "not_paused")

    def declare(self, declaration: Declaration) -> bool:
        """Take a declaration for the next start; true if what runs differs from it."""
        self.declaration = declaration
        if self.state is State.BACKOFF and declaration.spec.restart_policy == "never":
            self._cancel_timer()
            self._move(Cause.GIVEN_UP)
        return self.run is not None and self.applied not in (None, declaration.digest)

    def adopt(self, run: dict[str, Any], *, is_survivor: bool) -> None:
        """Take over a process that already ran, as the keeper's RUN describes it."""
        assert self.run is None, "a process is adopted only by a service without one"
        self.run = live = self._live(run)
        live.adopted = True
        if self.state is State.PENDING:
            self._move(Cause.ADOPT)
        else:
            self._cancel_timer()
            self._move(Cause.START)
            self._move(Cause.STAYED_UP)
        self.reason = None
        self._want(Desired.RUNNING)
        self._ports.recorder.run_started(live.as_open(self.name, self._ports.keeper.boot_id))
        self._event(Kind.SERVICE_ADOPTED, pid=live.pid, number=live.number, is_survivor=is_survivor)

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
        if self.state is State.STOPPING:
            self.reason = restarts.reason_of(self.declaration.spec, ending)
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
        self._answers.stopped(self.outcome("failed", self.reason, report))
        self._answers.failed(self.outcome("failed", self.reason, report))

    def account(self, facts: dict[str, Any]) -> None:
        """Record the exit of a run that is not the current one, exactly once."""
        ending = self._record_exit(facts)
        decision = restarts.decide(self.declaration.spec, self.counters, ending, 0.5)
        self.counters = decision.counters

    def record(self) -> ServiceRecord:
        """What a later supervisor has to know."""
        return views.record_of(self)

    # What others see

    def status(self) -> ServiceStatus:
        return self._view.of(self, self._ports.clock)

    def outcome(
        self, verb: str, reason: str | None = None, report: Report | None = None
    ) -> Outcome:
        return views.outcome_of(self, verb, reason, report)

    def begun(self) -> asyncio.Future[Outcome]:
        """Done when a start that is under way has a process, or has failed."""
        is_up = self.run is not None and self.run.is_up
        if self.state is State.STOPPING or (self.state is State.STARTING and not is_up):
            return self._answers.await_start("started", until_up=False)
        return self._answers.at_once(self.outcome("started"))

    def next_change(self) -> asyncio.Future[None]:
        """Done at the next change of state."""
        return self._answers.await_change()

    def live_run_id(self) -> str:
        """The run that requests can reach; raises Failed when there is none."""
        if self.run is None or not self.run.is_up:
            raise Failed(
                f"{self.name} is not running ({self.state.value})",
                f"`holdfast start {self.name}` starts it",
            )
        return self.run.run_id

    def save(self) -> None:
        self._ports.recorder.save_service(self.name, self.record)

    def close(self) -> None:
        """Forget timers; the runner is of no further use."""
        self._cancel_timer()
        if self._reset_timer is not None:
            self._reset_timer.cancel()

    # Starting

    def _start_afresh(self) -> None:
        """Start by request: nothing that failed before counts any more."""
        self._cancel_timer()
        self.counters = Counters()
        if self._is_unkillable:
            self._answers.failed(self.outcome("failed", self.reason))
        elif self.run is not None:
            self._is_due = True
        else:
            self._spawn(again=False)

    def _spawn(self, *, again: bool) -> None:
        assert self.run is None, "a run is started only when no process of the last one is left"
        self._cancel_timer()
        self._is_due = False
        if self.is_retiring:
            self._answers.failed(self.outcome("failed", "Holdfast is being shut down"))
            return
        clock = self._ports.clock
        self.number += 1
        self.run = run = LiveRun(new_run_id(), self.number, clock.time(), clock.monotonic())
        self.last_run_id = run.run_id
        self.applied = self.declaration.digest
        self.reason = None
        message = spawn_message(self.declaration, self.overrides, run.run_id, run.number)
        self._ports.keeper.request(message, lambda reply: self._on_spawned(run, reply, again))
        self._move(Cause.START)

    def _on_spawned(self, run: LiveRun, reply: Reply, again: bool) -> None:
        if self.run is not run:
            return
        if not reply.get("ok"):
            self._on_spawn_error(reply.get("error") or {})
            return
        run.pid, run.start_time = reply["pid"], reply.get("start_time")
        run.started_at = reply.get("started_at") or run.started_at
        self._ports.recorder.run_started(run.as_open(self.name, self._ports.keeper.boot_id))
        self._event(Kind.PROCESS_STARTED, pid=run.pid, number=run.number, restarted=again)
        if self.state is State.STARTING:
            self._answers.started(self.outcome, only_impatient=True)
            self._await_stay(run, self.declaration.spec.start_seconds)

    def _on_spawn_error(self, error: dict[str, Any]) -> None:
        message = str(error.get("message") or "the keeper could not start it")
        self.run = None
        self.last_exit = LastExit()
        if self.state is State.STOPPING:
            self.reason = message
            self._move(Cause.SPAWN_FAILED)
            self._after_stop([])
        else:
            self._conclude(Ending(0.0, spawn_error=message), error.get("stage"))

    def _await_stay(self, run: LiveRun, seconds: float) -> None:
        if seconds <= 0:
            self._stayed_up(run)
        else:
            self._set_timer(seconds, lambda: self._stayed_up(run))

    def _stayed_up(self, run: LiveRun) -> None:
        self._timer = None
        if self.run is not run or run.main_gone or not self._move(Cause.STAYED_UP):
            return
        self.counters = self.counters._replace(start_failures=0)
        self._answers.started(self.outcome)
        self._await_stability(run, self.declaration.spec.restart.reset_after)

    def _await_stability(self, run: LiveRun, seconds: float) -> None:
        if self.counters == Counters():
            return

        def is_stable() -> None:
            self._reset_timer = None
            if self.run is run and not run.main_gone:
                self.counters = Counters()
                self.save()

        if self._reset_timer is not None:
            self._reset_timer.cancel()
        self._reset_timer = self._ports.call_later(max(0.0, seconds), is_stable)

    # Ending

    def _conclude(self, ending: Ending, stage: str | None) -> None:
        """A run ended by itself or never began: decide what follows, in this turn."""
        spec = self.declaration.spec
        is_success = restarts.is_success(spec, ending)
        if restarts.is_start_failure(spec, ending):
            reason = restarts.reason_of(spec, ending)
            self._event(Kind.START_FAILED, reason=reason, stage=stage)
        decision = restarts.decide(spec, self.counters, ending, self._ports.random())
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
            self._answers.started(self.outcome)
        else:
            self._answers.failed(self.outcome("failed", self.reason))
        if isinstance(decision, Stay):
            self._settle(decision, is_success)
        elif is_immediate and is_wanted:
            self._spawn(again=True)

    def _settle(self, decision: Stay, is_success: bool) -> None:
        if decision.is_suppressed:
            self._event(Kind.SUPPRESSED, reason=decision.reason)
        if self.desired is Desired.RUNNING:
            self._keep_word(self.state.value)
            if not is_success:
                self._on_failed(self)

    def _back_off(self, decision: Again) -> None:
        self._move(Cause.RESTART_PLANNED)
        self.next_start_at = self._ports.clock.time() + decision.delay
        self._set_timer(decision.delay, self._restart_due)
        self._event(Kind.RESTART_SCHEDULED, delay=round(decision.delay, 3), reason=decision.reason)

    def _restart_due(self) -> None:
        self._timer = None
        if self.state is not State.BACKOFF:
            return
        if self.run is not None:
            self._is_due = True
        else:
            self._spawn(again=True)

    def _end(self, grace: float | None) -> None:
        run = self.run
        if run is None:
            return
        self._cancel_timer()
        message: dict[str, Any] = {"do": "end", "run_id": run.run_id}
        if grace is not None:
            message["grace"] = grace
        self._ports.keeper.request(message, lambda reply: self._on_end_reply(run, reply))

    def _on_end_reply(self, run: LiveRun, reply: Reply) -> None:
        if reply.get("ok") or self.run is not run or run.pid is None:
            return
        # The keeper no longer has it: its exit notice came before this reply, or never will.
        if not run.main_gone:
            clock = self._ports.clock
            self.on_exit(run.unknown_exit(self.name, clock.time(), clock.monotonic()))
        if self.run is run and run.is_empty:
            self._tree_gone([])

    def _tree_gone(self, report: Report) -> None:
        self.run = None
        self._is_unkillable = False
        if self._move(Cause.TREE_GONE):
            self._after_stop(report)
            return
        self._answers.stopped(self.outcome("stopped", report=report))
        if self._is_due and self.desired is Desired.RUNNING:
            self._spawn(again=self.state is State.BACKOFF)

    def _after_stop(self, report: Report) -> None:
        self._answers.stopped(self.outcome("stopped", report=report))
        if self.desired is Desired.RUNNING:
            self._spawn(again=False)

    def _record_exit(self, facts: dict[str, Any]) -> Ending:
        number = facts.get("signal")
        name = restarts.signal_name(number) if number else None
        unknown = str(facts.get("why") or _NOT_OUR_CHILD) if facts.get("unknown") else None
        seconds = facts.get("seconds")
        if seconds is None:
            # Nobody knows how long it ran: that is no reason to call it a failed start.
            seconds = self.declaration.spec.start_seconds
        ending = Ending(seconds, facts.get("code"), number, unknown)
        reason = restarts.reason_of(self.declaration.spec, ending)
        if facts.get("cause"):
            reason = f"its {facts['cause']} ran out; {reason}"
        self.last_exit = LastExit(
            ending.code, name, facts.get("seconds"), facts.get("log_bytes") or 0
        )
        self.accounted = facts["run_id"]
        self._ports.recorder.run_ended(facts, name, reason)
        self._ports.recorder.event(
            Kind.EXIT,
            self.name,
            facts["run_id"],
            code=ending.code,
            signal=name,
            unknown=unknown is not None,
            reason=reason,
            seconds=facts.get("seconds"),
            pid=facts.get("pid"),
            number=facts.get("number"),
            rusage=facts.get("rusage"),
        )
        self.save()
        return ending

    # Small things

    def _freeze(self, cause: Cause, word: str, done: str, nothing: str) -> asyncio.Future[Outcome]:
        if next_state(self.state, cause) is None:
            return self._answers.at_once(self.outcome(nothing))
        run, run_id = self.run, self.live_run_id()
        future: asyncio.Future[Outcome] = self._answers.new_future()

        def on_reply(reply: Reply) -> None:
            if reply.get("ok") and self.run is run and self.state in _ALIVE:
                self._move(cause)
                outcome = self.outcome(done)
            else:
                error = reply.get("error") or {}
                outcome = self.outcome("failed", error.get("message") or "it ended meanwhile")
            if not future.done():
                future.set_result(outcome)

        self._ports.keeper.request({"do": word, "run_id": run_id}, on_reply)
        return future

    def _move(self, cause: Cause) -> bool:
        """Apply a cause; true if the state changed."""
        before = self.state
        after = next_state(before, cause)
        if after is None:
            return False
        self.state, self.since = after, self._ports.clock.time()
        self.next_start_at = None
        data = {"from": before.value, "to": after.value, "cause": cause.value}
        self._event(Kind.TRANSITION, **data)
        self._answers.changed()
        self.save()
        return True

    def _live(self, run: dict[str, Any]) -> LiveRun:
        live = LiveRun.of(run, self._ports.clock.monotonic())
        self.last_run_id = live.run_id
        self.number = max(self.number, live.number)
        return live

    def _want(self, desired: Desired) -> None:
        self.desired = desired
        self._keep_word(desired.value)
        self.save()

    def _keep_word(self, word: str) -> None:
        """Put what is wanted into the keeper's memory, in order with what is asked of it."""
        if word != self._kept_word:
            self._kept_word = word
            self._ports.keeper.keep(f"desired:{self.name}", word)

    def _event(self, kind: Kind, **data: Any) -> None:
        self._ports.recorder.event(kind, self.name, self.last_run_id, **data)

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._ports.call_later(seconds, callback)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
