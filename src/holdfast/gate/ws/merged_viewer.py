"""A viewer of several services at once: their output and what happened to them, in one order.

Clients know it as a session with `services`. Output comes in the order in which the keeper recorded
it, events of the services between. It reads little ahead of its client, and never waits for a
service that prints nothing.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.gate.events import Event
from holdfast.gate.ws import frames
from holdfast.gate.ws.flow_control import FlowWindow
from holdfast.gate.ws.follower import Follower
from holdfast.gate.ws.output_blocks import Item, StreamSpan
from holdfast.gate.ws.output_feeds import BLOCK_BYTES, OutputFeed
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.system import deadlines
from holdfast.vocabulary.errors import HoldfastError, Refused, UsageError
from holdfast.vocabulary.events import EventKind

if TYPE_CHECKING:
    from holdfast.gate.ws.door import WebSocketConnection

_log = logging.getLogger("holdfast.gate")
FRAME_BYTES = 64 * 1024
ORDER_SECONDS = 0.05
"""How long output waits for earlier output of another service, whose notice may come later."""
PATIENCE_SECONDS = 0.5
"""How long the others wait for a service whose log should have more."""
EVENTS_BEFORE_SECONDS = 0.5
"""Events that are so much older than the oldest output are still told: a start precedes output."""
_NEVER = float("-inf")
_HEAD = struct.Struct(">BI")
_RECORD = struct.Struct(">HBBdQI")
"""Service, type, stream, unix time in milliseconds (0: unknown), position, length."""
OUTPUT, NOTE, EVENT, PLACE = 0, 1, 2, 3
"""The types of records."""
EVENT_LANE = 0xFFFF
MARKERS = frozenset(
    {
        *(
            EventKind.PROCESS_STARTED,
            EventKind.EXIT,
            EventKind.START_FAILED,
            EventKind.RESTART_SCHEDULED,
        ),
        *(EventKind.SUPPRESSED, EventKind.CONDEMNED, EventKind.SERVICE_READY, EventKind.REQUESTED),
        *(EventKind.SUPERVISOR_STARTED, EventKind.KEEPER_REPLACED, EventKind.HOLDFAST_STARTED),
    }
)
"""The events that are told between the lines."""
_encode = msgspec.json.Encoder().encode
OnEnd = Callable[["MergedViewer", str], None]


class MergedService(NamedTuple):
    """One of the services, and what of its log is wanted."""

    grant: dict[str, Any]
    feed: OutputFeed
    start: Cursor
    until: Cursor | None


class EventSource(NamedTuple):
    """The newest events of the services, the oldest first, and those that come."""

    newest: list[Event]
    following: AsyncGenerator[Event, None] | None


class _MergedLine(NamedTuple):
    time: float
    arrived: float
    record: bytes


class _Lane:
    """What was read of one service, and is not sent yet."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.entries: deque[_MergedLine] = deque()
        self.size = 0
        self.time = _NEVER
        """No later entry is older."""
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.is_over = False
        self.waits_since: float | None = None
        """Since when the others wait for it."""

    def add(self, kind: int, stream: int, time: float | None, position: int, data: bytes) -> None:
        self.time = max(self.time, time or 0.0)
        now = asyncio.get_running_loop().time()
        head = _RECORD.pack(self.index, kind, stream, (time or 0.0) * 1000, position, len(data))
        self.entries.append(_MergedLine(self.time, now, head + data))
        self.size += _RECORD.size + len(data)
        if self.size >= BLOCK_BYTES:
            self.has_room.clear()

    def pop(self) -> bytes:
        record = self.entries.popleft().record
        self.size -= len(record)
        if self.size < BLOCK_BYTES:
            self.has_room.set()
        return record

    def delays_others(self, now: float) -> bool:
        """Whether it has nothing although there should be something."""
        if self.entries or self.is_over or not self.is_behind():
            self.waits_since = None
            return False
        if self.waits_since is None:
            self.waits_since = now
        return now - self.waits_since < PATIENCE_SECONDS

    def is_behind(self) -> bool:
        return False


