"""The problems of a configuration, which are collected and raised as one error.

Owns how a report is worded. A value that may be a secret is never repeated in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.secrets.redaction import is_secret_name
from holdfast.system.patterns import pattern
from holdfast.vocabulary.errors import ConfigError, UsageError

_SECRET_LINE = pattern(r"^(\s*(?:-\s*)?(?:export\s+)?[\"']?([\w.-]+)[\"']?\s*[:=]\s*)(\S.*)$")
LONGEST_SHOWN_VALUE = 60
COMMAND_LINE = "the command line"


class Problem(NamedTuple):
    """One problem and its place. Line and column count from 1."""

    file: str
    line: int | None
    column: int | None
    key: str
    value: str | None
    message: str
    suggestion: str
    excerpt: str = ""

    def shown(self, folder: str) -> str:
        file = self.file
        if os.path.dirname(file) == folder:
            file = os.path.basename(file)
        where = ":".join(str(part) for part in (file, self.line, self.column) if part is not None)
        text = f"{where}: {self.key}: " if self.key else f"{where}: "
        text += self.message
        if self.suggestion:
            text += f"; {self.suggestion}"
        if self.excerpt:
            text += "\n" + "\n".join(f"    {line}" for line in self.excerpt.splitlines())
        return text


def quote_value(text: str) -> str:
    """Return a value as a report repeats it: one short line in double quotes."""
    if len(text) > LONGEST_SHOWN_VALUE:
        text = text[: LONGEST_SHOWN_VALUE - 1] + "…"
    return '"' + text.replace("\n", "\\n") + '"'


def repeat_safely(command: str) -> str | None:
    """Return a command as a report may repeat it; None if it seems to hold a secret."""
    return None if is_secret_name(command) else command[:200]


def make_excerpt(text: str, line: int, column: int) -> str:
    """Return the offending line with a caret below it. The value of a secret is left out."""
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return ""
    shown = lines[line - 1].rstrip()
    found = _SECRET_LINE.match(shown)
    if found and is_secret_name(found[2]):
        return f"{line} | {found[1]}…"
    prefix = f"{line} | "
    lead = "".join("\t" if c == "\t" else " " for c in shown[: column - 1])
    return f"{prefix}{shown[:120]}\n{' ' * len(prefix)}{lead}^"


def make_error(problems: Iterable[Problem], file: str) -> ConfigError | UsageError:
    """Make the one error that lists every problem, in the order of the file."""
    problems = list(problems)
    is_typed = all(problem.file == COMMAND_LINE for problem in problems)
    file = COMMAND_LINE if is_typed else file
    ordered = sorted(problems, key=lambda p: (p.file != file, p.file, p.line or 0, p.column or 0))
    unique = list(dict.fromkeys(ordered))
    count = "1 problem" if len(unique) == 1 else f"{len(unique)} problems"
    folder = os.path.dirname(file)
    lines = [f"{count} in {file}", *(f"  {p.shown(folder)}" for p in unique)]
    hint = "nothing was started or changed"
    details = {
        "problems": [
            {name: value for name, value in p._asdict().items() if name != "excerpt" or value}
            for p in unique
        ]
    }
    if is_typed:
        return UsageError("\n".join(lines), hint, details)
    return ConfigError("\n".join(lines), f"fix the configuration and try again; {hint}", details)
