"""Output on its way to viewers: blocks that end between characters, with secrets masked.

A block is read from the log once. Its frames are written once for all viewers that take it whole.
Reading waits for the disk, so it happens in threads, one at a time for each reader. Knows nothing
about any viewer's place.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.gate.ws.frames import BINARY, STDERR, STDOUT, STREAM_NAMES, now_ms
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import STREAMS, Chunk, Note
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_redaction import StreamMask, StreamPart, state_at
from holdfast.secrets.redaction import shorten_masks

MOST_FRAMES = 32
"""A block that would need more frames is sent one stream after the other."""
_KINDS = (STDOUT, STDERR)
_encode = msgspec.json.Encoder().encode


class StreamSpan(NamedTuple):
    """Consecutive bytes of one stream. `after` is the place behind them."""

    stream: int
    time: float | None
    position: int
    data: bytes
    after: Cursor


class PlacedNote(NamedTuple):
    """A note of the log about itself, and its place."""

    note: Note
    before: Cursor
    after: Cursor


Item = StreamSpan | PlacedNote


class FrameBody(NamedTuple):
    """A text frame without its beginning, which names the session."""

    event: str
    text: str


class OutputBlock:
    """What was read at once. It never changes; its frames are written when first wanted."""

    __slots__ = ("_bodies", "end", "is_anew", "items", "size", "start")

    def __init__(self, start: Cursor, end: Cursor, items: list[Item]) -> None:
        self.start = start
        self.end = end
        self.items = items
        self.size = sum(len(item.data) for item in items if isinstance(item, StreamSpan))
        self.is_anew = any(
            isinstance(item, PlacedNote) and item.note.kind == "anew" for item in items
        )
        self._bodies: list[FrameBody] | None = None

    def frame_bodies(self) -> list[FrameBody]:
        """Return its text frames without their beginning, which names the session."""
        if self._bodies is None:
            self._bodies = frame_bodies(self.items, self.start)
        return self._bodies


class BlockReader:
    """Reads a log block by block, to its present end and on, with secrets masked."""

    def __init__(
        self, directory: str, service: str, place: Cursor, *, is_terminal: bool = False
    ) -> None:
        self.place = place
        self._from = place
        self._walked = max(place)
        self._reader = Reader(directory, service)
        self._walk = self._reader.chunks(place)
        self._is_terminal = is_terminal
        self._masks: list[StreamMask] = []
        self._rest: Chunk | None = None
        self.is_at_end = False
        """Whether the last `read` reached the present end."""

    @property
    def holds(self) -> bool:
        """Whether the beginning of a character or of a line waits for the rest of it."""
        return any(mask.held is not None for mask in self._masks)

    def read(self, limit: int, *, is_last: bool = False) -> OutputBlock | None:
        """Return the next block of about `limit` bytes; None at the present end. With `is_last`
        the block includes what waits for more output that did not come."""
        if not self._masks:
            self._masks = [self._mask(stream) for stream in range(len(STREAMS))]
        start, items = self.place, list[Item]()
        size = 0
        while size < limit or not items:
            item = self._rest or self._walk.step()
            self._rest = None
            self.is_at_end = item is None
            if item is None:
                items += self._let_go(self._walked) if is_last else ()
                break
            if isinstance(item, Chunk):
                item = self._shortened(item, max(1, limit - size))
                spans = self._spans(item)
                size += sum(len(span.data) for span in spans)
                items += spans
                continue
            items += self._let_go(item.position)
            for mask in self._masks:
                mask.pass_note(item)
            if item.kind == "anew":
                start = self._from = cursors.at(item.position)
            before, self.place = self.place, self._at(item.position)
            items.append(PlacedNote(item, before, self.place))
            size += 1
        return OutputBlock(start, self.place, items) if items else None

    def close(self) -> None:
        self._walk.close()

    def _mask(self, stream: int) -> StreamMask:
        # A reader that begins inside a line or a key must not show the half of it.
        state = state_at(self._reader, self._from[stream], STREAMS[stream])
        return StreamMask(state, is_terminal=self._is_terminal)

    def _shortened(self, chunk: Chunk, most: int) -> Chunk:
        if len(chunk.data) <= most:
            return chunk
        self._rest = chunk._replace(data=chunk.data[most:], position=chunk.position + most)
        return chunk._replace(data=chunk.data[:most])

    def _spans(self, chunk: Chunk) -> list[StreamSpan]:
        stream = STREAMS.index(chunk.stream)
        parts = self._masks[stream].feed(chunk)
        self._walked = chunk.end
        self.place = self._at(chunk.end)
        return self._placed(stream, parts, chunk.end)

    def _let_go(self, position: int) -> list[Item]:
        """Return what the masks held back."""
        found: list[Item] = []
        for stream, mask in enumerate(self._masks):
            if parts := mask.flush():
                self.place = self._at(position)
                found += self._placed(stream, parts, position)
        return found

    def _placed(self, stream: int, parts: list[StreamPart], end: int) -> list[StreamSpan]:
        """Give each part the place behind it, where its viewer continues without loss."""
        return [
            StreamSpan(
                stream,
                part.time,
                part.position,
                part.data,
                self.place if number == len(parts) else self._before(stream, parts[number], end),
            )
            for number, part in enumerate(parts, start=1)
        ]

    def _before(self, stream: int, following: StreamPart, end: int) -> Cursor:
        """Return the place at which this part comes next in its stream and the other stream is
        sent up to the end."""
        places = list(self._at(end))
        places[stream] = following.position
        return Cursor(*places)

    def _at(self, position: int) -> Cursor:
        # A reader may come with one stream read further than the other.
        out, err = (
            max(position, known) if mask.held is None else mask.held
            for mask, known in zip(self._masks, self._from, strict=True)
        )
        return Cursor(out, err)


def items_after(items: Iterable[Item], place: Cursor, stream: int | None = None) -> list[Item]:
    """Return what lies behind a place; of one stream only, if one is wanted."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, PlacedNote):
            if item.after.start >= place.start:
                found.append(item)
            continue
        known = place[item.stream] - item.position
        if known >= len(item.data) or stream not in (None, item.stream):
            continue
        if known > 0:
            item = item._replace(position=item.position + known, data=item.data[known:])
        found.append(item)
    return found


