"""Whether an assistant may have a program run. Pure.

The configuration's `mcp: {run: …}` decides; asked by `rules.authority.commands` for the
command `run`. The owner at the local socket may run what he likes.
"""

from __future__ import annotations

import os

from holdfast.rules.authority.permissions import ALLOWED_BY_SETTINGS, Verdict
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.holdfast import Run
from holdfast.vocabulary.specs.settings import Settings


def permit_run(actor: Actor, command: Run, settings: Settings) -> Verdict:
    """Whether an actor may have this program supervised."""
    if actor.door is Door.CLI:
        return ALLOWED_BY_SETTINGS
    mcp = settings.mcp
    if not mcp.run:
        return Verdict(False, "running programs is off; `mcp: {run: true}` allows it")
    if settings.is_production:
        return Verdict(False, "in production only commands of the configuration are run")
    folder = os.path.normpath(command.working_dir or ".")
    if os.path.isabs(folder) or folder.split(os.sep)[0] == os.pardir:
        return Verdict(False, f'"{command.working_dir}" is not below the project')
    if mcp.programs is None or not command.argv:
        return ALLOWED_BY_SETTINGS
    if not any(tuple(command.argv[: len(words)]) == words for words in mcp.programs):
        program = redact(command.argv[0])[:60]
        allowed = ", ".join(" ".join(words) for words in mcp.programs) or "nothing"
        return Verdict(False, f'"{program}": `mcp: {{run: …}}` allows only {allowed}')
    if command.environment:
        # Another PATH or a library to preload would make the allowed words run something else.
        return Verdict(False, "where programs are listed, the caller gives no environment")
    if "/" in command.argv[0] and folder != "." and not os.path.isabs(command.argv[0]):
        return Verdict(False, f'"{command.argv[0]}" is another program in another folder')
    return ALLOWED_BY_SETTINGS
