"""What a new supervisor makes of a service, whatever the moment at which the earlier one died."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from holdfast.rules.lifecycle import restoring
from holdfast.rules.lifecycle.restoring import (
    Continuation,
    Fate,
    FoundRun,
    Restoration,
    Snapshot,
    UnseenExit,
    exits_aside,
    fate_of_survivor,
    own_run,
    restore,
)
from holdfast.vocabulary.states import ALIVE, LIVE_STATES, Desired, State

RUN, OLDER = "run-2", "run-1"
RUNS: dict[str, FoundRun | None] = {
    "none": None,
    "young": FoundRun(run_id=RUN, age_seconds=0.5),
    "old": FoundRun(run_id=RUN, age_seconds=5.0),
    "starting up": FoundRun(run_id=RUN, age_seconds=5.0, is_starting_up=True),
    "paused": FoundRun(run_id=RUN, age_seconds=5.0, is_paused=True),
    "ending": FoundRun(run_id=RUN, age_seconds=5.0, is_ending=True),
}
EXITS: dict[str, tuple[UnseenExit, ...]] = {
    "none": (),
    "older": (UnseenExit(run_id=OLDER, seconds=9.0),),
    "quick": (UnseenExit(run_id=RUN, seconds=0.5),),
    "late": (UnseenExit(run_id=RUN, seconds=9.0),),
    "asked for": (UnseenExit(run_id=RUN, seconds=9.0, was_asked_for=True),),
    "both": (UnseenExit(run_id=OLDER, seconds=9.0), UnseenExit(run_id=RUN, seconds=9.0)),
}
FLAGS = (False, True)
Moment = tuple[Snapshot, FoundRun | None, tuple[UnseenExit, ...]]


def moments() -> Iterator[Moment]:
    """Every moment at which a supervisor can die, as far as the rule looks."""
    for state, desired, is_due, awaits, scheduled, is_counted, has_verdict in product(
        State, Desired, FLAGS, FLAGS, FLAGS, FLAGS, FLAGS
    ):
        snapshot = Snapshot(
            state=state,
            desired=desired,
            is_start_due=is_due,
            awaits_schedule=awaits,
            has_schedule=scheduled,
            accounted=RUN if is_counted else None,
            has_verdict=has_verdict,
        )
        for run, exits in product(RUNS.values(), EXITS.values()):
            if not (is_counted and any(ended.run_id == RUN for ended in exits)):
                yield snapshot, run, exits


def test_every_moment_of_death_is_decided_soundly() -> None:
    """Each promise of the rule, at each of these moments."""
    count = 0
    for snapshot, run, exits in moments():
        restored = restore(snapshot, run, exits)
        told = f"{snapshot} {run} {exits} -> {restored}"
        count += 1
        has_ended = bool(exits) and exits[-1].run_id == RUN
        assert (restored.step is Continuation.HANDLE_EXIT) == (
            bool(exits) and (run is None or has_ended)
        ), f"an exit that is the newest of all is handled, and no other: {told}"
        if run is not None:
            assert restored.step not in (Continuation.START, Continuation.FINISH_STOP), (
                f"one run: {told}"
            )
        if run is None:
            assert restored.step not in (
                Continuation.WATCH_RUN,
                Continuation.AWAIT_END,
                Continuation.AWAIT_TREE,
            ), told
        if restored.step is Continuation.START:
            assert snapshot.desired is Desired.RUNNING, f"started though unwanted: {told}"
            assert restored.state not in LIVE_STATES, told
        if restored.step is Continuation.REST:
            assert restored.state not in LIVE_STATES, f"nothing moves it on: {told}"
        if restored.step is Continuation.BACK_OFF:
            assert restored.state is State.BACKOFF, told
        if restored.step is Continuation.WATCH_RUN:
            assert restored.state in ALIVE, told
        if restored.step in (Continuation.AWAIT_END, Continuation.FINISH_STOP):
            assert restored.state is State.STOPPING, told
    assert count > 10_000


def test_who_was_to_run_is_never_forgotten() -> None:
    """Wanted, with no process left and nothing settled: it is started, or a restart is planned."""
    for snapshot, run, exits in moments():
        is_settled = snapshot.state in (State.EXITED, State.FAILED) and not snapshot.is_start_due
        rests = snapshot.awaits_schedule or snapshot.has_schedule
        is_wanted = snapshot.desired is Desired.RUNNING and not is_settled and not rests
        if run is None and not exits and is_wanted:
            step = restore(snapshot, run, exits).step
            assert step in (Continuation.START, Continuation.BACK_OFF, Continuation.FINISH_STOP), (
                snapshot,
                step,
            )


def test_an_end_as_a_failure_is_concluded_as_one() -> None:
    """Nobody saw the end of a run with a verdict: the restart policy decides, not a plain start."""
    for snapshot, run, exits in moments():
        if run is None and not exits and snapshot.state in LIVE_STATES and snapshot.has_verdict:
            found = restore(snapshot, run, exits)
            assert found == Restoration(State.STOPPING, Continuation.FINISH_STOP)


@pytest.mark.parametrize(
    ("run", "state", "has_stayed"),
    [
        ("ending", State.STOPPING, False),
        ("paused", State.PAUSED, False),
        ("young", State.STARTING, False),
        ("starting up", State.STARTING, True),
        ("old", State.RUNNING, False),
    ],
)
def test_a_live_run_tells_its_state(run: str, state: State, has_stayed: bool) -> None:
    """A new supervisor derives the state from what the keeper says of the run."""
    found = restore(Snapshot(state=State.PENDING), RUNS[run], ())
    assert (found.state, found.has_stayed) == (state, has_stayed)


@pytest.mark.parametrize(
    ("state", "desired", "exit_", "before"),
    [
        (State.RUNNING, Desired.RUNNING, "late", State.RUNNING),
        (State.RUNNING, Desired.RUNNING, "quick", State.STARTING),
        (State.RUNNING, Desired.RUNNING, "asked for", State.STOPPING),
        (State.RUNNING, Desired.STOPPED, "late", State.STOPPING),
        (State.STOPPING, Desired.RUNNING, "late", State.STOPPING),
    ],
)
def test_an_unseen_exit_happened_in_a_state(
    state: State, desired: Desired, exit_: str, before: State
) -> None:
    """A stop that was asked for is none of the service's failures, whatever the database knew."""
    found = restore(Snapshot(state=state, desired=desired), None, EXITS[exit_])
    assert found == Restoration(before, Continuation.HANDLE_EXIT)