def frame_bodies(items: list[Item], start: Cursor) -> list[FrameBody]:
    groups = list(_groups(items))
    if len(groups) > MOST_FRAMES and not any(isinstance(item, PlacedNote) for item in items):
        groups = _by_stream(items, start)
    return [
        _note_body(group) if isinstance(group, PlacedNote) else _output_body(group)
        for group in groups
    ]


def _groups(items: list[Item]) -> Iterator[list[StreamSpan] | PlacedNote]:
    group: list[StreamSpan] = []
    for item in items:
        if group and (isinstance(item, PlacedNote) or item.stream != group[0].stream):
            yield group
            group = []
        if isinstance(item, PlacedNote):
            if item.note.kind != "run":
                yield item
        else:
            group.append(item)
    if group:
        yield group


def _by_stream(items: list[Item], start: Cursor) -> list[list[StreamSpan] | PlacedNote]:
    spans = [item for item in items if isinstance(item, StreamSpan)]
    out, err = ([span for span in spans if span.stream == stream] for stream in (0, 1))
    between = Cursor(out[-1].after.out, start.err)
    out[-1] = out[-1]._replace(after=between)
    err[-1] = err[-1]._replace(after=spans[-1].after)
    return [out, err]


def _output_body(group: list[StreamSpan]) -> FrameBody:
    data = b"".join([span.data for span in group]) if len(group) > 1 else group[0].data
    shown = shorten_masks(data)
    try:
        content, encoding = shown.decode(), "utf8"
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(shown).decode(), "base64"
    moment = group[0].time
    stamp = int(moment * 1000) if moment is not None else now_ms()
    text = (
        f'"timestamp":{stamp},"data":{{"stream":"{STREAM_NAMES[group[0].stream]}","content":'
        f'{_encode(content).decode()},"encoding":"{encoding}"}},'
        f'"cursor":"{cursors.encode(group[-1].after)}","bytes":{len(data)}}}}}'
    )
    return FrameBody("output", text)


def _note_body(item: PlacedNote) -> FrameBody:
    """A note of the log becomes a gap: bytes are missing, or the log continues elsewhere."""
    return gap_body(item.before, item.after, item.note.lost, item.note.kind, item.note.text)


def gap_body(before: Cursor, after: Cursor, lost: int | None, reason: str, text: str) -> FrameBody:
    data = {
        "timestamp": now_ms(),
        "from": cursors.encode(before),
        "to": cursors.encode(after),
        "bytes": lost,
        "offset": {"stdout": after.out, "stderr": after.err},
        "reason": reason,
        "message": text,
    }
    return FrameBody("output:gap", _encode(data)[1:].decode() + "}")


def binary_frames(items: Iterable[Item], number: int) -> Iterator[bytes]:
    """Yield binary frames; the bytes of each are consecutive."""
    group: list[bytes] = []
    first = following = kind = 0
    for item in items:
        if isinstance(item, PlacedNote):
            continue
        if group and (_KINDS[item.stream] != kind or item.position != following):
            yield BINARY.pack(kind, number, first) + b"".join(group)
            group = []
        if not group:
            kind, first = _KINDS[item.stream], item.position
        group.append(item.data)
        following = item.position + len(item.data)
    if group:
        yield BINARY.pack(kind, number, first) + b"".join(group)
