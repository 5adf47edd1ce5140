"""The configuration while services run: commands and their answers."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.vocabulary.command import Command, Effect, Permission, Result
from holdfast.vocabulary.services import Outcome


class PlanStep(Result, frozen=True, kw_only=True):
    """The effect of a reload on one service, and the reason."""

    action: Literal["add", "remove", "restart", "change", "unchanged"]
    fields: list[str] = []
    """Names of the fields that differ, as `argv`, `stop.grace`, `env.NAME`; never values."""
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
    """Names of the settings that differ, beyond the services."""
    scaled: dict[str, str] = {}
    """Services whose number of instances was set by `scale` and is kept, in words."""
    changes: bool = False
    """Whether a reload would do anything."""


class ReloadResult(Result, frozen=True, kw_only=True):
    """`plan` has the steps, `services` the outcome of each service that was touched."""

    config: str | None
    plan: dict[str, PlanStep]
    services: dict[str, Outcome]
    settings: list[str] = []
    changes: bool = False


class ConfigValue(Result, frozen=True, kw_only=True):
    """One value of the configuration, and where it was given."""

    path: list[str]
    """The keys from the top of the file: `services`, `web`, `port`."""
    value: Any
    """As a user would write it. A secret is `[hidden]`."""
    source: Literal["file", "environment", "command_line", "default"]
    file: str | None = None
    line: int | None = None
    given_by: str | None = None
    """The option or the variable that overrides the file."""
    variables: list[str] = []
    """Names of the variables that were replaced in it."""


class ConfigResult(Result, frozen=True, kw_only=True):
    config: str | None
    files: list[str]
    """Every file that was read, those of variables, too."""
    values: list[ConfigValue]


def check_path(path: str | None) -> None:
    if path is not None and "\0" in path:
        raise ValueError("a path has no NUL")


class Config(Command, frozen=True, kw_only=True):
    """Show the configuration as `reload` would read it now, value by value, and where each value
    comes from: file and line, variable, option, or default.

    Variables are replaced and short forms written out. Secrets are hidden; values of environment
    variables are shown to the owner at the command line, and to others only where they are surely
    no secret. `services` limits what is shown. `defaults` shows the defaults of keys that are not
    written, too.
    """

    name = "config"
    reads_content = True
    permission = Permission.OPERATE
    effect = Effect.READS
    answers = ConfigResult
    route = ("GET", "/api/config")
    services: list[str] = []
    defaults: bool = False


class Plan(Command, frozen=True, kw_only=True):
    """Tell what `reload` would do, service by service, and change nothing.

    Says which fields differ, never their values. `services` limits what is told. `config`
    names another file than the one in use; only an admin may give it.
    """

    name = "plan"
    path_fields = frozenset({"config"})
    permission = Permission.VIEW
    effect = Effect.READS
    answers = PlanResult
    route = ("GET", "/api/config/plan")
    admin_fields = frozenset({"config"})
    services: list[str] = []
    config: str | None = None

    def __post_init__(self) -> None:
        check_path(self.config)


class Reload(Command, frozen=True, kw_only=True):
    """Read the configuration again and do what `plan` says: add, remove, restart, change.

    An unchanged service keeps its process, one that was stopped by hand stays stopped, and a file
    with a problem changes nothing. Variables are those of the last `up`. `config` names
    another file from now on; only an admin may give it. Files that were changed since
    an admin loaded them are loaded by an admin only. `wait`: answer when each service that was
    started has stayed up or failed. `delete_logs`: of removed services, too.
    """

    name = "reload"
    path_fields = frozenset({"config"})
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = ReloadResult
    route = ("POST", "/api/config/reload")
    admin_fields = frozenset({"config"})
    config: str | None = None
    wait: bool = True
    delete_logs: bool = False

    def __post_init__(self) -> None:
        check_path(self.config)
