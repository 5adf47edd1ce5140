"""All that can be announced. Events are stored before they are published, and replayable."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec


class EventKind(str, Enum):
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
    HEALTH_PASSED = "health:passed"
    HEALTH_CHANGED = "health:changed"
    STABLE = "service:stable"
    REQUESTED = "service:requested"
    SERVICE_WAITING = "service:waiting"
    SERVICE_FOLLOWS = "service:follows"
    LIMIT_REACHED = "limit:reached"
    LIMIT_CLEARED = "limit:cleared"
    OVERLAP = "service:overlap"
    ROLLING_STEP = "rolling:step"
    ROLLING_FINISHED = "rolling:finished"
    SERVICE_SCALED = "service:scaled"
    SERVICE_ADDED = "service:added"
    SERVICE_CHANGED = "service:changed"
    SERVICE_REMOVED = "service:removed"
    SERVICE_ADOPTED = "service:adopted"
    SIGNAL_SENT = "service:signalled"
    CONFIG_RELOADED = "config:reloaded"
    WATCH_CHANGED = "watch:changed"
    WATCH_FAILED = "watch:failed"
    SCHEDULE_STARTED = "schedule:started"
    SCHEDULE_SKIPPED = "schedule:skipped"
    RECOVERY = "service:recovery"
    WORKFLOW_STARTED = "workflow:started"
    WORKFLOW_STEP = "workflow:step"
    WORKFLOW_FINISHED = "workflow:finished"
    COMMAND_STARTED = "command:started"
    COMMAND_FINISHED = "command:finished"
    OUTPUT_GAP = "output:gap"
    OUTPUT_RESUMED = "output:resumed"
    ALERT_RAISED = "alert:raised"
    ALERT_CLEARED = "alert:cleared"
    ALERT_UNDELIVERED = "alert:undelivered"
    ALERT_DELIVERED = "alert:delivered"
    HOLDFAST_STARTED = "holdfast:started"
    SUPERVISOR_STARTED = "supervisor:started"
    KEEPER_REPLACED = "keeper:replaced"
    HOLDFAST_UPGRADED = "holdfast:upgraded"
    HOLDFAST_STOPPING = "holdfast:stopping"
    SESSION_OPENED = "session:opened"
    SESSION_CALLED = "session:called"
    SESSION_CLOSED = "session:closed"
    MODE_SWITCHING = "mode:switching"
    MODE_SWITCHED = "mode:switched"
    LOCKDOWN_BEGAN = "lockdown:began"
    LOCKDOWN_ENDED = "lockdown:ended"
    APPROVAL_REQUESTED = "approval:requested"
    APPROVAL_APPROVED = "approval:approved"
    APPROVAL_REJECTED = "approval:rejected"
    APPROVAL_EXPIRED = "approval:expired"
    DOOR_OPENED = "door:opened"
    DOOR_FAILED = "door:failed"
    FILES_TAKEN_BACK = "files:taken_back"
    MCP_TOOLS_CHANGED = "mcp:tools_changed"
    MCP_TOOLS_APPROVED = "mcp:tools_approved"
    AGENT_CHANGED = "agent:changed"
    AGENT_TURN = "agent:turn"
    JOB_ADDED = "job:added"
    JOB_STARTED = "job:started"
    JOB_ENDED = "job:ended"
    QUEUE_PAUSED = "queue:paused"
    QUEUE_RESUMED = "queue:resumed"
    EVENTS_DROPPED = "events:dropped"
    DATABASE_REPLACED = "database:replaced"


MEANING: dict[EventKind, str] = {
    EventKind.TRANSITION: "A service changed state: `from`, `to`, and the cause.",
    EventKind.PROCESS_STARTED: "A run began: `pid`, `number`, and whether it was restarted.",
    EventKind.EXIT: "A run's main process ended: `code` or `signal`, or `unknown`; seconds, "
    "rusage.",
    EventKind.TREE_ENDED: "A run's last process is gone: a report of every pid and how it ended.",
    EventKind.START_FAILED: "A run could not be started, or ended within `start_seconds`.",
    EventKind.RESTART_SCHEDULED: "The service will be started again in `delay` seconds.",
    EventKind.SUPPRESSED: "The service failed too often in a row and is left `failed`.",
    EventKind.CONDEMNED: "A live run is ended as a failure of its own: the `cause`, and why.",
    EventKind.SERVICE_READY: "A run is ready, `after` so many seconds of its life.",
    EventKind.HEALTH_FAILED: "A check failed: the `probe`, how it asks, `reason`, `failures` in a "
    "row; of more than ten in a row every tenth, with how many were `untold`.",
    EventKind.HEALTH_PASSED: "A check passed after it had failed: the `probe`, how it asks.",
    EventKind.HEALTH_CHANGED: "Readiness or health (`what`) is another: `from`, `to`, the "
    "`reason`.",
    EventKind.STABLE: "A run stayed up for `reset_after`: the failures before it are forgotten.",
    EventKind.REQUESTED: "A service is to be started, stopped or restarted: `request`. A user "
    "asked, or `because` says why.",
    EventKind.SERVICE_WAITING: "A start waits for what the service needs: `waiting_for`, in words.",
    EventKind.SERVICE_FOLLOWS: "A service is restarted because one that it needs has a new run, "
    "or because the runtime mode that it follows is another.",
    EventKind.LIMIT_REACHED: "A run uses more than it may: the `limit`, both values, the `action`.",
    EventKind.LIMIT_CLEARED: "A run that had reached a `limit` is well below it again.",
    EventKind.OVERLAP: "A new run is beside the old one: `step` (begun, promoted, failed), "
    "`number`.",
    EventKind.ROLLING_STEP: "A rolling restart began or ended a service: `step` of `of`, "
    "`outcome`.",
    EventKind.ROLLING_FINISHED: "A rolling restart is over: who is `restarted`, who `remaining`, "
    "why.",
    EventKind.SERVICE_SCALED: "A service has another number of instances: `from`, `to`.",
    EventKind.SERVICE_ADDED: "A service became known.",
    EventKind.SERVICE_CHANGED: "A service's declaration changed.",
    EventKind.SERVICE_REMOVED: "A service was forgotten.",
    EventKind.SERVICE_ADOPTED: "A process that already ran was taken over.",
    EventKind.SIGNAL_SENT: "A user sent a signal to a service.",
    EventKind.RECOVERY: "Something is done about a `cause` of trouble: the `action`, and the "
    "reason.",
    EventKind.WORKFLOW_STARTED: "A workflow or custom restart began: `id`, `name`, `steps`, `by`.",
    EventKind.WORKFLOW_STEP: "A step of it began or ended: `step` of `steps`, `what`, its "
    "`outcome`.",
    EventKind.WORKFLOW_FINISHED: "It is over: `outcome` (done, failed, cancelled, interrupted), "
    "why.",
    EventKind.COMMAND_STARTED: "A single command began: `id`, `what`, `by`.",
    EventKind.COMMAND_FINISHED: "It ended: `outcome`, `exit_code` or `signal`, `seconds`.",
    EventKind.CONFIG_RELOADED: "A configuration was applied: names of services by what was done.",
    EventKind.WATCH_CHANGED: "Watched files changed: how many, the first `paths`, what follows.",
    EventKind.WATCH_FAILED: "Files cannot be watched: why, and what helps.",
    EventKind.SCHEDULE_STARTED: "A scheduled service is started: the time it was `due`.",
    EventKind.SCHEDULE_SKIPPED: "A scheduled start did not happen: the time it was `due`, and why.",
    EventKind.OUTPUT_GAP: "Output could not be recorded from here on (disk full); the service goes "
    "on.",
    EventKind.OUTPUT_RESUMED: "Recording resumed: `lost` bytes are missing; null if nobody "
    "counted.",
    EventKind.ALERT_RAISED: "Something is wrong: `id`, `cause`, `severity`, `message`, `since`.",
    EventKind.ALERT_CLEARED: "An alert is over: the same, how often it happened, and why it ended.",
    EventKind.ALERT_UNDELIVERED: "Alerts do not reach a `target` for long: the `reason`.",
    EventKind.ALERT_DELIVERED: "Alerts reach the `target` again.",
    EventKind.HOLDFAST_STARTED: "A keeper and its first supervisor are up.",
    EventKind.SUPERVISOR_STARTED: "A supervisor took over from one that ended.",
    EventKind.KEEPER_REPLACED: "The keeper died; the supervisor's descriptors made a new one.",
    EventKind.HOLDFAST_UPGRADED: "Keeper and supervisor now run another version.",
    EventKind.HOLDFAST_STOPPING: "Everything is being stopped.",
    EventKind.SESSION_OPENED: "A session began: `session`, its `client`, who opened it.",
    EventKind.SESSION_CALLED: "A session made its first call: `session`, its `client`, the `call`.",
    EventKind.SESSION_CLOSED: "A session ended: `session`, why, and what became of what it "
    "started.",
    EventKind.MODE_SWITCHING: "The supervisor is being replaced by one of another mode: `from`, "
    "`to`.",
    EventKind.MODE_SWITCHED: "The runtime mode is another: `from`, `to`.",
    EventKind.LOCKDOWN_BEGAN: "An emergency lockdown: every change is refused. `reason`, `by`.",
    EventKind.LOCKDOWN_ENDED: "The lockdown is over: `by` whom, and its `reason`.",
    EventKind.APPROVAL_REQUESTED: "A command waits for approval: `approval`, `command`, `actor`.",
    EventKind.APPROVAL_APPROVED: "A waiting command was approved and is done now: `approval`, "
    "`by`.",
    EventKind.APPROVAL_REJECTED: "A waiting command was refused: `approval`, `by`, `why`.",
    EventKind.APPROVAL_EXPIRED: "A waiting command is not done: `approval`, and `why` nobody "
    "decided.",
    EventKind.DOOR_OPENED: "A network door listens: which one, and its address; a `note` if that "
    "is not the usual place, `handed_over` if an earlier gate gave the port back.",
    EventKind.DOOR_FAILED: "A network door cannot listen: which one, why, and who has the port.",
    EventKind.FILES_TAKEN_BACK: "A change of files in which Holdfast died was taken back: "
    "`change`, its `paths`, and those that were `left` because others had changed them.",
    EventKind.MCP_TOOLS_CHANGED: "An MCP server tells other tools than those that were approved: "
    "which are `new`, `changed` or `gone`. They are held until somebody approves them.",
    EventKind.MCP_TOOLS_APPROVED: "Held definitions of an MCP server were approved: its `tools`.",
    EventKind.AGENT_CHANGED: "A session of an AI backend is in another `condition` than `before`; "
    "with what is wrong (`failure`, `sentence`) and what mends it (`fix`).",
    EventKind.AGENT_TURN: "A turn of a session is over: `turn`, its `reason` and `seconds`.",
    EventKind.JOB_ADDED: "A job was added: `job`, its `state`, `by` whom.",
    EventKind.JOB_STARTED: "An attempt of a job began: `job`, `attempt`, `pid`.",
    EventKind.JOB_ENDED: "An attempt of a job ended: `job`, `outcome` (completed, retry, failed, "
    "cancelled), `exit_code` or `signal`, `reason`, and of a retry `retry_in` seconds.",
    EventKind.QUEUE_PAUSED: "No further job is started.",
    EventKind.QUEUE_RESUMED: "Jobs are started again.",
    EventKind.EVENTS_DROPPED: "Old events were removed by age or count.",
    EventKind.DATABASE_REPLACED: "The history was unreadable or deleted, and is begun anew; "
    "`moved_to`: where the old one is.",
}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, with its place in the sequence."""

    seq: int
    time: float
    kind: str
    service: str | None = None
    run_id: str | None = None
    data: dict[str, Any] = {}


def known_place(since: int, last: int) -> int:
    """Where a reader goes on that has seen everything up to `since`. A number beyond the last one
    is from a history that was lost: such a reader begins at the beginning of this one."""
    return since if 0 <= since <= last else 0
