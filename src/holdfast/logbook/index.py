"""The index of a segment: fixed records of 24 bytes that order the chunks of its streams.

Owns the format of the records and everything that can be known from an index alone. The keeper
loads it, so it must stay light: it imports only `os` and `struct`.

How damage is found: each record begins where the one before it ended, in the log and in the file of
its stream. So a record is sound if it follows from those before it. After unsound records, two that
follow from each other and lie further on are trusted again. The bytes between are accounted for as
bytes of unknown time and order (`Continuity`).
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

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

# The last field of a RUN record: the run begins alone, it begins beside another one, or it goes on
# after bytes of that other one.
ALONE = 0
GOES_ON = 1
BESIDE = 2

GAPS = (GAP, GAP_UNCOUNTED)

# The `offset` of an uncounted gap that no writer wrote: the index was damaged here.
DAMAGED = 1

VERSION = 1
RECORD_SIZE = 24

# Set in the `offset` of a header, which needs no room on a full disk: a gap began in this segment
# and nothing could be added to its index. FLAG_AT is the byte that holds it.
WITHIN_GAP = 1 << 16
FLAG_AT = 18

# The largest values of a sound record: more bytes than any disk has held, and the size of a
# segment.
LARGEST_POSITION = 1 << 60
LARGEST_SEGMENT = (1 << 32) - 1

_RECORD = struct.Struct("<QQII")
_TIME_MASK = (1 << 56) - 1
_WORD = 0xFFFFFFFF

Record = tuple[int, int, int, int, int]
"""(kind, unix time in microseconds, position, offset, length)"""


def pack(kind: int, micros: int, position: int, offset: int, length: int) -> bytes:
    return _RECORD.pack(kind << 56 | micros & _TIME_MASK, position, offset, length)


def pack_gap(micros: int, position: int, lost: int) -> bytes:
    """Pack a gap, whose count of lost bytes takes the place of offset and length."""
    return pack(GAP, micros, position, lost & _WORD, lost >> 32 & _WORD)


def lost_bytes(record: Record) -> int | None:
    """Return the count of a gap; None if it is unknown, because its writer was killed."""
    return None if record[0] == GAP_UNCOUNTED else record[3] | record[4] << 32


def unpack(data: bytes, at: int = 0) -> Record:
    word, position, offset, length = _RECORD.unpack_from(data, at)
    return word >> 56, word & _TIME_MASK, position, offset, length


def unpack_all(data: bytes) -> list[Record]:
    """Return the whole records in these bytes; a torn last one is ignored."""
    whole = len(data) - len(data) % RECORD_SIZE
    return [
        (word >> 56, word & _TIME_MASK, position, offset, length)
        for word, position, offset, length in _RECORD.iter_unpack(data[:whole])
    ]


def stream_of(kind: int) -> int:
    """Return OUT or ERR for the kinds that carry bytes, else -1."""
    if kind in (OUT, OUT_RECOVERED):
        return OUT
    if kind in (ERR, ERR_RECOVERED):
        return ERR
    return -1


def is_cut(record: Record) -> bool:
    """Return whether unfinished lines end here for good: a run begins alone, or there is a gap."""
    return record[0] in GAPS or (record[0] == RUN and record[4] == ALONE)


class Extent:
    """What the sound records of an index account for: positions up to `end`, and the bytes of each
    stream. The last sound record ends at `size`. `has_mark` tells that the index ends within a gap,
    `is_damaged` that unsound records follow."""

    __slots__ = ("end", "ends", "has_mark", "header", "is_damaged", "size")

    def __init__(
        self,
        header: Header,
        end: int,
        ends: tuple[int, int],
        size: int,
        *,
        has_mark: bool,
        is_damaged: bool,
    ) -> None:
        self.header = header
        self.end = end
        self.ends = ends
        self.size = size
        self.has_mark = has_mark or header.is_within_gap
        self.is_damaged = is_damaged


class Header:
    """The first record: when the segment was created, where it begins, and which run was in
    progress. It is not sound if the base had to be taken from the records behind it.
    `is_within_gap` tells that the writer left the segment within a gap."""

    __slots__ = ("base", "created", "is_sound", "is_within_gap", "run")

    def __init__(
        self,
        created: int,
        base: int,
        run: int,
        *,
        is_sound: bool = True,
        is_within_gap: bool = False,
    ) -> None:
        self.is_within_gap = is_within_gap
        self.created = created
        self.base = base
        self.run = run
        self.is_sound = is_sound


class Continuity:
    """Follows the records of one segment in order and tells which of them are sound. The rule is at
    the top of this module."""

    __slots__ = ("_candidate", "_held", "base", "ends", "is_broken", "limit", "position")

    def __init__(
        self, base: int, position: int | None = None, ends: tuple[int, int] = (0, 0)
    ) -> None:
        self.base = base
        self.position = base if position is None else position
        self.ends = list(ends)
        self.limit = self.base + LARGEST_SEGMENT
        """No chunk ends behind it, because the next segment begins there."""
        self.is_broken = False
        self._candidate: Continuity | None = None
        self._held: list[Record] = []

    def follows(self, record: Record) -> bool:
        """Return whether a record is sound; if so, account for it."""
        kind, _, position, offset, length = record
        if position != self.position:
            return False
        if kind > ERR_RECOVERED or kind in _WITHOUT_BYTES:
            return kind != HEADER
        stream = kind & 1
        if not length or offset != self.ends[stream]:
            return False
        if position + length > self.limit:
            return False
        self.ends[stream] = offset + length
        self.position = position + length
        return True

    def sound(self, records: list[Record]) -> tuple[list[Record], int]:
        """Return the sound records, with a gap in the place of each damaged stretch, and how many
        of the given records were settled. Unsound ones at the end are not: the next records may
        decide."""
        found: list[Record] = []
        settled = 0
        for number, record in enumerate(records, start=1):
            if not self._is_contradicted(records, number) and self.follows(record):
                self.is_broken = False
                self._candidate = None
                self._held.clear()
                found.append(record)
                settled = number
                continue
            if not self.is_broken:
                self.is_broken = True
                found.append((GAP_UNCOUNTED, record[1], self.position, DAMAGED, 0))
            if self._candidate is not None and self._candidate.follows(record):
                found += self._resume(self._candidate)
                found.append(record)
                settled = number
            else:
                self._consider(record)
        return found, settled

    def _is_contradicted(self, records: list[Record], following: int) -> bool:
        """Return whether a chunk has a wrong length, because the two records behind it agree on
        another."""
        record = records[following - 1]
        if following + 1 >= len(records) or stream_of(record[0]) < 0:
            return False
        second, third = records[following], records[following + 1]
        if second[2] == record[2] + record[4] or not self.position <= second[2] <= LARGEST_POSITION:
            return False
        after = anchored(self.base, [second])
        return (
            after is not None
            and after.ends[0] >= self.ends[0]
            and after.ends[1] >= self.ends[1]
            and after.follows(second)
            and after.follows(third)
        )

    def _consider(self, record: Record) -> None:
        """Remember a record as the place to go on, if the next record follows from it."""
        kind, _, position, offset, _ = record
        if not self.position <= position <= LARGEST_POSITION:
            return
        stream = stream_of(kind)
        if stream < 0:
            if kind == RUN and len(self._held) < _MOST_HELD:
                self._held.append(record)
            return
        other = position - self.base - offset
        ends = (offset, other) if stream == OUT else (other, offset)
        if ends[0] < self.ends[0] or ends[1] < self.ends[1]:
            return
        candidate = Continuity(self.base, position, ends)
        candidate.limit = self.limit
        if candidate.follows(record):
            candidate._held = [run for run in self._held if run[2] <= position]
            candidate._held.append(record)
            self._candidate = candidate

    def _resume(self, candidate: Continuity) -> list[Record]:
        *runs, first = candidate._held
        found = []
        place = self.position
        offset = first[3]
        other = first[2] - self.base - offset
        ends = (offset, other) if stream_of(first[0]) == OUT else (other, offset)
        for kind, begin, end in zip((OUT_RECOVERED, ERR_RECOVERED), self.ends, ends, strict=True):
            if end > begin:
                found.append((kind, first[1], place, begin, end - begin))
                place += end - begin
        # Where among these bytes a run began is unknown; it began before the bytes that follow.
        for _, micros, position, run, how in runs[-1:]:
            found.append((RUN, micros, place, run, how if position == place else GOES_ON))
        self.position, self.ends = candidate.position, candidate.ends
        self.is_broken = False
        self._candidate = None
        self._held.clear()
        return [*found, first]


_WITHOUT_BYTES = (RUN, GAP, REPLACED, GAP_BEGINS, GAP_UNCOUNTED, 7)
_MOST_HELD = 16
_HEAD_RECORDS = 16
_LAST_RECORDS = 64
_BATCH_RECORDS = 4096


def read_header(fd: int) -> Header | None:
    """Read the header; None if there is none and the records behind it do not replace it."""
    records = unpack_all(os.pread(fd, _HEAD_RECORDS * RECORD_SIZE, 0))
    if not records:
        return None
    kind, created, base, version, run = records[0]
    is_header = kind == HEADER and base <= LARGEST_POSITION
    first = [record for record in records[1:] if stream_of(record[0]) >= 0][:2]
    if first and not (is_header and first[0][2] == base) and (found := _base_of(first)) >= 0:
        return Header(first[0][1], found, run if is_header else 0, is_sound=False)
    is_within_gap = bool(version & WITHIN_GAP)
    return Header(created, base, run, is_within_gap=is_within_gap) if is_header else None


def _base_of(first: list[Record]) -> int:
    """Return where the segment begins if its first chunks agree about it, else -1."""
    base = first[0][2]
    if base > LARGEST_POSITION:
        return -1
    continuity = Continuity(base)
    return base if len(first) > 1 and all(map(continuity.follows, first)) else -1


def read_extent(fd: int) -> Extent | None:
    """Return how far the sound records reach. Nearly always the last ones follow from each other
    and decide it. If they do not, all are read."""
    header = read_header(fd)
    if header is None:
        return None
    size = os.fstat(fd).st_size
    size -= size % RECORD_SIZE
    begin = max(RECORD_SIZE, size - _LAST_RECORDS * RECORD_SIZE)
    records = unpack_all(os.pread(fd, size - begin, begin))
    is_whole = begin == RECORD_SIZE
    continuity = Continuity(header.base) if is_whole else anchored(header.base, records)
    if continuity is None or not all(map(continuity.follows, records)):
        return _read_whole(fd, header, size)
    has_mark = bool(_ends_within_gap(records))
    ends = continuity.ends[0], continuity.ends[1]
    return Extent(header, continuity.position, ends, size, has_mark=has_mark, is_damaged=False)


def anchored(base: int, records: list[Record]) -> Continuity | None:
    """Return the state before these records, from the first chunk among them."""
    for record in records:
        if (stream := stream_of(record[0])) >= 0:
            other = record[2] - base - record[3]
            if other < 0:
                return None
            ends = (record[3], other) if stream == OUT else (other, record[3])
            return Continuity(base, record[2], ends)
    return None


def before(extent: Extent, records: list[Record]) -> Continuity:
    """Return the state before the last sound records of an index."""
    ends = list(extent.ends)
    for record in records:
        if (stream := stream_of(record[0])) >= 0:
            ends[stream] -= record[4]
    base = extent.header.base
    return Continuity(base, base + sum(ends), (ends[0], ends[1]))


def _ends_within_gap(records: list[Record]) -> bool | None:
    """Return whether records end within a gap; None if there is neither a chunk nor a gap among
    them."""
    for record in reversed(records):
        if record[0] == GAP_UNCOUNTED and record[3] == DAMAGED:
            continue
        if record[0] in (GAP_BEGINS, *GAPS):
            return record[0] == GAP_BEGINS
        if stream_of(record[0]) >= 0:
            return False
    return None


def _read_whole(fd: int, header: Header, size: int) -> Extent:
    continuity = Continuity(header.base)
    at = end = RECORD_SIZE
    has_mark = False
    while at < size:
        data = os.pread(fd, min(_BATCH_RECORDS * RECORD_SIZE, size - at), at)
        records = unpack_all(data)
        if not records:
            break
        found, settled = continuity.sound(records)
        if settled:
            end = at + settled * RECORD_SIZE
            is_within_gap = _ends_within_gap(found)
            has_mark = has_mark if is_within_gap is None else is_within_gap
        at += len(records) * RECORD_SIZE
    ends = continuity.ends[0], continuity.ends[1]
    return Extent(header, continuity.position, ends, end, has_mark=has_mark, is_damaged=end < size)


def find_back(fd: int, kind: int, before: int) -> int:
    """Return the last record of a kind among the first `before` records; -1 if there is none."""
    at = before
    while at > 0:
        begin = max(0, at - 4096)
        data = os.pread(fd, (at - begin) * RECORD_SIZE, begin * RECORD_SIZE)
        found = data[RECORD_SIZE // 3 - 1 :: RECORD_SIZE].rfind(kind)
        if found >= 0:
            return begin + found
        at = begin
    return -1


def find_run(fd: int, number: int, before: int) -> int | None:
    """Return the position of the last start of a run in this index. A start that is not `before`
    this position is damaged."""
    at = os.fstat(fd).st_size // RECORD_SIZE
    while (at := find_back(fd, RUN, at)) >= 0:
        record = unpack(os.pread(fd, RECORD_SIZE, at * RECORD_SIZE))
        if record[3] == number and record[2] <= before:
            return record[2]
    return None


def has_run(fd: int, runs: Collection[int]) -> bool:
    """Return whether one of these runs was in progress when the segment began, or began in it."""
    header = read_header(fd)
    if header is not None and header.run in runs:
        return True
    at = os.fstat(fd).st_size // RECORD_SIZE
    while (at := find_back(fd, RUN, at)) >= 0:
        if unpack(os.pread(fd, RECORD_SIZE, at * RECORD_SIZE))[3] in runs:
            return True
    return False


def last_run(fd: int) -> int:
    """Return the run that is in progress at the end of this index; 0 if unknown."""
    at = find_back(fd, RUN, os.fstat(fd).st_size // RECORD_SIZE)
    if at >= 0:
        return unpack(os.pread(fd, RECORD_SIZE, at * RECORD_SIZE))[3]
    header = read_header(fd)
    return header.run if header else 0
