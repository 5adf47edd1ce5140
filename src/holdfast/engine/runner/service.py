"""What is known of one service, and what others see of it.

Holds the facts; its child `ServiceRunner` alone writes them. Nothing here changes a state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.adapters.store.state_tables import ServiceRecord
from holdfast.engine.runner import views
from holdfast.engine.runner.declaration import Declaration, Overrides
from holdfast.engine.runner.environment import Environment, Timer
from holdfast.engine.runner.live_run import LastExit, LiveRun
from holdfast.engine.runner.waiters import NewFuture, Waiters
from holdfast.rules import health, plan
from holdfast.rules.admission.conditions import Prospect
from holdfast.rules.health import Condition
from holdfast.rules.lifecycle.restart import Counters, Ending
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.readers import reader
from holdfast.vocabulary.services import Outcome, ServiceStatus
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import Desired, ErrorType, State

if TYPE_CHECKING:
    from holdfast.engine.runner.overlap import Overlap

Report = list[dict[str, Any]]
_CONDITION = "condition:"
VERDICT = "sentence:"
PORTS = "ports:"
ENDED = "ended"
"""In the keeper's memory: wanted stopped, but not by hand."""
_decode_ports = reader(dict[str, int])
_decode_condition = reader(tuple[str, Condition])
_set = object.__setattr__


