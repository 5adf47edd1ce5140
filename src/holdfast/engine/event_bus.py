"""Who is told that something was stored: readers of events, each at its own number.

Publishes only what is on disk already. Keeps the newest events in memory so that a reader
who keeps up costs no query; one who does not reads the database from where it was.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from itertools import islice

from holdfast.vocabulary.events import Event

_RECENT = 2000


class EventBus:
    """The newest stored events, and a bell."""

    def __init__(self) -> None:
        self._recent: deque[Event] = deque(maxlen=_RECENT)
        self._waiters: list[asyncio.Future[None]] = []
        self.last_seq = 0
        """The newest number that is on disk."""

    def publish(self, events: list[Event]) -> None:
        self._recent.extend(events)
        self.last_seq = events[-1].seq
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def after(self, seq: int, limit: int) -> list[Event] | None:
        """Events with larger numbers; None when memory does not reach back that far."""
        if seq >= self.last_seq:
            return []
        if not self._recent or self._recent[0].seq > seq + 1:
            return None
        # Numbers may be missing: the newest events outlive the oldest on a full disk.
        first = bisect_right(self._recent, seq, key=lambda event: event.seq)
        last = min(first + limit, len(self._recent))
        return list(islice(self._recent, first, last))

    async def newer_than(self, seq: int) -> None:
        """Return when an event with a larger number is stored."""
        while self.last_seq <= seq:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
