"""What a case finds: the row of the table, whether the target was met, and every number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Finding:
    """One row."""

    case: str
    limit: str
    peer: str
    ours: str
    ratio: str
    target: str
    is_met: bool | None
    """None: the limit itself was too unsteady to judge by."""
    runs: dict[str, Any] = field(default_factory=dict)


def interleaved(rounds: int, ways: dict[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """Every way once a round, in an order that turns with the rounds."""
    results: dict[str, list[Any]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            results[name].append(ways[name]())
    return results


def judged(is_met: bool, limit_runs: list[float]) -> bool | None:
    """The verdict, unless the limit's own runs differ by half: load on the machine lowers the
    limit, and so flatters whatever is compared with it."""
    return is_met if max(limit_runs) <= 1.5 * min(limit_runs) else None


def listed(values: list[float], digits: int = 0) -> str:
    return " ".join(f"{value:.{digits}f}" for value in values)
