"""Redacting a log while it is read, by lines or by bytes.

The same bytes must be hidden wherever reading begins and however the log is cut into pieces. So
the state of a stream (its unfinished line, its open private key) is remembered from one piece to
the next, and a reader that begins in the middle of a log first looks back. Looking back reads the
file of the one stream, however much the other stream printed meanwhile. It is bounded by
`LOOK_BACK_BYTES`, by two segments and by the beginning of the run. It blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast.logbook import index
from holdfast.logbook.cursors import BEGINNING, Cursor
from holdfast.logbook.entries import (
    LONGEST_LINE_BYTES,
    STREAMS,
    Chunk,
    Entry,
    Line,
    LineBlock,
    Note,
    Stream,
)
from holdfast.logbook.lines import torn_bytes
from holdfast.logbook.reader import Reader
from holdfast.logbook.segment_view import SegmentView
from holdfast.secrets import private_keys
from holdfast.secrets.private_keys import KeyBlock
from holdfast.secrets.redaction import Redactor, redactor, shorten_masks

LOOK_BACK_BYTES = 66 * 1024
"""The longest private key that is recognised, and a little more for the line that it begins in."""
REMEMBERED_BYTES = 4096
"""How much of an unfinished line is remembered."""
HELD_BYTES = 4096
"""How much of an unfinished line may wait for its end."""
_BATCH_LINES = 256
_BATCH_BYTES = 128 * 1024
_LEAST_HIDDEN = 4
_MOST_SEGMENTS = 2
_MOST_RECORDS = 4096


class StreamState(NamedTuple):
    """What a reader must know of a stream to go on: the beginning of the line that it is in, and
    the private key that is open where that line begins."""

    line: bytes = b""
    block: KeyBlock | None = None


EMPTY = StreamState()


# Lines


class LineRedactor:
    """Redacts the lines of one reading, which come in order. `current` returns the redactor."""

    def __init__(self, current: Callable[[], Redactor] = redactor) -> None:
        self._current = current
        self._states: dict[Stream, StreamState] = {}
        """Of the streams whose state is not empty."""

    def begin_at(self, reader: Reader, start: Cursor) -> None:
        """Look at what precedes the place: it may be in the middle of a line or of a key."""
        for stream, place in zip(STREAMS, start, strict=True):
            self.go_to(reader, place, stream)

    def go_to(self, reader: Reader, place: int, stream: Stream) -> None:
        """Go on with a stream at this position."""
        self._states.pop(stream, None)
        self._remember(stream, state_at(reader, place, stream))

    def is_plain(self, stream: Stream) -> bool:
        """Return whether the stream is neither within a line nor within a private key."""
        return stream not in self._states

    def redact_all(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Redact a sequence of entries, many at a time."""
        batch: list[Line | Note] = []
        size = 0
        for entry in entries:
            if isinstance(entry, LineBlock):
                yield from self.redact(batch)
                batch, size = [], 0
                yield self.redact_block(entry)
                continue
            batch.append(entry)
            size += len(entry.data) if isinstance(entry, Line) else 0
            if size >= _BATCH_BYTES or len(batch) >= _BATCH_LINES:
                yield from self.redact(batch)
                batch, size = [], 0
        yield from self.redact(batch)

    def redact_block(self, block: LineBlock) -> LineBlock:
        """Redact the next lines of a stream."""
        if not self.is_plain(block.stream):
            lines = [
                Line(block.time, block.stream, data, BEGINNING, block.run, False)
                for data in block.lines()
            ]
            texts = [line.data for line in self._redact_stream(block.stream, lines)]
            return block._replace(data=b"\n".join([*texts, b""]))
        data = self._current().redact_lines(block.data)
        if data is block.data:
            return block
        self._remember(block.stream, _state_behind(block.data, len(block.data), None))
        return block._replace(data=data)

    def redact(self, entries: list[Line | Note]) -> list[Line | Note]:
        """Redact the next entries."""
        if not self._states and self._holds_no_secret(entries):
            return entries
        redacted: list[Line | Note] = []
        lines: list[Line] = []
        for entry in entries:
            if isinstance(entry, Line):
                lines.append(entry)
                continue
            redacted += self._redact_lines(lines)
            lines = []
            self._pass_note(entry)
            redacted.append(entry)
        return redacted + self._redact_lines(lines)

    def preview(self, lines: Sequence[Line]) -> list[Line | Note]:
        """Redact lines that are not finished, and remember nothing of them."""
        states = dict(self._states)
        try:
            return self.redact(list(lines))
        finally:
            self._states = states

    def _holds_no_secret(self, entries: list[Line | Note]) -> bool:
        """Whether there is nothing to redact, as nearly always. All lines are searched at once."""
        lines = [entry for entry in entries if type(entry) is Line]
        if len(lines) < len(entries) and any(
            isinstance(entry, Note) and entry.is_hole for entry in entries
        ):
            return False
        if any(line.is_partial for line in lines):
            return False
        joined = b"\n".join([line.data for line in lines])
        return self._current().mask(joined) is joined

    def _pass_note(self, note: Note) -> None:
        states = {stream: self._states.get(stream, EMPTY) for stream in STREAMS}
        self._states = {}
        for stream, state in states.items():
            self._remember(stream, _behind_note(state, note))

    def _redact_lines(self, lines: list[Line]) -> list[Line]:
        """Redact lines of both streams, each stream by itself."""
        redacted: dict[int, Line] = {}
        for stream in STREAMS:
            places = [place for place, line in enumerate(lines) if line.stream == stream]
            if places:
                own = [lines[place] for place in places]
                redacted.update(zip(places, self._redact_stream(stream, own), strict=True))
        return [redacted[place] for place in range(len(lines))]

    def _redact_stream(self, stream: Stream, lines: list[Line]) -> Iterator[Line]:
        state = self._states.pop(stream, EMPTY)
        texts = [line.data for line in lines]
        redacted = self._redact_texts(state, texts)
        last = lines[-1]
        if last.is_partial:
            tail = self._current().unfinished_value(texts[-1])
            if tail >= _LEAST_HIDDEN and redacted[-1].endswith(texts[-1][-tail:]):
                redacted[-1] = redacted[-1][:-tail] + b"*" * tail
        for line, data in zip(lines, redacted, strict=True):
            yield line if data == line.data else line._replace(data=data)
        goes_on = last.is_partial and len(last.data) >= LONGEST_LINE_BYTES // 2
        text = state.line + b"\n".join([*texts, *([] if goes_on else [b""])])
        self._remember(stream, _state_behind(text, len(text), state.block))

    def _redact_texts(self, state: StreamState, texts: list[bytes]) -> list[bytes]:
        known = self._current()
        if not state.line:
            return known.redact_lines(b"\n".join(texts), state.block).split(b"\n")
        # Only the rest of the first line is wanted. Masks keep its bytes where they are.
        first = state.line + texts[0]
        rest = shorten_masks(known.mask(first, block=state.block)[len(state.line) :])
        if len(texts) == 1:
            return [rest]
        finished = first + b"\n"
        _, block = private_keys.open_at(finished, len(finished), state.block)
        return [rest, *known.redact_lines(b"\n".join(texts[1:]), block).split(b"\n")]

    def _remember(self, stream: Stream, state: StreamState) -> None:
        if state != EMPTY:
            self._states[stream] = state


