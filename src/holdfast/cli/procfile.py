"""The lines of a Procfile: which services they declare, and which declare none, and why."""

from __future__ import annotations

import re
from collections.abc import Callable

_LINE = re.compile(r"\s*([^:]*?)\s*:\s*(.*?)\s*")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def parse(text: str, name_of: Callable[[str], str]) -> tuple[dict[str, str], dict[int, str]]:
    """Commands by the name of their service, and by the number of a line why it is left out.
    Of two lines for one service the later one counts."""
    commands: dict[str, str] = {}
    lines: dict[str, int] = {}
    left_out: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            left_out[number] = "it is not NAME: COMMAND"
        elif not _NAME.fullmatch(parts[1]):
            left_out[number] = "a name has only letters, digits, - _ ."
        elif not parts[2]:
            left_out[number] = f"{parts[1]} has no command"
        else:
            name = name_of(parts[1])
            if name in lines:
                left_out[lines[name]] = f"line {number} is {name}, too"
            lines[name] = number
            commands[name] = parts[2]
    return commands, left_out
