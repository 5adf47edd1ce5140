"""Programs that assistants run in: what each must be told to reach this Holdfast."""

from __future__ import annotations

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class AssistantSetup(Result, frozen=True, kw_only=True):
    """What one program must be told."""

    name: str
    title: str
    file: str
    """Relative to the project, or with `~` to the user's home."""
    entry: str
    """What has to stand in the file, as JSON or TOML."""
    command: list[str]
    """The command line that writes it there."""
    note: str = ""


class AssistantSetupsResult(Result, frozen=True, kw_only=True):
    programs: list[AssistantSetup]


class AssistantSetups(Command, frozen=True, kw_only=True):
    """Tell what the program of an assistant must be told to reach this Holdfast.

    For each known program: its file, the entry in it, and the command line that writes the entry.
    `read_only` offers only tools that look, `toolsets` only these sets, and `start` starts
    Holdfast if nothing runs. Nothing is written.
    """

    name = "assistant_setups"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = AssistantSetupsResult
    route = ("GET", "/api/mcp/setups")
    read_only: bool = False
    start: bool = False
    toolsets: list[str] = []