class Service:
    """The facts of one service."""

    overrides: Overrides | None = None
    launched: ServiceSpec | None = None
    """What the live run was started with; None: that is not known."""
    trace: plan.Trace | None = None
    """What is left of that, where it is not known."""
    state = State.PENDING
    desired = Desired.STOPPED
    stopped_by_hand = False
    """It was stopped by hand, and nobody has wanted it since."""
    reason: str | None = None
    counters = Counters()
    number = 0
    run: LiveRun | None = None
    """Not None while any process of a run may exist: nothing may be started then."""
    overlap: Overlap | None = None
    """A second run, while one relieves another."""
    last_run_id: str | None = None
    last_exit = LastExit()
    in_doubt: str | None = None
    """Why nothing is started: a process may be an earlier run of it, which nobody can tell."""
    is_retiring = False
    """While Holdfast shuts down nothing is started."""
    is_leaving = False
    """It is being stopped to be removed: of several instances, nobody waits for this one."""
    is_removed = False
    """Nobody knows it any more: nothing will change."""
    accounted: str | None = None
    """The run whose exit the counters include already."""
    next_start_at: float | None = None
    """Wall time, for people and for the next supervisor; `due_mono` is what counts here."""
    due_mono = 0.0
    awaits_schedule = False
    """It is wanted, but not before the next time of its schedule."""
    next_scheduled: float | None = None
    """When its schedule starts it next, if it is wanted."""
    scheduled_until: float | None = None
    """All times of its schedule up to here are settled."""
    condition = Condition()
    """What the probes say of the current run."""
    waiting_for: tuple[str, ...] = ()
    """Why a start that is wanted has not begun, in words; nothing: it waits for nobody."""
    prospect: Prospect | None = None
    """How soon it may begin, while it waits."""
    scaled: str | None = None
    """That the number of its siblings is not the configured one, in words."""
    owner: Owner | None = None
    """The session that it runs for; None: it is the user's."""
    error_type: ErrorType | None = None
    """What kind of trouble ended the last run."""
    shown: views.Shown | None = None
    """Its status, as it was built last; every change of a fact drops it."""
    _published: str | None = None
    _timer: Timer | None = None
    _reset_timer: Timer | None = None
    _is_due = False
    _has_stayed = False
    _is_unkillable = False
    _passed: Any = None
    _cause_of_stop: Ending | None = None
    """The trouble for which it is being stopped."""

    def __init__(
        self, declaration: Declaration, environment: Environment, *, new_future: NewFuture
    ) -> None:
        self.name = declaration.spec.name
        self.declaration = declaration
        self.since = environment.clock.time()
        self.ports = _kept_ports(environment.keeper.kept.get(PORTS + self.name))
        """The ports that are leased for it; None: it wants none."""
        self._environment = environment
        self._waiters = Waiters(new_future)

    if not TYPE_CHECKING:  # or a checker would take any name for a fact

        def __setattr__(self, name: str, value: object) -> None:
            if self.shown is not None:
                _set(self, "shown", None)
            _set(self, name, value)

    def status(self) -> ServiceStatus:
        return views.status_of(self, self._environment.clock.monotonic())

    def outcome(
        self, verb: str, reason: str | None = None, report: Report | None = None
    ) -> Outcome:
        return views.outcome_of(self, verb, reason, report)

    def record(self) -> ServiceRecord:
        """What a later supervisor has to know."""
        return views.record_of(self)

    def hold_back(self, waiting_for: tuple[str, ...], prospect: Prospect) -> None:
        """Its start may not begin yet. Who asked for it waits on only where that makes sense."""
        self.waiting_for = waiting_for
        # With the same prospect, those who asked earlier have their answer.
        if prospect > Prospect.BRIEF and (
            prospect is not self.prospect or self._waiters.has_new_starters
        ):
            self._answer_waiting(f"it waits for {' and '.join(waiting_for)}", prospect)
        if prospect is self.prospect:
            return
        was_brief, self.prospect = self.prospect in (None, Prospect.BRIEF), prospect
        if was_brief and prospect > Prospect.BRIEF:
            self._event(Kind.SERVICE_WAITING, waiting_for=list(waiting_for))
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

    def unfinished(self) -> Outcome:
        """For those whose patience ends before its start does."""
        if self.waiting_for:
            awaited = " and ".join(self.waiting_for)
        elif self.state is State.STOPPING:
            awaited = "its old run to end"
        else:
            return self.outcome("waiting", f"it waits to be ready (it is {self.state.value})")
        return self.outcome("waiting", f"it waits for {awaited}")

    def _stop_waiting(self) -> None:
        self.waiting_for, self.prospect = (), None

    def next_change(self) -> asyncio.Future[None]:
        """Done at the next change of state."""
        return self._waiters.await_change()

    def live_run_id(self) -> str:
        """The run that requests can reach; raises Failed when there is none."""
        if self.run is None or not self.run.is_up:
            raise Failed(
                f"{self.name} is not running ({self.state.value})",
                f"`holdfast start {self.name}` starts it",
            )
        return self.run.run_id

    @property
    def has_processes(self) -> bool:
        """Whether any process of it may exist."""
        return self.run is not None or self.overlap is not None

    @property
    def is_outdated(self) -> bool:
        """Whether what runs would be another process if it were started now."""
        spec = self.declaration.spec
        if self.run is None:
            return False
        if self.launched is None and self.trace is not None and spec.origin != "adopted":
            return not self.trace.fits(spec)
        return plan.is_outdated(self.launched, spec)

    @property
    def has_verdict(self) -> bool:
        """Whether its live run is being ended as a failure of its own."""
        return self._verdict is not None

    @property
    def _verdict(self) -> Any:
        """Why its live run is being ended as a failure. Outlives this supervisor: the next one
        must not take that end for a restart that somebody asked for."""
        return self._passed

    @_verdict.setter
    def _verdict(self, verdict: Any) -> None:
        if verdict is not self._passed:
            self._passed = verdict
            kept = verdict and msgspec.json.encode((self.last_run_id, verdict)).decode()
            self._environment.keeper.keep(VERDICT + self.name, kept)

    def save(self) -> None:
        self._environment.recorder.save_service(self.name, self.record)

    def close(self) -> None:
        """Forget timers, and tell who waits; the service is of no further use."""
        self.is_removed = True
        self._cancel_timer()
        self._environment.admission.withdraw(self)
        self._environment.observers.removed(self)
        self._environment.keeper.keep(_CONDITION + self.name, None)
        self._verdict = None
        if self._reset_timer is not None:
            self._reset_timer.cancel()
        self._waiters.failed(self.outcome("failed", "it was removed"))
        self._waiters.changed()

    def _event(self, kind: Kind, **data: Any) -> None:
        self._environment.recorder.event(kind, self.name, self.last_run_id, **data)

    def _publish_desired(self, word: str) -> None:
        """Put what is wanted into the keeper's memory, in order with what is asked of it."""
        self.awaits_schedule = word == State.PENDING.value
        if word != self._published:
            self._published = word
            self._environment.keeper.keep(f"desired:{self.name}", word)

    def _keep_condition(self, run_id: str) -> None:
        """What was said once, and is not said again, outlives this supervisor."""
        kept = msgspec.json.encode((run_id, self.condition)).decode()
        self._environment.keeper.keep(_CONDITION + self.name, kept)

    def _kept_condition(self, run_id: str) -> Condition:
        """What an earlier supervisor knew of this run."""
        try:
            kept = self._environment.keeper.kept.get(_CONDITION + self.name)
            of_run, condition = _decode_condition(kept or "")
        except msgspec.MsgspecError:
            return health.initial(self.declaration.spec)
        return condition if of_run == run_id else health.initial(self.declaration.spec)

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._environment.call_later(seconds, callback)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _kept_ports(text: str | None) -> dict[str, int] | None:
    """What an earlier supervisor leased."""
    try:
        return _decode_ports(text) if text is not None else None
    except msgspec.MsgspecError:
        return None