class _ServiceLane(_Lane):
    """The lane of a service's output."""

    def __init__(self, index: int, source: MergedService, *, skips: bool) -> None:
        """`skips`: rather the newest output than all of it, where it is too much."""
        super().__init__(index)
        self.skips = skips and source.until is None
        self.follower = Follower(source.feed, source.start)
        self.until = source.until
        self.is_begun = asyncio.Event()
        """Set when it has its first entry, or is known to have none yet."""
        self._end = cursors.decode(source.grant["end"]).start
        if not self.is_behind():
            self.is_begun.set()

    def is_behind(self) -> bool:
        return self.until is not None or self.follower.bytes_behind > 0

    async def read_on(self, moved: asyncio.Event) -> None:
        """Read up to where it ends, or for ever."""
        while self.until is None or self.follower.place.start < max(self.until):
            await self.has_room.wait()
            if self.skips:
                await self._skip()
            items: list[Item] | None
            if self.until is None:
                items = self.follower.take(await self.follower.blocks())
            else:
                items = await self._read_history()
                if items is None:
                    break
            for item in items:
                self._add(item)
            self.add(PLACE, 0, self.time, 0, cursors.encode(self.follower.place).encode())
            self.follower.is_live |= self.follower.place.start >= self._end
            self.is_begun.set()
            moved.set()
        self.is_over = True
        self.is_begun.set()
        moved.set()

    async def _read_history(self) -> list[Item] | None:
        assert self.until is not None
        place = self.follower.place
        block = await self.follower.feed.read(place, BLOCK_BYTES)
        if block is None:
            return None
        self.follower.place = block.end
        items = []
        for item in block.items:
            if isinstance(item, StreamSpan):
                room = self.until[item.stream] - item.position
                if room <= 0:
                    continue
                item = item._replace(data=item.data[:room])
            elif item.before.start >= max(self.until):
                continue
            items.append(item)
        return items

    def _add(self, item: Item) -> None:
        if isinstance(item, StreamSpan):
            self.add(OUTPUT, item.stream, item.time, item.position, item.data)
            return
        note = item.note
        facts: dict[str, Any] = {"kind": note.kind, "text": note.text, "run": note.run}
        facts["bytes"] = note.lost
        facts |= {"from": cursors.encode(item.before), "to": cursors.encode(item.after)}
        self.add(NOTE, 0, note.time, note.position, _encode(facts))

    async def _skip(self) -> None:
        """Leave out what a slow client cannot take, and tell it."""
        skipped = await self.follower.skip()
        if skipped is None:
            return
        before, live = skipped
        facts: dict[str, Any] = {"kind": "slow", "text": "too fast for this page", "run": 0}
        facts["bytes"] = live.start - before.start
        facts |= {"from": cursors.encode(before), "to": cursors.encode(live)}
        self.add(NOTE, 0, None, live.start, _encode(facts))


