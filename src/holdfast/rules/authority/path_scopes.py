"""Whether a path is one of those that a token is limited to. Pure: looks at no file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from holdfast.rules.text.globs import expression


class PathTarget(msgspec.Struct, frozen=True):
    """A file or folder that a command is about, for limited callers."""

    absolute: str
    relative: str | None
    """Relative to the project's folder; None: it is elsewhere."""


def is_covered(target: PathTarget, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns means this path, or a folder that it is in."""
    for pattern in patterns:
        path = target.absolute if pattern.startswith("/") else target.relative
        if path is None:
            continue
        path = "/" + path.strip("/")
        regex = _scope(pattern)
        if regex.fullmatch(path) or regex.fullmatch(path.rstrip("/") + "/"):
            return True
    return False


@lru_cache(256)
def _scope(pattern: str) -> re.Pattern[str]:
    if pattern in (".", "./", "/"):
        pattern = "**"
    return re.compile(expression(pattern.removeprefix("./")), re.DOTALL)


def shown(text: str) -> str:
    """Return a name for a message: in one line, as readable text, not long."""
    safe = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in safe)
    return safe if len(safe) <= 200 else f"{safe[:200]}…"
