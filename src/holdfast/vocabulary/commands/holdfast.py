"""Commands about Holdfast itself, and those that bring services into it."""

from __future__ import annotations

from typing import Literal

from holdfast.vocabulary.commands.command import LOCAL, Command, Door, Effect, Permission
from holdfast.vocabulary.commands.services import START_SECONDS
from holdfast.vocabulary.hello import HelloResult
from holdfast.vocabulary.results import (
    Done,
    Outcomes,
    PruneResult,
    RunResult,
    ShutdownResult,
    UpResult,
)


class Hello(Command, frozen=True, kw_only=True):
    """State versions on both sides; one minor version apart works. Tells who asks, too. A token
    whose limits leave this command out learns no more than that.

    With `secrets`, who reads logs from their files (the owner at this machine, the gate) is told
    which values must not be shown; nobody else is.
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
    path_fields = frozenset({"working_dir"})
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
    wait: bool = True
    task: bool = False
    """It is expected to end: no exit code is a failure, nothing is alerted or tried again."""


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
