"""What a user declares about a service, after parsing, defaults and interpolation.

Durations are seconds, sizes are bytes. The defaults here are the defaults of the product. A
field that has its default is left out where a declaration is stored, so that a new default applies
to it, too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.alerts import TargetSpec
from holdfast.vocabulary.specs.audit import AnchorSpec
from holdfast.vocabulary.specs.files import FilesSpec
from holdfast.vocabulary.specs.git import GitSpec
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.policies import FilterSpec, Mode, PolicySpec, RateLimit
from holdfast.vocabulary.specs.probes import NotifySpec, ProbeSpec
from holdfast.vocabulary.specs.resources import HostLimits, MemoryLimit
from holdfast.vocabulary.specs.workflows import (
    CommandPolicy,
    CommandSpec,
    RecoverySpec,
    WorkflowSpec,
)

RestartPolicy = Literal["always", "on_failure", "never"]
UNLIMITED = -1
MOST_INSTANCES = 1000


class RestartSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a service that ended is started again."""

    delay: float = 5.0
    max_delay: float = 60.0
    backoff: float = 2.0
    jitter: float = 0.1
    max_restarts: int = 10
    reset_after: float = 60.0


class StopSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a service is asked to end, and for how long."""

    signal: str = "SIGTERM"
    grace: float = 5.0


class LogSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much output is kept."""

    max_size: int = 16 * 1024 * 1024
    total_size: int = 256 * 1024 * 1024


NeedCondition = Literal["started", "ready", "healthy", "completed", "log"]


class Dependency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another service that this one needs first."""

    service: str
    """A service, an instance, or the name that instances share: then all of them."""
    condition: NeedCondition = "started"
    pattern: str | None = None
    """What a line of it must match, for the condition `log`."""
    restart: bool = False
    """Whether a new run of it, once the condition is met again, restarts this one."""


class WatchSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files whose change restarts a service, or sends it a signal."""

    paths: tuple[str, ...]
    """Absolute patterns; one without a wildcard is a file, or a folder with all below it."""
    ignore: tuple[str, ...] = ()
    """Patterns as `paths`; without a slash they are of a name, wherever it stands."""
    debounce: float = 0.3
    """Changes count as one until there was none for so long."""
    action: str = "restart"
    """`restart`, or the name of a signal."""
    polling: bool = False
    """Look at the files again and again, for file systems that tell nobody of changes."""


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a service is started; one of `cron` and `every`."""

    cron: str | None = None
    """Five fields, or six with seconds in front."""
    every: float | None = None
    timezone: str | None = None
    """A name of the time zone database; None: the machine's."""
    overlap: Literal["skip", "allow"] = "skip"
    """What becomes of a time that comes while it runs: nothing, or a free instance is started."""
    catch_up: bool = False
    """Whether times that were missed are made good, once."""


class ServiceSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One service, ready to be run: nothing in it needs looking up again."""

    name: str
    argv: tuple[str, ...]
    command_words: int = 1
    """How many words of `argv` are the command; `restart` with `args` replaces the rest."""
    working_dir: str
    confined_to: str | None = None
    """The folder that it must run below, wherever links lead; given for who is not the owner."""
    env: dict[str, str] = {}
    environment: Literal["inherit", "clean"] = "inherit"
    enabled: bool = True
    autostart: bool = True
    restart_policy: RestartPolicy = "on_failure"
    restart: RestartSpec = RestartSpec()
    start_seconds: float = 1.0
    start_retries: int = 3
    success_exit_codes: tuple[int, ...] = (0,)
    stop: StopSpec = StopSpec()
    terminal: bool = False
    stdin: Literal["null", "pipe"] = "null"
    user: str | None = None
    umask: int | None = None
    rlimits: dict[str, tuple[int, int]] = {}
    memory_limit: MemoryLimit | None = None
    cpu_limit: float | None = None
    """Percent of one core, over its whole tree."""
    process_limit: int | None = None
    timeout: float | None = None
    """The longest that a run may take."""
    log: LogSpec = LogSpec()
    on_supervisor_exit: Literal["stop", "keep"] = "stop"
    on_session_end: Literal["keep", "stop", "hand_over"] | None = None
    """What becomes of it when the session that started it ends; None: as the session says."""
    survivors: Literal["adopt", "stop"] = "adopt"
    essential: bool = False
    depends_on: tuple[Dependency, ...] = ()
    tags: tuple[str, ...] = ()
    template: str | None = None
    """The name that the instances of a service share; None: it has no instances."""
    index: int | None = None
    """Which instance it is, counted from 1."""
    overlap: bool = False
    """Whether a rolling restart starts the new run before it stops the old one."""
    sockets: tuple[str, ...] = ()
    """Names of listening sockets, held by the keeper, that it gets from descriptor 3 on."""
    ports: dict[str, int] = {}
    """The ports that it listens on by name, `port` for the only one; 0: any that is free."""
    origin: Literal["config", "run", "target", "adopted", "gate"] = "config"
    watch: WatchSpec | None = None
    schedule: ScheduleSpec | None = None
    probes: tuple[ProbeSpec, ...] = ()
    notify: NotifySpec | None = None
    recovery: dict[str, RecoverySpec] = {}
    """What is done about each cause of trouble; a cause that is not in it: the usual."""


class DoorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the network doors listen, and who may pass; used by the doors."""

    host: str = "127.0.0.1"
    port: int = 8081
    allowed_commands: tuple[str, ...] | None = None
    authentication: bool = False
    token: str | None = None
    open_status: bool = False
    tcp: bool = True
    """Whether the control door is opened."""
    is_port_given: bool = False
    """Whether this very port is meant; else the next free one will do."""


class HttpSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gate listens for HTTP."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 3001
    is_port_given: bool = False
    """Whether this very port is meant; else the next free one will do."""
    certificate: str | None = None
    key: str | None = None
    self_made: bool = False
    """Whether the gate makes a certificate for this machine itself."""
    allowed_origins: tuple[str, ...] = ()
    """Pages of these origins may use it, beside its own."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A service with `instances`, as written: enough to make one more instance of it."""

    instances: int
    """How many the configuration wants."""
    document: str
    """The configuration with this service alone, as JSON."""
    folder: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says beyond its services; kept in the keeper's memory."""

    door: DoorSpec | None = None
    """Nothing, as long as no configuration was read."""
    http: HttpSpec | None = None
    """Nothing, as long as no configuration was read."""
    groups: dict[str, tuple[str, ...]] = {}
    """Names for several services."""
    templates: dict[str, Template] = {}
    """Services that have instances."""
    is_production: bool = False
    """Whether commands must be allowed in production."""
    limits: HostLimits = HostLimits()
    monitoring_interval: float = 5.0
    port_range: tuple[int, int] = (8082, 9081)
    """Where ports are leased from, both ends included."""
    default_service: str | None = None
    """The service that is meant where one is needed and none is named."""
    commands: dict[str, CommandSpec] = {}
    command_policy: CommandPolicy = CommandPolicy()
    workflows: dict[str, WorkflowSpec] = {}
    files: FilesSpec = FilesSpec()
    git: GitSpec = GitSpec()
    alerts: tuple[TargetSpec, ...] = ()
    """Where alerts are delivered to."""
    runtime_mode: Mode | None = None
    """Nothing, as long as no configuration was read."""
    policies: tuple[PolicySpec, ...] = ()
    filters: FilterSpec | None = None
    rate_limit: RateLimit = RateLimit()
    mcp: McpSpec = McpSpec()
    secrets: tuple[str, ...] = ()
    """Further secrets: names of variables, or values."""
    audit_anchor: AnchorSpec = AnchorSpec()


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration file, checked and complete."""

    path: str | None
    project: str
    services: dict[str, ServiceSpec]
    sources: dict[str, str] = {}
    """The files that it was read from, each with a digest of what it held."""
    declares: Literal["nothing", "settings", "services"] = "services"
    """What the file has; `services: {}` counts as services, `services:` alone does not."""
    settings: Settings = Settings()
    log_level: str = "info"
    is_level_given: bool = False
    """Whether somebody chose that level."""
    log_format: Literal["human", "json"] = "human"
    runtime_mode: Literal["proxy", "advanced"] = "proxy"
