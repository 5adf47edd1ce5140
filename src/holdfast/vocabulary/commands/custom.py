"""Commands that run commands: custom restarts, single commands, workflows."""

from __future__ import annotations

import msgspec

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.custom_commands import CustomCommand, check_overrides, seconds_of
from holdfast.vocabulary.results import Done, WorkflowResult, WorkflowsResult

MOST_COMMANDS = 100


class CustomRestart(Command, frozen=True, kw_only=True):
    """Run commands, restart a service, run commands.

    A `pre_commands` entry that fails ends it before the service is touched; one of
    `post_commands` that fails is reported, and the service stays up. `start_args` (or `args`)
    and `env_vars` hold until the next start without them, and take the role of an admin.
    Without `service`, the `default_service` is meant, or the only one. `timeout` bounds the
    whole, in seconds. With `follow`, progress and output are told as items, the last of them
    the result; it goes on if nobody listens any more.
    """

    name = "custom_restart"
    path_fields = frozenset({"pre_commands", "post_commands"})
    carries_commands = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    admin_fields = frozenset({"args", "start_args", "env_vars"})
    answers = WorkflowResult
    route = ("POST", "/api/services/custom-restart")
    service: str | None = None
    pre_commands: list[CustomCommand] | None = None
    start_args: list[str] | None = None
    args: list[str] | None = None
    post_commands: list[CustomCommand] | None = None
    env_vars: dict[str, str] | None = None
    timeout: float | None = None
    timeout_seconds: float | None = None
    follow: bool = False

    def __post_init__(self) -> None:
        if len(self.pre_commands or ()) + len(self.post_commands or ()) > MOST_COMMANDS:
            raise ValueError(f"more than {MOST_COMMANDS} commands; a script is a better place")
        if None not in (self.args, self.start_args) and self.args != self.start_args:
            raise ValueError("`args` and `start_args` contradict each other; keep one")
        check_overrides(self.args or self.start_args, self.env_vars)
        seconds_of(self.timeout, self.timeout_seconds)

    @property
    def seconds(self) -> float | None:
        return seconds_of(self.timeout, self.timeout_seconds)


class ExecuteCommand(Command, frozen=True, kw_only=True):
    """Run one command to its end, if the settings of this Holdfast allow it.

    `custom_command` is the same as `command`, for requests whose own name stands under
    `command`. It runs where and with what `service` runs; else in `working_dir` with the
    `environment`, which only the owner gives; else in the project's folder. With `follow`,
    its output is told as items, the last of them the result; who stops listening ends it.
    """

    name = "execute_command"
    path_fields = frozenset({"working_dir", "command", "custom_command"})
    carries_commands = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = WorkflowResult
    route = ("POST", "/api/commands/execute")
    command: CustomCommand | None = None
    custom_command: CustomCommand | None = None
    timeout_seconds: float | None = None
    service: str | None = None
    working_dir: str | None = None
    environment: dict[str, str] | None = None
    follow: bool = False

    def __post_init__(self) -> None:
        if (self.command is None) == (self.custom_command is None):
            raise ValueError("there must be one command: `command` or `custom_command`")
        seconds_of(None, self.timeout_seconds)

    @property
    def asked(self) -> CustomCommand:
        found = self.command or self.custom_command
        assert found is not None
        return found


class RunWorkflow(Command, frozen=True, kw_only=True):
    """Do the steps of a workflow of the configuration, in order.

    With `follow`, progress and output are told as items, the last of them the result; it
    goes on if nobody listens any more.
    """

    name = "run_workflow"
    carries_commands = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = WorkflowResult
    route = ("POST", "/api/workflows/{name}/run")
    workflow: str = msgspec.field(name="name")
    follow: bool = False


class CancelWorkflow(Command, frozen=True, kw_only=True):
    """End a workflow, custom restart or command that is under way: its current command is
    killed, and no further step is begun. A restart that has begun is finished. `workflow` is
    its id, as `workflows` tells it.
    """

    name = "cancel_workflow"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    in_lockdown = True
    answers = Done
    route = ("POST", "/api/workflows/cancel")
    workflow: str


class Workflows(Command, frozen=True, kw_only=True):
    """List the workflows and commands of the configuration, and what is under way."""

    name = "workflows"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = WorkflowsResult
    route = ("GET", "/api/workflows")