# Bytes


class StreamPart(NamedTuple):
    """Bytes of one stream."""

    time: float | None
    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)


class StreamMask:
    """Masks one stream of one reading. As many bytes come out as go in, at the same positions, so
    that every cursor and offset stays true.

    The end of the stream is held back where it may be the beginning of a secret. The caller decides
    how long, and flushes it. Flushed bytes are remembered to the end of their line: the rest of a
    secret is masked even if its beginning was shown."""

    def __init__(
        self,
        state: StreamState = EMPTY,
        *,
        is_terminal: bool = False,
        current: Callable[[], Redactor] = redactor,
    ) -> None:
        self._current = current
        self._state = state
        self._is_terminal = is_terminal
        self._held: list[StreamPart] = []

    @property
    def held(self) -> int | None:
        """The position of the first byte that is held back; None if there is none."""
        return self._held[0].position if self._held else None

    def feed(self, chunk: Chunk) -> list[StreamPart]:
        """Add bytes, and return what can be shown now."""
        self._held.append(StreamPart(chunk.time, chunk.position, chunk.data))
        text = self._text()
        return self._release(text, len(text) - self._undecided(text))

    def flush(self) -> list[StreamPart]:
        """Return what is held back, even if it is the beginning of a secret."""
        if not self._held:
            return []
        text = self._text()
        return self._release(text, len(text))

    def pass_note(self, note: Note) -> None:
        """Go on behind a note."""
        self._state = _behind_note(self._state, note)

    def _text(self) -> bytes:
        return self._state.line + b"".join([part.data for part in self._held])

    def _undecided(self, text: bytes) -> int:
        """Return how many bytes at the end may be the beginning of something."""
        torn = torn_bytes(text)
        if self._is_terminal:
            return max(torn, min(self._current().unfinished_value(text), HELD_BYTES))
        return max(torn, min(len(text) - text.rfind(b"\n") - 1, HELD_BYTES))

    def _release(self, text: bytes, end: int) -> list[StreamPart]:
        known = len(self._state.line)
        if end < len(text):
            end -= torn_bytes(text[:end])
        if end <= known:
            return []
        block = self._state.block
        masked = self._current().mask(text, is_terminal=self._is_terminal, block=block)
        masked = masked[known:end]
        released: list[StreamPart] = []
        place = 0
        held, self._held = self._held, []
        for part in held:
            here = min(len(part.data), max(0, len(masked) - place))
            if here:
                released.append(part._replace(data=masked[place : place + here]))
            if here < len(part.data):
                rest = part._replace(position=part.position + here, data=part.data[here:])
                self._held.append(rest)
            place += len(part.data)
        self._state = _state_behind(text, end, block)
        return released