class MergedViewer:
    """One client's view of several services."""

    def __init__(
        self,
        number: int,
        identity: str,
        wanted: frames.CreateMerged,
        sources: list[MergedService],
        events: EventSource | None,
        connection: WebSocketConnection,
    ) -> None:
        self.number = number
        self.identity = identity
        self.window = FlowWindow(wanted, FRAME_BYTES + BLOCK_BYTES)
        self.feeds = [source.feed for source in sources]
        self._wanted = wanted
        self._sources = sources
        skips = wanted.slow == "skip"
        self._lanes = [
            _ServiceLane(index, source, skips=skips) for index, source in enumerate(sources)
        ]
        self._events = events
        self._event_lane = _Lane(EVENT_LANE)
        self._connection = connection
        self._moved = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def describe(self) -> dict[str, Any]:
        """Return what the client learns when the session is created."""
        return {
            "sessionId": self.identity,
            "number": self.number,
            "services": [
                {
                    "service": source.grant["service"],
                    "cursor": cursors.encode(source.start),
                    "beginning": source.grant["beginning"],
                    "end": source.grant["end"],
                    "terminal": source.grant["terminal"],
                    "status": source.grant["status"],
                }
                for source in self._sources
            ],
            "slow": self._wanted.slow,
            "bufferSize": self.window.size,
            "flushInterval": self.window.interval_ms,
        }

    def begin(self, on_end: OnEnd) -> None:
        create = asyncio.get_running_loop().create_task
        work = [lane.read_on(self._moved) for lane in self._lanes]
        work += [self._read_events(), self._send_output(on_end)]
        self._tasks = [create(self._guard(one, on_end)) for one in work]

    def stop(self) -> None:
        """Show nothing more, from now on."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def type(self, data: bytes, request_id: frames.RequestId = None) -> None:
        raise UsageError("a session of several services takes no input", "create one of its own")

    async def _guard(self, work: Any, on_end: OnEnd) -> None:
        """Do the work; a failure of it ends the session."""
        try:
            await work
        except HoldfastError as error:
            self._connection.post(frames.failure(error, None, self.identity))
            on_end(self, error.message)
        except OSError:
            return  # the connection is gone, and it ends its viewers itself
        except Exception:  # noqa: BLE001 - the border of the door
            _log.exception("a session of several services")
            on_end(self, "a mistake of the gate; its log tells more")

    async def _read_events(self) -> None:
        """Add what happened to the services, as far back as their output reaches."""
        if self._events is None:
            self._event_lane.is_over = True
            return
        for lane in self._lanes:
            await lane.is_begun.wait()
        times = [lane.entries[0].time for lane in self._lanes if lane.entries]
        oldest = min(times) - EVENTS_BEFORE_SECONDS if times else _NEVER
        for event in self._events.newest:
            if event["time"] >= oldest:
                self._add_event(event)
        if self._events.following is not None:
            try:
                async with aclosing(self._events.following) as following:
                    async for event in following:
                        self._add_event(event)
            except Refused:
                pass  # its rights became less; the output has its own
        self._event_lane.is_over = True
        self._moved.set()

    def _add_event(self, event: Event) -> None:
        if event["kind"] in MARKERS:
            self._event_lane.add(EVENT, 0, event["time"], 0, _encode(event))
            self._moved.set()

    async def _send_output(self, on_end: OnEnd) -> None:
        for lane in self._lanes:
            # The first entries decide which events are told, so they wait for each other.
            await lane.is_begun.wait()
        await asyncio.sleep(0)
        while True:
            await self.window.wait_for_room()
            self._moved.clear()
            records, seconds = self._take()
            if records:
                frame = _HEAD.pack(frames.MERGED, self.number) + b"".join(records)
                await self._connection.send(frame)
                self.window.count_sent(len(frame))
                await self.window.collect()
                continue
            lanes = [self._event_lane, *self._lanes]
            if all(lane.is_over and not lane.entries for lane in lanes):
                on_end(self, "end")
                return
            try:
                await deadlines.wait_for(self._moved.wait(), seconds)
            except TimeoutError:
                continue

    def _take(self) -> tuple[list[bytes], float | None]:
        """Return the next records in order. If there are none: after how many seconds to look
        again, unless something comes; None means that nothing waits."""
        now = asyncio.get_running_loop().time()
        lanes: list[_Lane] = [self._event_lane, *self._lanes]
        found: list[bytes] = []
        size = 0
        while size < FRAME_BYTES:
            full = [lane for lane in lanes if lane.entries]
            if not full:
                return found, None
            if any(lane.delays_others(now) for lane in lanes):
                return found, PATIENCE_SECONDS
            lane = min(full, key=lambda one: one.entries[0].time)
            age = now - lane.entries[0].arrived
            is_alone = len(self._lanes) == 1 and isinstance(lane, _ServiceLane)
            waits = not is_alone and any(not one.entries and not one.is_over for one in lanes)
            if waits and age < ORDER_SECONDS:
                return found, ORDER_SECONDS - age
            record = lane.pop()
            found.append(record)
            size += len(record)
        return found, None
