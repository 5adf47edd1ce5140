"""THE table: what each cause does to a service in each state. Pure; no clock, no I/O.

Every (state, cause) pair is decided here exactly once: the state changes, the cause is ignored,
or it is refused. `engine.runner.runner` alone applies the table. A state that is changed in
another way breaks the invariant that this module exists for.
"""

from __future__ import annotations

from enum import Enum

from holdfast.vocabulary.errors import InvalidTransition
from holdfast.vocabulary.states import State


class Cause(str, Enum):
    """Why a state may change: a request, a notice of the keeper, a timer or a decision."""

    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    ADOPT = "adopt"
    SPAWN_FAILED = "spawn failed"
    STAYED_UP = "stayed up"
    EXIT_SUCCESS = "exited successfully"
    EXIT_FAILURE = "exited with a failure"
    TREE_GONE = "no process left"
    UNKILLABLE = "could not be killed"
    ENDED_AS_FAILURE = "ended as a failure"
    RESTART_PLANNED = "restart planned"
    GIVEN_UP = "given up"


_S, _C = State, Cause

TABLE: dict[tuple[State, Cause], State] = {
    (_S.PENDING, _C.START): _S.STARTING,
    (_S.STOPPED, _C.START): _S.STARTING,
    (_S.FAILED, _C.START): _S.STARTING,
    (_S.EXITED, _C.START): _S.STARTING,
    (_S.BACKOFF, _C.START): _S.STARTING,
    (_S.PENDING, _C.STOP): _S.STOPPED,
    (_S.BACKOFF, _C.STOP): _S.STOPPED,
    (_S.STARTING, _C.STOP): _S.STOPPING,
    (_S.RUNNING, _C.STOP): _S.STOPPING,
    (_S.PAUSED, _C.STOP): _S.STOPPING,
    (_S.RUNNING, _C.PAUSE): _S.PAUSED,
    (_S.PAUSED, _C.RESUME): _S.RUNNING,
    (_S.PENDING, _C.ADOPT): _S.RUNNING,
    (_S.STARTING, _C.SPAWN_FAILED): _S.FAILED,
    (_S.STOPPING, _C.SPAWN_FAILED): _S.STOPPED,
    (_S.STARTING, _C.STAYED_UP): _S.RUNNING,
    (_S.STARTING, _C.EXIT_SUCCESS): _S.EXITED,
    (_S.RUNNING, _C.EXIT_SUCCESS): _S.EXITED,
    (_S.PAUSED, _C.EXIT_SUCCESS): _S.EXITED,
    (_S.STARTING, _C.EXIT_FAILURE): _S.FAILED,
    (_S.RUNNING, _C.EXIT_FAILURE): _S.FAILED,
    (_S.PAUSED, _C.EXIT_FAILURE): _S.FAILED,
    (_S.STOPPING, _C.TREE_GONE): _S.STOPPED,
    (_S.STOPPING, _C.UNKILLABLE): _S.FAILED,
    (_S.STOPPING, _C.ENDED_AS_FAILURE): _S.FAILED,
    (_S.FAILED, _C.RESTART_PLANNED): _S.BACKOFF,
    (_S.EXITED, _C.RESTART_PLANNED): _S.BACKOFF,
    (_S.BACKOFF, _C.GIVEN_UP): _S.FAILED,
}

LEGAL: frozenset[tuple[State, State]] = frozenset(
    (before, after) for (before, _), after in TABLE.items()
)

# Idempotent requests, and notices or timers that a newer cause has made irrelevant.
IGNORED: frozenset[tuple[State, Cause]] = frozenset(
    [(state, _C.START) for state in (_S.STARTING, _S.RUNNING, _S.PAUSED, _S.STOPPING)]
    + [(state, _C.STOP) for state in (_S.STOPPING, _S.STOPPED, _S.FAILED, _S.EXITED)]
    + [(_S.PAUSED, _C.PAUSE), (_S.RUNNING, _C.RESUME)]
    + [(state, _C.STAYED_UP) for state in _S if state is not _S.STARTING]
    + [
        (state, cause)
        for cause in (_C.EXIT_SUCCESS, _C.EXIT_FAILURE)
        for state in (_S.PENDING, _S.STOPPING, _S.STOPPED, _S.FAILED, _S.BACKOFF, _S.EXITED)
    ]
    + [
        (state, cause)
        for cause in (_C.TREE_GONE, _C.UNKILLABLE, _C.ENDED_AS_FAILURE)
        for state in _S
        if state is not _S.STOPPING
    ]
    + [(_S.FAILED, _C.GIVEN_UP), (_S.BACKOFF, _C.RESTART_PLANNED)]
)

# The state that a refused cause aimed at, and what the user can do instead.
REFUSED: dict[tuple[State, Cause], tuple[State, str]] = {
    **{
        (state, _C.PAUSE): (_S.PAUSED, "only a running service can be paused")
        for state in _S
        if state not in (_S.RUNNING, _S.PAUSED)
    },
    **{
        (state, _C.RESUME): (_S.RUNNING, "only a paused service can be resumed")
        for state in _S
        if state not in (_S.RUNNING, _S.PAUSED)
    },
    **{
        (state, _C.ADOPT): (_S.RUNNING, "a process is adopted only by a service without one")
        for state in _S
        if state is not _S.PENDING
    },
    **{
        (state, _C.SPAWN_FAILED): (_S.FAILED, "nothing was being started")
        for state in _S
        if state not in (_S.STARTING, _S.STOPPING)
    },
    **{
        (state, _C.RESTART_PLANNED): (_S.BACKOFF, "only what ended is started again")
        for state in _S
        if state not in (_S.FAILED, _S.EXITED, _S.BACKOFF)
    },
    **{
        (state, _C.GIVEN_UP): (_S.FAILED, "no restart was planned")
        for state in _S
        if state not in (_S.BACKOFF, _S.FAILED)
    },
}


def next_state(state: State, cause: Cause) -> State | None:
    """The state that follows; None when the cause changes nothing.

    Raises InvalidTransition when the cause is refused in this state.
    """
    following = TABLE.get((state, cause))
    if following is not None:
        return following
    if (state, cause) in IGNORED:
        return None
    target, hint = REFUSED[state, cause]
    raise invalid(state, target, hint)


def check(before: State, after: State) -> None:
    """Raise InvalidTransition unless the table knows this step."""
    if (before, after) not in LEGAL:
        raise invalid(before, after)


def invalid(before: State, after: State, hint: str = "") -> InvalidTransition:
    return InvalidTransition(
        f"Invalid transition: {before.value}->{after.value}",
        hint,
        {"from": before.value, "to": after.value},
    )
