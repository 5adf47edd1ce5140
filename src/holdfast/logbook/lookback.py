"""What precedes the place where somebody begins to read: the beginning of its line, and the private
key that is open there.

Every reader that begins in the middle of a log asks here once, when it opens: what is hidden must
not depend on where reading begins. The bytes of the one stream are read from the segment's file,
however much the other stream printed meanwhile. Bounded: `LOOK_BACK_BYTES`, in two segments at
most, and no further than the beginning of the run. Blocking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from holdfast.logbook import index, offsets
from holdfast.logbook.entries import STREAMS, Stream
from holdfast.logbook.reader import Reader
from holdfast.logbook.segment_view import SegmentView

LOOK_BACK_BYTES = 66 * 1024
"""The longest private key that is recognised, and a little more for the line that it begins in."""
BEFORE_BYTES = 4096
"""How much of an unfinished line is remembered."""
_MOST_SEGMENTS = 2
_MOST_RECORDS = 4096


class Hides(Protocol):
    """Knows what must not be told. A block is a private key of several lines; which state it needs
    from one line to the next is its own matter, None if none is open."""

    def lines(self, lines: Sequence[bytes], block: Any = None) -> list[bytes]: ...

    def mask(self, data: bytes, *, is_terminal: bool = False, block: Any = None) -> bytes: ...

    def beginning(self, data: bytes) -> int: ...

    def open_block(self, data: bytes, place: int, block: Any = None) -> tuple[int, Any]: ...

    def behind_hole(self, block: Any) -> Any: ...

    def shortened(self, covered: bytes) -> bytes: ...


class Before(NamedTuple):
    """The beginning of a line, and the block that is open where the line begins."""

    line: bytes = b""
    block: Any = None


NOTHING = Before()


class _Piece(NamedTuple):
    """Bytes of a stream that follow each other."""

    data: bytes
    has_hole: bool
    """Whether bytes are missing before them."""


def look_back(reader: Reader, place: int, stream: Stream, hides: Hides) -> Before:
    """From a position of the log."""
    if place <= 0:
        return NOTHING
    is_newest = True
    for view in reader.views(newest_first=True):
        if is_newest and place > view.end():
            return NOTHING  # there is no such place
        is_newest = False
        if view.base <= place:
            offset = offsets.bytes_before(view, STREAMS.index(stream), place)
            return look_back_in(reader, view, stream, offset, hides, view.find_position(place))
    return NOTHING


def look_back_in(
    reader: Reader,
    view: SegmentView,
    stream: Stream,
    offset: int,
    hides: Hides,
    record: int | None = None,
) -> Before:
    """From a place in the file of a segment. `record` is the first one that is not before it."""
    number = STREAMS.index(stream)
    pieces = _pieces(reader, view, number, offset, record)
    block = None
    line = b""
    for at, piece in enumerate(pieces, start=1):
        if piece.has_hole:
            block = hides.behind_hole(block)
        first = len(piece.data)
        if at == len(pieces):
            first = max(piece.data.rfind(b"\n") + 1, first - BEFORE_BYTES)
        first, block = hides.open_block(piece.data, first, block)
        line = piece.data[first:]
    return Before(line, block)


def _pieces(
    reader: Reader, view: SegmentView, stream: int, offset: int, record: int | None
) -> list[_Piece]:
    """The newest bytes before a place, the oldest first."""
    found: list[_Piece] = []
    size = 0
    opened: list[SegmentView] = []
    try:
        for _ in range(_MOST_SEGMENTS):
            begin = max(0, offset - (LOOK_BACK_BYTES - size))
            cuts, is_run = _cuts(view, stream, begin, offset, record)
            last = offset
            for cut, has_hole in cuts:
                found.append(_Piece(view.read(stream, cut, last - cut), has_hole))
                last = cut
            if is_run:
                break
            data = view.read(stream, begin, last - begin)
            size += offset - begin
            older = None
            if begin == 0 and size < LOOK_BACK_BYTES:
                older = reader.open(view.number - 1)
            if older is None:
                is_gone = begin == 0 and view.base > 0 and size < LOOK_BACK_BYTES
                found.append(_Piece(data, has_hole=is_gone))
                break
            found.append(_Piece(data, has_hole=older.end() < view.base))
            opened.append(older)
            view, offset, record = older, older.ends()[stream], older.count()
    finally:
        for one in opened:
            one.close()
    return _joined(found[::-1])


def _cuts(
    view: SegmentView, stream: int, begin: int, end: int, record: int | None
) -> tuple[list[tuple[int, bool]], bool]:
    """Where in the file the bytes of a stream do not go on, the last place first: behind a gap,
    and where a run began alone. Nothing before that counts; it is told in the second place."""
    if record is None:
        record = offsets.record_at(view, stream, end) if end < view.ends()[stream] else view.count()
    first = max(1, offsets.record_at(view, stream, begin), record - _MOST_RECORDS)
    cuts: list[tuple[int, bool]] = []
    for one in reversed(view.records(first, record - first) if record > first else []):
        if not index.is_cut(one):
            continue
        cut = offsets.bytes_before(view, stream, one[2])
        if begin <= cut <= end:
            is_run = one[0] == index.RUN
            cuts.append((cut, not is_run))
            if is_run:
                return cuts, True
    return cuts, False


def _joined(pieces: list[_Piece]) -> list[_Piece]:
    """Pieces between which nothing is missing, as one."""
    found: list[_Piece] = []
    for piece in pieces:
        if found and not piece.has_hole:
            found[-1] = _Piece(found[-1].data + piece.data, found[-1].has_hole)
        else:
            found.append(piece)
    return found
