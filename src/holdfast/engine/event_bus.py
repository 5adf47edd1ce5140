"""Publishes stored events to readers, each of which continues from its own number.

Publishes only what is on disk. Keeps the newest events in memory, so that a reader that keeps up
costs no query. A slower reader reads the database from where it was.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from itertools import islice

from holdfast.vocabulary.events import Event

_RECENT = 2000


class EventBus:
    """The newest stored events, and the readers that wait for more."""

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
        """Return events with larger numbers; None if memory does not reach back that far."""
        if seq >= self.last_seq:
            return []
        if not self._recent or self._recent[0].seq > seq + 1:
            return None
        # Numbers may be missing: on a full disk, the oldest events are dropped.
        first = bisect_right(self._recent, seq, key=lambda event: event.seq)
        last = min(first + limit, len(self._recent))
        return list(islice(self._recent, first, last))

    async def newer_than(self, seq: int) -> None:
        """Return when an event with a larger number is stored."""
        while self.last_seq <= seq:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
