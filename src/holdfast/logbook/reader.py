"""Reading a service's log: chunks from any cursor on, and the cursors of the last lines, of a time
and of a run.

Owns the order in which segments are read, and the notes about missing ones. A reader holds the
files of one segment, reads bounded pieces, and never waits for anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple, final

from holdfast.logbook import cursors, index, joined, segments, tail
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import STREAMS, Chunk, Note, NoteKind, Stream
from holdfast.logbook.segment_view import SegmentView

PIECE_BYTES = 64 << 10
JOINED_PIECE_BYTES = 256 << 10
_BATCH_RECORDS = 1024
_JOINED_RECORDS = 4096
_ANCHOR_RECORDS = 16
_BEFORE_BYTES = 128 << 10


class RunSpan(NamedTuple):
    """A run's part of the log. `end` is None while it is the last run. If its beginning is gone,
    `start` is the beginning of the log and `started_at` is None."""

    run: int
    start: Cursor
    end: int | None
    started_at: float | None


class Reader:
    """The log of one service. Cheap to create; it opens files only to answer."""

    def __init__(self, directory: str, service: str) -> None:
        self.directory = directory
        self.service = service

    def chunks(
        self,
        cursor: Cursor = cursors.BEGINNING,
        stream: Stream | None = None,
        until: int | None = None,
        run: int | None = None,
        *,
        is_joined: bool = False,
    ) -> Walk:
        """Return a walk over everything from the cursor to the present end, in recorded order.
        Iterate again to go on with what was added since. With `run`, only the chunks of that run.
        With `is_joined`, chunks of one stream that follow each other come as one, with the time of
        the first, which is faster."""
        return Walk(self, cursor, stream, until, run, is_joined=is_joined)

    def raw(
        self,
        cursor: Cursor = cursors.BEGINNING,
        stream: Stream | None = None,
        until: int | None = None,
        run: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the bytes as they were printed, nothing added."""
        with self.chunks(cursor, stream, until, run) as walk:
            for item in walk:
                if isinstance(item, Chunk):
                    yield item.data

    def beginning(self) -> Cursor:
        for view in self.views():
            return cursors.at(view.base)
        return cursors.BEGINNING

    def end(self) -> Cursor:
        for view in self.views(newest_first=True):
            return cursors.at(view.end())
        return cursors.BEGINNING

    def tail(self, lines: int, stream: Stream | None = None) -> Cursor:
        """Return where the last lines begin. Reads backwards, and no more than it must."""
        return tail.find(self.views(newest_first=True), lines, stream)

    def before(self, until: Cursor, lines: int) -> Cursor:
        """Return where the last lines before a place begin. Both streams count; no line of either
        begins in its middle."""
        last, beginning = max(until), self.beginning()
        span = _BEFORE_BYTES
        while True:
            start = max(beginning.start, last - span)
            ends = self._line_ends(start, until)
            if len(ends) > lines or start == beginning.start:
                break
            span *= 4
        if len(ends) <= lines:
            return beginning
        first = ends[-lines - 1][0] if lines else last
        places: list[int] = []
        for stream in range(len(STREAMS)):
            own = [end for end, of in ends if of == stream]
            if self._begins_line(start, stream):
                own.insert(0, start)
            # A line of the other stream may have begun before this place.
            begun = [end for end in own if end <= first]
            places.append(begun[-1] if begun else next(iter(own), until[stream]))
        return Cursor(*places)

    def _begins_line(self, position: int, stream: int) -> bool:
        """Return whether what a stream prints from this position on is a new line."""
        view = self.open_at(position)
        while view is not None:
            with closing(view):
                size = view.bytes_before(stream, position)
                if size:
                    return view.read(stream, size - 1, 1) == b"\n"
                view = self.open(view.number - 1)
        return True

    def _line_ends(self, start: int, until: Cursor) -> list[tuple[int, int]]:
        """Return the positions behind line ends from a place on, each with its stream, in order."""
        ends: list[tuple[int, int]] = []
        with self.chunks(cursors.at(start), until=max(until)) as walk:
            for item in walk:
                if not isinstance(item, Chunk):
                    continue
                stream, place = STREAMS.index(item.stream), -1
                room = until[stream] - item.position
                while (place := item.data.find(b"\n", place + 1)) >= 0 and place < room:
                    ends.append((item.position + place + 1, stream))
        return sorted(ends)

    def since(self, time: float) -> Cursor:
        """Return where the output of this time begins; the very beginning if some may be gone."""
        micros = int(time * 1_000_000)
        place = base = None
        for view in self.views(newest_first=True):
            number = view.find_time(micros)
            end = view.end()
            if number < view.count():
                place = min(max(view.record(number)[2], view.base), end)
            elif place is None:
                place = end
            if view.created < micros:
                break
            base = view.base
        else:
            place = None if place == base else place
        return cursors.at(place or 0)

    def run(self, number: int = -1) -> RunSpan | None:
        """Return a run's part of the log, by number; -1 is the last run, -2 the one before.

        While two runs overlapped, the part of each contains bytes of the other. Read it with
        `run`."""
        for is_whole in (False, True):
            for count, span in enumerate(self.runs(is_whole=is_whole), start=1):
                if span.run == number or count == -number:
                    return span
        return None

    def start_of(self, run: int) -> Cursor:
        """Return where a run begins, or will begin if it has printed nothing yet."""
        end = self.end()  # first, because the run may begin between the two looks
        span = self.run(run)
        return end if span is None else span.start

    def runs(self, *, is_whole: bool = True) -> Iterator[RunSpan]:
        """Yield every run that left something in the log, the last one first. If not `is_whole`, it
        is faster but leaves out runs that began and ended beside another in one segment."""
        end: int | None = None
        ends: dict[int, int | None] = {}
        last = 0
        oldest: tuple[int, int] | None = None
        for view in self.views(newest_first=True):
            oldest = view.run, view.base
            if last and view.run == last and not is_whole and ends.keys() <= {last}:
                continue
            at = view.count()
            bound = view.end()
            while (at := view.find_back(index.RUN, at)) >= 0:
                _, micros, position, run, how = view.record(at)
                if not view.base <= position <= bound:
                    continue  # damaged: outside its segment, or after a later one
                bound = position
                ends.setdefault(run, end)
                if how != index.GOES_ON:
                    yield RunSpan(run, cursors.at(position), ends.pop(run), micros / 1_000_000)
                end = position
            last = view.run
        if oldest and oldest[0] and oldest[1] != end:
            yield RunSpan(oldest[0], cursors.BEGINNING, ends.get(oldest[0], end), None)

    def views(self, *, newest_first: bool = False) -> Iterator[SegmentView]:
        """Yield the segments one after another; each is closed when the next is asked for."""
        numbers = segments.numbers(self.directory, self.service)
        for number in reversed(numbers) if newest_first else numbers:
            view = self.open(number)
            if view is None:
                continue
            try:
                yield view
            finally:
                view.close()

    def open_at(self, position: int) -> SegmentView | None:
        """Open the newest segment that begins at or before a position; None if there is none."""
        numbers = segments.numbers(self.directory, self.service)
        found: SegmentView | None = None
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            view, after = None, middle
            while view is None and after < high:
                view, after = self.open(numbers[after]), after + 1
            if view is None:
                high = middle
            elif view.base <= position:
                if found is not None:
                    found.close()
                found, low = view, after
            else:
                view.close()
                high = middle
        return found

    def open(self, number: int) -> SegmentView | None:
        """Open a segment; None if it is gone or has no header yet."""
        try:
            return SegmentView(self.directory, self.service, number)
        except FileNotFoundError:
            return None


