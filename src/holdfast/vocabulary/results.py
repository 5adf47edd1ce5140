"""What commands answer, field by field."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a command."""


class SupervisorStatus(Result, frozen=True, kw_only=True):
    """Holdfast itself."""

    status: str
    uptime: float
    managed_services: int
    pid: int
    keeper_pid: int
    version: str
    project: str = ""
    config: str | None = None
    doors: dict[str, str] = {}
    """Where each open network door listens."""
    door_notes: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """What is to be said of a door: why it is closed, or elsewhere than usual."""
    fingerprint: str | msgspec.UnsetType = msgspec.UNSET
    """SHA-256 of the certificate that HTTPS shows."""
    selectors: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Names that stand for several services: of instances, `group:NAME`, `tag:NAME`."""
    alerts: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """How many are open of each severity; unset: none."""
    runtime_mode: str = "proxy"
    lockdown: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The emergency lockdown in force: `reason`, `by`, `since`; unset: none."""
    approvals: int | msgspec.UnsetType = msgspec.UNSET
    """How many commands wait for somebody's approval; unset: none."""
    unrecorded: str | msgspec.UnsetType = msgspec.UNSET
    """Why history cannot be written now, as on a full disk; unset: it is."""
    unclaimed: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    """Processes that a service started and that belong to none any more: `pid`, `name`. `down`
    ends them; unset: none."""


class ServiceStatus(Result, frozen=True, kw_only=True):
    """One service; times are unix seconds, durations seconds."""

    status: str
    desired: str
    pid: int | None
    uptime: float | None
    restart_count: int
    run_id: str | None
    run: int | None
    exit_code: int | None
    signal: str | None
    reason: str | None
    duration: float | None
    log_bytes: int
    since: float
    started_at: float | None = None
    next_start_in: float | None = None
    next_scheduled: float | msgspec.UnsetType = msgspec.UNSET
    """When its schedule starts it next."""
    start_failures: int = 0
    terminal: bool = False
    adopted: bool = False
    paused: bool = False
    label: str = ""
    origin: str = "config"
    overrides: dict[str, Any] | None = None
    error_type: str | msgspec.UnsetType = msgspec.UNSET
    """TIMEOUT, RESOURCE_EXCEEDED, SPAWN_FAILED or UNEXPECTED_EXIT, if the last run ended so."""
    memory_mb: float | msgspec.UnsetType = msgspec.UNSET
    """Millions of bytes resident in its whole tree, by the last look."""
    cpu_percent: float | msgspec.UnsetType = msgspec.UNSET
    """Of one core."""
    waiting_for: list[str] | msgspec.UnsetType = msgspec.UNSET
    """What its start waits for, in words."""
    beside: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """A second run while one relieves another: its `pid` and `run`, whether it is `leaving`."""
    ports: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """The ports that are leased for it, by name."""
    owner: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The session that it runs for: its `session`, `client`, and the tool `call`."""
    scaled: str | msgspec.UnsetType = msgspec.UNSET
    """That the number of instances is not the configured one."""
    ready: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether it can do its work, where a probe asks."""
    health: str | msgspec.UnsetType = msgspec.UNSET
    """healthy, unhealthy, or unknown, where a probe asks."""
    said: str | msgspec.UnsetType = msgspec.UNSET
    """What it says of itself."""
    consecutive_failures: int | msgspec.UnsetType = msgspec.UNSET
    """Failed checks in a row, of the worst of its probes."""


class StatusResult(Result, frozen=True, kw_only=True):
    supervisor: SupervisorStatus
    services: dict[str, ServiceStatus]


class CheckResult(Result, frozen=True, kw_only=True):
    """What one probe found, in how many seconds."""

    probe: str
    """startup, readiness, liveness, health_check; process where nothing else is asked"""
    check: str
    """http, tcp, exec, log, notify or process"""
    passed: bool
    reason: str
    duration: float