@pytest.mark.parametrize("state", State)
def test_leftovers_hold_up_everything(state: State) -> None:
    """The exit is counted and its tree is not gone: nothing is started, a back-off goes on."""
    snapshot = Snapshot(state=state, desired=Desired.RUNNING, is_start_due=True, accounted=RUN)
    found = restore(snapshot, RUNS["ending"], ())
    if state is State.BACKOFF:
        assert found == Restoration(State.BACKOFF, Continuation.BACK_OFF)
    else:
        assert found.step is Continuation.AWAIT_TREE
        assert found.state is (State.STOPPING if state in LIVE_STATES else state)


@pytest.mark.parametrize(
    ("word", "desired", "by_hand", "state"),
    [
        ("running", Desired.RUNNING, False, State.STARTING),
        ("stopped", Desired.STOPPED, True, State.STOPPED),
        ("ended", Desired.STOPPED, False, State.STOPPED),
        ("pending", Desired.RUNNING, False, State.PENDING),
        ("exited", Desired.RUNNING, False, State.EXITED),
        ("failed", Desired.RUNNING, False, State.FAILED),
    ],
)
def test_the_words_in_the_memory_of_the_keeper(
    word: str, desired: Desired, by_hand: bool, state: State
) -> None:
    """Without the database, the word alone tells what is wanted and where the service stands."""
    assert restoring.desired_of(word) == (desired, by_hand)
    assert restoring.state_of(word) is state


@pytest.mark.parametrize(
    ("runs", "leaving", "own", "second"),
    [
        ([], None, None, None),
        (["1"], None, "1", None),
        (["1"], "1", "1", None),
        (["1", "2"], "2", "1", "2"),
        (["1", "2"], "1", "2", "1"),
        (["1", "2"], None, "1", "2"),
    ],
)
def test_one_of_two_runs_is_to_go(
    runs: list[str], leaving: str | None, own: str | None, second: str | None
) -> None:
    """The candidate leaves, unless it has replaced the older one already."""
    assert own_run(runs, leaving) == (own, second)


def test_only_an_exit_beside_another_run_does_not_count() -> None:
    """A run that was to go and was the only one left is the service's own."""
    assert exits_aside(["1"], "1", has_run=True) == ["1"]
    assert exits_aside(["1", "2"], "1", has_run=False) == ["1"]
    assert exits_aside(["1"], "1", has_run=False) == []
    assert exits_aside(["1"], "2", has_run=True) == []


@pytest.mark.parametrize(
    ("facts", "fate"),
    [
        ("", Fate.GO_ON),
        ("is_start_due", Fate.GO_ON),
        ("is_stop_wanted", Fate.STOP),
        ("is_off", Fate.STOP),
        ("is_ending", Fate.STOP),
        ("is_ending is_start_due", Fate.RESTART),
        ("is_ending is_start_due is_stop_wanted", Fate.RESTART),
    ],
)
def test_a_survivor_goes_on_unless_it_was_to_end(facts: str, fate: Fate) -> None:
    """A stop or a restart that was under way when everything died is finished."""
    names = ("is_stop_wanted", "is_off", "is_ending", "is_start_due")
    assert fate_of_survivor(**{name: name in facts.split() for name in names}) is fate
