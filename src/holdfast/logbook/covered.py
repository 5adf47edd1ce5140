"""Lines as they may be shown: without what must not be told.

What that is, is known to who reads, and told by a `Hides`. Owns what has to be remembered from
one line to the next: a private key that is not complete, the beginning of a very long line, and
what stands before the place where somebody begins to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import LONGEST_LINE_BYTES, STREAMS, Chunk, Line, Note, Stream
from holdfast.logbook.reader import Reader

BEFORE_BYTES = 4096
"""How far what precedes a place is looked at."""
_BATCH_LINES = 256
_BATCH_BYTES = 128 * 1024
_LEAST_HIDDEN = 4


class Hides(Protocol):
    """Knows what must not be told."""

    def lines(self, lines: Sequence[bytes], before: bytes = b"") -> list[bytes]: ...

    def mask(self, data: bytes, *, is_terminal: bool = False) -> bytes: ...

    def beginning(self, data: bytes) -> int: ...

    def open_key(self, data: bytes) -> int: ...

    def shortened(self, covered: bytes) -> bytes: ...


class LineCover:
    """Covers the lines of one reading, which come in order."""

    def __init__(self, hides: Hides) -> None:
        self.hides = hides
        self._before: dict[Stream, bytes] = {}
        """The beginning of the line that comes next."""
        self._keys: dict[Stream, bytes] = {}
        """A private key whose end has not come."""

    def begin_at(self, reader: Reader, start: Cursor) -> None:
        """Look at what precedes the place: it may be in the middle of a line."""
        for stream, place in zip(STREAMS, start, strict=True):
            if before := line_before(reader, place, stream):
                self._before[stream] = before

    def cover(self, entries: list[Line | Note]) -> list[Line | Note]:
        if not self._before and not self._keys and self._is_plain(entries):
            return entries
        shown: dict[int, Line] = {}
        for stream in STREAMS:
            places = [
                place
                for place, entry in enumerate(entries)
                if isinstance(entry, Line) and entry.stream == stream
            ]
            if places:
                lines = [entries[place] for place in places]
                shown.update(zip(places, self._covered(stream, lines), strict=True))  # type: ignore[arg-type]
        return [shown.get(place, entry) for place, entry in enumerate(entries)]

    def glimpse(self, lines: Sequence[Line]) -> list[Line | Note]:
        """Lines that may still go on, covered as they are now; nothing is remembered."""
        before, keys = dict(self._before), dict(self._keys)
        try:
            return self.cover(list(lines))
        finally:
            self._before, self._keys = before, keys

    def _is_plain(self, entries: list[Line | Note]) -> bool:
        """Whether there is nothing to hide at all, as nearly always: looked at in one piece."""
        lines = [entry for entry in entries if type(entry) is Line]
        if any(line.is_partial for line in lines):
            return False
        joined = b"\n".join([line.data for line in lines])
        return self.hides.mask(joined) is joined

    def _covered(self, stream: Stream, lines: list[Line]) -> Iterator[Line]:
        first = lines[0]
        if before := self._before.pop(stream, b""):
            # Only where the rest of a line is wanted; as long as it was, but for what is hidden.
            covered = self.hides.mask(before + first.data)[len(before) :]
            rest = self._rest(stream, lines[1:])
            yield first._replace(data=self.hides.shortened(covered))
        else:
            rest = self._rest(stream, lines)
        for line, data in zip(lines[len(lines) - len(rest) :], rest, strict=True):
            yield line if data is line.data else line._replace(data=data)
        last = lines[-1]
        if last.is_partial and len(last.data) >= LONGEST_LINE_BYTES // 2:
            self._before[stream] = last.data[-BEFORE_BYTES:]

    def _rest(self, stream: Stream, lines: list[Line]) -> list[bytes]:
        texts = [line.data for line in lines]
        key = self._keys.pop(stream, b"")
        shown = self.hides.lines(texts, key)
        joined = b"\n".join([key, *texts] if key else texts)
        if (place := self.hides.open_key(joined)) >= 0:
            self._keys[stream] = joined[place:]
        if lines and lines[-1].is_partial:
            tail = self.hides.beginning(texts[-1])
            if tail >= _LEAST_HIDDEN and shown[-1].endswith(texts[-1][-tail:]):
                shown[-1] = shown[-1][:-tail] + b"*" * tail
        return shown


def covered(entries: Iterable[Line | Note], cover: LineCover) -> Iterator[Line | Note]:
    """The same entries, looked at many at a time."""
    batch: list[Line | Note] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.data) if isinstance(entry, Line) else 0
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_LINES:
            yield from cover.cover(batch)
            batch, size = [], 0
    yield from cover.cover(batch)


def line_before(reader: Reader, place: int, stream: Stream) -> bytes:
    """What of its line a stream holds before a place; empty at the beginning of a line."""
    found = b""
    if place <= 0:
        return found
    with reader.chunks(cursors.at(max(0, place - BEFORE_BYTES)), stream, place) as walk:
        for item in walk:
            if isinstance(item, Chunk):
                found += item.data
            elif item.kind == "anew":
                return b""  # there is no such place
            elif item.kind != "replaced":
                found = b""
    return found[found.rfind(b"\n") + 1 :]