class ServiceHealth(Result, frozen=True, kw_only=True):
    """A service's health as known before, and what its probes found now."""

    status: str
    ready: bool | None
    health: str | None
    consecutive_failures: int
    checks: list[CheckResult]


class HealthResult(Result, frozen=True, kw_only=True):
    services: dict[str, ServiceHealth]


class Outcome(Result, frozen=True, kw_only=True):
    """What a verb did to one service."""

    outcome: str
    """started, already_running, stopped, already_stopped, restarted, paused, already_paused,
    resumed, not_paused, signalled, removed, adopted, added, changed, scheduled, waiting,
    failed"""
    status: str
    pid: int | None = None
    run_id: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    last_lines: list[str] | None = None
    report: list[dict[str, Any]] | None = None
    error_type: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    """The error's code, where the start was refused: resource_exceeded."""


class Outcomes(Result, frozen=True, kw_only=True):
    """What a verb did, service by service."""

    services: dict[str, Outcome]


class ScaleResult(Result, frozen=True, kw_only=True):
    """What became of each instance that was added or removed."""

    services: dict[str, Outcome]
    instances: dict[str, int]
    """How many there are now, by service."""


class RollingResult(Result, frozen=True, kw_only=True):
    """What became of each service, in the order in which it was done."""

    services: dict[str, Outcome]
    remaining: list[str] = []
    """Those that were not touched, because one before them failed."""
    reason: str | None = None
    """Why it ended early."""


class UpResult(Result, frozen=True, kw_only=True):
    services: dict[str, Outcome]
    added: list[str]
    changed: list[str]
    """Services whose declaration differs from what runs; `reload` applies it."""
    removed: list[str]
    stays_stopped: list[str] = []
    """Services that were stopped by hand and are left so, as was asked."""
    is_level_given: bool = False
    """Whether a level of Holdfast's own log was chosen, by whatever means."""


class PlanStep(Result, frozen=True, kw_only=True):
    """What a reload does to one service, and because of what."""

    action: Literal["add", "remove", "restart", "change", "unchanged"]
    fields: list[str] = []
    """Names of what differs, as `argv`, `stop.grace`, `env.NAME`; never values."""
    at_next_start: bool = False
    """Nothing of it runs and it is not started now; what differs counts when it is."""
    overrides: dict[str, Any] | None = None
    """What a restart with other arguments or variables changed; a restart ends it."""
    follows: list[str] = []
    """It is restarted with these, because its `depends_on` says `restart: true`."""


class PlanResult(Result, frozen=True, kw_only=True):
    config: str | None
    services: dict[str, PlanStep]
    settings: list[str] = []
    """Names of what differs beyond the services."""
    scaled: dict[str, str] = {}
    """Services whose number of instances was set by `scale` and is kept, in words."""
    changes: bool = False
    """Whether a reload would do anything."""


class ReloadResult(Result, frozen=True, kw_only=True):
    """`plan` is what was to be done, `services` what became of each that was touched."""

    config: str | None
    plan: dict[str, PlanStep]
    services: dict[str, Outcome]
    settings: list[str] = []
    changes: bool = False


class RunResult(Result, frozen=True, kw_only=True):
    service: str
    outcome: Outcome


class ProcessInfo(Result, frozen=True, kw_only=True):
    pid: int
    ppid: int
    name: str
    command: str
    state: str
    memory_bytes: int | None = None
    cpu_seconds: float | None = None
    started_at: float | None = None


class PsResult(Result, frozen=True, kw_only=True):
    services: dict[str, list[ProcessInfo]]


class RunRecord(Result, frozen=True, kw_only=True):
    """A run, live or past."""

    run_id: str
    service: str
    number: int
    pid: int
    started_at: float
    ended_at: float | None
    duration: float | None
    exit_code: int | None
    signal: str | None
    unknown: bool
    reason: str | None
    log_bytes: int
    rusage: dict[str, Any] | None
    error_type: str | None = None


