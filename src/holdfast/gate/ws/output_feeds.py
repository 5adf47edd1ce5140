"""Feeds of output: the viewers of a service share what is read at the end of its log.

A feed reads a service's log for all viewers that keep up. It reads when one of them wants more
and the shared watch has said that there is more. It keeps the newest blocks for viewers that are a
little behind. Viewers that are further behind read the log from their own place, so a slow viewer
slows nobody down and costs no memory. Those at the same place share what they read, too.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from holdfast.client.channel import Channel
from holdfast.client.connection import Unreachable
from holdfast.gate import secrets
from holdfast.gate.events import RETRY_SECONDS
from holdfast.gate.output import read_in_thread
from holdfast.gate.ws.output_blocks import BlockReader, OutputBlock
from holdfast.gate.ws.past_blocks import PastBlocks
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.reader import Reader
from holdfast.system import deadlines
from holdfast.vocabulary.errors import Failed, HoldfastError

BLOCK_BYTES = 32 * 1024
KEPT_BYTES = 1024 * 1024
COALESCE_SECONDS = 0.005
HOLD_SECONDS = 0.05
"""How long the beginning of a line or of a character waits for the rest of it."""
T = TypeVar("T")


class BlockGone(Exception):
    """The block is no longer kept; read its bytes from the log."""


class OutputFeeds:
    """The feeds of all services that have viewers. One connection carries their watches."""

    def __init__(self, new_channel: Callable[[], Channel]) -> None:
        self._new_channel = new_channel
        self._watching: Channel | None = None
        self._feeds: dict[str, OutputFeed] = {}
        self._users: dict[str, int] = {}
        self._threads = ThreadPoolExecutor(4, "reader")

    def open(
        self, directory: str, service: str, end: Cursor, *, is_terminal: bool = False
    ) -> OutputFeed:
        """Return the feed of a service; each `open` needs its `leave`."""
        self._users[service] = self._users.get(service, 0) + 1
        feed = self._feeds.get(service)
        if feed is None:
            if self._watching is None:
                self._watching = self._new_channel()
            feed = self._feeds[service] = OutputFeed(
                self, directory, service, end, is_terminal=is_terminal
            )
            feed.begin(self._watching)
        return feed

    async def leave(self, feed: OutputFeed) -> None:
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

    async def in_thread(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function that reads a log; raises Failed if the log cannot be read."""
        return await read_in_thread(partial(call, **named), *arguments, threads=self._threads)


class OutputFeed:
    """The end of one service's log, for all its viewers.

    Blocks have consecutive numbers. A viewer joins with its place and gets the number of its next
    block: the one that comes next, or a kept one that reaches back to its place. Then it asks for
    one number after the other. Asking for a block that does not exist yet is the demand that makes
    the feed read, so a feed whose viewers all wait for their clients reads nothing. When a block is
    no longer kept, the viewer leaves the blocks, reads the log at its own place, and joins again
    when it has caught up.
    """

    def __init__(
        self,
        feeds: OutputFeeds,
        directory: str,
        service: str,
        end: Cursor,
        *,
        is_terminal: bool = False,
    ) -> None:
        self.service = service
        self.known_end = end.start
        """How far the log reaches, as far as the supervisor has said."""
        self._feeds = feeds
        self._directory = directory
        self._is_terminal = is_terminal
        self._reader = self._reader_at(end)
        self._past = PastBlocks(feeds.in_thread, self._reader_at)
        self._held_since: float | None = None
        self._blocks: deque[OutputBlock] = deque()
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
        await self._past.close()
        await self._feeds.in_thread(self._close)

    @property
    def head(self) -> Cursor:
        """Where the shared blocks end."""
        return self._blocks[-1].end if self._blocks else self._reader.place

    @property
    def has_readers(self) -> bool:
        return self._is_reading or bool(self._waiters)

    def join(self, place: Cursor) -> int | None:
        """Return the number of the block to take next; None if no block reaches back that far."""
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

    async def block(self, number: int) -> OutputBlock:
        """Wait for a block; raises BlockGone if it is no longer kept."""
        while number >= self._next:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._demand.set()
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self.kept_block(number)

    def kept_block(self, number: int) -> OutputBlock:
        first = self._next - len(self._blocks)
        if not first <= number < self._next:
            raise BlockGone
        return self._blocks[number - first]

    def has(self, number: int) -> bool:
        return self._next - len(self._blocks) <= number < self._next

    async def read(self, place: Cursor, limit: int) -> OutputBlock | None:
        """Read what comes after a place, for viewers that are far from the end."""
        return await self._past.read(place, limit)

    async def live_place(self) -> Cursor:
        """Return where a viewer continues that wants to see the newest output: a little before
        the end, so that there is something to see."""
        if self.has_readers and self._blocks:
            return self._blocks[-1].start
        return await self._feeds.in_thread(Reader(self._directory, self.service).tail, 1)

    async def present_end(self) -> Cursor:
        return await self._feeds.in_thread(Reader(self._directory, self.service).end)

    def _reader_at(self, place: Cursor) -> BlockReader:
        return BlockReader(self._directory, self.service, place, is_terminal=self._is_terminal)

    def _begin_at(self, place: Cursor) -> None:
        self._reader.close()
        self._reader = self._reader_at(place)
        self._blocks.clear()
        self._kept = 0
        # A viewer that still waits for the number before finds its block gone.
        self._next += 1
        self._bell.set()

    async def _watch(self, channel: Channel) -> None:
        """Ring the bell when the log has grown, across every restart of the supervisor."""
        while True:
            try:
                fields = {"services": [self.service]}
                async with aclosing(channel.stream("watch", fields, None)) as items:
                    async for item in items:
                        await secrets.refresh(channel, item.get("hides", 0))
                        self.known_end = max(self.known_end, item.get("position") or 0)
                        self._bell.set()
            except Unreachable:
                pass
            except HoldfastError:
                # The service was removed; its output can still be read.
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
                await deadlines.wait_for(self._bell.wait(), seconds := self._hold_seconds())
                is_last = seconds == 0.0
            except TimeoutError:
                is_last = True
            self._bell.clear()
            block = await self._read(is_last=is_last)
            if block is None:
                continue
            self._held_since = None
            self._keep(block)
            if self._reader.is_at_end:
                await asyncio.sleep(COALESCE_SECONDS)
            else:
                self._bell.set()

    def _hold_seconds(self) -> float | None:
        """Return how long the held bytes may still wait; None if no bytes are held."""
        if not self._reader.holds:
            self._held_since = None
            return None
        now = asyncio.get_running_loop().time()
        if self._held_since is None:
            self._held_since = now
        return max(0.0, self._held_since + HOLD_SECONDS - now)

    async def _read(self, *, is_last: bool) -> OutputBlock | None:
        self._is_reading = True
        try:
            return await self._feeds.in_thread(self._step, is_last)
        except Failed as error:
            self._wake(error)
            await asyncio.sleep(RETRY_SECONDS)
            return None
        finally:
            self._is_reading = False

    def _step(self, is_last: bool) -> OutputBlock | None:
        with self._lock:
            return self._reader.read(BLOCK_BYTES, is_last=is_last)

    def _close(self) -> None:
        # A thread whose task was cancelled may still be reading.
        with self._lock:
            self._reader.close()

    def _keep(self, block: OutputBlock) -> None:
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
