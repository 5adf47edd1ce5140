"""Commands about the configuration while services run."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.results import PlanResult, ReloadResult


def check_path(path: str | None) -> None:
    if path is not None and "\0" in path:
        raise ValueError("a path has no NUL")


class Plan(Command, frozen=True, kw_only=True):
    """Tell what `reload` would do, service by service, and change nothing.

    Says which fields differ, never their values. `services` limits what is told. `config`
    names another file than the one in use, which is for those who administer.
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

    What is unchanged keeps its process, what was stopped by hand stays stopped, and a file
    with a problem changes nothing. Variables are those of the last `up`. `config` names
    another file from now on, which is for those who administer. Files that were changed since
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