def _state_behind(text: bytes, end: int, block: KeyBlock | None) -> StreamState:
    """Return the state at a place of a text. `block` is the key that is open where it begins."""
    first = max(text.rfind(b"\n", 0, end) + 1, end - REMEMBERED_BYTES)
    first, block = private_keys.open_at(text, first, block)
    return StreamState(text[first:end], block)


def _behind_note(state: StreamState, note: Note) -> StreamState:
    """Return the state behind a note. Where a run begins, nothing goes on. Behind a hole, a private
    key may."""
    if note.kind == "replaced":
        return state
    return StreamState(b"", private_keys.behind_hole(state.block)) if note.is_hole else EMPTY


# Looking back


class _Piece(NamedTuple):
    """Consecutive bytes of a stream."""

    data: bytes
    is_behind_hole: bool
    """Whether bytes are missing before them."""


def state_at(reader: Reader, place: int, stream: Stream) -> StreamState:
    """Return the state of a stream at a position of the log."""
    if place <= 0:
        return EMPTY
    view = reader.open_at(place)
    if view is None:
        return EMPTY
    try:
        if place > view.end() and place > reader.end().start:
            return EMPTY  # there is no such place
        offset = view.bytes_before(STREAMS.index(stream), place)
        return state_in_segment(reader, view, stream, offset, view.find_position(place))
    finally:
        view.close()


def state_in_segment(
    reader: Reader, view: SegmentView, stream: Stream, offset: int, record: int | None = None
) -> StreamState:
    """Return the state of a stream at an offset in its file. `record` is the number of the first
    record that is not before that place."""
    *older, newest = _pieces_before(reader, view, STREAMS.index(stream), offset, record)
    block = None
    for piece in older:
        block = private_keys.behind_hole(block) if piece.is_behind_hole else block
        _, block = private_keys.open_at(piece.data, len(piece.data), block)
    block = private_keys.behind_hole(block) if newest.is_behind_hole else block
    return _state_behind(newest.data, len(newest.data), block)


def _pieces_before(
    reader: Reader, view: SegmentView, stream: int, offset: int, record: int | None
) -> list[_Piece]:
    """Read the newest bytes before a place; return them with the oldest first."""
    found: list[_Piece] = []
    size = 0
    opened: list[SegmentView] = []
    try:
        for _ in range(_MOST_SEGMENTS):
            begin = max(0, offset - (LOOK_BACK_BYTES - size))
            breaks, is_start_of_run = _breaks(view, stream, begin, offset, record)
            last = offset
            for place, is_behind_hole in breaks:
                found.append(_Piece(view.read(stream, place, last - place), is_behind_hole))
                last = place
            if is_start_of_run:
                break
            data = view.read(stream, begin, last - begin)
            size += offset - begin
            older = None
            if begin == 0 and size < LOOK_BACK_BYTES:
                older = reader.open(view.number - 1)
            if older is None:
                is_gone = begin == 0 and view.base > 0 and size < LOOK_BACK_BYTES
                found.append(_Piece(data, is_gone))
                break
            found.append(_Piece(data, older.end() < view.base))
            opened.append(older)
            view, offset, record = older, older.ends()[stream], older.count()
    finally:
        for segment in opened:
            segment.close()
    return _join(found[::-1])


def _breaks(
    view: SegmentView, stream: int, begin: int, end: int, record: int | None
) -> tuple[list[tuple[int, bool]], bool]:
    """Return the offsets between two places at which a stream does not go on, the last one first,
    each with whether bytes are missing there. A stream breaks behind a gap, and where a run begins
    alone. The second result is True if the oldest break is the start of a run: nothing before it
    counts."""
    if record is None:
        is_within = end < view.ends()[stream]
        record = view.find_offset(stream, end) if is_within else view.count()
    first = max(1, view.find_offset(stream, begin), record - _MOST_RECORDS)
    breaks: list[tuple[int, bool]] = []
    for entry in reversed(view.records(first, record - first) if record > first else []):
        if not index.is_cut(entry):
            continue
        place = view.bytes_before(stream, entry[2])
        if begin <= place <= end:
            is_start_of_run = entry[0] == index.RUN
            breaks.append((place, not is_start_of_run))
            if is_start_of_run:
                return breaks, True
    return breaks, False


def _join(pieces: list[_Piece]) -> list[_Piece]:
    """Join pieces between which nothing is missing."""
    joined: list[_Piece] = []
    for piece in pieces:
        if joined and not piece.is_behind_hole:
            joined[-1] = _Piece(joined[-1].data + piece.data, joined[-1].is_behind_hole)
        else:
            joined.append(piece)
    return joined
