"""What running a custom command means: its words, where and for how long, how it is shown. Pure.

`rules.authority.commands` decides whether it may be run.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from holdfast.secrets.redaction import redact, redact_arguments
from holdfast.system.patterns import pattern
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.specs.settings import Settings
from holdfast.vocabulary.specs.workflows import CommandSpec
from holdfast.vocabulary.workflows import BINARY, NAMED, SHELL, TOOLS, CustomCommand

SHELL_WORDS = ("/bin/sh", "-c")
LONGEST_SHOWN = 200
_QUOTED = pattern(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)
_SHELL_ONLY = pattern(r"[|&;<>`]+|\$[\w({]+")


class Prepared(NamedTuple):
    """A command as it is run."""

    argv: tuple[str, ...]
    working_dir: str | None
    """None, or relative to the folder of the service or the project."""
    env: dict[str, str]
    timeout: float
    what: str
    """A text that may be shown: without secrets, and not too long."""


def kind_of(command: CustomCommand, settings: Settings) -> str:
    """Return the type that it gives, or what its name means here."""
    if command.command_type is not None:
        return command.command_type
    return NAMED if command.command in settings.commands else BINARY


def argv_of(command: CustomCommand, settings: Settings) -> tuple[str, ...]:
    """Return the words to execute; raises UsageError for what only a shell would understand."""
    kind, args = kind_of(command, settings), tuple(command.args or ())
    if kind == NAMED:
        return settings.commands[command.command].argv
    if kind == SHELL:
        return (*SHELL_WORDS, command.command, *(("sh", *args) if args else ()))
    words = (*_words(command.command), *args)
    return words if kind == BINARY else (TOOLS[kind], *words)


def prepare(command: CustomCommand, settings: Settings, timeout: float | None = None) -> Prepared:
    """Return what running a permitted command means."""
    kind = kind_of(command, settings)
    if kind == NAMED:
        spec = settings.commands.get(command.command)
        if spec is None:
            raise UsageError(unknown_name(command.command, settings))
        return prepare_spec(spec, settings, timeout or command.seconds)
    argv = argv_of(command, settings)
    what = redact(command.command) if kind == SHELL else shown(argv)
    return Prepared(
        argv=argv,
        working_dir=command.working_dir,
        env=dict(command.env or {}),
        timeout=timeout or command.seconds or settings.command_policy.timeout,
        what=_with_description(what, redact(command.description or "")),
    )


def prepare_spec(spec: CommandSpec, settings: Settings, timeout: float | None = None) -> Prepared:
    """Return what running a command of the configuration means."""
    what = redact(spec.argv[2]) if spec.argv[:2] == SHELL_WORDS else shown(spec.argv)
    return Prepared(
        argv=spec.argv,
        working_dir=spec.working_dir,
        env=dict(spec.env),
        timeout=timeout or spec.timeout or settings.command_policy.timeout,
        what=_with_description(what, spec.description),
    )


def shown(argv: tuple[str, ...]) -> str:
    """Return a command as it may be shown."""
    return " ".join(shlex.quote(word) for word in redact_arguments(argv))


def unknown_name(name: str, settings: Settings) -> str:
    known = ", ".join(settings.commands) or "none"
    return (
        f'no command "{redact(name)[:60]}" under `commands:` of the configuration; known: {known}'
    )


def _words(text: str) -> list[str]:
    found = _SHELL_ONLY.search(_QUOTED.sub(" ", text))
    if found is not None:
        raise UsageError(
            f"only a shell understands {found[0]}",
            "put quotes around it, or use the type shell where the settings allow it",
        )
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the command cannot be split into words: {error}") from None
    if not words:
        raise UsageError("the command is empty")
    return words


def _with_description(what: str, description: str) -> str:
    if len(what) > LONGEST_SHOWN:
        what = what[: LONGEST_SHOWN - 1] + "…"
    return f"{what} ({description[:LONGEST_SHOWN]})" if description else what
