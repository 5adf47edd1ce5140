"""Commands that run programs (custom restarts, single commands, workflows), and their answers.

Says what a caller asks to be run, never whether it may be: `rules.authority.commands` decides that
from the server's settings."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
from msgspec.structs import force_setattr

from holdfast.vocabulary.command import Command, Done, Effect, Permission, Result
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.services import ServiceStatus, check_overrides

TOOLS: dict[str, str] = {
    "make": "make",
    "cargo": "cargo",
    "npm": "npm",
    "npx": "npx",
    "yarn": "yarn",
    "pnpm": "pnpm",
    "node": "node",
    "python": "python3",
    "uv": "uv",
    "go": "go",
    "just": "just",
}
"""Types of command that are a program: `command` and `args` are its arguments."""
NAMED, SHELL, BINARY = "named", "shell", "binary"
COMMAND_TYPES = (NAMED, SHELL, BINARY, *TOOLS)
_ALIASES = {"sh": SHELL, "executable": BINARY, "program": BINARY, "python3": "python"}


def command_type(text: str) -> str:
    """The type that a user means; raises ValueError that lists those that there are."""
    word = text.strip().lower()
    word = _ALIASES.get(word, word)
    if word in COMMAND_TYPES:
        return word
    guess = closest(word, list(COMMAND_TYPES))
    meant = f'did you mean "{guess}"? ' if guess else ""
    raise ValueError(f'"{text}" is no type of command; {meant}known: {", ".join(COMMAND_TYPES)}')


class CustomCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command to run. A key that is null or left out is the same.

    `command_type` is named (a command of the configuration), shell, binary (the words of a
    program), or a program of its own: make, cargo, npm, python … Without one, `command` is a
    command of the configuration if one has that name, else a program. `is_safe: true` grants
    nothing, `is_safe: false` refuses; so does `allowed_in_production: false` in production.
    """

    command: str
    command_type: str | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    env: dict[str, str] | None = None
    description: str | None = None
    is_safe: bool | None = None
    allowed_in_production: bool | None = None
    timeout: float | None = None
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.command_type is not None:
            force_setattr(self, "command_type", command_type(self.command_type))
        if not self.command.strip():
            raise ValueError("`command` is empty")
        if any("\0" in word for word in (self.command, *(self.args or ()))):
            raise ValueError("a command must not contain NUL characters")
        seconds_of(self.timeout, self.timeout_seconds)

    @property
    def seconds(self) -> float | None:
        """How long it may take, if it says so."""
        return seconds_of(self.timeout, self.timeout_seconds)


def seconds_of(timeout: float | None, timeout_seconds: float | None) -> float | None:
    """One duration with two names; raises ValueError for one that cannot be."""
    if timeout is not None and timeout_seconds is not None and timeout != timeout_seconds:
        raise ValueError("`timeout` and `timeout_seconds` contradict each other; keep one")
    seconds = timeout if timeout is not None else timeout_seconds
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"a timeout of {seconds:g} is not a number of seconds above 0")
    return seconds


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
    rest_tag = "custom"
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
    its output is told as items, the last of them the result; a client that stops listening ends it.
    """

    name = "execute_command"
    rest_tag = "custom"
    toolset = "process"
    mcp_setting = "run"
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
    rest_tag = "custom"
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
    rest_tag = "custom"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    in_lockdown = True
    answers = Done
    route = ("POST", "/api/workflows/cancel")
    workflow: str


class FollowWorkflow(Command, frozen=True, kw_only=True):
    """Wait for the end of a workflow, custom restart or command; that changes nothing of it.
    `workflow` is its id, as `workflows` tells it. The last few that are over are known, too.

    With `follow`, its steps so far and the last of what they printed, then progress and output,
    are told as items, the last of them the result.
    """

    name = "follow_workflow"
    rest_tag = "custom"
    permission = Permission.OPERATE
    effect = Effect.READS
    answers = WorkflowResult
    reads_content = True
    streams = True
    route = ("GET", "/api/workflows/{workflow}")
    workflow: str
    follow: bool = False


class Workflows(Command, frozen=True, kw_only=True):
    """List the workflows and commands of the configuration, and what is under way."""

    name = "workflows"
    rest_tag = "custom"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = WorkflowsResult
    route = ("GET", "/api/workflows")
