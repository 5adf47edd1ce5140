"""What a configuration says about AI backends: agents at the command line, and model servers.

How a backend is spoken to is in the adapter of its kind. A stored backend leaves out fields that
have their default.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ApprovalRule = Literal["allow", "deny", "ask"]


class BudgetSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one session may use; at the limit it is interrupted. None: as much as it likes."""

    tokens: int | None = None
    cost: float | None = None
    """In the currency that the backend tells, which is dollars for all known ones."""
    turns: int | None = None
    seconds: float | None = None
    """The wall time of all turns together."""


class ToolRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens when an agent asks for permission to use certain tools."""

    tool: str = "*"
    """A pattern of the tool's name."""
    on: str = "*"
    """A pattern of what it is used on: the command, path or address of the call. To allow, it must
    match all of these, and a command with shell operators only as it is written."""
    then: ApprovalRule = "ask"


class BackendSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One AI backend."""

    name: str
    kind: str
    """The adapter: claude, codex, gemini, opencode, acp, ollama, lm_studio, openai, or one of a
    plugin."""
    command: tuple[str, ...] = ()
    """The program and its first arguments. Empty: the usual program of the kind, on PATH."""
    args: tuple[str, ...] = ()
    """Further arguments."""
    model: str | None = None
    mode: Literal["headless", "pty"] = "headless"
    """Whether it is spoken to by its protocol, or runs in a terminal for a person."""
    url: str | None = None
    """The address of a model server."""
    service: str | None = None
    """The service that runs the model server; it is started if it does not run."""
    key: str | None = None
    """The key of the model server or of the agent's vendor."""
    env: dict[str, str] = {}
    working_dir: str | None = None
    """Where sessions work that do not say where. None: the project's folder."""
    rules: tuple[ToolRule, ...] = ()
    """The first that matches decides about a permission; without any, a person is asked."""
    approve_within: float | None = None
    """A permission that nobody decides within this time is refused. None: the agent waits."""
    budget: BudgetSpec = BudgetSpec()
    stall: float = 600.0
    """A turn without any sign of life for so long is interrupted."""
    start_timeout: float = 60.0
    first_token: float = 120.0
    """A model server must begin its answer within this time."""
    gap: float = 60.0
    """Between two pieces of its answer there may be so much time."""
    health: Literal["models", "answers"] = "models"
    """How far a model server is examined: its list of models, or a real answer of one token."""
    max_crashes: int = 3
    """After so many crashes that follow each other it is not started again by itself."""
    mcp: bool = True
    """Whether its agents get Holdfast's own tools, with the rights of their session."""
    worktree_end: Literal["keep", "remove", "merge"] = "keep"
    """What becomes of a session's own worktree at its end; unsaved work is always kept."""
