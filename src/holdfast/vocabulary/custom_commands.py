"""A command that a caller asks to be run: what it is, never whether it may be.

That is decided by `rules.authority.commands` from the server's settings.
"""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import force_setattr

from holdfast.vocabulary.names import closest

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


def check_overrides(args: list[str] | None, env_vars: dict[str, str] | None) -> None:
    """Raises ValueError for what no process can be started with: before anything is stopped."""
    given = env_vars or {}
    if any("\0" in word for word in (*(args or ()), *given, *given.values())):
        raise ValueError("arguments and variables must not contain NUL characters")
    if any(not name or "=" in name for name in given):
        raise ValueError("the name of a variable is not empty and has no =")


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
