"""A viewer of one service: its output from a place on, its status, its metrics, and its keyboard.

Clients know a viewer as a session. It owns its place in the log and its flow control, and never
holds more than one block for a client that does not read. Decides nothing: input becomes a command
with the caller's token.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.client.connection import Unreachable
from holdfast.gate.rest.legacy_answers import add_other_names
from holdfast.gate.ws import frames
from holdfast.gate.ws.flow_control import FlowWindow
from holdfast.gate.ws.follower import Follower
from holdfast.gate.ws.output_blocks import (
    FrameBody,
    Item,
    OutputBlock,
    PlacedNote,
    StreamSpan,
    binary_frames,
    frame_bodies,
    gap_body,
    items_after,
)
from holdfast.gate.ws.output_feeds import BLOCK_BYTES, OutputFeed
from holdfast.gate.ws.status_feed import StatusData, status_data
from holdfast.logbook.cursors import BEGINNING, Cursor, encode
from holdfast.system import deadlines
from holdfast.vocabulary.errors import HoldfastError, Refused, UsageError
from holdfast.vocabulary.states import State

if TYPE_CHECKING:
    from holdfast.gate.ws.door import WebSocketConnection, WebSocketShared

_log = logging.getLogger("holdfast.gate")
LAST_OUTPUT_SECONDS = 2.0
MOST_STATUSES = 64
MOST_INPUTS = 256
PAST_BLOCK_BYTES = 64 * 1024
SHORTEST_METRICS = 1.0

OnEnd = Callable[["Viewer", str], None]
"""The viewer ended by itself, for this reason."""


class Keyboards:
    """The keyboard of each service belongs to at most one viewer.

    Only the holder's input reaches the service, and only its size counts. So the automatic
    answers of the other viewers' terminals go nowhere. The supervisor decides whether a caller
    may type at all.
    """

    def __init__(self) -> None:
        self._holders: dict[str, Viewer] = {}
        self._viewers: dict[str, set[Viewer]] = {}
        self._sizes: dict[str, TerminalSize] = {}
        """The size that a viewer set last, while there are viewers."""

    def join(self, viewer: Viewer) -> None:
        self._viewers.setdefault(viewer.service, set()).add(viewer)

    def leave(self, viewer: Viewer) -> None:
        self.release(viewer)
        viewers = self._viewers.get(viewer.service, set())
        viewers.discard(viewer)
        if not viewers:
            self._viewers.pop(viewer.service, None)
            self._sizes.pop(viewer.service, None)

    def size(self, service: str) -> TerminalSize | None:
        return self._sizes.get(service)

    def on_resized(self, viewer: Viewer, size: TerminalSize) -> None:
        """Tell the others, whose terminals are to have the same size."""
        viewers = self._viewers.get(viewer.service, set())
        if viewer not in viewers:
            return
        self._sizes[viewer.service] = size
        for other in list(viewers - {viewer}):
            other.on_size(size)

    def holder(self, service: str) -> Viewer | None:
        return self._holders.get(service)

    def take(self, viewer: Viewer, *, force: bool = False) -> bool:
        """Return whether the viewer has the keyboard now."""
        holder = self._holders.get(viewer.service)
        if holder is viewer:
            return True
        is_here = viewer in self._viewers.get(viewer.service, ())
        if not is_here or (holder is not None and not force):
            return False
        self._holders[viewer.service] = viewer
        self._notify(viewer.service)
        return True

    def release(self, viewer: Viewer) -> None:
        if self._holders.get(viewer.service) is viewer:
            del self._holders[viewer.service]
            self._notify(viewer.service)

    def _notify(self, service: str) -> None:
        holder = self._holders.get(service)
        for viewer in list(self._viewers.get(service, ())):
            viewer.on_keyboard(is_mine=viewer is holder, is_held=holder is not None)


class TerminalSize(NamedTuple):
    cols: int
    rows: int


class TerminalCommand(NamedTuple):
    """A command for the service's terminal, and the request that it answers."""

    command: str
    fields: dict[str, Any]
    request_id: frames.RequestId


