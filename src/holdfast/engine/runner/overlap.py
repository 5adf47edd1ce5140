"""A second run of a service beside its own: on trial, then in its place; or on its way out.

The only exception to «one run at a time», and an explicit one: the runner holds at most one
overlap, and starts nothing while one of its runs is being ended. A run on trial that does not
become ready is ended, and the service's own run never notices. Told by the health monitor
what the probes say of the run on trial. How a relieved run ends is no failure.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.adapters.run_ids import new_run_id
from holdfast.engine.runner import exits
from holdfast.engine.runner.declaration import Declaration, spawn_message
from holdfast.engine.runner.environment import Environment, Reply, Timer
from holdfast.engine.runner.live_run import LiveRun
from holdfast.rules import health
from holdfast.rules.health import Condition
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import State

if TYPE_CHECKING:
    from holdfast.engine.runner.relieved_runner import RelievedRunner

KEPT = "overlap:"
_decode = msgspec.json.Decoder(dict[str, str]).decode


def leaving(kept: dict[str, str], service: str) -> str | None:
    """Of two runs that a supervisor left behind, the one that has to go: the new one, unless
    it had taken the place of the old one already."""
    try:
        return _decode(kept[KEPT + service]).get("leaving") if KEPT + service in kept else None
    except msgspec.MsgspecError:
        return None


class Overlap:
    """Two runs of one service, for a while."""

    def __init__(self, runner: RelievedRunner, environment: Environment, run: LiveRun) -> None:
        self.runner = runner
        self.run = run
        """The second run: the one on trial, or the one that is being ended."""
        self.is_ending = False
        self._environment = environment
        self._is_end_asked = False
        self._has_stayed = False
        self._is_proven = False
        self._failure: str | None = None
        self._timers: list[Timer] = []
        self.future: asyncio.Future[Outcome] | None = None
        # What probes ask of a runner.
        self.name: str = runner.name
        self.declaration: Declaration = runner.declaration
        self.launched: ServiceSpec = runner.declaration.spec
        self.overrides = None
        self.ports = runner.ports
        self.number = run.number
        self.condition = health.initial(self.launched)
        self.state = State.STARTING

    def facts(self) -> dict[str, Any]:
        """The second run, as others see it."""
        return {"run": self.run.number, "pid": self.run.pid, "leaving": self.is_ending}

    # Beginning

    def begin(self, ready_seconds: float) -> asyncio.Future[Outcome]:
        """Ask for the run on trial; answered when one of the two runs is gone."""
        self.future = self.runner.new_future()
        run = self.run
        message = spawn_message(self.declaration, None, run.run_id, run.number)
        self._keep(run)
        self._environment.observers.candidate_spawning(self, message)
        self._environment.keeper.request(
            message, lambda reply: self._on_spawned(reply, ready_seconds)
        )
        self._tell("begun", number=run.number)
        return self.future

    def _on_spawned(self, reply: Reply, ready_seconds: float) -> None:
        run = self.run
        if not reply.get("ok"):
            error = reply.get("error") or {}
            why = str(error.get("message") or "the keeper could not start it")
            self._failure = f"the new run failed: {why}"
            self._gone()
            return
        run.pid, run.start_time = reply["pid"], reply.get("start_time")
        run.started_at = reply.get("started_at") or run.started_at
        run.enforced = frozenset(reply.get("enforced") or ())
        self._environment.recorder.run_started(
            run.as_open(self.name, self._environment.keeper.boot_id)
        )
        facts = {"pid": run.pid, "number": run.number, "restarted": True, "beside": True}
        self._event(Kind.PROCESS_STARTED, run, **facts)
        if self.is_ending:
            self._end(None)
            return
        seconds = self.launched.start_seconds
        self._timers = [
            self._environment.call_later(seconds, self._stayed_up),
            self._environment.call_later(
                seconds + ready_seconds, lambda: self._late(ready_seconds)
            ),
        ]
        self._environment.observers.candidate_began(self)

    # What is said of the run on trial

    def judge(self, condition: Condition) -> None:
        self.condition = condition
        self._look()

    def tell_unready(self, reason: str) -> None:
        self.fail(f"not ready: {reason}")

    def end_as_failure(self, cause: str, reason: str, grace: float | None = None) -> bool:
        self.fail(reason)
        return True

    def remedy(self, cause: str, recovery: object, reason: str) -> None:
        """What the service wants done about a cause is for the run in its place."""

    def _stayed_up(self) -> None:
        self._has_stayed = True
        self._look()

    def _late(self, seconds: float) -> None:
        self.fail(f"it is not ready after {seconds:g} s")

    def _look(self) -> None:
        condition = self.condition
        is_ready = condition.is_started is not False and condition.is_ready is not False
        if self._has_stayed and is_ready and not self.is_ending:
            self._is_proven = True
            self.runner.promote_candidate()

    # Taking the place

    @property
    def is_proven(self) -> bool:
        return self._is_proven and not self.is_ending

    def promoted(self, old: LiveRun | None) -> None:
        """Its run is the service's own now; what was is to go."""
        self._cancel_timers()
        self._environment.observers.candidate_over(self)
        self._tell("promoted", number=self.run.number, pid=self.run.pid)
        self.is_ending = True
        if old is None:
            self._gone()
            return
        self.run = old
        self._keep(old)
        if old.main_gone and old.is_empty:
            self._gone()
        else:
            self._end(None)

    # Ending

    def fail(self, reason: str) -> None:
        """The run on trial is no good: it goes, and the other one stays."""
        if not self.is_ending:
            self._failure = f"the new run failed: {reason}"
            self._tell("failed", number=self.run.number, reason=reason)
            self.end(None)

    def end(self, grace: float | None) -> None:
        """End the second run, whichever it is."""
        was_ending, self.is_ending = self.is_ending, True
        if not was_ending:
            self._failure = self._failure or "a later request ended the new run"
            self._cancel_timers()
            self._environment.observers.candidate_over(self)
        if self.run.pid is not None and (not was_ending or grace is not None):
            self._end(grace)

    def adopt_ending(self) -> None:
        """A run that an earlier supervisor left beside the other one."""
        self.is_ending = True
        self._end(None)

    def owns(self, run_id: str) -> bool:
        return self.run.run_id == run_id

    def on_exit(self, facts: dict[str, Any]) -> None:
        """Its main process ended: a fact for the history, not for the counters."""
        run = self.run
        if run.main_gone:
            return
        run.main_gone, run.is_empty = True, bool(facts.get("empty", True))
        understood = exits.understand(self.launched, facts)
        exits.record(self._environment.recorder, facts, understood, None)
        self.fail(understood.reason)
        if run.is_empty and not self._is_end_asked:
            self._gone()

    def on_ended(self, notice: dict[str, Any]) -> None:
        report = notice.get("report") or []
        self._event(Kind.TREE_ENDED, self.run, report=report, seconds=notice.get("seconds"))
        if notice.get("empty", True):
            self._gone()
        else:
            self._failure = "processes are left that could not be killed"
            self._answer()

    def _end(self, grace: float | None) -> None:
        self._is_end_asked = True
        run = self.run
        message: dict[str, Any] = {"do": "end", "run_id": run.run_id}
        if grace is not None:
            message["grace"] = grace
        self._environment.keeper.request(message, lambda reply: self._on_end_reply(run, reply))

    def _on_end_reply(self, run: LiveRun, reply: Reply) -> None:
        if reply.get("ok") or self.run is not run or self.runner.overlap is not self:
            return
        # The keeper no longer has it: its exit notice came before this reply, or never will.
        self._is_end_asked = False
        if not run.main_gone:
            clock = self._environment.clock
            self.on_exit(run.unknown_exit(self.name, clock.time(), clock.monotonic()))
        elif run.is_empty:
            self._gone()

    def _gone(self) -> None:
        self._cancel_timers()
        self._environment.keeper.keep(KEPT + self.name, None)
        self.runner.second_gone(self)
        self._answer()

    def _answer(self) -> None:
        if self.future is None or self.future.done():
            return
        runner = self.runner
        if self._failure is None:
            self.future.set_result(runner.outcome("restarted"))
            return
        own = runner.run
        stays = "; the old one goes on" if own is not None and own.is_up else ""
        self.future.set_result(runner.outcome("failed", self._failure + stays))

    def _keep(self, going: LiveRun) -> None:
        word = msgspec.json.encode({"leaving": going.run_id}).decode()
        self._environment.keeper.keep(KEPT + self.name, word)

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _tell(self, step: str, **facts: Any) -> None:
        self._event(Kind.OVERLAP, self.run, step=step, **facts)

    def _event(self, kind: Kind, run: LiveRun, **data: Any) -> None:
        self._environment.recorder.event(kind, self.name, run.run_id, **data)


def second_run(runner: RelievedRunner, environment: Environment) -> LiveRun:
    """A run with the next number; the service's own stays the newest that others see."""
    runner.number += 1
    clock = environment.clock
    return LiveRun(new_run_id(), runner.number, clock.time(), clock.monotonic())
