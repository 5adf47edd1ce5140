"""Where the last lines of a log begin, found by walking its index backwards.

Owns the counting of line ends from the end of the log. Reads no more data than the lines
asked for, and at most a line's largest length beyond them.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.logbook import cursors, index
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import STREAMS, Stream
from holdfast.logbook.segment_view import SegmentView

LONGEST_LINE_BYTES = 1 << 20
_PIECE_BYTES = 64 << 10
_BATCH_RECORDS = 1024


def find(views: Iterator[SegmentView], lines: int, stream: Stream | None) -> Cursor:
    """The cursor from which the last lines follow; `views` come newest first."""
    wanted = (0, 1) if stream is None else (STREAMS.index(stream),)
    search: _Search | None = None
    for view in views:
        if search is None:
            search = _Search(view.end(), lines, wanted)
        if search.is_done() or search.walk(view):
            break
    return search.cursor() if search else cursors.BEGINNING


class _Search:
    """Line ends are ordered by a key: twice the position of a newline, or one less than
    twice the position at which an unfinished line was cut off (a new run, a gap, the end)."""

    def __init__(self, end: int, lines: int, wanted: tuple[int, ...]) -> None:
        self._end = end
        self._lines = lines
        self._wanted = wanted
        self._keys: list[tuple[int, int]] = []
        self._threshold: tuple[int, int] | None = None
        self._cut: list[int | None] = [end, end]
        self._starts: list[int | None] = [None, None]
        self._earliest = [end, end]
        self._beyond = [0, 0]

    def is_done(self) -> bool:
        if self._lines <= 0:
            return True
        if self._threshold is None:
            return False
        return all(
            self._starts[stream] is not None or self._beyond[stream] > LONGEST_LINE_BYTES
            for stream in self._included()
        )

    def cursor(self) -> Cursor:
        if self._lines <= 0:
            return cursors.at(self._end)
        included = self._included()
        first = self._threshold[0] // 2 if self._threshold else self._end
        places = [first, first]
        for stream in self._wanted:
            if self._threshold is None:
                places[stream] = self._earliest[stream]
            elif stream in included:
                start = self._starts[stream]
                places[stream] = self._earliest[stream] if start is None else start
        if len(self._wanted) == 1:
            return cursors.at(places[self._wanted[0]])
        return Cursor(*places)

    def walk(self, view: SegmentView) -> bool:
        """Go through a segment from its end; True when everything is known."""
        at = view.count()
        ends: list[int] | None = None
        while at > 1:
            first = max(1, at - _BATCH_RECORDS)
            for record in reversed(view.records(first, at - first)):
                stream = index.stream_of(record[0])
                if stream < 0:
                    if record[0] in (index.RUN, index.GAP):
                        self._cut = [record[2], record[2]]
                        self._look_at_cuts(view, ends)
                    continue
                if ends is None:
                    ends = self._ends(view, record, stream)
                    self._look_at_cuts(view, ends)
                if stream in self._wanted:
                    self._walk_chunk(view, record, stream)
                ends[stream] = record[3]
                if self.is_done():
                    return True
            at = first
        return False

    @staticmethod
    def _ends(view: SegmentView, record: index.Record, stream: int) -> list[int]:
        """How much of each stream the segment holds up to this record."""
        this = record[3] + record[4]
        other = record[2] + record[4] - view.base - this
        return [this, other] if stream == index.OUT else [other, this]

    def _look_at_cuts(self, view: SegmentView, ends: list[int] | None) -> None:
        """Was something unfinished where the streams were cut off? Their last bytes tell."""
        if ends is None:
            return
        for stream in self._wanted:
            cut = self._cut[stream]
            if cut is not None and ends[stream] > 0:
                self._cut[stream] = None
                last = view.read(stream, ends[stream] - 1, 1)
                if last and last != b"\n":
                    self._add(2 * cut - 1, stream, cut)

    def _walk_chunk(self, view: SegmentView, record: index.Record, stream: int) -> None:
        _, _, position, offset, length = record
        high = length
        while high > 0:
            low = max(0, high - _PIECE_BYTES)
            data = view.read(stream, offset + low, high - low)
            at = len(data)
            while (at := data.rfind(b"\n", 0, at)) >= 0:
                place = position + low + at
                self._add(2 * place, stream, place + 1)
                if self._starts[stream] is not None and self.is_done():
                    return
            self._earliest[stream] = position + low
            if self._threshold is not None:
                self._beyond[stream] += high - low
            high = low

    def _add(self, key: int, stream: int, after: int) -> None:
        if self._threshold is not None and (key, stream) < self._threshold:
            if self._starts[stream] is None:
                self._starts[stream] = after
            return
        self._keys.append((key, stream))
        if len(self._keys) >= self._lines:
            self._keys.sort(reverse=True)
            del self._keys[self._lines :]
            self._threshold = self._keys[-1]

    def _included(self) -> set[int]:
        if self._threshold is None:
            return set()
        return {stream for _, stream in self._keys}