class RunsResult(Result, frozen=True, kw_only=True):
    runs: list[RunRecord]


class EventsResult(Result, frozen=True, kw_only=True):
    events: list[dict[str, Any]]
    last: int
    """The newest sequence number: ask again with `since` = last."""


class WaitResult(Result, frozen=True, kw_only=True):
    service: str
    met: bool
    status: str
    exit_code: int | None = None
    line: str | None = None
    seconds: float = 0.0


class LogLine(Result, frozen=True, kw_only=True):
    """A line of output. `encoding` says whether `text` is utf8 or base64."""

    time: float
    stream: str
    run: int
    text: str
    encoding: Literal["utf8", "base64"] = "utf8"
    partial: bool = False
    note: str | None = None


class LogsResult(Result, frozen=True, kw_only=True):
    service: str
    lines: list[LogLine]
    cursor: str
    """Where to read on."""
    more: bool = False
    """Whether something is there already."""


class OutputGrant(Result, frozen=True, kw_only=True):
    """Where the log of a service lies and how far it reaches, and how the service is now."""

    service: str
    directory: str
    beginning: str
    """The cursor of the oldest byte that is kept."""
    end: str
    terminal: bool
    status: str
    exit_code: int | None
    signal: str | None
    reason: str | None
    seq: int
    """Events with larger numbers tell what changed since."""
    hides: int = 0  # another number when other values must be hidden in what is read


class StepResult(Result, frozen=True, kw_only=True):
    """How one step of a workflow, or a single command, went."""

    what: str
    """The command, with secrets left out, or what was done to which services."""
    outcome: Literal["done", "failed", "timeout", "cancelled", "skipped"]
    part: str = ""
    """pre, restart or post, for a custom restart."""
    exit_code: int | None = None
    signal: str | None = None
    seconds: float | None = None
    out: str = ""
    """The tail of what it printed."""
    err: str = ""
    reason: str | None = None


class WorkflowResult(Result, frozen=True, kw_only=True):
    """How a workflow, a custom restart or a single command went, step by step."""

    id: str
    name: str
    outcome: Literal["done", "failed", "cancelled"]
    seconds: float
    steps: list[StepResult]
    service: str | None = None
    reason: str | None = None
    status: ServiceStatus | None = None
    """Of the service that was restarted, or would have been."""


class WorkflowInfo(Result, frozen=True, kw_only=True):
    """A workflow of the configuration."""

    description: str
    steps: list[str]
    timeout: float


class UnderWay(Result, frozen=True, kw_only=True):
    """A workflow, custom restart or command that is being done."""

    id: str
    name: str
    service: str | None
    by: str
    step: int
    steps: int
    what: str
    seconds: float


class WorkflowsResult(Result, frozen=True, kw_only=True):
    workflows: dict[str, WorkflowInfo]
    commands: dict[str, str]
    """The commands of the configuration, and what each is for."""
    under_way: list[UnderWay]


class PruneResult(Result, frozen=True, kw_only=True):
    deleted_bytes: int
    deleted_runs: int
    services: list[str]


class AuditVerdict(Result, frozen=True, kw_only=True):
    """Whether the audit is whole, and where it is not."""

    whole: bool
    records: int
    first: int
    last: int
    problem: str | None = None
    anchors: list[dict[str, Any]] = []
    """Where the head is written as well, and whether each place was compared."""


class AuditResult(Result, frozen=True, kw_only=True):
    records: list[dict[str, Any]]
    last: int
    """The newest number: ask again with `since` = last."""
    verdict: AuditVerdict | None = None


class ShutdownResult(Result, frozen=True, kw_only=True):
    """`kept`: services that go on, with a keeper that holds them."""

    message: str
    kept: list[str] = []
    stuck: list[str] = []
    """Of these, who should have been stopped and could not be."""


class Done(Result, frozen=True, kw_only=True):
    """It was done; there is nothing more to say."""

    message: str = ""
