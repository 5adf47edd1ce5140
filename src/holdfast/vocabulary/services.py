"""Services: what can be asked about them, and what is answered."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.vocabulary.banners import Banner
from holdfast.vocabulary.command import Command, Effect, Permission, Result
from holdfast.vocabulary.readers import reader


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
    """A remark about a door: why it is closed, or elsewhere than usual."""
    fingerprint: str | msgspec.UnsetType = msgspec.UNSET
    """SHA-256 of the certificate that HTTPS shows."""
    selectors: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Names that stand for several services: of instances, `group:NAME`, `tag:NAME`."""
    alerts: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """How many are open of each severity; unset: none."""
    banners: list[Banner] | msgspec.UnsetType = msgspec.UNSET
    """What concerns everybody now, the most urgent first; unset: nothing does."""
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
    """Automatic restarts in a row, which the policy counts."""
    restarts: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Every restart since the service is known, by cause: failure, exit, request, reload, files,
    dependency, mode, rolling, unhealthy or a limit that it reached. Kept over `down`; unset: none.
    """
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
    """The conditions that its start waits for, in words."""
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
    """Its own status text."""
    consecutive_failures: int | msgspec.UnsetType = msgspec.UNSET
    """Failed checks in a row, of the worst of its probes."""


class StatusResult(Result, frozen=True, kw_only=True):
    supervisor: SupervisorStatus
    services: dict[str, ServiceStatus]


_read_services = reader(dict[str, ServiceStatus])


class WrittenStatus(Result, frozen=True, kw_only=True):
    """A StatusResult whose services are JSON already."""

    supervisor: SupervisorStatus
    services: msgspec.Raw

    def read(self) -> StatusResult:
        services = _read_services(self.services)
        return StatusResult(supervisor=self.supervisor, services=services)


class Outcome(Result, frozen=True, kw_only=True):
    """The effect of a verb on one service."""

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
    """The effect of a verb, service by service."""

    services: dict[str, Outcome]


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


class WaitResult(Result, frozen=True, kw_only=True):
    service: str
    met: bool
    status: str
    exit_code: int | None = None
    line: str | None = None
    seconds: float = 0.0


class Variable(Result, frozen=True, kw_only=True):
    """One variable of a service's environment."""

    name: str
    value: str | None
    """None: it may be a secret."""
    source: Literal["up", "configuration", "port", "restart", "holdfast"]
    """The shell of the last `up` or `run`, the configuration, a leased port, what a restart added,
    or Holdfast itself."""


class EnvironmentResult(Result, frozen=True, kw_only=True):
    """What a program of a service starts with."""

    service: str
    working_dir: str
    user: str | None
    umask: int | None
    variables: list[Variable]


def check_overrides(args: list[str] | None, env_vars: dict[str, str] | None) -> None:
    """Raise ValueError for what no process can be started with, before anything is stopped."""
    given = env_vars or {}
    if any("\0" in word for word in (*(args or ()), *given, *given.values())):
        raise ValueError("arguments and variables must not contain NUL characters")
    if any(not name or "=" in name for name in given):
        raise ValueError("the name of a variable is not empty and has no =")


START_SECONDS = 120.0
"""So long a client is kept waiting for starts, unless it says otherwise."""


class Status(Command, frozen=True, kw_only=True):
    """Tell what Holdfast and each service are doing.

    Without names, all services are told. Answers `supervisor` and `services`.
    """

    name = "status"
    toolset = "process"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = StatusResult
    route = ("GET", "/api/status")
    is_shared = True
    services: list[str] = []


class Start(Command, frozen=True, kw_only=True):
    """Start services, and those they depend on. One that runs already is `already_running`.

    `wait`: answer when each has stayed up for its `start_seconds` and is ready, or failed to.
    What takes longer than `timeout` seconds is `waiting`, with what it waits for; it goes on.
    `keep`: what a session starts stays when the session ends.
    """

    name = "start"
    toolset = "process"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Outcomes
    route = ("POST", "/api/services/start")
    services: list[str] = []
    default: bool = False
    """Without names: the default service or the only one, not all."""
    wait: bool = True
    timeout: float = START_SECONDS
    keep: bool = False


