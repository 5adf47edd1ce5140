"""All that can be announced. Events are stored before they are published, and replayable."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec


class Kind(str, Enum):
    """What happened. The value is the name that users see."""

    TRANSITION = "transition"
    PROCESS_STARTED = "process:started"
    EXIT = "exit"
    TREE_ENDED = "process:ended"
    START_FAILED = "process:start_failed"
    RESTART_SCHEDULED = "service:restart_scheduled"
    SUPPRESSED = "service:suppressed"
    CONDEMNED = "service:condemned"
    SERVICE_READY = "service:ready"
    HEALTH_FAILED = "health:failed"
    HEALTH_CHANGED = "health:changed"
    SERVICE_ADDED = "service:added"
    SERVICE_CHANGED = "service:changed"
    SERVICE_REMOVED = "service:removed"
    SERVICE_ADOPTED = "service:adopted"
    SIGNAL_SENT = "service:signalled"
    OUTPUT_GAP = "output:gap"
    OUTPUT_RESUMED = "output:resumed"
    HOLDFAST_STARTED = "holdfast:started"
    SUPERVISOR_STARTED = "supervisor:started"
    KEEPER_REPLACED = "keeper:replaced"
    HOLDFAST_UPGRADED = "holdfast:upgraded"
    HOLDFAST_STOPPING = "holdfast:stopping"
    EVENTS_DROPPED = "events:dropped"
    DATABASE_REPLACED = "database:replaced"


MEANING: dict[Kind, str] = {
    Kind.TRANSITION: "A service changed state: `from`, `to`, and the cause.",
    Kind.PROCESS_STARTED: "A run began: `pid`, `number`, and whether it was restarted.",
    Kind.EXIT: "A run's main process ended: `code` or `signal`, or `unknown`; seconds, rusage.",
    Kind.TREE_ENDED: "A run's last process is gone: a report of every pid and how it ended.",
    Kind.START_FAILED: "A run could not be started, or ended within `start_seconds`.",
    Kind.RESTART_SCHEDULED: "The service will be started again in `delay` seconds.",
    Kind.SUPPRESSED: "The service failed too often in a row and is left `failed`.",
    Kind.CONDEMNED: "A live run is ended as a failure of its own: the `cause`, and why.",
    Kind.SERVICE_READY: "A run is ready, `after` so many seconds of its life.",
    Kind.HEALTH_FAILED: "A check failed: the `probe`, its `kind`, the `reason`, `failures` in a row.",
    Kind.HEALTH_CHANGED: "Startup, readiness or health (`what`) is another: `from`, `to`, `reason`.",
    Kind.SERVICE_ADDED: "A service became known.",
    Kind.SERVICE_CHANGED: "A service's declaration changed.",
    Kind.SERVICE_REMOVED: "A service was forgotten.",
    Kind.SERVICE_ADOPTED: "A process that already ran was taken over.",
    Kind.SIGNAL_SENT: "A user sent a signal to a service.",
    Kind.OUTPUT_GAP: "Output could not be recorded from here on (disk full); the service goes on.",
    Kind.OUTPUT_RESUMED: "Recording resumed: `lost` bytes are missing.",
    Kind.HOLDFAST_STARTED: "A keeper and its first supervisor are up.",
    Kind.SUPERVISOR_STARTED: "A supervisor took over from one that ended.",
    Kind.KEEPER_REPLACED: "The keeper died; the supervisor's descriptors made a new one.",
    Kind.HOLDFAST_UPGRADED: "Keeper and supervisor now run another version.",
    Kind.HOLDFAST_STOPPING: "Everything is being stopped.",
    Kind.EVENTS_DROPPED: "Old events were removed by age or count.",
    Kind.DATABASE_REPLACED: "The history was unreadable; it was moved aside and begun anew.",
}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, with its place in the sequence."""

    seq: int
    time: float
    kind: str
    service: str | None = None
    run_id: str | None = None
    data: dict[str, Any] = {}
