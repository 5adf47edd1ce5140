"""Lines and bytes of a service's log for HTTP clients, read by the gate itself.

The supervisor grants the reading once; then the gate opens the segments. Reading waits for the
disk, so it happens in threads, a bounded piece at a time. The log is the buffer, so a slow client
costs no memory.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from contextlib import aclosing
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate import secrets
from holdfast.gate.events import RETRY_SECONDS
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor, CursorError
from holdfast.logbook.entries import STREAMS, Chunk, Line, Note, Stream
from holdfast.logbook.lines import LineFollower
from holdfast.logbook.plain_text import PlainText
from holdfast.logbook.reader import Reader, Walk
from holdfast.secrets.log_redaction import (
    REMEMBERED_BYTES,
    LineRedactor,
    StreamMask,
    StreamPart,
    state_at,
)
from holdfast.secrets.redaction import shorten_masks
from holdfast.vocabulary.errors import Failed, NotFound, UsageError
from holdfast.vocabulary.output import LogLine, LogPart

_BATCH_LINES = 500
_PIECE_BYTES = 256 * 1024
T = TypeVar("T")


async def open_log(channel: Channel, service: str, caller: Caller) -> tuple[Reader, Cursor]:
    """Return a reader of the log and its present end; raises the supervisor's refusal."""
    grant = await channel.ask("open_output", {"service": service}, caller, is_repeatable=True)
    await secrets.refresh(channel, grant.get("hides", 0))
    return Reader(grant["directory"], grant["service"]), cursors.decode(grant["end"])


def _parse_cursor(text: str) -> Cursor:
    try:
        return cursors.decode(text)
    except CursorError as error:
        raise UsageError(str(error), "use a cursor that an answer gave") from None


async def read_in_thread(
    call: Callable[..., T], *arguments: Any, threads: Executor | None = None
) -> T:
    """Call a function that reads a log; raises Failed if the log cannot be read."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(threads, call, *arguments)
    except OSError as error:
        raise Failed(
            f"the log cannot be read: {error}", "has the gate too many open files?"
        ) from None


# Lines, followed


async def follow_lines(
    channel: Channel, new_channel: Callable[[], Channel], fields: dict[str, Any], caller: Caller
) -> AsyncGenerator[tuple[str, LogLine], None]:
    """Yield each line with the cursor behind it, for ever; raises the supervisor's refusal."""
    start = _parse_cursor(fields["cursor"]) if fields.get("cursor") else None
    reader, _ = await open_log(channel, fields["service"], caller)
    stream: Stream | None = fields.get("stream")
    if start is None and fields.get("since") is not None:
        start = await read_in_thread(reader.since, fields["since"])
    elif start is None:
        tail = fields.get("tail")
        start = await read_in_thread(reader.tail, 100 if tail is None else max(0, tail), stream)
    follower, line_redactor = LineFollower(reader, start, stream), LineRedactor()
    await read_in_thread(line_redactor.begin_at, reader, start)
    try:
        async for _ in _growth(new_channel, reader.service, caller):
            added: Iterator[Line | Note] = follower.wake()
            while batch := await read_in_thread(_batch, added, line_redactor):
                for entry in batch:
                    place = entry.cursor if isinstance(entry, Line) else follower.cursor
                    if isinstance(entry, Line) or entry.kind != "run":
                        yield cursors.encode(place), _log_line(entry)
    finally:
        await asyncio.to_thread(follower.close)


def _batch(added: Iterator[Line | Note], line_redactor: LineRedactor) -> list[Line | Note]:
    return line_redactor.redact(list(islice(added, _BATCH_LINES)))


async def _growth(
    new_channel: Callable[[], Channel], service: str, caller: Caller
) -> AsyncIterator[None]:
    """Yield now and whenever the log has grown, across every restart of the supervisor."""
    yield
    while True:
        channel = new_channel()
        try:
            async with aclosing(channel.stream("watch", {"services": [service]}, caller)) as items:
                async for item in items:
                    await secrets.refresh(channel, item.get("hides", 0))
                    yield
        except Unreachable:
            pass
        finally:
            await channel.close()
        await asyncio.sleep(RETRY_SECONDS)
        yield