class Stop(Command, frozen=True, kw_only=True):
    """Stop services: signal, grace, then kill, until no process of them is left.

    Without names, all are stopped, in reverse order of dependency. `grace` in seconds
    overrides the configured one; 0 kills at once.
    """

    name = "stop"
    toolset = "process"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    in_lockdown = True
    answers = Outcomes
    route = ("POST", "/api/services/stop")
    services: list[str] = []
    default: bool = False
    """Without names: the default service or the only one, not all."""
    grace: float | None = None


class Restart(Command, frozen=True, kw_only=True):
    """Stop services and start them again, without back-off, even if suppressed.

    `args` replace the configured arguments and `env_vars` add to the environment until the
    next start without them. They decide what is executed, so only an admin may give them.
    Without a name, the only service is meant. `wait`, `timeout` and `keep` are as in `start`.
    """

    name = "restart"
    toolset = "process"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    admin_fields = frozenset({"args", "env_vars"})
    answers = Outcomes
    route = ("POST", "/api/services/restart")
    services: list[str] = []
    service: str | None = None
    args: list[str] | None = None
    env_vars: dict[str, str] | None = None
    wait: bool = True
    timeout: float = START_SECONDS
    keep: bool = False

    def __post_init__(self) -> None:
        check_overrides(self.args, self.env_vars)


class Pause(Command, frozen=True, kw_only=True):
    """Freeze all processes of services; they use no CPU until resumed."""

    name = "pause"
    toolset = "process"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = Outcomes
    route = ("POST", "/api/services/pause")
    services: list[str]


class Resume(Command, frozen=True, kw_only=True):
    """Let paused services continue."""

    name = "resume"
    toolset = "process"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Outcomes
    route = ("POST", "/api/services/resume")
    services: list[str]


class Signal(Command, frozen=True, kw_only=True):
    """Send a signal to a service's main process, its group, or its whole tree."""

    name = "signal"
    toolset = "process"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = Outcomes
    route = ("POST", "/api/services/signal")
    services: list[str]
    signal: str
    to: str = "main"


class Ps(Command, frozen=True, kw_only=True):
    """List the process tree of each service."""

    name = "ps"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = PsResult
    route = ("GET", "/api/processes")
    is_shared = True
    services: list[str] = []


class Environment(Command, frozen=True, kw_only=True):
    """Show the environment that a service starts with, and where each variable comes from.

    A value is told where it is surely no secret. With `reveal`, which is for the owner at the
    command line alone, every value is: `holdfast exec SERVICE -- COMMAND` needs them.
    """

    name = "environment"
    reads_content = True
    permission = Permission.OPERATE
    effect = Effect.READS
    answers = EnvironmentResult
    route = ("GET", "/api/services/{service}/environment")
    service: str
    reveal: bool = False


class Wait(Command, frozen=True, kw_only=True):
    """Wait until a service is `running`, `ready`, `healthy`, has `exited`, is `gone` with all that
    it left in the background, printed a line that matches `log:REGEX`, or printed nothing for
    `silent:SECONDS`; at most `timeout` seconds.

    Without probes, ready and healthy mean that it runs.

    A line counts from the start of the service's current run; an unfinished one, such as a
    prompt, once nothing more came for 0.2 s. The expression matches lines as they are shown,
    without colours and control sequences; with `raw`, their bytes. With a `cursor`, as an answer
    about its output gave it, only what is printed behind it counts.
    """

    name = "wait"
    toolset = "process"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = WaitResult
    route = ("POST", "/api/services/wait")
    service: str
    condition: str = "running"
    raw: bool = False
    cursor: str | None = None
    timeout: float = 30.0


class Remove(Command, frozen=True, kw_only=True):
    """Forget services: they are stopped, and their runs and logs are deleted."""

    name = "remove"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = Outcomes
    route = ("POST", "/api/services/remove")
    services: list[str]
    keep_logs: bool = False
