"""Commands about services."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.custom_commands import check_overrides
from holdfast.vocabulary.results import Outcomes, PsResult, StatusResult, WaitResult

START_SECONDS = 120.0
"""So long a client is kept waiting for starts, unless it says otherwise."""


class Status(Command, frozen=True, kw_only=True):
    """Tell what Holdfast and each service are doing.

    Without names, all services are told. Answers `supervisor` and `services`.
    """

    name = "status"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = StatusResult
    route = ("GET", "/api/status")
    is_shared = True
    services: list[str] = []


class Start(Command, frozen=True, kw_only=True):
    """Start services, and those they depend on. What runs already is `already_running`.

    `wait`: answer when each has stayed up for its `start_seconds` and is ready, or failed to.
    What takes longer than `timeout` seconds is `waiting`, with what it waits for; it goes on.
    """

    name = "start"
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


class Stop(Command, frozen=True, kw_only=True):
    """Stop services: signal, grace, then kill, until no process of them is left.

    Without names, all are stopped, in reverse order of dependency. `grace` in seconds
    overrides the configured one; 0 kills at once.
    """

    name = "stop"
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
    next start without them; who gives them decides what is executed, so that takes the role
    of an admin. Without a name, the only service is meant. `wait` and `timeout` are as in `start`.
    """

    name = "restart"
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

    def __post_init__(self) -> None:
        check_overrides(self.args, self.env_vars)


class Pause(Command, frozen=True, kw_only=True):
    """Freeze all processes of services; they use no CPU until resumed."""

    name = "pause"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = Outcomes
    route = ("POST", "/api/services/pause")
    services: list[str]


class Resume(Command, frozen=True, kw_only=True):
    """Let paused services continue."""

    name = "resume"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Outcomes
    route = ("POST", "/api/services/resume")
    services: list[str]


class Signal(Command, frozen=True, kw_only=True):
    """Send a signal to a service's main process, its group, or its whole tree."""

    name = "signal"
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


class Wait(Command, frozen=True, kw_only=True):
    """Wait until a service is `running`, `ready`, `healthy`, has `exited`, printed a line that
    matches `log:REGEX`, or printed nothing for `silent:SECONDS`; at most `timeout` seconds.

    Without probes, ready and healthy mean that it runs.

    A line counts from the start of the service's current run; an unfinished one, such as a
    prompt, once nothing more came for 0.2 s.
    """

    name = "wait"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = WaitResult
    route = ("POST", "/api/services/wait")
    service: str
    condition: str = "running"
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
