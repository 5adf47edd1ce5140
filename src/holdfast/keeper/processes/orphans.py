"""The keeper's direct children that are no run's main process: orphans of its runs.

One reading serves all who ask in a row, as far as it is young enough for what they ask.
"""

from __future__ import annotations

import math
import time

from holdfast.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Known = Callable[[], Collection[int]]

ANY_TIME, NOW = 0.0, math.inf


class _Reading:
    __slots__ = ("at", "known", "pids")

    def __init__(self) -> None:
        self.at = 0.0
        self.known: Known | None = None
        self.pids: list[int] = []


_last = _Reading()


def strangers_since(moment: float, known: Known) -> list[int]:
    """As they were a few milliseconds ago at most, and not before that moment."""
    now = time.monotonic()
    if _last.at < moment or _last.at <= now - processes.ROUGH_SECONDS or known != _last.known:
        _last.at, _last.known, mains = now, known, known()
        _last.pids = [pid for pid in processes.own_children() if pid not in mains]
    return _last.pids
