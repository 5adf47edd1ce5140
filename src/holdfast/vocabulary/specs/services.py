"""What a user declares about a service, after parsing, defaults and interpolation.

Durations are seconds, sizes are bytes. The defaults here are the defaults of the product, and the
documentation of a key shows them. A stored declaration leaves out fields that have their default,
so that a new default of a later version applies to it.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal, TypeVar

import msgspec

from holdfast.vocabulary.specs.probes import NotifySpec, ProbeSpec
from holdfast.vocabulary.specs.resources import MemoryLimit
from holdfast.vocabulary.specs.workflows import (
    RecoverySpec,
)

T = TypeVar("T")


class Applies(str, Enum):
    """When a changed field of a service takes effect."""

    BY_RESTART = "restart"
    """The process has to be started again."""
    IN_PLACE = "in_place"
    """At once. The running process goes on."""
    NEVER = "never"
    """It identifies the service. Another value is another service."""


ByRestart = Annotated[T, Applies.BY_RESTART]
InPlace = Annotated[T, Applies.IN_PLACE]
Identity = Annotated[T, Applies.NEVER]

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

    signal: str | None = None
    """None: SIGTERM, and for a terminal SIGHUP as well."""
    grace: float = 5.0


class LogSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much output is kept."""

    max_size: int = 16 * 1024 * 1024
    total_size: int = 256 * 1024 * 1024


NeedCondition = Literal["started", "ready", "healthy", "completed", "log"]


class Dependency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another service that this one needs first."""

    service: str
    """A service, an instance, or the name that instances share, which means all of them."""
    condition: NeedCondition = "started"
    pattern: str | None = None
    """The pattern that a line of its output must match, for the condition `log`."""
    raw: bool = False
    """Whether the pattern matches the bytes, not the line as it is shown."""
    restart: bool = False
    """Whether a new run of it, once the condition is met again, restarts this one."""


class WatchSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files whose change restarts a service, or sends it a signal."""

    paths: tuple[str, ...]
    """Absolute patterns. One without a wildcard is a file, or a folder with all files below it."""
    ignore: tuple[str, ...] = ()
    """Patterns as in `paths`. One without a slash matches a name in every folder."""
    debounce: float = 0.3
    """Changes count as one until there is none for this long."""
    action: str = "restart"
    """`restart`, or the name of a signal."""
    polling: bool = False
    """Compare the files again and again, for file systems that report no changes."""


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a service is started: either `cron` or `every`."""

    cron: str | None = None
    """Five fields, or six with seconds in front."""
    every: float | None = None
    timezone: str | None = None
    """A name of the time zone database. None: the time zone of the machine."""
    overlap: Literal["skip", "allow"] = "skip"
    """What happens at a time when it still runs: nothing, or a free instance is started."""
    catch_up: bool = False
    """Whether one start makes up for the times that were missed."""


class ServiceSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One service, ready to run. Nothing in it needs looking up again.

    Each field declares when a change of it takes effect. A key of `holdfast.yaml` fills the field
    that has its name.
    """

    name: Identity[str]
    argv: ByRestart[tuple[str, ...]]
    command_words: InPlace[int] = 1
    """How many words of `argv` are the command; `restart` with `args` replaces the rest."""
    working_dir: ByRestart[str]
    confined_to: ByRestart[str | None] = None
    """The folder that it must run below, wherever links lead; set for callers but the owner."""
    env: ByRestart[dict[str, str]] = {}
    environment: ByRestart[Literal["inherit", "clean"]] = "inherit"
    mode_env: ByRestart[str | None] = None
    """The variable in which it is told the runtime mode."""
    follows_mode: ByRestart[bool] = False
    """Whether it is told the runtime mode, in the variables that Holdfast has it in."""
    enabled: InPlace[bool] = True
    autostart: InPlace[bool] = True
    restart_policy: InPlace[RestartPolicy] = "on_failure"
    restart: InPlace[RestartSpec] = RestartSpec()
    start_seconds: InPlace[float] = 1.0
    start_retries: InPlace[int] = 3
    success_exit_codes: InPlace[tuple[int, ...]] = (0,)
    stop: InPlace[StopSpec] = StopSpec()
    terminal: ByRestart[bool] = False
    stdin: ByRestart[Literal["null", "pipe", "channel"]] = "null"
    """With `channel`, standard input and output are a conversation with whoever the channel is
    lent to, and only standard error is recorded."""
    kind: Identity[Literal["service", "mcp_server", "agent"]] = "service"
    user: ByRestart[str | None] = None
    umask: ByRestart[int | None] = None
    rlimits: ByRestart[dict[str, tuple[int, int]]] = {}
    memory_limit: ByRestart[MemoryLimit | None] = None
    cpu_limit: ByRestart[float | None] = None
    """Percent of one core, over its whole tree."""
    process_limit: ByRestart[int | None] = None
    timeout: InPlace[float | None] = None
    """The longest that a run may take."""
    log: InPlace[LogSpec] = LogSpec()
    on_supervisor_exit: InPlace[Literal["stop", "keep"]] = "stop"
    on_session_end: InPlace[Literal["keep", "stop", "hand_over"] | None] = None
    """What happens to it when the session that started it ends. None: as the session says."""
    survivors: InPlace[Literal["adopt", "stop"]] = "adopt"
    essential: InPlace[bool] = False
    depends_on: InPlace[tuple[Dependency, ...]] = ()
    tags: InPlace[tuple[str, ...]] = ()
    template: Identity[str | None] = None
    """The name that the instances of a service share. None: it has no instances."""
    index: Identity[int | None] = None
    """Which instance it is, counted from 1."""
    overlap: InPlace[bool] = False
    """Whether a rolling restart starts the new run before it stops the old one."""
    sockets: ByRestart[tuple[str, ...]] = ()
    """Names of listening sockets, held by the keeper, that it gets from descriptor 3 on."""
    ports: ByRestart[dict[str, int]] = {}
    """The ports that it listens on by name; `port` is that of the key `port`. 0: any free one."""
    origin: Identity[Literal["config", "run", "target", "adopted", "gate"]] = "config"
    watch: InPlace[WatchSpec | None] = None
    schedule: InPlace[ScheduleSpec | None] = None
    probes: InPlace[tuple[ProbeSpec, ...]] = ()
    notify: ByRestart[NotifySpec | None] = None
    recovery: InPlace[dict[str, RecoverySpec]] = {}
    """The action for each cause of trouble. A cause that is not in it has the usual action."""
