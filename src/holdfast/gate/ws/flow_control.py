"""How fast a client is served and how fast it may ask: unacknowledged bytes, and requests."""

from __future__ import annotations

import asyncio

from holdfast.gate.ws.frames import FlowSettings
from holdfast.system.token_bucket import TokenBucket

SMALLEST_BUFFER, LARGEST_BUFFER = 4 * 1024, 8 * 1024 * 1024
LONGEST_INTERVAL_MS = 1000.0
REQUESTS_PER_SECOND = 200.0
BURST = 400.0


class FlowWindow:
    """At most `bufferSize` bytes may be unacknowledged; without it, only the connection itself
    slows the sender. Output is collected for `flushInterval` before it is sent.

    `reserve` is the most that is sent at once: the window must have room for it."""

    def __init__(self, wanted: FlowSettings, reserve: int = 0) -> None:
        size, interval = wanted.buffer_size, wanted.flush_interval
        smallest = max(SMALLEST_BUFFER, 2 * reserve)
        self.size = None if size is None else min(max(size, smallest), LARGEST_BUFFER)
        self.interval_ms = min(max(interval or 0.0, 0.0), LONGEST_INTERVAL_MS)
        self._reserve = reserve
        self._unacknowledged = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def count_sent(self, count: int) -> None:
        self._unacknowledged += count
        if self.size is not None and self._unacknowledged + max(1, self._reserve) > self.size:
            self._has_room.clear()

    def acknowledge(self, count: int) -> None:
        self._unacknowledged = max(0, self._unacknowledged - max(0, count))
        if self.size is None or self._unacknowledged + max(1, self._reserve) <= self.size:
            self._has_room.set()

    async def wait_for_room(self) -> None:
        await self._has_room.wait()

    async def collect(self) -> None:
        """Wait while more output comes that can be sent together."""
        if self.interval_ms:
            await asyncio.sleep(self.interval_ms / 1000)


class RequestRate:
    """Slows down the reading of a client that sends more requests a second than it may."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._bucket = TokenBucket(BURST, self._clock())

    async def wait(self) -> None:
        """Return when the next request may be handled."""
        # No event to wait for: it is known when there will be a token.
        while seconds := self._bucket.take(  # noqa: ASYNC110
            REQUESTS_PER_SECOND, BURST, self._clock()
        ):
            await asyncio.sleep(seconds)
