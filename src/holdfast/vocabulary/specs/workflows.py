"""What a user declares about commands, workflows and recovery, after parsing.

Durations are seconds. The defaults here are the defaults of the product.
"""

from __future__ import annotations

from typing import Literal

import msgspec

COMMAND_SECONDS = 600.0
RECOVERY_SECONDS = 60.0
WORKFLOW_SECONDS = 3600.0


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A command of the configuration, ready to be run."""

    argv: tuple[str, ...]
    working_dir: str
    env: dict[str, str] = {}
    timeout: float | None = None
    description: str = ""
    is_safe: bool = True
    allowed_in_production: bool = False


class CommandPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which commands that are not in the configuration may be run, and for how long."""

    allow_shell: bool = False
    allow_terminals: bool = False
    """Whether operators may open a shell beside a service."""
    allowed_types: tuple[str, ...] | None = None
    """None: every type for the owner at the local socket, no type for others."""
    allowed_programs: tuple[tuple[str, ...], ...] | None = None
    """The only beginnings of command lines. None: no limit."""
    timeout: float = COMMAND_SECONDS


StepAction = Literal["run", "command", "start", "stop", "restart", "rolling_restart", "wait"]


class StepSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a workflow. `action` says which of the other fields are used."""

    action: StepAction
    run: CommandSpec | None = None
    command: str | None = None
    """The name of a command of the configuration."""
    services: tuple[str, ...] = ()
    condition: str = "running"
    timeout: float | None = None
    description: str = ""


class WorkflowSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Named steps that are done in order."""

    steps: tuple[StepSpec, ...]
    description: str = ""
    on_failure: Literal["stop", "continue"] = "stop"
    timeout: float = WORKFLOW_SECONDS
    allowed_in_production: bool = False


RecoveryAction = Literal["restart", "stop", "notify", "signal", "command"]


class RecoverySpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The action for one cause of trouble."""

    action: RecoveryAction
    signal: str | None = None
    command: str | None = None
    """The name of a command of the configuration."""
    run: CommandSpec | None = None
