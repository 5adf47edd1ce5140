"""Where bytes of a segment's file are in the log, and the other way round. Blocking.

A position counts the bytes of both streams; the index says in which order they came. So of any
record can be told how many bytes of each stream are before it.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.logbook import index
from holdfast.logbook.segment_view import SegmentView

_MOST_AT_ONCE = 1024


class Spot(NamedTuple):
    """Where and when a byte was printed."""

    position: int
    time: float | None
    run: int


def bytes_before(view: SegmentView, stream: int, position: int) -> int:
    """How many bytes of a stream are before a position."""
    if position <= view.base:
        return 0
    if position >= view.end():
        return view.ends()[stream]
    record = _data_record(view, view.find_position(position))
    own = record[3] + max(0, position - record[2])
    if index.stream_of(record[0]) != stream:
        own = max(position, record[2]) - view.base - own
    return min(max(0, own), view.ends()[stream])  # a damaged record may say anything


def spot(view: SegmentView, stream: int, offset: int) -> Spot | None:
    """The place of a byte of a stream's file; None: it is not in the index yet."""
    if offset >= view.ends()[stream]:
        return None
    number = record_at(view, stream, offset)
    record = view.record(number)
    while index.stream_of(record[0]) != stream:
        number += 1
        if number >= view.count():
            return None
        record = view.record(number)
    kind, micros, position, begin, _ = record
    known = kind in (index.OUT, index.ERR)
    time = micros / 1_000_000 if known else None
    place = position + offset - begin
    if not view.base <= place < view.end():
        return None  # the record is damaged
    return Spot(place, time, view.run_at(number))


def record_at(view: SegmentView, stream: int, offset: int) -> int:
    """The number of the first record behind which more than so many bytes of a stream lie."""
    low, high = 1, view.count()
    while low < high:
        middle = (low + high) // 2
        record = _data_record(view, middle)
        if _before(record, view.base, stream) + _own(record, stream) <= offset:
            low = middle + 1
        else:
            high = middle
    return low


def _data_record(view: SegmentView, number: int) -> index.Record:
    """The first record from here on that carries bytes; one behind the end if there is none."""
    batch = 1
    while records := view.records(number, batch):
        for record in records:
            if index.stream_of(record[0]) >= 0:
                return record
        number, batch = number + batch, min(4 * batch, _MOST_AT_ONCE)
    out, _ = view.ends()
    return (index.OUT, 0, view.end(), out, 0)


def _before(record: index.Record, base: int, stream: int) -> int:
    """Bytes of a stream before a record."""
    own = record[3]
    return own if index.stream_of(record[0]) == stream else record[2] - base - own


def _own(record: index.Record, stream: int) -> int:
    return record[4] if index.stream_of(record[0]) == stream else 0
