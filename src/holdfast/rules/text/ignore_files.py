"""Ignore files as git reads them: which names below a folder do not count. Pure.

The patterns may be hostile, like the files, so matching takes no more time than the product of the
lengths of pattern and path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

NAMES = (".gitignore", ".ignore")
"""In order: a later one wins."""
MOST_PATTERNS = 2000
MOST_DEEP = 5
"""How often `**` may occur in a pattern; no sane one has more."""
_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "digit": "0-9", "lower": "a-z",
    "upper": "A-Z", "punct": "!-/:-@\\[-`{-~", "space": " \\t\\n\\r\\f\\v", "xdigit": "0-9a-fA-F",
}  # fmt: skip


class IgnorePattern(NamedTuple):
    """One line of an ignore file."""

    regex: re.Pattern[str]
    is_negated: bool
    is_folder_only: bool
    is_name_only: bool


@lru_cache(64)
def read(text: str) -> tuple[IgnorePattern, ...]:
    """Return the patterns of an ignore file, last first: the last that matches counts."""
    found = []
    for line in _bytewise(text.removeprefix("\ufeff")).split("\n")[: 10 * MOST_PATTERNS]:
        pattern = _pattern(line.removesuffix("\r"))
        if pattern is not None:
            found.append(pattern)
    return tuple(reversed(found[:MOST_PATTERNS]))


def verdict(
    patterns: Sequence[IgnorePattern], names: Sequence[str], *, is_folder: bool
) -> bool | None:
    """Return whether this is ignored, by its names below the ignore file's folder; None: unsaid."""
    names = [_bytewise(name) for name in names]
    path = "/".join(names)
    for pattern in patterns:
        if pattern.is_folder_only and not is_folder:
            continue
        if pattern.regex.fullmatch(names[-1] if pattern.is_name_only else path):
            return not pattern.is_negated
    return None


def _bytewise(text: str) -> str:
    """Return a letter for each byte: to git, `?` is one byte."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _pattern(line: str) -> IgnorePattern | None:
    if line.startswith("#"):
        return None
    line = _without_trailing_spaces(line)
    is_negated = line.startswith("!")
    if is_negated:
        line = line[1:]
    is_folder_only = line.endswith("/")
    if is_folder_only:
        line = line[:-1]
    if not line:
        return None
    is_name_only = "/" not in line
    parts = line.removeprefix("/").split("/")
    if parts.count("**") > MOST_DEEP:
        return None
    try:
        regex = re.compile(_Translation().path(parts), re.DOTALL)
    except (re.error, _NeverMatches):
        return None
    return IgnorePattern(regex, is_negated, is_folder_only, is_name_only)


def _without_trailing_spaces(line: str) -> str:
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and len(bare) < len(line) else bare


class _NeverMatches(Exception):
    """A pattern that git considers broken, too."""


class _Translation:
    """Translates a pattern into a regular expression that never backtracks over a star."""

    def __init__(self) -> None:
        self._groups = 0

    def path(self, parts: list[str]) -> str:
        if len(parts) == 1:
            return self._name(parts[0])
        found = ""
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            if part == "**":
                if is_last:
                    found += ".+"
                elif number == 0 or parts[number - 1] != "**":
                    found += "(?:[^/]+/)*"
            else:
                found += self._name(part) + ("" if is_last else "/")
        return found

    def _name(self, part: str) -> str:
        pieces = self._pieces(part)
        found = pieces[0]
        for piece in pieces[1:-1]:
            self._groups += 1
            group = f"g{self._groups}"
            found += f"(?=(?P<{group}>[^/]*?{piece}))(?P={group})"
        if len(pieces) > 1:
            found += "[^/]*" + pieces[-1]
        return found

    def _pieces(self, part: str) -> list[str]:
        """Translate what stands between the stars."""
        pieces, place = [""], 0
        while place < len(part):
            letter = part[place]
            place += 1
            if letter == "*":
                if pieces[-1] or len(pieces) == 1:
                    pieces.append("")
            elif letter == "?":
                pieces[-1] += "[^/]"
            elif letter == "[":
                choice, place = _choice(part, place)
                pieces[-1] += choice
            elif letter == "\\":
                if place == len(part):
                    raise _NeverMatches
                pieces[-1] += re.escape(part[place])
                place += 1
            else:
                pieces[-1] += re.escape(letter)
        return pieces


def _choice(part: str, place: int) -> tuple[str, int]:
    """Translate a choice of characters after its bracket; return also where it ends."""
    is_negated = part[place : place + 1] in ("!", "^")
    place += is_negated
    inside, begin = "", place
    while True:
        if place >= len(part):
            raise _NeverMatches
        letter = part[place]
        if letter == "]" and place > begin:
            break
        if letter == "[" and part[place + 1 : place + 2] == ":":
            end = part.find(":]", place + 2)
            name = part[place + 2 : end] if end > 0 else ""
            if name not in _CLASSES:
                raise _NeverMatches
            inside += _CLASSES[name]
            place = end + 2
            continue
        is_range = letter == "-" and place > begin and part[place + 1 : place + 2] not in ("]", "")
        if letter == "\\":
            place += 1
            letter = part[place : place + 1]
        inside += "-" if is_range else re.escape(letter)
        place += 1
    return f"(?!/)[{'^' if is_negated else ''}{inside}]", place + 1
