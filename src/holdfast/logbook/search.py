"""Search in a log: a literal or a regular expression over lines, in a range of time.

Owns what matches. Reads a bounded number of bytes per call and says where to go on, so
that nobody waits for a whole log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Line, Note, Stream
from holdfast.logbook.lines import LineAssembler
from holdfast.logbook.reader import Reader

SCAN_BYTES = 64 << 20


class SearchError(ValueError):
    """The pattern is not a regular expression."""

    code = "invalid_pattern"


class Query(NamedTuple):
    """What to look for; times are unix seconds, `until_time` exclusive."""

    pattern: str
    is_regex: bool = False
    ignore_case: bool = False
    stream: Stream | None = None
    since: float | None = None
    until_time: float | None = None
    limit: int = 100


class Found(NamedTuple):
    """`cursor` is where to go on; `is_complete` says that the end of the range was reached.
    `notes` tell what could not be searched."""

    lines: list[Line]
    notes: list[Note]
    cursor: Cursor
    is_complete: bool


def search(
    reader: Reader, query: Query, cursor: Cursor | None = None, scan_bytes: int = SCAN_BYTES
) -> Found:
    """The first matches from the cursor on (else from `since`, else from the beginning)."""
    matches = matcher(query)
    if cursor is None:
        cursor = reader.beginning() if query.since is None else reader.since(query.since)
    assembler = LineAssembler(cursor)
    lines: list[Line] = []
    notes: list[Note] = []
    scanned = 0
    with reader.chunks(cursor, query.stream) as walk:
        for item in walk:
            if not isinstance(item, Note):
                scanned += len(item.data)
                if _is_after(item.time, query.until_time):
                    break
            for entry in assembler.feed(item):
                if isinstance(entry, Note):
                    if entry.lost != 0:
                        notes.append(entry)
                elif _is_in_range(entry, query) and matches(entry.data):
                    lines.append(entry)
                    if len(lines) >= query.limit:
                        return Found(lines, notes, entry.cursor, is_complete=False)
            if scanned >= scan_bytes:
                return Found(lines, notes, assembler.cursor(), is_complete=False)
    end = assembler.cursor()
    last = [line for line in assembler.finish() if _is_in_range(line, query) and matches(line.data)]
    return Found(lines + last, notes, end, is_complete=True)


def matcher(query: Query) -> Callable[[bytes], bool]:
    """A test for one line's bytes."""
    if query.is_regex:
        try:
            expression = re.compile(query.pattern, re.IGNORECASE if query.ignore_case else 0)
        except (re.error, RecursionError, OverflowError) as error:
            raise SearchError(f"not a regular expression: {error}") from error
        return lambda data: expression.search(data.decode("utf-8", "replace")) is not None
    if query.ignore_case:
        folded = query.pattern.casefold()
        return lambda data: folded in data.decode("utf-8", "replace").casefold()
    literal = query.pattern.encode("utf-8", "surrogateescape")
    return lambda data: literal in data


def _is_after(time: float | None, limit: float | None) -> bool:
    return time is not None and limit is not None and time >= limit


def _is_in_range(line: Line, query: Query) -> bool:
    if line.time is None:
        return True
    if query.since is not None and line.time < query.since:
        return False
    return not _is_after(line.time, query.until_time)
