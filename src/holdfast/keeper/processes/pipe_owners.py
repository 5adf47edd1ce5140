"""Who prints into a run's pipes: a mark that no new environment and no new session takes away."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS = (1, 2)


def prints_to(pid: int, parts: Mapping[str, int]) -> bool:
    """Whether standard output or error of the process is a pipe of which we have the other end.
    No, where that cannot be told."""
    try:
        ours = [os.fstat(parts[name]) for name in ("out", "err") if name in parts]
    except OSError:
        return False
    return any(_is_at(pid, number, ours) for number in _NUMBERS) if ours else False


def _is_at(pid: int, number: int, ours: list[os.stat_result]) -> bool:
    try:
        theirs = os.stat(f"/proc/{pid}/fd/{number}")
    except OSError:
        return False
    return any(os.path.samestat(theirs, it) for it in ours)