@final
class Walk:
    """A walk through the log. Iterating ends at the present end of the log; iterating again goes on
    from there."""

    def __init__(
        self,
        reader: Reader,
        cursor: Cursor,
        stream: Stream | None,
        until: int | None,
        run: int | None = None,
        *,
        is_joined: bool = False,
    ) -> None:
        self._reader = reader
        self._is_joined = is_joined
        self._from = list(cursor)
        if stream is not None:
            only = STREAMS.index(stream)
            self._from[1 - only] = self._from[only]
        self._stream = None if stream is None else STREAMS.index(stream)
        self._until = until
        self._only = run
        self.position = min(self._from)
        self._view: SegmentView | None = None
        self._records: list[index.Record] = []
        self._next = 0
        self._first = 0
        self._continuity = index.Continuity(0)
        self._run = 0
        self._missing = 0
        self._is_found = False

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None
        self._records = []
        self._next = 0

    def __iter__(self) -> Iterator[Chunk | Note]:
        while (item := self.step()) is not None:
            yield item

    def step(self) -> Chunk | Note | None:
        """Return the next piece, or None at the present end."""
        while True:
            if self._view is None and (note := self._enter()):
                return note
            if self._view is None:
                return None
            if self._next >= len(self._records) and not self._refill():
                if self._missing:
                    return self._take_missing()
                if not self._has_successor():
                    return None
                continue
            record = self._records[self._next]
            if self._until is not None and record[2] >= self._until:
                return None
            item = self._read(record)
            if item is not None:
                return item

    def _enter(self) -> Note | None:
        """Open the segment that holds our position; return a note if some of it is gone."""
        found: SegmentView | None = None
        end: int | None = None
        for number in reversed(segments.numbers(self._reader.directory, self._reader.service)):
            view = self._reader.open(number)
            if view is None:
                continue
            if found is not None:
                found.close()
            found = view
            if end is None:
                end = view.end()
                end = view.reach() if end < self.position else end
            if view.base <= self.position <= end:
                break
        if found is None or end is None:
            return None
        self._view = found
        wanted, is_new = self.position, not self._is_found
        self._is_found = True
        is_anew = wanted > end
        if is_anew or found.base > wanted:
            self.position = found.base
        if is_anew:
            self._from = [found.base, found.base]
        self._first = self._start_record(found)
        self._bound(found)
        self._run = found.run_at(self._first)
        if is_anew:
            return Note("anew", None, self.position, self._run)
        # A log that was emptied has no beginning that a reader could miss.
        if found.base > wanted and not (is_new and wanted == 0 and found.base == end):
            return Note("removed", None, self.position, self._run, found.base - wanted)
        return None

    def _start_record(self, view: SegmentView) -> int:
        """Return the record to begin with. All that follow are checked from there on."""
        self._records = []
        self._next = 0
        self._continuity = index.Continuity(view.base)
        if self.position <= view.base:
            return 1
        number = view.find_position(self.position)
        records = view.records(number, _ANCHOR_RECORDS)
        begun = index.anchored(view.base, records)
        if len(records) < _ANCHOR_RECORDS:
            # Too few records to agree on anything. The extent was found by more of them.
            extent = view.extent()
            sound = extent.size // index.RECORD_SIZE
            number = min(number, sound)
            if sound - number <= len(records):
                records = records[: sound - number]
                begun = index.before(extent, records)
        # A damaged record misleads the search. Then all are read, from the first one on.
        if begun is None or (records and records[0][2] > self.position):
            return 1
        check = index.Continuity(view.base, begun.position, (begun.ends[0], begun.ends[1]))
        if not all(map(check.follows, records)):
            return 1
        self._continuity = begun
        return number

    def _bound(self, view: SegmentView) -> None:
        """Limit a segment that has a successor to where that begins, whatever its index says."""
        successor = self._successor(view.number)
        if successor is not None:
            if successor.base >= self._continuity.position:
                self._continuity.limit = min(self._continuity.limit, successor.base)
            successor.close()

    def _refill(self) -> bool:
        """Read the next records of this segment: sound ones, and a gap in the place of others."""
        assert self._view is not None
        while True:
            if self._is_joined and self._refill_joined(self._view):
                return True
            records = self._view.records(self._first, _BATCH_RECORDS)
            if not records and self._continuity.is_broken and self._view.count() < self._first:
                # Its writer has moved the damaged end away, and goes on in its place.
                self._first = self._start_record(self._view)
                self._bound(self._view)
                continue
            self._records, settled = self._continuity.sound(records)
            self._next = 0
            if settled < len(records) == _BATCH_RECORDS and not settled:
                settled = len(records)
            self._first += settled
            if self._records or not settled:
                return bool(self._records)

    def _refill_joined(self, view: SegmentView) -> bool:
        packed = view.packed_records(self._first, _JOINED_RECORDS)
        records = joined.join(self._continuity, packed)
        if records is None:
            return False
        self._records, self._next = records, 0
        self._first += len(packed) // index.RECORD_SIZE
        return True

    def _has_successor(self) -> bool:
        """At the end of a segment, go to the next one if there is one, else stay."""
        assert self._view is not None
        is_gone = self._view.is_deleted()
        successor = self._successor(self._view.number)
        if successor is None and not is_gone:
            return False
        # The writer completes an index before it begins the next segment; look once more.
        if self._refill():
            if successor is not None:
                successor.close()
            return True
        if successor is not None:
            self._missing = max(0, successor.base - self.position)
            self.position = successor.base
            self._view.close()
            self._view = successor
            self._records = []
            self._next = 0
            self._first = 1
            self._continuity = index.Continuity(successor.base)
            self._bound(successor)
            self._run = successor.run or self._run
            return True
        if not segments.numbers(self._reader.directory, self._reader.service):
            return False
        self.close()
        return True

    def _successor(self, number: int) -> SegmentView | None:
        """Return the next segment that can be read, and skip others."""
        successor = self._reader.open(number + 1)
        if successor is not None or not self._is_occupied(number + 1):
            return successor
        later = segments.numbers(self._reader.directory, self._reader.service)
        for following in (found for found in later if found > number + 1):
            if (successor := self._reader.open(following)) is not None:
                # It may have been without a header only because it was being made.
                if (made := self._reader.open(number + 1)) is not None:
                    successor.close()
                    return made
                return successor
        return None

    def _is_occupied(self, number: int) -> bool:
        return not segments.is_free(self._reader.directory, self._reader.service, number)

    def _read(self, record: index.Record) -> Chunk | Note | None:
        kind, micros, position, offset, length = record
        stream = index.stream_of(kind)
        if stream < 0:
            if self._missing:
                return self._take_missing()
            self._next += 1
            return self._note(record)
        end = position + length
        if self._until is not None:
            end = min(end, self._until)
        start = max(position, self._from[stream])
        is_wanted = self._stream in (None, stream) and self._only in (None, self._run)
        if not is_wanted or start >= end:
            self._next += 1
            self.position = max(self.position, position + length)
            return None
        wanted = min(end - start, JOINED_PIECE_BYTES if self._is_joined else PIECE_BYTES)
        assert self._view is not None
        data = self._view.read(stream, offset + start - position, wanted)
        if not data:
            # Only skipped: the next segment is wanted, even if this length is damaged.
            self._missing += end - start
            self._next += 1
            self.position = max(self.position, end)
            return None
        if self._missing:
            return self._take_missing()
        self._from[stream] = start + len(data)
        self.position = max(self.position, start + len(data))
        if start + len(data) == position + length:
            self._next += 1
        is_timed = kind in (index.OUT, index.ERR)
        time = micros / 1_000_000 if is_timed else None
        return Chunk(time, STREAMS[stream], data, start, self._run)

    def _take_missing(self) -> Note:
        """Return a note about bytes that the index has and the files do not. The size limit deleted
        them while we were reading, or they were lost with the power."""
        assert self._view is not None
        lost, self._missing = self._missing, 0
        kind: NoteKind = "removed" if self._view.is_deleted() else "missing"
        return Note(kind, None, self.position, self._run, lost)

    def _note(self, record: index.Record) -> Note | None:
        kind, micros, position, offset, how = record
        time = micros / 1_000_000
        if kind == index.RUN:
            self._run = offset
            return Note("run", time, position, offset) if how == index.ALONE else None
        if kind in index.GAPS:
            is_damaged = kind == index.GAP_UNCOUNTED and offset == index.DAMAGED
            lost = index.lost_bytes(record)
            return Note("gap", time, position, self._run, lost, is_damaged=is_damaged)
        if kind == index.REPLACED:
            return Note("replaced", time, position, self._run)
        return None
