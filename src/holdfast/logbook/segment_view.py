"""One segment, opened for reading: its index by number, position or time, and its bytes.

Owns descriptors of one segment. Tolerates an index that is being written or damaged, and data
files that are gone or are no files; never locks, never writes and never waits.
"""

from __future__ import annotations

import os

from holdfast.logbook import index, segments

_NO_RECORD = (index.HEADER, 0, 0, 0, 0)


class SegmentView:
    """Raises FileNotFoundError if there is no index, or not yet a header in it."""

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
        """How many whole records the index holds now, its header included."""
        return os.fstat(self._index).st_size // index.RECORD_SIZE

    def is_deleted(self) -> bool:
        return os.fstat(self._index).st_nlink == 0

    def extent(self) -> index.Extent:
        """What the sound records of the index account for."""
        found = index.read_extent(self._index)
        if found is not None:
            return found
        header = index.Header(self.created, self.base, self.run)
        return index.Extent(header, self.base, (0, 0), 0, has_mark=False, is_damaged=True)

    def end(self) -> int:
        """The position after the last indexed byte."""
        return self.extent().end

    def reach(self) -> int:
        """The position after the last byte, also of those that are not indexed."""
        return max(self.end(), self.base + sum(map(self._size, (0, 1))))

    def _size(self, stream: int) -> int:
        fd = self._file(stream)
        return os.fstat(fd).st_size if fd >= 0 else 0

    def ends(self) -> tuple[int, int]:
        """How many bytes of each stream are indexed."""
        return self.extent().ends

    def records(self, first: int, limit: int) -> list[index.Record]:
        size = index.RECORD_SIZE
        return index.unpack_all(os.pread(self._index, limit * size, first * size))

    def record(self, number: int) -> index.Record:
        """One record; a header without content where the index has become shorter."""
        size = index.RECORD_SIZE
        data = os.pread(self._index, size, number * size)
        return index.unpack(data) if len(data) == size else _NO_RECORD

    def find_position(self, position: int) -> int:
        """The number of the first record with anything at or after a position."""
        low = self._bisect(2, position)
        if low > 1:
            before = self.record(low - 1)
            if index.stream_of(before[0]) >= 0 and before[2] + before[4] > position:
                return low - 1
        return low

    def find_time(self, micros: int) -> int:
        """The number of the first record at or after a time. Where the clock was set back
        this is one of several possible answers."""
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

    def run_at(self, record: int) -> int:
        """The run that the bytes of a record belong to; 0 if unknown."""
        found = index.find_back(self._index, index.RUN, record + 1)
        return self.record(found)[3] if found >= 0 else self.run

    def find_back(self, kind: int, before: int) -> int:
        return index.find_back(self._index, kind, before)

    def read(self, stream: int, offset: int, length: int) -> bytes:
        """The bytes that are there; fewer, or none, if the file is short or gone."""
        fd = self._file(stream)
        return os.pread(fd, length, offset) if fd >= 0 else b""

    def _file(self, stream: int) -> int:
        """The descriptor of a stream's file; -1 if there is none."""
        if self._files[stream] < 0:
            suffix = segments.SUFFIXES[stream]
            name = segments.path(self._directory, self._service, self.number, suffix)
            try:
                self._files[stream] = segments.open_file(name)
            except FileNotFoundError:
                return -1
        return self._files[stream]