class Viewer:
    """One client's view of one service."""

    def __init__(
        self,
        number: int,
        identity: str,
        wanted: frames.CreateSession,
        grant: dict[str, Any],
        feed: OutputFeed,
        place: Cursor,
        connection: WebSocketConnection,
        shared: WebSocketShared,
    ) -> None:
        self.number = number
        self.identity = identity
        self.service: str = grant["service"]
        self.window = FlowWindow(wanted, BLOCK_BYTES)
        self.feed = feed
        self.feeds = [feed]
        # What is not acknowledged is bounded in small steps, the rest is sent in large ones.
        past_bytes = PAST_BLOCK_BYTES if self.window.size is None else BLOCK_BYTES
        self._follower = Follower(feed, place, past_bytes)
        self._wanted = wanted
        self._grant = grant
        self._connection = connection
        self._keyboards = shared.keyboards
        self._status_feed = shared.statuses
        self._stream = None if wanted.stream is None else frames.STREAM_NAMES.index(wanted.stream)
        self._shown = place
        self._moved = asyncio.Event()
        self._statuses: deque[StatusData | None] = deque(maxlen=MOST_STATUSES)
        self._has_status = asyncio.Event()
        self._inputs: asyncio.Queue[TerminalCommand] = asyncio.Queue(MOST_INPUTS)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def place(self) -> Cursor:
        return self._follower.place

    def describe(self) -> dict[str, Any]:
        """Return what the client learns when the session is created."""
        grant = self._grant
        size = self._keyboards.size(self.service)
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
            "keyboard": self._keyboards.holder(self.service) is not None,
            "size": size._asdict() if size is not None else None,
        }

    def begin(self, on_end: OnEnd) -> None:
        grant = self._grant
        end = {"code": grant["exit_code"], "signal": grant["signal"], "reason": grant["reason"]}
        if grant["status"] != State.PENDING.value:
            self._on_status(status_data(grant["status"], **end))
        self._status_feed.listen(self.service, grant["seq"], end, self._on_status)
        self._keyboards.join(self)
        if self._wanted.cols is not None and self._wanted.rows is not None and self._is_free():
            self.resize(self._wanted.cols, self._wanted.rows)
        work = [self._send_output(), self._send_statuses(on_end), self._type_inputs()]
        if self._wanted.metrics is not None:
            work.append(self._send_metrics(max(SHORTEST_METRICS, self._wanted.metrics)))
        create = asyncio.get_running_loop().create_task
        self._tasks = [create(self._guard(one, on_end)) for one in work]

    def stop(self) -> None:
        """Show nothing more, from now on."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        self.stop()
        self._keyboards.leave(self)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._status_feed.leave(self.service, self._on_status)

    async def _guard(self, work: Awaitable[None], on_end: OnEnd) -> None:
        """Do the work; a failure of it ends the viewer."""
        try:
            await work
        except HoldfastError as error:
            self._connection.post(frames.failure(error, None, self.identity))
            on_end(self, error.message)
        except OSError:
            return  # the connection is gone, and it ends its viewers itself
        except Exception:  # noqa: BLE001 - the border of the door
            _log.exception("a session of %s", self.service)
            on_end(self, "a mistake of the gate; its log tells more")

    # Output

    async def _send_output(self) -> None:
        while True:
            await self.window.wait_for_room()
            if self._wanted.slow == "skip":
                await self._skip()
            before = self.place
            blocks = await self._follower.blocks(gather=bool(self.window.interval_ms))
            await self._send_blocks(blocks, before)
            self._shown = self.place
            self._moved.set()
            await self.window.collect()

    async def _send_blocks(self, blocks: list[OutputBlock], before: Cursor) -> None:
        known = self._follower.pass_blocks(blocks)
        if len(blocks) == 1 and known is None and self._stream is None:
            items, bodies = blocks[0].items, blocks[0].frame_bodies
        else:
            every = [item for block in blocks for item in block.items]
            items = items_after(every, known or BEGINNING, self._stream)
            bodies = partial(frame_bodies, items, before)
        if self._wanted.binary:
            await self._send_binary(items)
            return
        for body in bodies():
            await self._connection.send(self._frame(body))
        self.window.count_sent(
            sum(len(item.data) for item in items if isinstance(item, StreamSpan))
        )

    async def _send_binary(self, items: list[Item]) -> None:
        notes: list[Item] = [item for item in items if isinstance(item, PlacedNote)]
        for body in frame_bodies(notes, self.place):
            await self._connection.send(self._frame(body))
        for data in binary_frames(items, self.number):
            await self._connection.send(data)
            self.window.count_sent(len(data) - frames.BINARY.size)

    def _frame(self, body: FrameBody) -> str:
        kind = '"type":"output",' if body.event == "output" else ""
        return f'{{"event":"{body.event}","data":{{{kind}"sessionId":"{self.identity}",{body.text}'

    async def _skip(self) -> None:
        skipped = await self._follower.skip()
        if skipped is None:
            return
        lost = skipped[1].start - skipped[0].start
        text = f"{lost} bytes skipped: the viewer was too slow"
        await self._connection.send(self._frame(gap_body(*skipped, lost, "slow", text)))

    # Status and metrics

    def _on_status(self, status: StatusData | None) -> None:
        self._statuses.append(status)
        self._has_status.set()

    async def _send_statuses(self, on_end: OnEnd) -> None:
        while True:
            await self._has_status.wait()
            if not self._statuses:
                self._has_status.clear()
                continue
            status = self._statuses.popleft()
            if status is None:
                on_end(self, "the service was removed")
                return
            if status["state"] in ("completed", "failed"):
                await self._wait_for_last_output()
            await self._connection.send(frames.message("status", self.identity, status))

    async def _wait_for_last_output(self) -> None:
        """Send a run's output before its end, to a client that keeps up."""
        end = (await self.feed.present_end()).start

        async def wait_until_shown() -> None:
            while self._shown.start < end:
                self._moved.clear()
                await self._moved.wait()

        try:
            await deadlines.wait_for(wait_until_shown(), LAST_OUTPUT_SECONDS)
        except TimeoutError:
            return

    async def _send_metrics(self, seconds: float) -> None:
        while True:
            try:
                answer = await self._connection.ask("metrics", {"services": [self.service]})
                metrics = (answer.get("services") or {}).get(self.service)
                if metrics is not None:
                    add_other_names(metrics)
                    await self._connection.send(frames.message("metrics", self.identity, metrics))
            except Unreachable:
                pass
            except HoldfastError as error:
                self._connection.post(frames.failure(error, None, self.identity))
                return
            await asyncio.sleep(seconds)

    # The keyboard

    def type(self, data: bytes, request_id: frames.RequestId = None) -> None:
        """Send input to the service; raises if another viewer has the keyboard."""
        fields = {"service": self.service, "data": base64.b64encode(data).decode()}
        self._queue(TerminalCommand("send_input", fields, request_id))

    def resize(self, cols: int, rows: int, request_id: frames.RequestId = None) -> None:
        fields = {"service": self.service, "cols": cols, "rows": rows}
        self._queue(TerminalCommand("resize", fields, request_id))

    async def take(self, wanted: frames.TakeKeyboard) -> None:
        """Take the keyboard; raises if another viewer has it or this caller may not type."""
        was_mine = self._keyboards.holder(self.service) is self
        if not wanted.force and not self._keyboards.take(self):
            raise _taken(self.service)
        try:
            if wanted.cols is not None and wanted.rows is not None:
                size = {"cols": wanted.cols, "rows": wanted.rows}
                await self._connection.ask("resize", {"service": self.service, **size})
            else:
                # Empty input types nothing; the answer says whether this caller may type.
                await self._connection.ask("send_input", {"service": self.service, "data": ""})
        except HoldfastError:
            if not was_mine:
                self._keyboards.release(self)
            raise
        if not self._keyboards.take(self, force=True):
            raise UsageError("the session is closed")
        if wanted.cols is not None and wanted.rows is not None:
            self._keyboards.on_resized(self, TerminalSize(wanted.cols, wanted.rows))

    def release(self) -> None:
        self._keyboards.release(self)

    def on_keyboard(self, *, is_mine: bool, is_held: bool) -> None:
        data = {"sessionId": self.identity, "mine": is_mine, "held": is_held}
        self._connection.post(frames.frame("terminal:keyboard", data))

    def on_size(self, size: TerminalSize) -> None:
        data = {"sessionId": self.identity, **size._asdict()}
        self._connection.post(frames.frame("terminal:size", data))

    def _is_free(self) -> bool:
        return self._keyboards.holder(self.service) in (None, self)

    def _queue(self, command: TerminalCommand) -> None:
        if not self._is_free():
            raise _taken(self.service)
        try:
            self._inputs.put_nowait(command)
        except asyncio.QueueFull:
            raise Refused("too much is waiting to be typed", "wait for what was sent") from None

    async def _type_inputs(self) -> None:
        """Ask one command after the other, in the order in which the client sent them."""
        while True:
            command, fields, request_id = await self._inputs.get()
            was_mine = self._keyboards.holder(self.service) is self
            try:
                if not self._keyboards.take(self):
                    raise _taken(self.service)
                await self._connection.ask(command, fields)
                if command == "resize":
                    self._keyboards.on_resized(self, TerminalSize(fields["cols"], fields["rows"]))
            except HoldfastError as error:
                if not was_mine:
                    self._keyboards.release(self)
                await self._connection.send(frames.failure(error, request_id, self.identity))
                continue
            if request_id is not None:
                await self._connection.send(frames.frame("terminal:done", {}, request_id))


def _taken(service: str) -> Refused:
    return Refused(
        f"somebody else has the keyboard of {service}", "`terminal:take` with `force` takes it"
    )
