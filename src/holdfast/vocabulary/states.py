"""The nine states of a service, the two desired ones, and what other worlds call them.

Standard library only. Which transitions are legal is decided in `rules.lifecycle.table`.
"""

from __future__ import annotations

from enum import Enum


class State(str, Enum):
    """What a service is doing, as derived from its last run and the keeper's report."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    BACKOFF = "backoff"
    EXITED = "exited"


class Desired(str, Enum):
    """What the user wants of a service; kept apart from what it does."""

    RUNNING = "running"
    STOPPED = "stopped"


class ErrorType(str, Enum):
    """The kind of trouble that ended a run, or kept it from starting; each has its own handling."""

    SPAWN_FAILED = "SPAWN_FAILED"
    """It could not be started: tried again with back-off."""
    TIMEOUT = "TIMEOUT"
    """It took longer than its `timeout`: ended with its tree, then the restart policy."""
    RESOURCE_EXCEEDED = "RESOURCE_EXCEEDED"
    """A limit was reached: its action, or the start was refused."""
    UNEXPECTED_EXIT = "UNEXPECTED_EXIT"
    """It ended although nobody asked it to: the restart policy."""


ALIVE = (State.STARTING, State.RUNNING, State.PAUSED)
LIVE_STATES = frozenset({*ALIVE, State.STOPPING})

STREAM_STATE = {
    State.PENDING: "running",
    State.STARTING: "running",
    State.RUNNING: "running",
    State.PAUSED: "paused",
    State.STOPPING: "running",
    State.STOPPED: "completed",
    State.FAILED: "failed",
    State.BACKOFF: "failed",
    State.EXITED: "completed",
}

LABEL = {
    State.PENDING: "Stopped",
    State.STARTING: "Running",
    State.RUNNING: "Running",
    State.PAUSED: "Running",
    State.STOPPING: "Running",
    State.STOPPED: "Stopped",
    State.FAILED: "Crashed",
    State.BACKOFF: "Crashed",
    State.EXITED: "Stopped",
}
