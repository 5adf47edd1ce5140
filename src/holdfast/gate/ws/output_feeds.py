"""Who looks at which service: readers of a log share what is read at its end.

A feed reads a service's log for all its viewers who keep up, when one of them wants more and
the shared watch said that there is more. What was read last is kept for those a little behind;
who is further behind reads for itself. So a slow viewer slows nobody and grows nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, TypeVar

from holdfast.client.channel import Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.secrets import learn
from holdfast.gate.ws.output_blocks import Block, Reading
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.errors import Failed, HoldfastError

BLOCK_BYTES = 32 * 1024
KEPT_BYTES = 1024 * 1024
COALESCE_SECONDS = 0.005
PATIENCE_SECONDS = 0.05
"""How long the beginning of a line, or of a character, waits for its end."""
RETRY_SECONDS = 0.1
T = TypeVar("T")


class Behind(Exception):
    """What comes next is not kept any more: read it from the log."""


class Feeds:
    """The feeds of all services that have viewers, over one connection for their watches."""

    def __init__(self, new_channel: Callable[[], Channel]) -> None:
        self._new_channel = new_channel
        self._watching: Channel | None = None
        self._feeds: dict[str, Feed] = {}
        self._users: dict[str, int] = {}
        self._threads = ThreadPoolExecutor(4, "reader")

    def open(self, directory: str, service: str, end: Cursor, *, is_terminal: bool = False) -> Feed:
        """The feed of a service; each `open` needs its `leave`."""
        self._users[service] = self._users.get(service, 0) + 1
        feed = self._feeds.get(service)
        if feed is None:
            if self._watching is None:
                self._watching = self._new_channel()
            feed = self._feeds[service] = Feed(
                self, directory, service, end, is_terminal=is_terminal
            )
            feed.begin(self._watching)
        return feed

    async def leave(self, feed: Feed) -> None:
        self._users[feed.service] -= 1
        if self._users[feed.service]:
            return
        del self._users[feed.service], self._feeds[feed.service]
        channel = None
        if not self._feeds:
            channel, self._watching = self._watching, None
        await feed.end()
        if channel is not None:
            await channel.close()

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Read something of a log; raises Failed if it cannot be read."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, call, *arguments)
        except OSError as error:
            raise Failed(
                f"the log cannot be read: {error}", "has the gate too many open files?"
            ) from None


class Feed:
    """The end of one service's log."""

    def __init__(
        self, feeds: Feeds, directory: str, service: str, end: Cursor, *, is_terminal: bool = False
    ) -> None:
        self.service = service
        self.known_end = end.start
        """How far the log reaches, as far as we were told."""
        self._feeds = feeds
        self._directory = directory
        self._is_terminal = is_terminal
        self._reading = self._reading_at(end)
        self._held_since: float | None = None
        self._blocks: deque[Block] = deque()
        self._kept = 0
        self._next = 0
        self._is_reading = False
        self._waiters: list[asyncio.Future[None]] = []
        self._bell, self._demand = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._lock = threading.Lock()

    def begin(self, channel: Channel) -> None:
        create = asyncio.get_running_loop().create_task
        self._tasks = [create(self._watch(channel)), create(self._read_on())]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._feeds.in_thread(self._close)

    @property
    def head(self) -> Cursor:
        """Where what was read for all ends."""
        return self._blocks[-1].end if self._blocks else self._reading.place

    @property
    def has_readers(self) -> bool:
        return self._is_reading or bool(self._waiters)

    def join(self, place: Cursor) -> int | None:
        """The number of the block to take next; None if they do not reach back that far."""
        head = self.head
        if place.out >= head.out and place.err >= head.err:
            if place != head and not self.has_readers:
                self._begin_at(place)
            return self._next
        number = self._next
        for block in reversed(self._blocks):
            number -= 1
            if block.start.out <= place.out and block.start.err <= place.err:
                return number
        return None

    async def block(self, number: int) -> Block:
        """Wait for a block; raises Behind if it was there and is not kept any more."""
        while number >= self._next:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._demand.set()
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self.kept(number)

    def kept(self, number: int) -> Block:
        first = self._next - len(self._blocks)
        if not first <= number < self._next:
            raise Behind
        return self._blocks[number - first]

    def has(self, number: int) -> bool:
        return self._next - len(self._blocks) <= number < self._next

    async def read(self, place: Cursor, limit: int) -> Block | None:
        """What comes after a place, for a viewer who is far from the end."""
        return await self._feeds.in_thread(self._read_at, place, limit)

    async def live(self) -> Cursor:
        """Where somebody goes on who wants to see what is printed now: a little before the
        end, so that there is something to see."""
        if self.has_readers and self._blocks:
            return self._blocks[-1].start
        return await self._feeds.in_thread(Reader(self._directory, self.service).tail, 1)

    async def present_end(self) -> Cursor:
        return await self._feeds.in_thread(Reader(self._directory, self.service).end)

    def _read_at(self, place: Cursor, limit: int) -> Block | None:
        reading = self._reading_at(place)
        try:
            return reading.read(limit, is_last=True)
        finally:
            reading.close()

    def _reading_at(self, place: Cursor) -> Reading:
        return Reading(self._directory, self.service, place, is_terminal=self._is_terminal)

    def _begin_at(self, place: Cursor) -> None:
        self._reading.close()
        self._reading = self._reading_at(place)
        self._blocks.clear()
        self._kept = 0
        # Who still waits for the number before is behind now.
        self._next += 1
        self._bell.set()

    async def _watch(self, channel: Channel) -> None:
        """Ring when the log has grown; over every end of the supervisor."""
        while True:
            try:
                fields = {"services": [self.service]}
                async with aclosing(channel.stream("watch", fields, None)) as items:
                    async for item in items:
                        await learn(channel, item.get("hides", 0))
                        self.known_end = max(self.known_end, item.get("position") or 0)
                        self._bell.set()
            except Unreachable:
                pass
            except HoldfastError:
                # It is not known any more; what it has printed can be read all the same.
                self._bell.set()
                await asyncio.sleep(10 * RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_on(self) -> None:
        while True:
            await self._demand.wait()
            if not self._waiters:
                self._demand.clear()
                continue
            is_last = False
            try:
                await asyncio.wait_for(self._bell.wait(), patience := self._patience())
                is_last = patience == 0.0
            except asyncio.TimeoutError:
                is_last = True
            self._bell.clear()
            block = await self._read(is_last=is_last)
            if block is None:
                continue
            self._held_since = None
            self._keep(block)
            if self._reading.is_at_end:
                await asyncio.sleep(COALESCE_SECONDS)
            else:
                self._bell.set()

    def _patience(self) -> float | None:
        """How long what is held may still wait; None if nothing is."""
        if not self._reading.holds:
            self._held_since = None
            return None
        now = asyncio.get_running_loop().time()
        if self._held_since is None:
            self._held_since = now
        return max(0.0, self._held_since + PATIENCE_SECONDS - now)

    async def _read(self, *, is_last: bool) -> Block | None:
        self._is_reading = True
        try:
            return await self._feeds.in_thread(self._step, is_last)
        except Failed as error:
            self._wake(error)
            await asyncio.sleep(RETRY_SECONDS)
            return None
        finally:
            self._is_reading = False

    def _step(self, is_last: bool) -> Block | None:
        with self._lock:
            return self._reading.read(BLOCK_BYTES, is_last=is_last)

    def _close(self) -> None:
        # A thread that was given up may still be reading.
        with self._lock:
            self._reading.close()

    def _keep(self, block: Block) -> None:
        if block.is_anew:
            self._blocks.clear()
            self._kept = self.known_end = 0
        self._blocks.append(block)
        self._next += 1
        self._kept += block.size
        self.known_end = max(self.known_end, block.end.start)
        while self._kept > KEPT_BYTES and len(self._blocks) > 1:
            self._kept -= self._blocks.popleft().size
        self._wake(None)

    def _wake(self, error: HoldfastError | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)
