"""Which files a service watches, from patterns alone. Pure: looks at no file.

`*` and `?` stay within a name, `**` is any number of folders, `[…]` a choice of characters. A
pattern without any of these is a file, or a folder with everything below it. Usual noise is
ignored, unless a pattern names it outright.
"""

from __future__ import annotations

import re
from fnmatch import translate

from holdfast.system.patterns import pattern
from holdfast.vocabulary.specs.services import WatchSpec

IGNORED_NAMES = (
    *(".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".tox", ".nox"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".idea", ".DS_Store"),
    *("*.pyc", "*.pyo", "*.sw[a-z]", "*~", ".#*", "#*#", "4913", ".*.kate-swp", "*.tmp.[0-9]*"),
    *("*___jb_tmp___", "*___jb_old___", ".goutputstream-*"),
)
_MAGIC = pattern(r"[*?\[]")
Names = re.Pattern[str]


class GlobPattern:
    """One pattern: the folder that it begins in, and how deep it goes."""

    def __init__(self, text: str) -> None:
        parts = text.strip("/").split("/")
        literal = next((n for n, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
        self.is_plain = literal == len(parts)
        self.base = "/" + "/".join(parts[:literal])
        rest = parts[literal:]
        is_deep = self.is_plain or "**" in rest
        self.depth = None if is_deep else len(rest) - 1
        """How many folders below the base can matter; None: all."""
        self._regex = re.compile(expression(text))

    def below(self, path: str) -> list[str] | None:
        """Return the names between the base and a matching path; None: it does not match."""
        if self._regex.fullmatch(path) is None:
            return None
        return _names_below(self.base, path)

    def enters(self, folder: str) -> list[str] | None:
        """Return the same for a folder in which something may match."""
        names = _names_below(self.base, folder)
        if names is None or (self.depth is not None and len(names) > self.depth):
            return None
        return names


class Watched:
    """What one service watches."""

    def __init__(self, spec: WatchSpec, never: tuple[str, ...] = ()) -> None:
        self.patterns = [GlobPattern(text) for text in spec.paths]
        names = [*IGNORED_NAMES, *(text for text in spec.ignore if "/" not in text)]
        self._names: Names = re.compile("|".join(f"(?:{translate(name)})" for name in names))
        ignored = [text for text in spec.ignore if "/" in text]
        self._ignored = [re.compile(expression(text)) for text in ignored]
        self._never = tuple(f"{folder}/" for folder in never)

    @property
    def bases(self) -> list[str]:
        return [pattern.base for pattern in self.patterns]

    def matches(self, path: str) -> bool:
        """Return whether a change of this file counts."""
        return self._is_meant(path, [pattern.below(path) for pattern in self.patterns])

    def enters(self, folder: str) -> bool:
        """Return whether changes in this folder may count."""
        return self._is_meant(folder, [pattern.enters(folder) for pattern in self.patterns])

    def _is_meant(self, path: str, found: list[list[str] | None]) -> bool:
        if not any(names is not None and not any(map(self._names.match, names)) for names in found):
            return False
        if f"{path}/".startswith(self._never):
            return False
        return not any(regex.fullmatch(path) for regex in self._ignored)


def expression(text: str) -> str:
    """Return a pattern as a regular expression for whole absolute paths."""
    parts = text.strip("/").split("/")
    if not _MAGIC.search(text):
        return re.escape("/" + "/".join(parts)) + "(?:/.*)?"
    found = ""
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            found += "/.*" if is_last else "(?:/[^/]+)*"
        else:
            found += "/" + _name_expression(part)
    return found


def _name_expression(part: str) -> str:
    found, place = "", 0
    while place < len(part):
        letter = part[place]
        place += 1
        if letter == "*":
            found += "[^/]*"
        elif letter == "?":
            found += "[^/]"
        elif letter == "[" and (end := part.find("]", place + 1)) > 0:
            found += _choice(part[place:end])
            place = end + 1
        else:
            found += re.escape(letter)
    return found


def _choice(inside: str) -> str:
    """Translate characters in brackets; they stand for themselves if they are no valid choice."""
    letters = inside.removeprefix("!")
    escaped, place = "", 0
    while place < len(letters):
        is_range = letters[place + 1 : place + 2] == "-" and place + 2 < len(letters)
        ends = letters[place : place + 3 : 2] if is_range else letters[place]
        escaped += "-".join(map(re.escape, ends))
        place += 3 if is_range else 1
    written = f"[^{escaped}]" if inside.startswith("!") else f"[{escaped}]"
    try:
        re.compile(written)
    except re.error:
        return re.escape(f"[{inside}]")
    return written


def _names_below(base: str, path: str) -> list[str] | None:
    if path == base or base == "/":
        return [name for name in path[len(base) :].split("/") if name]
    return path[len(base) + 1 :].split("/") if path.startswith(base + "/") else None
