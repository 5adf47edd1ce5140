"""Handlers of commands about the programs that assistants run in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.vocabulary.assistants import AssistantSetup, AssistantSetups, AssistantSetupsResult
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.names import TOOLSETS

if TYPE_CHECKING:
    from holdfast.system.assistant_programs import AssistantProgram

MOST_BYTES = 4 << 20


@handles(AssistantSetups)
async def assistant_setups(context: Context, command: AssistantSetups) -> AssistantSetupsResult:
    for name in command.toolsets:
        if name not in TOOLSETS:
            raise UsageError(f'no toolset "{name[:100]}"', f"known: {', '.join(TOOLSETS)}")
    return await context.in_thread(_setups, context.project, command)


def _setups(project: str, command: AssistantSetups) -> AssistantSetupsResult:
    # Rarely asked: no supervisor loads it in advance.
    from holdfast.system.assistant_programs import PROGRAMS, entry_of

    options = ["--start"] if command.start else []
    options += ["--read-only"] if command.read_only else []
    options += ["--toolsets", ",".join(command.toolsets)] if command.toolsets else []
    return AssistantSetupsResult(
        programs=[
            AssistantSetup(
                name=name,
                title=program.title,
                file=program.file,
                entry=entry_of(
                    program,
                    project,
                    options,
                    own=os.path.join(os.path.dirname(sys.executable), "holdfast"),
                    search_path=os.environ.get("PATH", ""),
                    text=_text_of(program, project),
                ).text,
                command=["holdfast", "mcp", "config", name, *options, "--write"],
                note=program.note,
            )
            for name, program in PROGRAMS.items()
        ]
    )


def _text_of(program: AssistantProgram, project: str) -> str:
    """Return what a file of the user says, because it may hold entries of other projects."""
    from holdfast.system.assistant_programs import path_of

    if not program.is_users:
        return ""
    try:
        with open(path_of(program, project, os.path.expanduser("~")), encoding="utf-8") as file:
            return file.read(MOST_BYTES)
    except (OSError, UnicodeDecodeError):
        return ""
