"""What a new supervisor makes of a service that an earlier one left. Pure; no clock, no I/O.

Values go in: what was last known of the service, the run that the keeper holds, and the exits
that nobody has counted yet. A decision comes out, and `engine.runner.runner` carries it out.
Whatever the moment at which the earlier supervisor died, every exit is counted once, a second
run is never started beside a live one, and a start or a stop that was cut short is finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from holdfast.vocabulary.states import LIVE_STATES, Desired, State

ENDED = "ended"
"""In the keeper's memory: the service is to be stopped, but nobody stopped it by hand."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was last known of a service."""

    state: State = State.PENDING
    desired: Desired = Desired.STOPPED
    is_start_due: bool = False
    """Whether the keeper's memory says that it is to run, whatever its state says."""
    awaits_schedule: bool = False
    """Whether it is wanted, but not before the next time of its schedule."""
    has_schedule: bool = False
    start_seconds: float = 1.0
    accounted: str | None = None
    """The run whose exit the counters include already."""
    has_verdict: bool = False
    """Whether its newest run was being ended as a failure."""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the keeper holds."""

    run_id: str
    is_ending: bool = False
    is_paused: bool = False
    age_seconds: float = 0.0
    is_starting_up: bool = False
    """Whether its startup probe has not passed yet."""


class UnseenExit(msgspec.Struct, frozen=True, kw_only=True):
    """An exit that the keeper has journalled and nobody has counted."""

    run_id: str
    seconds: float = 0.0
    was_asked_for: bool = False


class Continuation(Enum):
    """How the service goes on from the restored state."""

    REST = "nothing is to be done"
    WATCH_RUN = "the live run goes on"
    AWAIT_END = "the live run is being ended, and its end is asked for again"
    AWAIT_TREE = "the main process is gone, and the rest of its tree is awaited"
    BACK_OFF = "the planned restart is waited for"
    HANDLE_EXIT = "the newest exit is handled as if its notice came now"
    FINISH_STOP = "no process is left, and the end of the run is concluded"
    START = "a start that was cut short is made good"


class Restoration(msgspec.Struct, frozen=True):
    """The state that a service resumes in, and the step that follows."""

    state: State
    step: Continuation
    has_stayed: bool = False
    """Whether the live run has been up for its `start_seconds`, and only its probe is awaited."""


def restore(snapshot: Snapshot, run: FoundRun | None, exits: Sequence[UnseenExit]) -> Restoration:
    """Decide how a service goes on. `exits` are ordered by the number of their runs.

    With HANDLE_EXIT, the exits before the newest one only count; with every other step all do.
    """
    if exits and (run is None or run.run_id == exits[-1].run_id):
        return Restoration(_state_before(snapshot, exits[-1]), Continuation.HANDLE_EXIT)
    if run is None:
        return _without_process(snapshot)
    if not exits and snapshot.accounted == run.run_id:
        return _with_leftovers(snapshot)
    return _with_run(snapshot, run)


def _state_before(snapshot: Snapshot, newest: UnseenExit) -> State:
    """The state in which the newest exit happened."""
    is_off = snapshot.state is State.STOPPING or snapshot.desired is Desired.STOPPED
    if is_off or newest.was_asked_for:
        # The database may not have heard of the restart that this stop was part of.
        return State.STOPPING
    return State.STARTING if newest.seconds < snapshot.start_seconds else State.RUNNING


def _without_process(snapshot: Snapshot) -> Restoration:
    state, is_wanted = snapshot.state, snapshot.desired is Desired.RUNNING
    if state is State.BACKOFF:
        return Restoration(state, Continuation.BACK_OFF)
    if state in LIVE_STATES:
        if snapshot.has_verdict:
            return Restoration(State.STOPPING, Continuation.FINISH_STOP)
        is_started = is_wanted and not snapshot.awaits_schedule
        return Restoration(State.STOPPED, Continuation.START if is_started else Continuation.REST)
    # Between its times a scheduled service rests; only a start that was asked for is made good.
    is_at_rest = not snapshot.has_schedule and state in (State.PENDING, State.STOPPED)
    if is_wanted and (snapshot.is_start_due or is_at_rest):
        return Restoration(state, Continuation.START)
    return Restoration(state, Continuation.REST)


def _with_leftovers(snapshot: Snapshot) -> Restoration:
    """The main process ended and was counted; the keeper is still ending the rest."""
    if snapshot.state is State.BACKOFF:
        return Restoration(snapshot.state, Continuation.BACK_OFF)
    state = State.STOPPING if snapshot.state in LIVE_STATES else snapshot.state
    return Restoration(state, Continuation.AWAIT_TREE)


def _with_run(snapshot: Snapshot, run: FoundRun) -> Restoration:
    if run.is_ending:
        return Restoration(State.STOPPING, Continuation.AWAIT_END)
    if run.is_paused:
        return Restoration(State.PAUSED, Continuation.WATCH_RUN)
    if run.age_seconds < snapshot.start_seconds:
        return Restoration(State.STARTING, Continuation.WATCH_RUN)
    if run.is_starting_up:
        return Restoration(State.STARTING, Continuation.WATCH_RUN, has_stayed=True)
    return Restoration(State.RUNNING, Continuation.WATCH_RUN)


def desired_of(word: str) -> tuple[Desired, bool]:
    """The desired state by its word in the keeper's memory, and whether it was set by hand."""
    by_hand = word == Desired.STOPPED.value
    return (Desired.STOPPED if by_hand or word == ENDED else Desired.RUNNING), by_hand


def state_of(word: str) -> State:
    """The state of a service of which nothing but its word in the keeper's memory is known.

    `running` is to be started; `exited` and `failed` are settled.
    """
    if word == ENDED:
        return State.STOPPED
    state = State(word)
    return State.STARTING if state is State.RUNNING else state


def own_run(run_ids: Sequence[str], leaving: str | None) -> tuple[str | None, str | None]:
    """Of a service's runs, ordered by number: its own, and the one beside it that has to go."""
    own = second = None
    for run_id in run_ids:
        if own is None:
            own = run_id
        elif own == leaving:
            own, second = run_id, own
        else:
            second = run_id
    return own, second


def exits_aside(run_ids: Sequence[str], leaving: str | None, *, has_run: bool) -> list[str]:
    """Of the runs that ended unseen, those that do not count: they were to go while another run
    stayed. `has_run`: a run of the service lives."""
    is_beside = has_run or any(run_id != leaving for run_id in run_ids)
    return [run_id for run_id in run_ids if run_id == leaving and is_beside]


class Fate(Enum):
    """What becomes of a process that outlived both keeper and supervisor, once it is adopted."""

    GO_ON = "it goes on"
    STOP = "it is stopped"
    RESTART = "it is restarted"


def fate_of_survivor(
    *, is_stop_wanted: bool, is_off: bool, is_ending: bool, is_start_due: bool
) -> Fate:
    """Decide about a survivor.

    `is_stop_wanted`: the service declares that survivors are stopped. `is_off`: it was stopped by
    hand. `is_ending`: the run was being ended when keeper and supervisor died, so it has its signal
    and may end at any time. `is_start_due`: it was to be started after that end.
    """
    if is_ending and is_start_due:
        return Fate.RESTART
    return Fate.STOP if is_stop_wanted or is_off or is_ending else Fate.GO_ON
