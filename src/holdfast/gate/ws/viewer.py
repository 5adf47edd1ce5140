"""A viewer's stay on a service: its output from a place on, its state, its metrics, and what
the viewer types.

Owns the viewer's place in the log and its pace. Decides nothing: what is typed becomes a
command with the caller's token. Never holds more than one block for a viewer who does not read.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from holdfast.client.connection import Unreachable
from holdfast.gate.ws import frames
from holdfast.gate.ws.flow_control import Window
from holdfast.gate.ws.keyboards import Keyboards
from holdfast.gate.ws.output_blocks import (
    Block,
    Item,
    Piece,
    Tail,
    Told,
    beyond,
    binary,
    gap,
    tails_of,
)
from holdfast.gate.ws.output_feeds import BLOCK_BYTES, Behind, Feed
from holdfast.gate.ws.status_feed import Condition, Conditions, condition
from holdfast.logbook.cursors import BEGINNING, Cursor, encode
from holdfast.vocabulary.errors import HoldfastError, Refused, UsageError

_log = logging.getLogger("holdfast.gate")
SKIP_BYTES = 1024 * 1024
"""How far a viewer who wants to see what is printed now may be behind."""
LAST_WORDS_SECONDS = 2.0
MOST_CONDITIONS = 64
MOST_INPUTS = 256
SHORTEST_METRICS = 1.0


class Client(Protocol):
    """The connection, as far as a session needs it."""

    async def send(self, data: str | bytes) -> None: ...

    def post(self, text: str) -> None: ...

    async def ask(self, command: str, fields: dict[str, Any]) -> dict[str, Any]: ...


class House(NamedTuple):
    """What sessions of all connections share."""

    conditions: Conditions
    keyboards: Keyboards


class Typed(NamedTuple):
    """Something for the service, and who wants to know that it got there."""

    command: str
    fields: dict[str, Any]
    identity: frames.Id


class Session:
    """One viewer of one service."""

    def __init__(
        self,
        number: int,
        identity: str,
        wanted: frames.CreateSession,
        grant: dict[str, Any],
        feed: Feed,
        place: Cursor,
        client: Client,
        house: House,
    ) -> None:
        self.number = number
        self.identity = identity
        self.service: str = grant["service"]
        self.window = Window(wanted, BLOCK_BYTES)
        self.feed = feed
        self.place = place
        self._wanted = wanted
        self._grant = grant
        self._client = client
        self._house = house
        self._stream = None if wanted.stream is None else frames.STREAM_NAMES.index(wanted.stream)
        self._next: int | None = None
        self._known: Cursor | None = None
        """What the viewer has of blocks that it takes from within."""
        self._is_live = False
        """Whether it has come to the end of the log once."""
        self._shown = place
        self._moved = asyncio.Event()
        self._conditions: deque[Condition | None] = deque(maxlen=MOST_CONDITIONS)
        self._has_condition = asyncio.Event()
        self._inputs: asyncio.Queue[Typed] = asyncio.Queue(MOST_INPUTS)
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, on_end: Callable[[Session, str], None]) -> None:
        grant = self._grant
        end = {"code": grant["exit_code"], "signal": grant["signal"], "reason": grant["reason"]}
        self._conditions.append(condition(grant["status"], **end))
        self._has_condition.set()
        self._house.conditions.listen(self.service, grant["seq"], end, self._on_condition)
        self._house.keyboards.join(self)
        work = [self._show(), self._tell_conditions(on_end), self._type()]
        if self._wanted.metrics is not None:
            work.append(self._tell_metrics(max(SHORTEST_METRICS, self._wanted.metrics)))
        create = asyncio.get_running_loop().create_task
        self._tasks = [create(self._guarded(one, on_end)) for one in work]

    def stop(self) -> None:
        """Show nothing more, from now on."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        self.stop()
        self._house.keyboards.leave(self)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._house.conditions.leave(self.service, self._on_condition)

    async def _guarded(self, work: Awaitable[None], on_end: Callable[[Session, str], None]) -> None:
        try:
            await work
        except HoldfastError as error:
            self._client.post(frames.failure(error, None, self.identity))
            on_end(self, error.message)
        except OSError:
            # The connection is gone; its end is not ours to tell.
            return
        except Exception:  # noqa: BLE001 - the border of the door
            _log.exception("a session of %s", self.service)
            on_end(self, "a mistake of the gate; its log tells more")

    # Output

    async def _show(self) -> None:
        while True:
            await self.window.room()
            if self._wanted.slow == "skip":
                await self._skip()
            before, blocks = self.place, await self._following()
            await self._send_blocks(blocks, before)
            self._shown = self.place
            self._moved.set()
            await self.window.collect()

    async def _following(self) -> list[Block]:
        """What comes next: from what was read for all, or from the log."""
        while True:
            if self._next is None:
                self._next = self.feed.join(self.place)
                self._known = self.place
            if self._next is None:
                block = await self.feed.read(self.place, BLOCK_BYTES)
                if block is not None:
                    return [block]
                continue
            self._is_live = True
            try:
                blocks = [await self.feed.block(self._next)]
            except Behind:
                self._next = None
                continue
            self._next += 1
            size = blocks[0].size
            while self.window.interval_ms and self.feed.has(self._next):
                size += self.feed.kept(self._next).size
                if size > BLOCK_BYTES:
                    break
                blocks.append(self.feed.kept(self._next))
                self._next += 1
            return blocks

    async def _send_blocks(self, blocks: list[Block], before: Cursor) -> None:
        first, last, known = blocks[0], blocks[-1], self._known
        if known is not None and (first.is_anew or first.start.start >= max(known)):
            self._known = known = None
        # Who had more than the blocks keeps what it had.
        self.place = _further(known, last.end) if known is not None else last.end
        if len(blocks) == 1 and known is None and self._stream is None:
            items, tails = first.items, first.tails
        else:
            every = [item for block in blocks for item in block.items]
            items = beyond(every, known or BEGINNING, self._stream)
            tails = partial(tails_of, items, before)
        if self._wanted.binary:
            await self._send_binary(items)
            return
        for tail in tails():
            await self._client.send(self._text(tail))
        self.window.sent(sum(len(item.data) for item in items if isinstance(item, Piece)))

    async def _send_binary(self, items: list[Item]) -> None:
        for tail in tails_of([item for item in items if isinstance(item, Told)], self.place):
            await self._client.send(self._text(tail))
        for data in binary(items, self.number):
            await self._client.send(data)
            self.window.sent(len(data) - frames.BINARY.size)

    def _text(self, tail: Tail) -> str:
        kind = '"type":"output",' if tail.event == "output" else ""
        return f'{{"event":"{tail.event}","data":{{{kind}"sessionId":"{self.identity}",{tail.text}'

    async def _skip(self) -> None:
        if not self._is_live or self.feed.known_end - self.place.start <= SKIP_BYTES:
            return
        live = await self.feed.live()
        lost = live.start - self.place.start
        if lost <= 0:
            return
        text = f"{lost} bytes skipped: the viewer was too slow"
        tail = gap(self.place, live, lost, "slow", text)
        self.place, self._next = live, None
        await self._client.send(self._text(tail))

    # How the service is

    def _on_condition(self, found: Condition | None) -> None:
        self._conditions.append(found)
        self._has_condition.set()

    async def _tell_conditions(self, on_end: Callable[[Session, str], None]) -> None:
        while True:
            await self._has_condition.wait()
            if not self._conditions:
                self._has_condition.clear()
                continue
            found = self._conditions.popleft()
            if found is None:
                on_end(self, "the service was removed")
                return
            if found["state"] in ("completed", "failed"):
                await self._last_words()
            await self._client.send(frames.message("status", self.identity, found))

    async def _last_words(self) -> None:
        """Who keeps up has a run's output before its end."""
        end = (await self.feed.present_end()).start

        async def shown() -> None:
            while self._shown.start < end:
                self._moved.clear()
                await self._moved.wait()

        try:
            await asyncio.wait_for(shown(), LAST_WORDS_SECONDS)
        except asyncio.TimeoutError:
            return

    async def _tell_metrics(self, seconds: float) -> None:
        while True:
            try:
                answer = await self._client.ask("metrics", {"services": [self.service]})
                found = (answer.get("services") or {}).get(self.service)
                if found is not None:
                    await self._client.send(frames.message("metrics", self.identity, found))
            except Unreachable:
                pass
            except HoldfastError as error:
                self._client.post(frames.failure(error, None, self.identity))
                return
            await asyncio.sleep(seconds)

    # What the viewer types

    def type(self, data: bytes, identity: frames.Id = None) -> None:
        """Send something to the service; raises if it is not this viewer's turn."""
        fields = {"service": self.service, "data": base64.b64encode(data).decode()}
        self._queue(Typed("send_input", fields, identity))

    def resize(self, cols: int, rows: int, identity: frames.Id = None) -> None:
        fields = {"service": self.service, "cols": cols, "rows": rows}
        self._queue(Typed("resize", fields, identity))

    async def take(self, wanted: frames.TakeKeyboard) -> None:
        """Have the keyboard; raises if somebody else has it, or if this actor may not type."""
        keyboards = self._house.keyboards
        was_mine = keyboards.holder(self.service) is self
        if not wanted.force and not keyboards.take(self):
            raise _taken(self.service)
        try:
            if wanted.cols is not None and wanted.rows is not None:
                size = {"cols": wanted.cols, "rows": wanted.rows}
                await self._client.ask("resize", {"service": self.service, **size})
            else:
                # Nothing is typed; it only says whether this actor may.
                await self._client.ask("send_input", {"service": self.service, "data": ""})
        except HoldfastError:
            if not was_mine:
                keyboards.release(self)
            raise
        if not keyboards.take(self, force=True):
            raise UsageError("the session is closed")

    def release(self) -> None:
        self._house.keyboards.release(self)

    def told_keyboard(self, *, is_mine: bool, is_held: bool) -> None:
        data = {"sessionId": self.identity, "mine": is_mine, "held": is_held}
        self._client.post(frames.frame("terminal:keyboard", data))

    def _queue(self, typed: Typed) -> None:
        if self._house.keyboards.holder(self.service) not in (None, self):
            raise _taken(self.service)
        try:
            self._inputs.put_nowait(typed)
        except asyncio.QueueFull:
            raise Refused("too much is waiting to be typed", "wait for what was sent") from None

    async def _type(self) -> None:
        """One after the other, in the order in which it was sent."""
        keyboards = self._house.keyboards
        while True:
            typed = await self._inputs.get()
            was_mine = keyboards.holder(self.service) is self
            try:
                if not keyboards.take(self):
                    raise _taken(self.service)
                await self._client.ask(typed.command, typed.fields)
            except HoldfastError as error:
                if not was_mine:
                    keyboards.release(self)
                await self._client.send(frames.failure(error, typed.identity, self.identity))
                continue
            if typed.identity is not None:
                await self._client.send(frames.frame("terminal:done", {}, typed.identity))

    # What is told of it

    def created(self) -> dict[str, Any]:
        grant = self._grant
        return {
            "sessionId": self.identity,
            "number": self.number,
            "service": self.service,
            "terminal": grant["terminal"],
            "cursor": encode(self.place),
            "offset": {"stdout": self.place.out, "stderr": self.place.err},
            "end": grant["end"],
            "status": grant["status"],
            "seq": grant["seq"],
            "slow": self._wanted.slow,
            "binary": self._wanted.binary,
            "bufferSize": self.window.size,
            "flushInterval": self.window.interval_ms,
            "keyboard": self._house.keyboards.holder(self.service) is not None,
        }


def bytes_of(typed: frames.TerminalInput) -> bytes:
    if typed.encoding == "utf8":
        return typed.data.encode("utf-8", "replace")
    try:
        return base64.b64decode(typed.data, validate=True)
    except ValueError as error:
        raise UsageError(f"terminal:input: data is no base64: {error}") from None


def _further(one: Cursor, other: Cursor) -> Cursor:
    return Cursor(max(one.out, other.out), max(one.err, other.err))


def _taken(service: str) -> Refused:
    return Refused(
        f"somebody else has the keyboard of {service}", "`terminal:take` with `force` takes it"
    )
