"""Holdfast itself, and what brings services into it: commands and their answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.vocabulary.command import LOCAL, Command, Done, Door, Effect, Permission, Result
from holdfast.vocabulary.services import START_SECONDS, Outcome, Outcomes


class HelloResult(Result, frozen=True, kw_only=True):
    """Versions, who asks, and how this Holdfast is reached."""

    version: str
    protocol: int
    pid: int
    keeper_pid: int
    keeper_version: str
    project: str
    state: str
    actor: str = ""
    """Who asked, as the audit calls them."""
    session: str | None = None
    """Their session, if they have one."""
    role: str = ""
    doors: dict[str, str] = {}
    """Where each open network door listens."""
    fingerprint: str | None = None
    """SHA-256 of the certificate that HTTPS shows."""
    no_assistants: str | None = None
    """Why assistants cannot connect here, if so."""
    offer: dict[str, Any] | None = None
    """Which tools assistants are offered: `read_only`, `toolsets`, `run`, `send`."""
    runtime_mode: str = "proxy"
    lockdown: dict[str, Any] | None = None
    """The emergency lockdown in force: `reason`, `by`, `since`."""
    hidden: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The `values` that must not be shown, and the `number` under which they are known; only for
    callers that read logs from their files, and if asked for."""


class UpResult(Result, frozen=True, kw_only=True):
    services: dict[str, Outcome]
    added: list[str]
    changed: list[str]
    """Services whose declaration differs from what runs; `reload` applies it."""
    removed: list[str]
    stays_stopped: list[str] = []
    """Services that were stopped by hand and are left so, as was asked."""
    warnings: list[str] = []
    """What the configuration says and surely does not mean."""
    is_level_given: bool = False
    """Whether a level of Holdfast's own log was chosen, by whatever means."""


class RunResult(Result, frozen=True, kw_only=True):
    service: str
    outcome: Outcome


class PruneResult(Result, frozen=True, kw_only=True):
    deleted_bytes: int
    deleted_runs: int
    services: list[str]


class ShutdownResult(Result, frozen=True, kw_only=True):
    """`kept`: services that go on, with a keeper that holds them."""

    message: str
    kept: list[str] = []
    stuck: list[str] = []
    """Those of them that could not be stopped."""


class Hello(Command, frozen=True, kw_only=True):
    """State versions on both sides; one minor version apart works. Tells the caller's
    own name and role, too. A token whose limits leave this command out learns nothing more.

    With `secrets`, a caller that reads logs from their files (the owner at this machine, the
    gate) is told which values must not be shown; nobody else is.
    """

    name = "hello"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = HelloResult
    greets = True
    always_answered = True
    version: str = ""
    secrets: bool = False


class Up(Command, frozen=True, kw_only=True):
    """Read the configuration and start its services; what runs is left alone.

    Also what was stopped by hand is started, if it has `autostart`; with `unless_stopped` it is
    left and named in `stays_stopped`, also after a `down` and a boot. Declarations that differ
    from what runs are named in `changed`; `reload` applies them.

    `services` limits what is started. `environment` is the caller's; services inherit it.
    `settings` are the caller's overrides (log level, port), already parsed. `wait` and `timeout`
    are as in `start`.
    """

    name = "up"
    path_fields = frozenset({"config"})
    repeatable = True
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = UpResult
    doors = LOCAL
    config: str | None = None
    services: list[str] = []
    unless_stopped: bool = False
    environment: dict[str, str] = {}
    settings: dict[str, str] = {}
    wait: bool = False
    timeout: float = START_SECONDS


class Run(Command, frozen=True, kw_only=True):
    """Supervise a command without configuration.

    The service is named after the command unless `service` says otherwise. If it runs already,
    it is `already_running`; a name under which another program runs is refused.
    """

    name = "run"
    toolset = "process"
    mcp_setting = "run"
    path_fields = frozenset({"working_dir"})
    masked = frozenset({"input"})
    carries_commands = True
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = RunResult
    doors = LOCAL | {Door.MCP}
    granted_by_name = True
    argv: list[str]
    service: str | None = None
    working_dir: str = ""
    """Where it runs, relative to the project."""
    environment: dict[str, str] = {}
    restart_policy: Literal["always", "on_failure", "never"] = "on_failure"
    terminal: bool = False
    stdin: Literal["null", "pipe"] = "null"
    input: str | None = None
    """What is written to its standard input, which then ends; base64."""
    wait: bool = True
    task: bool = False
    """It is expected to end: no exit code is a failure, nothing is alerted or tried again."""
    keep: bool = False
    """Whether it stays when the session ends that runs it."""


class Adopt(Command, frozen=True, kw_only=True):
    """Take over a process that already runs, by pid, pid file or listening port.

    Its output is not available, and its exit code only where the kernel tells it; stop works.
    """

    name = "adopt"
    path_fields = frozenset({"pidfile"})
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = Outcomes
    route = ("POST", "/api/services/adopt")
    service: str
    pid: int | None = None
    pidfile: str | None = None
    port: int | None = None


class Prune(Command, frozen=True, kw_only=True):
    """Delete ended runs and log segments older than `older_than` seconds (0: all). Segments with
    output of a live run stay."""

    name = "prune"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = PruneResult
    route = ("POST", "/api/prune")
    services: list[str] = []
    older_than: float = 0.0


class Upgrade(Command, frozen=True, kw_only=True):
    """Swap supervisor and keeper for the installed version; no service notices."""

    name = "upgrade"
    path_fields = frozenset({"package", "import_path"})
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = Done
    doors = LOCAL
    argv_prefix: list[str]
    package: str
    import_path: list[str]


class Shutdown(Command, frozen=True, kw_only=True):
    """Stop all services in reverse order of dependency, then the supervisor and the keeper.

    `keep_running`: only the supervisor ends; keeper and services stay. `now`: no grace.
    """

    name = "shutdown"
    permission = Permission.ADMINISTER
    effect = Effect.DISRUPTS
    in_lockdown = True
    answers = ShutdownResult
    route = ("POST", "/api/shutdown")
    keep_running: bool = False
    now: bool = False
