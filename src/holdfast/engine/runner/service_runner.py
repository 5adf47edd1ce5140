"""One service: the sole writer of its state, driven by calls on the loop's thread.

What is *desired* (running, stopped) is set by requests and survives; what *is* (`state`)
follows from requests, the keeper's notices and timers, all of them through the table in
`rules.lifecycle.table`. A run is started only when no process of the previous one is left, so
there is exactly one instance, ever. No task and no queue: a method call is a cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.adapters.run_ids import new_run_id
from holdfast.engine.runner.declaration import Declaration, Overrides, spawn_message
from holdfast.engine.runner.environment import Environment, Reply
from holdfast.engine.runner.live_run import LastExit, LiveRun
from holdfast.engine.runner.redeclared import Redeclared
from holdfast.engine.runner.service import ENDED
from holdfast.engine.runner.waiters import NewFuture
from holdfast.rules import health
from holdfast.rules.health import Condition
from holdfast.rules.lifecycle.restart import Counters, Ending
from holdfast.rules.lifecycle.table import Cause, next_state
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.states import ALIVE, Desired, State


class ServiceRunner(Redeclared):
    """The state machine of one service."""

    def __init__(
        self,
        declaration: Declaration,
        environment: Environment,
        *,
        new_future: NewFuture,
        on_failed: Callable[[Any], None],
    ) -> None:
        super().__init__(declaration, environment, new_future=new_future)
        self._on_failed = on_failed

    # Requests

    def start(self, *, wait: bool = True) -> asyncio.Future[Outcome]:
        """Want it running; what runs already is left alone."""
        if self.in_doubt is not None and self.run is None:
            self._want(Desired.STOPPED)
            self.reason = self.in_doubt
            return self._waiters.at_once(self.outcome("failed", self.in_doubt))
        self._want(Desired.RUNNING)
        if self.state in (State.RUNNING, State.PAUSED):
            return self._waiters.at_once(self.outcome("already_running"))
        if self.state is State.STARTING:
            if not wait and self.run is not None and self.run.is_up:
                return self._waiters.at_once(self.outcome("already_running"))
            return self._waiters.await_start("already_running", until_up=wait)
        self.overrides = None
        future = self._waiters.await_start("started", until_up=wait)
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
        self._verdict = None
        future = self._waiters.await_start("restarted", until_up=wait)
        if self.state in ALIVE:
            self._move(Cause.STOP)
            self._end(None)
        elif self.state is not State.STOPPING:
            self._start_afresh()
        return future

    def restart_after(self, reason: str, *, wait: bool = False) -> asyncio.Future[Outcome]:
        """Restart it for the sake of what it needs."""
        self._event(Kind.SERVICE_FOLLOWS, reason=reason)
        return self.restart(wait=wait, overrides=self.overrides)

    def stop(
        self, *, grace: float | None = None, because: str | None = None, by_hand: bool = False
    ) -> asyncio.Future[Outcome]:
        """Want it stopped; done when no process of it is left."""
        has_ended = self.state in (State.EXITED, State.FAILED)
        was_due = self.desired is Desired.RUNNING and not has_ended
        self._want(Desired.STOPPED, by_hand=by_hand)
        self._is_due, self._verdict = False, None
        self._environment.admission.withdraw(self)
        self._stop_waiting()
        self._cancel_timer()
        was_stopping = self.state is State.STOPPING
        self._move(Cause.STOP)
        self._waiters.failed(self.outcome("failed", because or "a later request stopped it"))
        if self.run is None:
            return self._waiters.at_once(self.outcome("stopped" if was_due else "already_stopped"))
        future = self._waiters.await_stop()
        if not was_stopping or grace is not None:
            self._end(grace)
        return future

    def pause(self) -> asyncio.Future[Outcome]:
        return self._freeze(Cause.PAUSE, "pause", "paused", "already_paused")

    def resume(self) -> asyncio.Future[Outcome]:
        return self._freeze(Cause.RESUME, "resume", "resumed", "not_paused")

    def judge(self, condition: Condition) -> None:
        """Take what the probes say of the live run."""
        run, before = self.run, self.condition
        if run is None or condition == before:
            return
        self.condition = condition
        self._keep_condition(run.run_id)
        if self._has_stayed and self.state is State.STARTING:
            self._stayed_up(run)
        elif before.is_ready is False and condition.is_ready and self.state is State.RUNNING:
            self._waiters.started(self.outcome)
        self._waiters.changed()
        self._environment.observers.changed(self)

    # Starting

    def _start_afresh(self) -> None:
        """Start by request: nothing that failed before counts any more."""
        self._cancel_timer()
        self.counters = Counters()
        if self._is_unkillable:
            self._waiters.failed(self.outcome("failed", self.reason))
        elif self.run is not None:
            self._is_due = True
        else:
            self._begin(again=False)

    def _begin(self, *, again: bool) -> None:
        self._cancel_timer()
        self._environment.admission.admit(self, lambda: self._spawn(again=again))

    def _spawn(self, *, again: bool) -> None:
        assert self.run is None, "a run is started only when no process of the last one is left"
        self._cancel_timer()
        self._is_due, self._has_stayed = False, False
        self._stop_waiting()
        self.condition = health.initial(self.declaration.spec)
        if self.is_retiring:
            self._waiters.failed(self.outcome("failed", "Holdfast is being shut down"))
            return
        clock = self._environment.clock
        self.number += 1
        self.run = run = LiveRun(new_run_id(), self.number, clock.time(), clock.monotonic())
        self.last_run_id = run.run_id
        self.launched = self.declaration.spec
        self.reason = self.error_type = self._cause_of_stop = None
        message = spawn_message(self.declaration, self.overrides, run.run_id, run.number)
        self._environment.observers.spawning(self, message)
        self._environment.keeper.request(message, lambda reply: self._on_spawned(run, reply, again))
        self._move(Cause.START)

    def _on_spawned(self, run: LiveRun, reply: Reply, again: bool) -> None:
        if self.run is not run:
            return
        if not reply.get("ok"):
            self._on_spawn_error(reply.get("error") or {})
            return
        run.pid, run.start_time = reply["pid"], reply.get("start_time")
        run.started_at = reply.get("started_at") or run.started_at
        run.enforced = frozenset(reply.get("enforced") or ())
        self._environment.recorder.run_started(
            run.as_open(self.name, self._environment.keeper.boot_id)
        )
        self._event(Kind.PROCESS_STARTED, pid=run.pid, number=run.number, restarted=again)
        if self.state is State.STARTING:
            self._waiters.started(self.outcome, only_impatient=True)
            self._await_stay(run, self.declaration.spec.start_seconds)
        self._environment.observers.run_began(self)

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
        if self.run is not run or run.main_gone:
            return
        self._has_stayed = True
        if self.condition.is_started is False or not self._move(Cause.STAYED_UP):
            return
        self.counters = replace(self.counters, start_failures=0)
        if self.condition.is_ready is not False:
            self._waiters.started(self.outcome)
        self._await_stability(run, self.declaration.spec.restart.reset_after)

    def _await_stability(self, run: LiveRun, seconds: float) -> None:
        if self.counters == Counters():
            return

        def is_stable() -> None:
            self._reset_timer = None
            if self.run is run and not run.main_gone:
                self.counters = Counters()
                self._event(Kind.STABLE, pid=run.pid)
                self.save()

        if self._reset_timer is not None:
            self._reset_timer.cancel()
        self._reset_timer = self._environment.call_later(max(0.0, seconds), is_stable)

    # Small things

    def _freeze(self, cause: Cause, word: str, done: str, nothing: str) -> asyncio.Future[Outcome]:
        if next_state(self.state, cause) is None:
            return self._waiters.at_once(self.outcome(nothing))
        run, run_id = self.run, self.live_run_id()
        future: asyncio.Future[Outcome] = self._waiters.new_future()

        def on_reply(reply: Reply) -> None:
            if reply.get("ok") and self.run is run and self.state in ALIVE:
                self._move(cause)
                outcome = self.outcome(done)
            else:
                error = reply.get("error") or {}
                outcome = self.outcome("failed", error.get("message") or "it ended meanwhile")
            if not future.done():
                future.set_result(outcome)

        self._environment.keeper.request({"do": word, "run_id": run_id}, on_reply)
        return future

    def _move(self, cause: Cause) -> bool:
        """Apply a cause; true if the state changed."""
        before = self.state
        after = next_state(before, cause)
        if after is None:
            return False
        self.state, self.since = after, self._environment.clock.time()
        self.next_start_at = None
        data = {"from": before.value, "to": after.value, "cause": cause.value}
        if after is State.FAILED and self.reason:
            data["reason"] = self.reason
        self._event(Kind.TRANSITION, **data)
        self._waiters.changed()
        self._environment.observers.changed(self)
        self.save()
        return True

    def _want(self, desired: Desired, *, by_hand: bool = False) -> None:
        is_off = desired is Desired.STOPPED
        self.desired, self.stopped_by_hand = desired, is_off and (by_hand or self.stopped_by_hand)
        self._publish_desired(ENDED if is_off and not self.stopped_by_hand else desired.value)
        self.save()
