"""The lifecycle table: complete, exactly the legal steps, and honest about refusals."""

from __future__ import annotations

import pytest

from holdfast.rules.lifecycle.table import (
    IGNORED,
    LEGAL,
    REFUSED,
    TABLE,
    Cause,
    check,
    next_state,
)
from holdfast.vocabulary.errors import InvalidTransition
from holdfast.vocabulary.states import State

NAMED = "pending>starting starting>running starting>failed running>paused running>stopping "
NAMED += "paused>running paused>stopping stopping>stopped "
ADDED = "running>exited running>failed starting>stopping stopping>failed failed>backoff "
ADDED += "exited>backoff backoff>starting stopped>starting failed>starting exited>starting "
ADDED += "pending>stopped "
EXTRA = "backoff>stopped backoff>failed paused>exited paused>failed starting>exited pending>running"


def test_every_pair_is_decided_exactly_once() -> None:
    """Each (state, cause) moves, is ignored, or is refused: never two, never none."""
    for state in State:
        for cause in Cause:
            pair = (state, cause)
            decided = [pair in TABLE, pair in IGNORED, pair in REFUSED]
            assert sum(decided) == 1, f"{state.value} + {cause.value}: {decided}"


def test_the_legal_steps_are_those_of_the_specification() -> None:
    """Eight named steps, eleven for crashes and restarts, six extra ones; no other."""
    steps = {tuple(map(State, step.split(">"))) for step in (NAMED + ADDED + EXTRA).split()}
    assert steps == LEGAL
    assert len(steps) == 25


def test_an_illegal_step_names_both_states() -> None:
    """`Invalid transition: a->b`, with the true `from`."""
    with pytest.raises(InvalidTransition, match="Invalid transition: stopped->paused"):
        check(State.STOPPED, State.PAUSED)
    with pytest.raises(InvalidTransition, match="Invalid transition: starting->paused") as caught:
        next_state(State.STARTING, Cause.PAUSE)
    assert caught.value.details == {"from": "starting", "to": "paused"}
    assert caught.value.hint


def test_every_refusal_aims_at_a_step_that_is_not_legal_or_not_caused() -> None:
    """A refusal never hides a step that the table would have allowed for that cause."""
    for (state, cause), (target, hint) in REFUSED.items():
        assert (state, cause) not in TABLE
        assert hint, f"{state} {cause} -> {target}"
