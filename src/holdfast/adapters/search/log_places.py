"""Where bytes of a segment's file are in the log, and the other way round. Blocking.

A position counts the bytes of both streams; the index says in which order they came. So of any
record can be told how many bytes of each stream are before it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.logbook import index, segments
from holdfast.logbook.entries import STREAMS, Stream
from holdfast.logbook.reader import Reader
from holdfast.logbook.segment_view import SegmentView

LONGEST_HALF = 64 * 1024
_MOST_AT_ONCE = 1024


class Part(NamedTuple):
    """One file of a segment, and the bytes of it that are meant."""

    path: str
    segment: int
    stream: Stream
    first: int
    last: int | None
    """None: to its end."""


class Torn(NamedTuple):
    """A line that begins at the end of one segment and ends in the next."""

    part: Part
    """Where it begins."""
    offset: int
    next_path: str
    text: bytes


class Spot(NamedTuple):
    """Where and when a byte was printed."""

    position: int
    time: float | None
    run: int


def parts(
    directory: str,
    service: str,
    *,
    after: int | None,
    since: float | None,
    until: float | None,
    stream: Stream | None,
) -> list[Part]:
    """The files that may hold lines of a range, the oldest first, both streams of a segment
    together. `after`: only what begins behind this position."""
    reader = Reader(directory, service)
    start = 0 if after is None else after + 1
    if since is not None:
        start = max(start, reader.since(since).out)
    end = None if until is None else reader.since(until).out
    found: list[Part] = []
    for view in reader.views():
        extent = view.end()
        # What is written but not yet indexed belongs to the last segment.
        is_last = not os.path.exists(segments.path(directory, service, view.number + 1, "idx"))
        if (extent <= start and not is_last) or (end is not None and view.base >= end):
            continue
        for name in STREAMS if stream is None else (stream,):
            path = segments.path(directory, service, view.number, name)
            if not os.path.exists(path):
                continue
            number = STREAMS.index(name)
            first = bytes_before(view, number, start) if start > view.base else 0
            last = bytes_before(view, number, end) if end is not None and end < extent else None
            if last is None or last > first:
                found.append(Part(path, view.number, name, first, last))
    return found


def torn_lines(found: Sequence[Part]) -> list[Torn]:
    """Lines of these files that a change of segments has cut in two."""
    lines = []
    following = {(part.stream, part.segment): part for part in found}
    for part in found:
        after = following.get((part.stream, part.segment + 1))
        if after is not None and (line := _torn(part, after)) is not None:
            lines.append(line)
    return lines


def _torn(part: Part, after: Part) -> Torn | None:
    try:
        with open(part.path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST_HALF))
            end = file.read(LONGEST_HALF)
        with open(after.path, "rb") as file:
            begin = file.read(LONGEST_HALF + 1)
    except OSError:
        return None
    first, line_end = end[end.rfind(b"\n") + 1 :], begin.find(b"\n")
    second = begin if line_end < 0 else begin[: line_end + 1]
    offset = size - len(first)
    is_bounded = len(first) < LONGEST_HALF and len(second) <= LONGEST_HALF
    if not first or not second or not is_bounded or offset < part.first:
        return None
    return Torn(part, offset, after.path, first + second.rstrip(b"\n"))


def bytes_before(view: SegmentView, stream: int, position: int) -> int:
    """How many bytes of a stream are before a position."""
    if position <= view.base:
        return 0
    if position >= view.end():
        return view.ends()[stream]
    record = _data_record(view, view.find_position(position))
    own = record[3] + max(0, position - record[2])
    if index.stream_of(record[0]) == stream:
        return own
    return max(position, record[2]) - view.base - own


def spot(view: SegmentView, stream: int, offset: int) -> Spot | None:
    """The place of a byte of a stream's file; None: it is not in the index yet."""
    if offset >= view.ends()[stream]:
        return None
    low, high = 1, view.count()
    while low < high:
        middle = (low + high) // 2
        record = _data_record(view, middle)
        if _before(record, view.base, stream) + _own(record, stream) <= offset:
            low = middle + 1
        else:
            high = middle
    number = low
    record = view.record(number)
    while index.stream_of(record[0]) != stream:
        number += 1
        if number >= view.count():
            return None
        record = view.record(number)
    kind, micros, position, begin, _ = record
    known = kind in (index.OUT, index.ERR)
    time = micros / 1_000_000 if known else None
    return Spot(position + offset - begin, time, view.run_at(number))


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
