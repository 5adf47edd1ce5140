"""Where the last lines of a log begin, found by walking its index backwards.

Owns the counting of line ends from the end of the log. Reads no more data than the lines asked for,
and at most the largest length of a line beyond them. Going backwards, positions and offsets only
become smaller; a record that says otherwise is damaged and is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.logbook import cursors, index
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import LONGEST_LINE_BYTES, STREAMS, Stream
from holdfast.logbook.segment_view import SegmentView

_PIECE_BYTES = 64 << 10
_BATCH_RECORDS = 1024


def find(views: Iterator[SegmentView], lines: int, stream: Stream | None) -> Cursor:
    """Return the cursor from which the last lines follow; `views` come newest first."""
    wanted = (0, 1) if stream is None else (STREAMS.index(stream),)
    search: _Search | None = None
    for view in views:
        if search is None:
            search = _Search(view.end(), lines, wanted)
        if search.is_done(view.ends()):
            if not search.is_cut_open():
                break
            search.skip(view, view.count())
        else:
            search.walk(view)
    return search.cursor() if search and search.is_full() else cursors.BEGINNING


class _Search:
    """The search for the line ends. They are ordered by a key: twice the position of a newline, or
    one less than twice the position at which an unfinished line ends (a new run, a gap, the
    end)."""

    def __init__(self, end: int, lines: int, wanted: tuple[int, ...]) -> None:
        self._end = end
        self._lines = lines
        self._wanted = wanted
        self._keys: list[tuple[int, int, int]] = []
        self._threshold: tuple[int, int, int] | None = None
        self._cut: list[int | None] = [end, end]
        self._starts: list[int | None] = [None, None]
        self._earliest = [end, end]
        self._beyond = [0, 0]

    def is_done(self, ends: Sequence[int]) -> bool:
        """Return whether the bytes before can change nothing; of each stream there are `ends`."""
        if self._lines <= 0:
            return True
        if self._threshold is None:
            return False
        if any(self._cut[stream] is not None and ends[stream] > 0 for stream in self._wanted):
            return False
        return all(
            self._starts[stream] is not None or self._beyond[stream] > LONGEST_LINE_BYTES
            for stream in self._included()
        )

    def is_full(self) -> bool:
        """Return whether there are as many lines as were asked for."""
        return self._lines <= 0 or self._threshold is not None

    def is_cut_open(self) -> bool:
        """Return whether an older segment may still contain an unfinished line."""
        return self._lines > 0 and any(self._cut[stream] is not None for stream in self._wanted)

    def skip(self, view: SegmentView, before: int) -> None:
        """Skip records, and note only the places where streams were cut off."""
        for kind in (index.RUN, *index.GAPS):
            at = before
            while (at := view.find_back(kind, at)) > 0:
                if not index.is_cut(record := view.record(at)):
                    continue
                place = record[2]
                self._cut = [None if cut is None else min(cut, place) for cut in self._cut]

    def cursor(self) -> Cursor:
        if self._lines <= 0:
            return cursors.at(self._end)
        included = self._included()
        first = (self._threshold[0] + 1) // 2 if self._threshold else self._end
        places = [first, first]
        for stream in self._wanted:
            if self._threshold is None:
                places[stream] = self._earliest[stream]
            elif stream in included:
                start = self._starts[stream]
                places[stream] = self._earliest[stream] if start is None else start
            else:
                places[stream] = max(first, self._starts[stream] or 0)
        if len(self._wanted) == 1:
            return cursors.at(places[self._wanted[0]])
        return Cursor(*places)

    def walk(self, view: SegmentView) -> None:
        """Walk through a segment from its end, as far as necessary."""
        extent = view.extent()
        at = extent.size // index.RECORD_SIZE
        position, ends = extent.end, list(extent.ends)
        self._look_at_cuts(view, ends)
        while at > 1:
            first = max(1, at - _BATCH_RECORDS)
            for record in reversed(view.records(first, at - first)):
                at -= 1
                stream = index.stream_of(record[0])
                if record[2] + (record[4] if stream >= 0 else 0) > position:
                    continue
                if stream < 0:
                    if index.is_cut(record):
                        self._cut = [record[2], record[2]]
                        self._look_at_cuts(view, ends)
                    continue
                if not record[4] or record[3] + record[4] > ends[stream]:
                    continue
                if stream in self._wanted:
                    self._walk_chunk(view, record, stream)
                position, ends[stream] = record[2], record[3]
                if self.is_done(ends):
                    self.skip(view, at)
                    return
            at = min(at, first)

    def _look_at_cuts(self, view: SegmentView, ends: list[int]) -> None:
        """Forget the cuts at which no line was unfinished, which the last byte of a stream
        tells."""
        for stream in self._wanted:
            if (
                self._cut[stream] is not None
                and ends[stream] > 0
                and view.read(stream, ends[stream] - 1, 1) == b"\n"
            ):
                self._cut[stream] = None

    def _walk_chunk(self, view: SegmentView, record: index.Record, stream: int) -> None:
        _, _, position, offset, length = record
        cut = self._cut[stream]
        if cut is not None:
            self._cut[stream] = None
            if view.read(stream, offset + length - 1, 1) != b"\n":
                self._add(2 * cut - 1, stream, cut)
        high = length
        while high > 0:
            low = max(0, high - _PIECE_BYTES)
            data = view.read(stream, offset + low, high - low)
            at = len(data)
            while (at := data.rfind(b"\n", 0, at)) >= 0:
                place = position + low + at
                self._add(2 * place, stream, place + 1)
                if self._starts[stream] is not None and self._threshold is not None:
                    return
            self._earliest[stream] = position + low
            if self._threshold is not None:
                self._beyond[stream] += high - low
            high = low

    def _add(self, key: int, stream: int, after: int) -> None:
        line_end = (key, stream, after)
        if self._threshold is None or line_end > self._threshold:
            self._keys.append(line_end)
            if len(self._keys) < self._lines:
                return
            # Late line ends come only from cuts, of which there are few, so this sorts once as a
            # rule.
            self._keys.sort(reverse=True)
            self._threshold = self._keys[self._lines - 1]
            if len(self._keys) == self._lines:
                return
            line_end = self._keys.pop()
        _, stream, after = line_end
        self._starts[stream] = max(self._starts[stream] or 0, after)

    def _included(self) -> set[int]:
        if self._threshold is None:
            return set()
        return {stream for _, stream, _ in self._keys}
