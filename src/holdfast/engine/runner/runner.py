"""A runner that goes on with a process which it did not start itself.

After an earlier supervisor: puts together what the database remembers, what the keeper holds
and which exits nobody has accounted for. Every exit is counted once, whatever the moment at
which that supervisor died. And for a process that ran before anybody supervised it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.adapters.store.state_tables import ServiceRecord
from holdfast.engine.runner import exits
from holdfast.engine.runner.declaration import Kept
from holdfast.engine.runner.live_run import LastExit, LiveRun
from holdfast.engine.runner.relieved_runner import RelievedRunner
from holdfast.engine.runner.run_endings import Verdict
from holdfast.engine.runner.service import VERDICT
from holdfast.rules.lifecycle.restart import SPACING_SECONDS, Counters
from holdfast.rules.lifecycle.table import Cause, state_of_live_run
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.readers import reader
from holdfast.vocabulary.states import LIVE_STATES, Desired, State

_decode_verdict = reader(tuple[str, Verdict])


class Runner(RelievedRunner):
    """The same state machine, entered in the middle."""

    is_unsettled = False
    """Whether an earlier supervisor was still to start it, whatever its state says."""
    ending_run: str | None = None
    """The run that was being ended when keeper and supervisor died."""

    def recollect(self, record: ServiceRecord) -> None:
        """What the database says of it; of its run, the keeper knows nothing any more."""
        self.number, self.accounted = record.number, record.accounted
        self.stopped_by_hand, self.trace = record.stopped_by_hand, record.trace
        is_wanted = record.desired is Desired.RUNNING
        if record.state is State.STOPPING:
            self.ending_run, self.is_unsettled = record.run_id, is_wanted
        if is_wanted:
            self.scheduled_until = record.scheduled_until

    def recall(self, kept: Kept, run_id: str | None) -> None:
        """How its live run was started, as an earlier supervisor knew it."""
        self.overrides = kept.overrides
        is_that_run, trace = run_id == kept.launched_run, kept.trace
        self.launched = (is_that_run and kept.launched) or self.declaration.spec
        if trace is not None and trace.run_id == run_id:
            self.launched, self.trace = None, trace

    def restore(
        self,
        record: ServiceRecord | None,
        live: dict[str, Any] | None,
        unseen: list[dict[str, Any]],
    ) -> None:
        """Continue where an earlier supervisor was: its record, the keeper's run, its exits.

        `unseen` are exits not yet accounted for, oldest first.
        """
        if record is not None:
            self._restore_record(record)
        numbers = [facts.get("number") or 0 for facts in (*unseen, *([live] if live else []))]
        self.number = max([self.number, *numbers])
        if unseen and (live is None or live["run_id"] == unseen[-1]["run_id"]):
            self._replay(unseen, live)
            return
        for facts in unseen:
            self.account(facts)
        if live is None:
            self._restore_rest()
            return
        self.run = run = self._live(live)
        run.main_gone = self.accounted == run.run_id
        if run.main_gone:
            self._restore_rest()
        else:
            self._restore_live(run, live)

    def intend(self) -> None:
        """Want it as it is declared, before anybody starts it: if we die, a later one does."""
        if self.declaration.spec.schedule is not None:
            self.await_time()
        else:
            self._want(Desired.RUNNING)

    def adopt(self, run: dict[str, Any], *, is_survivor: bool) -> None:
        """Take over a process that already ran, as the keeper's RUN describes it."""
        assert self.run is None, "a process is adopted only by a service without one"
        self.run = live = self._live(run)
        live.adopted = True
        self._find_launched(live)
        if self.state is State.PENDING:
            self._move(Cause.ADOPT)
        else:
            self._cancel_timer()
            self._move(Cause.START)
            self._move(Cause.STAYED_UP)
        if run.get("paused"):
            self._move(Cause.PAUSE)
        self.reason = None
        self._want(Desired.RUNNING)
        self._environment.recorder.run_started(
            live.as_open(self.name, self._environment.keeper.boot_id)
        )
        self._event(Kind.SERVICE_ADOPTED, pid=live.pid, number=live.number, is_survivor=is_survivor)
        self._environment.observers.run_began(self)

    def _find_launched(self, live: LiveRun) -> None:
        """What an earlier Holdfast started it with: what is declared now, if it has its trace."""
        trace, self.launched = self.trace, None
        if trace is not None and trace.run_id != live.run_id:
            self.trace = None
        elif trace is not None and trace.fits(self.declaration.spec):
            self.launched = self.declaration.spec

    def record_aside(self, facts: dict[str, Any]) -> None:
        """The exit of a run that was beside another one: a fact, and no failure."""
        self.number = max(self.number, facts.get("number") or 0)
        understood = exits.understand(self.declaration.spec, facts)
        exits.record(self._environment.recorder, facts, understood, None)

    def _live(self, run: dict[str, Any]) -> LiveRun:
        live = LiveRun.of(run, self._environment.clock.monotonic())
        self.last_run_id = live.run_id
        self.number = max(self.number, live.number)
        self._recall_verdict()
        return live

    def _recall_verdict(self) -> None:
        """Whether an earlier supervisor was ending its last run as a failure."""
        try:
            run_id, verdict = _decode_verdict(
                self._environment.keeper.kept.get(VERDICT + self.name) or ""
            )
        except msgspec.MsgspecError:
            return
        if run_id == self.last_run_id:
            self._passed = verdict

    def _restore_record(self, record: ServiceRecord) -> None:
        self.desired, self.state = record.desired, record.state
        self.stopped_by_hand = record.stopped_by_hand
        self.since, self.reason = record.since, record.reason
        self.counters = Counters(record.restarts, record.failures, record.start_failures)
        self.number, self.last_run_id = record.number, record.run_id
        self.last_exit = LastExit(record.code, record.signal, record.seconds, record.log_bytes)
        self.accounted = record.accounted
        self.next_start_at = record.next_start_at
        self.scheduled_until = record.scheduled_until
        self.error_type = record.error_type

    def _restore_live(self, run: LiveRun, live: dict[str, Any]) -> None:
        spec, age = self.declaration.spec, live.get("age") or 0.0
        before, self.state = (
            self.state,
            state_of_live_run(
                is_ending=bool(live.get("ending")),
                is_paused=bool(live.get("paused")),
                age_seconds=age,
                start_seconds=spec.start_seconds,
            ),
        )
        self.condition = self._kept_condition(run.run_id)
        if self.state is State.RUNNING and self.condition.is_started is False:
            self.state, self._has_stayed = State.STARTING, True
        if before is not self.state:
            self.since = self._environment.clock.time()
        self.reason, self.next_start_at = None, None
        if self.state is State.STARTING and not self._has_stayed:
            self._await_stay(run, spec.start_seconds - age)
        elif self.state is State.RUNNING:
            self._await_stability(run, spec.restart.reset_after - age)
        self._environment.recorder.run_started(
            run.as_open(self.name, self._environment.keeper.boot_id)
        )
        self.save()
        if self.state is State.STOPPING:
            self._await_end(run, live.get("end") or {})
        else:
            self._environment.observers.run_began(self)

    def _await_end(self, run: LiveRun, under_way: dict[str, Any]) -> None:
        """Ask again for an end that is under way, with what is left of its grace: a keeper that
        has given up tries anew, and tells."""
        if (grace := under_way.get("grace")) is not None:
            message = {"do": "end", "run_id": run.run_id, "grace": grace}
            self._environment.keeper.request(message, lambda reply: self._on_end_reply(run, reply))

    def _replay(self, unseen: list[dict[str, Any]], live: dict[str, Any] | None) -> None:
        """Let the newest exit pass as if its notice came now; the older ones only count."""
        for facts in unseen[:-1]:
            self.account(facts)
        facts = unseen[-1]
        seconds = facts.get("seconds") or 0.0
        self.run = self._live({**facts, "age": seconds} if live is None else live)
        is_off = self.state is State.STOPPING or self.desired is Desired.STOPPED
        if is_off or exits.was_asked_for(facts):
            # For a restart, its stop may be more than the database has heard of.
            self.state = State.STOPPING
        elif seconds < self.declaration.spec.start_seconds:
            self.state = State.STARTING
        else:
            self.state = State.RUNNING
        self.on_exit({**facts, "empty": live is None})
        if self.state is State.STOPPING and live is None:
            self._tree_gone([])

    def _restore_rest(self) -> None:
        """No main process lives: wait on, or make good what was cut short."""
        if self.state is State.BACKOFF:
            remaining = (self.next_start_at or 0.0) - self._environment.clock.time()
            limit = max(self.declaration.spec.restart.max_delay, SPACING_SECONDS)
            remaining = max(0.0, min(remaining, limit))
            self.due_mono = self._environment.clock.monotonic() + remaining
            self._set_timer(remaining, self._restart_due)
        elif self.state in LIVE_STATES:
            if self.run is not None:
                self.state = State.STOPPING
                return
            self._recall_verdict()
            if self.has_verdict:
                self.state = State.STOPPING
                self._tree_gone([])
                return
            self.state = State.STOPPED
            if self.desired is Desired.RUNNING and not self.awaits_schedule:
                self._begin(again=False)
            self.save()
        elif self.run is None and self.desired is Desired.RUNNING and self._is_to_start:
            # It was waiting for what it needs.
            self._begin(again=False)

    @property
    def _is_to_start(self) -> bool:
        if self.declaration.spec.schedule is not None:
            # It rests between its times; only a start that was asked for is made good.
            return self.is_unsettled
        return self.is_unsettled or self.state in (State.PENDING, State.STOPPED)
