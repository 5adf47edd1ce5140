"""The files of a log that a search has to read, and the lines that two of them share. Blocking."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.logbook import segments
from holdfast.logbook.entries import STREAMS, Stream
from holdfast.logbook.reader import Reader

LONGEST_HALF = 64 * 1024


class SearchRange(NamedTuple):
    """One file of a segment, and the range of its bytes to search."""

    path: str
    segment: int
    stream: Stream
    first: int
    last: int | None
    """None: to its end."""


class Torn(NamedTuple):
    """A line that begins at the end of one segment and ends in the next."""

    part: SearchRange
    """Where it begins."""
    offset: int
    next_path: str
    text: bytes


def parts(
    directory: str,
    service: str,
    *,
    after: int | None,
    since: float | None,
    until: float | None,
    stream: Stream | None,
) -> list[SearchRange]:
    """Return the files that may hold lines of a range, oldest first, both streams of a segment
    together. With `after`, only lines that begin behind this position count.
    """
    reader = Reader(directory, service)
    start = 0 if after is None else after + 1
    if since is not None:
        start = max(start, reader.since(since).out)
    end = None if until is None else reader.since(until).out
    found: list[SearchRange] = []
    for view in reader.views():
        extent = view.end()
        # What is written but not yet indexed belongs to the last segment.
        is_last = not os.path.exists(segments.path(directory, service, view.number + 1, "idx"))
        if (extent <= start and not is_last) or (end is not None and view.base >= end):
            continue
        for name in STREAMS if stream is None else (stream,):
            path = segments.path(directory, service, view.number, name)
            if not segments.is_file(path):
                continue
            number = STREAMS.index(name)
            first = view.bytes_before(number, start) if start > view.base else 0
            last = view.bytes_before(number, end) if end is not None and end < extent else None
            if last is None or last > first:
                found.append(SearchRange(path, view.number, name, first, last))
    return found


def torn_lines(found: Sequence[SearchRange]) -> list[Torn]:
    """Return the lines of these files that the change of a segment has cut in two."""
    lines = []
    following = {(part.stream, part.segment): part for part in found}
    for part in found:
        after = following.get((part.stream, part.segment + 1))
        if after is not None and (line := _torn(part, after)) is not None:
            lines.append(line)
    return lines


def _torn(part: SearchRange, after: SearchRange) -> Torn | None:
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
