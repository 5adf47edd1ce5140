"""The index of a segment: fixed records of 24 bytes that order the chunks of its streams.

Owns the record's format and what can be told from an index alone. It is loaded by the
keeper, so it must stay light: it imports nothing but the operating system and struct.
"""

from __future__ import annotations

import os
import struct

OUT = 0
ERR = 1
RUN = 2
GAP = 3
REPLACED = 4
GAP_BEGINS = 5
GAP_UNCOUNTED = 6
OUT_RECOVERED = 8
ERR_RECOVERED = 9
HEADER = 255

# How a RUN record's run is there: alone, as it begins; beside another one, as it begins; or
# it goes on after bytes of that other one.
ALONE = 0
GOES_ON = 1
BESIDE = 2

GAPS = (GAP, GAP_UNCOUNTED)

VERSION = 1
RECORD_SIZE = 24

_RECORD = struct.Struct("<QQII")
_TIME_MASK = (1 << 56) - 1
_WORD = 0xFFFFFFFF

Record = tuple[int, int, int, int, int]
"""(kind, unix time in microseconds, position, offset, length)"""


def pack(kind: int, micros: int, position: int, offset: int, length: int) -> bytes:
    return _RECORD.pack(kind << 56 | micros & _TIME_MASK, position, offset, length)


def pack_gap(micros: int, position: int, lost: int) -> bytes:
    """A gap's count of lost bytes takes the place of both offset and length."""
    return pack(GAP, micros, position, lost & _WORD, lost >> 32 & _WORD)


def lost_bytes(record: Record) -> int | None:
    """Of a gap; None where nobody knows: who counted was killed."""
    return None if record[0] == GAP_UNCOUNTED else record[3] | record[4] << 32


def unpack(data: bytes, at: int = 0) -> Record:
    word, position, offset, length = _RECORD.unpack_from(data, at)
    return word >> 56, word & _TIME_MASK, position, offset, length


def unpack_all(data: bytes) -> list[Record]:
    """The whole records in these bytes; a torn last one is not looked at."""
    whole = len(data) - len(data) % RECORD_SIZE
    return [
        (word >> 56, word & _TIME_MASK, position, offset, length)
        for word, position, offset, length in _RECORD.iter_unpack(data[:whole])
    ]


def stream_of(kind: int) -> int:
    """OUT or ERR for the kinds that carry bytes, else -1."""
    if kind in (OUT, OUT_RECOVERED):
        return OUT
    if kind in (ERR, ERR_RECOVERED):
        return ERR
    return -1


def is_cut(record: Record) -> bool:
    """Whether what is unfinished here will not be finished: a run begins alone, or a gap."""
    return record[0] in GAPS or (record[0] == RUN and record[4] == ALONE)


class Extent:
    """What an index accounts for: positions from `base` to `end`, bytes of each stream. `has_mark`
    says that it ends within a gap."""

    __slots__ = ("base", "end", "ends", "has_mark", "run", "size")

    def __init__(
        self, base: int, end: int, ends: tuple[int, int], run: int, size: int, has_mark: bool
    ) -> None:
        self.has_mark = has_mark
        self.base = base
        self.end = end
        self.ends = ends
        self.run = run
        self.size = size


def read_header(fd: int) -> tuple[int, int] | None:
    """Base position and run in progress at the segment's start; None if there is no header."""
    data = os.pread(fd, RECORD_SIZE, 0)
    if len(data) < RECORD_SIZE:
        return None
    kind, _, position, _, run = unpack(data)
    return (position, run) if kind == HEADER else None


def read_extent(fd: int) -> Extent | None:
    """Read from the end: the last chunk alone tells how far both streams are indexed."""
    header = read_header(fd)
    if header is None:
        return None
    base, run = header
    size = os.fstat(fd).st_size
    size -= size % RECORD_SIZE
    at = size
    about_gap = 0
    while at > RECORD_SIZE:
        begin = max(RECORD_SIZE, at - 64 * RECORD_SIZE)
        for record in reversed(unpack_all(os.pread(fd, at - begin, begin))):
            kind, _, position, offset, length = record
            stream = stream_of(kind)
            if stream < 0:
                if not about_gap and kind in (GAP_BEGINS, *GAPS):
                    about_gap = kind
                continue
            end = position + length
            this = offset + length
            other = end - base - this
            ends = (this, other) if stream == OUT else (other, this)
            return Extent(base, end, ends, run, size, about_gap == GAP_BEGINS)
        at = begin
    return Extent(base, base, (0, 0), run, size, about_gap == GAP_BEGINS)


def find_back(fd: int, kind: int, before: int) -> int:
    """The last record of a kind among the first `before` records; -1 if there is none."""
    at = before
    while at > 0:
        begin = max(0, at - 4096)
        data = os.pread(fd, (at - begin) * RECORD_SIZE, begin * RECORD_SIZE)
        found = data[RECORD_SIZE // 3 - 1 :: RECORD_SIZE].rfind(kind)
        if found >= 0:
            return begin + found
        at = begin
    return -1


def find_run(fd: int, number: int) -> int | None:
    """The position at which this index last says that the run starts."""
    at = os.fstat(fd).st_size // RECORD_SIZE
    while (at := find_back(fd, RUN, at)) >= 0:
        record = unpack(os.pread(fd, RECORD_SIZE, at * RECORD_SIZE))
        if record[3] == number:
            return record[2]
    return None


def last_run(fd: int) -> int:
    """The run that is in progress at the end of this index; 0 if unknown."""
    at = find_back(fd, RUN, os.fstat(fd).st_size // RECORD_SIZE)
    if at >= 0:
        return unpack(os.pread(fd, RECORD_SIZE, at * RECORD_SIZE))[3]
    header = read_header(fd)
    return header[1] if header else 0
