"""One segment, opened for reading: its index by number, position or time, and its bytes.

Owns the descriptors of one segment, and the relation between positions in the log and offsets in
the files of its streams. A position counts the bytes of both streams, and the index records the
order in which they came. Tolerates an index that is being written or is damaged, and data files
that are gone or are no files. Never locks, writes or waits.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from holdfast.logbook import index, segments

_NO_RECORD = (index.HEADER, 0, 0, 0, 0)
_MOST_RECORDS_AT_ONCE = 1024


class Origin(NamedTuple):
    """Where in the log a byte is, and when and by which run it was printed."""

    position: int
    time: float | None
    run: int


class SegmentView:
    """An open segment. Raises FileNotFoundError if there is no index, or no header in it yet."""

    def __init__(self, directory: str, service: str, number: int) -> None:
        self._directory = directory
        self._service = service
        self.number = number
        self._files = [-1, -1]
        self._index_path = segments.path(directory, service, number, "idx")
        self._index = segments.open_file(self._index_path)
        header = index.read_header(self._index)
        if header is None:
            self.close()
            raise FileNotFoundError(self._index_path)
        self.created, self.base, self.run = header.created, header.base, header.run

    def close(self) -> None:
        for fd in (*self._files, self._index):
            if fd >= 0:
                os.close(fd)
        self._files = [-1, -1]
        self._index = -1

    def count(self) -> int:
        """Return how many whole records the index holds now, its header included."""
        return os.fstat(self._index).st_size // index.RECORD_SIZE

    def is_deleted(self) -> bool:
        return os.fstat(self._index).st_nlink == 0

    def extent(self) -> index.Extent:
        """Return what the sound records of the index account for."""
        found = index.read_extent(self._index)
        if found is not None:
            return found
        header = index.Header(self.created, self.base, self.run)
        return index.Extent(header, self.base, (0, 0), 0, has_mark=False, is_damaged=True)

    def end(self) -> int:
        """Return the position after the last indexed byte."""
        return self.extent().end

    def reach(self) -> int:
        """Return the position after the last byte, indexed or not."""
        return max(self.end(), self.base + sum(map(self._size, (0, 1))))

    def _size(self, stream: int) -> int:
        fd = self._file(stream)
        return os.fstat(fd).st_size if fd >= 0 else 0

    def ends(self) -> tuple[int, int]:
        """Return how many bytes of each stream are indexed."""
        return self.extent().ends

    def records(self, first: int, limit: int) -> list[index.Record]:
        return index.unpack_all(self.packed_records(first, limit))

    def packed_records(self, first: int, limit: int) -> bytes:
        size = index.RECORD_SIZE
        return os.pread(self._index, limit * size, first * size)

    def record(self, number: int) -> index.Record:
        """Return one record, or an empty header if the index has become shorter."""
        size = index.RECORD_SIZE
        data = os.pread(self._index, size, number * size)
        return index.unpack(data) if len(data) == size else _NO_RECORD

    def find_position(self, position: int) -> int:
        """Return the number of the first record with anything at or after a position."""
        low = self._bisect(2, position)
        if low > 1:
            before = self.record(low - 1)
            if index.stream_of(before[0]) >= 0 and before[2] + before[4] > position:
                return low - 1
        return low

    def find_time(self, micros: int) -> int:
        """Return the number of the first record at or after a time. If the clock was set back, this
        is one of several possible answers."""
        return self._bisect(1, micros)

    def _bisect(self, field: int, value: int) -> int:
        low, high = 1, self.count()
        while low < high:
            middle = (low + high) // 2
            if self.record(middle)[field] < value:
                low = middle + 1
            else:
                high = middle
        return low

    def bytes_before(self, stream: int, position: int) -> int:
        """Return how many bytes of a stream are before a position."""
        if position <= self.base:
            return 0
        if position >= self.end():
            return self.ends()[stream]
        record = self._data_record(self.find_position(position))
        own = record[3] + max(0, position - record[2])
        if index.stream_of(record[0]) != stream:
            own = max(position, record[2]) - self.base - own
        return min(max(0, own), self.ends()[stream])  # a damaged record may say anything

    def origin(self, stream: int, offset: int) -> Origin | None:
        """Return the origin of a byte of a stream's file, or None if it is not in the index yet."""
        if offset >= self.ends()[stream]:
            return None
        number = self.find_offset(stream, offset)
        record = self.record(number)
        while index.stream_of(record[0]) != stream:
            number += 1
            if number >= self.count():
                return None
            record = self.record(number)
        kind, micros, begin_position, begin, _ = record
        time = micros / 1_000_000 if kind in (index.OUT, index.ERR) else None
        position = begin_position + offset - begin
        if not self.base <= position < self.end():
            return None  # the record is damaged
        return Origin(position, time, self.run_at(number))

    def find_offset(self, stream: int, offset: int) -> int:
        """Return the number of the first record behind which there are more than `offset` bytes of
        a stream."""
        low, high = 1, self.count()
        while low < high:
            middle = (low + high) // 2
            kind, _, position, begin, length = self._data_record(middle)
            if index.stream_of(kind) == stream:
                behind = begin + length
            else:
                behind = position - self.base - begin
            if behind <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _data_record(self, number: int) -> index.Record:
        """Return the first record from this number on that carries bytes, or one at the end."""
        batch = 1
        while records := self.records(number, batch):
            for record in records:
                if index.stream_of(record[0]) >= 0:
                    return record
            number, batch = number + batch, min(4 * batch, _MOST_RECORDS_AT_ONCE)
        out, _ = self.ends()
        return (index.OUT, 0, self.end(), out, 0)

    def run_at(self, record: int) -> int:
        """Return the run that the bytes of a record belong to; 0 if unknown."""
        found = index.find_back(self._index, index.RUN, record + 1)
        return self.record(found)[3] if found >= 0 else self.run

    def find_back(self, kind: int, before: int) -> int:
        return index.find_back(self._index, kind, before)

    def read(self, stream: int, offset: int, length: int) -> bytes:
        """Return the bytes that are there: fewer, or none, if the file is short or gone."""
        fd = self._file(stream)
        return os.pread(fd, length, offset) if fd >= 0 else b""

    def _file(self, stream: int) -> int:
        """Return the descriptor of a stream's file; -1 if there is none."""
        if self._files[stream] < 0:
            suffix = segments.SUFFIXES[stream]
            name = segments.path(self._directory, self._service, self.number, suffix)
            try:
                self._files[stream] = segments.open_file(name)
            except FileNotFoundError:
                return -1
        return self._files[stream]