def _log_line(entry: Line | Note) -> LogLine:
    time = entry.time or 0.0
    if isinstance(entry, Note):
        return LogLine(time=time, stream="out", run=entry.run, text=entry.text, note=entry.kind)
    fields: dict[str, Any] = {"stream": entry.stream, "run": entry.run, "partial": entry.is_partial}
    try:
        return LogLine(time=time, text=entry.data.decode(), **fields)
    except UnicodeDecodeError:
        text = base64.b64encode(entry.data).decode()
        return LogLine(time=time, text=text, encoding="base64", **fields)


# Bytes, downloaded


class Extract(NamedTuple):
    """A part of a log. Its bounds are fixed when it is asked for."""

    reader: Reader
    start: Cursor
    end: int
    stream: Stream | None
    run: int | None

    @property
    def cursor(self) -> str:
        """Where to continue reading after it."""
        return cursors.encode(cursors.at(self.end))

    async def pieces(self, *, is_plain: bool) -> AsyncIterator[bytes]:
        """Yield its bytes in bounded pieces; plain text has no control sequences."""
        # Read a little further, because a secret is only recognised as a whole.
        last = self.end + REMEMBERED_BYTES
        walk = self.reader.chunks(self.start, self.stream, last, self.run)
        redacted = _RedactedStreams(self.reader, self.start, self.end, is_plain=is_plain)
        try:
            while True:
                piece, is_last = await read_in_thread(_piece, walk, redacted)
                if piece:
                    yield piece
                if is_last:
                    return
        finally:
            await asyncio.to_thread(walk.close)


async def extract(reader: Reader, end: Cursor, part: LogPart) -> Extract:
    """Find where the part begins and ends."""
    return await read_in_thread(_extract, reader, end, part)


def _extract(reader: Reader, end: Cursor, part: LogPart) -> Extract:
    start, last = reader.beginning(), end.start
    if part.run is not None:
        span = reader.run(part.run)
        if span is None:
            raise NotFound(f"run {part.run} left nothing in the log", "`runs` lists them")
        start, last = span.start, last if span.end is None else min(last, span.end)
    if part.cursor is not None:
        start = cursors.later(start, _parse_cursor(part.cursor))
    if part.since is not None:
        start = cursors.later(start, reader.since(part.since))
    if part.tail is not None:
        start = cursors.later(start, reader.tail(max(0, part.tail), part.stream))
    if part.until_cursor is not None:
        last = min(last, max(_parse_cursor(part.until_cursor)))
    if part.until is not None:
        last = min(last, reader.since(part.until).start)
    return Extract(reader, start, max(last, start.start), part.stream, part.run)


def _piece(walk: Walk, redacted: _RedactedStreams) -> tuple[bytes, bool]:
    """Return the next bytes, and whether they are the last."""
    pieces: list[bytes] = []
    size = 0
    while size < _PIECE_BYTES:
        item = walk.step()
        if item is None:
            pieces += redacted.rest()
            return b"".join(pieces), True
        pieces += redacted.feed(item)
        size += len(item.data) if isinstance(item, Chunk) else 0
    return b"".join(pieces), False


class _RedactedStreams:
    """Both streams up to an end, with secrets masked; plain text has no control sequences."""

    def __init__(self, reader: Reader, start: Cursor, end: int, *, is_plain: bool) -> None:
        self._end = end
        self._masks = {
            stream: StreamMask(state_at(reader, place, stream))
            for stream, place in zip(STREAMS, start, strict=True)
        }
        self._plain = {name: PlainText() for name in STREAMS if is_plain}

    def feed(self, item: Chunk | Note) -> list[bytes]:
        if isinstance(item, Chunk):
            return self._cut(item.stream, self._masks[item.stream].feed(item))
        found = [] if item.kind == "replaced" else self._let_go()
        for mask in self._masks.values():
            mask.pass_note(item)
        return found

    def rest(self) -> list[bytes]:
        found = self._let_go()
        found += [plain.feed(b"", is_last=True).encode() for plain in self._plain.values()]
        return found

    def _let_go(self) -> list[bytes]:
        """Return what the masks held back."""
        return [
            data for name, mask in self._masks.items() for data in self._cut(name, mask.flush())
        ]

    def _cut(self, stream: Stream, parts: list[StreamPart]) -> list[bytes]:
        found = []
        for part in parts:
            data = shorten_masks(part.data[: max(0, self._end - part.position)])
            if self._plain:
                data = self._plain[stream].feed(data).encode()
            found.append(data)
        return found
