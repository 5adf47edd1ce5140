"""The files of one service's log, opened for writing: the newest segment and its index,
and the older segments that may be deleted.

Owns file positions and the index's end. It knows nothing of time, gaps or sources, and
lets every refusal of the file system through as OSError with nothing half done.
"""

from __future__ import annotations

import errno
import os

from holdfast.keeper.shelf import shelf_of
from holdfast.logbook import index, segments

_SUFFIXES = ("out", "err")


class SegmentFiles:
    """`position` counts recorded bytes over all segments, `ends` those of each stream in
    the newest; `run` is what a new segment's header names as the run in progress."""

    __slots__ = (
        "_directory",
        "_files",
        "_index",
        "_is_located",
        "_service",
        "_shelf",
        "closed",
        "closed_bytes",
        "ends",
        "has_mark",
        "index_end",
        "is_mark_known",
        "number",
        "pending",
        "position",
        "run",
    )

    def __init__(self, directory: str, service: str) -> None:
        self._directory = directory
        self._service = service
        self._shelf = shelf_of(directory)
        self._is_located = False
        self.number = 0
        self._files = [-1, -1]
        self._index = -1
        self.run = 0
        self.position = 0
        self.ends = [0, 0]
        self.index_end = 0
        self.pending = bytearray()
        self.closed: list[tuple[int, int]] = []
        self.closed_bytes = 0
        # Whether the index ends within a gap, and whether who writes knows how large that is.
        self.has_mark = self.is_mark_known = False

    @property
    def is_open(self) -> bool:
        return self._index >= 0

    @property
    def is_empty(self) -> bool:
        """There is no segment at all."""
        return not self.number

    @property
    def live_bytes(self) -> int:
        """What the newest segment takes, with records that are still to be written."""
        return self.ends[0] + self.ends[1] + self.index_end + len(self.pending)

    def locate(self) -> None:
        """Find the segments and the position; touches nothing."""
        if self._is_located:
            return
        numbers = self._shelf.take(self._service)
        self._is_located = True
        self.closed = [
            (number, segments.size(self._directory, self._service, number))
            for number in numbers[:-1]
        ]
        self.closed_bytes = sum(size for _, size in self.closed)
        if not numbers:
            return
        self.number = numbers[-1]
        extent = self._extent(self.number)
        if extent is None:
            before = self._extent(numbers[-2]) if len(numbers) > 1 else None
            self.position = before.end if before else 0
            return
        self.position = extent.end
        self.ends = list(extent.ends)
        self.index_end = extent.size
        self.has_mark = extent.has_mark

    def open(self, now: int, *, is_replacement: bool = False) -> bool:
        """Continue the newest segment, or begin the first. True where it was left within a gap of
        which nobody knows any more how large it is: the index says so now."""
        self.locate()
        if not self.number:
            self._create(1, now)
            return False
        if not self.run:
            self.run = self._last_run(self.number)
        sizes = [self._size("out"), self._size("err")]
        if sizes[0] < self.ends[0] or sizes[1] < self.ends[1]:
            # Power was lost: the index knows of bytes that never reached the disk.
            self._retire(sum(sizes) + self.index_end)
            self._create(self.number + 1, now)
            return False
        is_unknown = self.has_mark and not self.is_mark_known
        self._continue(sizes, now, is_replacement, is_unknown)
        self.has_mark = False
        return is_unknown

    def file(self, stream: int) -> int:
        """The descriptor to write this stream's bytes to; created at its first byte."""
        fd = self._files[stream]
        if fd < 0:
            fd = _open_file(self._path(self.number, _SUFFIXES[stream]))
            os.lseek(fd, self.ends[stream], os.SEEK_SET)
            self._files[stream] = fd
        return fd

    def is_gone(self) -> bool:
        """Somebody deleted a file that is open here: nobody will ever read it."""
        fds = (fd for fd in (self._index, *self._files) if fd >= 0)
        return any(os.fstat(fd).st_nlink == 0 for fd in fds)

    def replace(self, now: int) -> None:
        """Begin the next segment instead of one that is gone."""
        self.pending.clear()
        self._close_descriptors()
        self._create(self.number + 1, now)

    def rotate(self, now: int) -> None:
        """Complete this segment's index, then begin the next: readers rely on that order."""
        self.write_index()
        self._close_descriptors()
        self._retire(self.live_bytes)
        self._create(self.number + 1, now)

    def write_index(self) -> None:
        """Write the pending records at the end of the index; never half a record."""
        while self.pending:
            count = os.pwrite(self._index, self.pending, self.index_end)
            whole = count - count % index.RECORD_SIZE
            self.index_end += whole
            del self.pending[:whole]
            if not whole:
                os.ftruncate(self._index, self.index_end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def drop_oldest(self) -> int:
        number, size = self.closed.pop(0)
        self.closed_bytes -= size
        segments.remove(self._directory, self._service, number)
        return size

    def written_at(self, number: int) -> float:
        """When a segment was last written to, in unix seconds."""
        try:
            return os.stat(self._path(number, "idx")).st_mtime
        except FileNotFoundError:
            return 0.0

    def find_run(self, run: int) -> int | None:
        """The position at which a run begins, if it is the last one."""
        for number in (self.number, *(number for number, _ in reversed(self.closed))):
            try:
                fd = os.open(self._path(number, "idx"), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            try:
                position = index.find_run(fd, run)
                header = index.read_header(fd)
            finally:
                os.close(fd)
            if position is not None:
                return position
            if header is None or header[1] != run:
                return None
        return None

    def close(self) -> None:
        self._close_descriptors()
        if self._is_located and self.number:
            numbers = [number for number, _ in self.closed]
            self._shelf.give_back(self._service, [*numbers, self.number])
        self._is_located = False
        self.closed = []
        self.pending.clear()

    def _continue(self, sizes: list[int], now: int, is_replacement: bool, is_unknown: bool) -> None:
        """Index what was written but not indexed: its time and order are unknown."""
        position = self.position
        records = bytearray()
        if not self.index_end:
            records += self._header(now)
        if is_unknown:
            records += index.pack(index.GAP_UNCOUNTED, now, position, 0, 0)
        if is_replacement or sizes != self.ends:
            records += index.pack(index.REPLACED, now, position, 0, 0)
        for kind, end, size in (
            (index.OUT_RECOVERED, self.ends[0], sizes[0]),
            (index.ERR_RECOVERED, self.ends[1], sizes[1]),
        ):
            if size > end:
                records += index.pack(kind, now, position, end, size - end)
                position += size - end
        self._open_index(self.number, records)
        self.ends = sizes
        self.position = position

    def _retire(self, size: int) -> None:
        self.closed.append((self.number, size))
        self.closed_bytes += size

    def _create(self, number: int, now: int) -> None:
        self.number = number
        self.ends = [0, 0]
        self.index_end = 0
        self._open_index(number, self._header(now))

    def _header(self, now: int) -> bytes:
        return index.pack(index.HEADER, now, self.position, index.VERSION, self.run)

    def _open_index(self, number: int, records: bytes | bytearray) -> None:
        """Open the index, cut to whole records, and add these: all of it or nothing."""
        fd = _open_file(self._path(number, "idx"))
        try:
            os.ftruncate(fd, self.index_end)
            if os.pwrite(fd, records, self.index_end) < len(records):
                os.ftruncate(fd, self.index_end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.close(fd)
            raise
        self._index = fd
        self.index_end += len(records)

    def _close_descriptors(self) -> None:
        for fd in (*self._files, self._index):
            if fd >= 0:
                os.close(fd)
        self._files = [-1, -1]
        self._index = -1

    def _last_run(self, number: int) -> int:
        try:
            fd = os.open(self._path(number, "idx"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            return index.last_run(fd)
        finally:
            os.close(fd)

    def _extent(self, number: int) -> index.Extent | None:
        try:
            fd = os.open(self._path(number, "idx"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return index.read_extent(fd)
        finally:
            os.close(fd)

    def _size(self, suffix: str) -> int:
        try:
            return os.stat(self._path(self.number, suffix)).st_size
        except FileNotFoundError:
            return 0

    def _path(self, number: int, suffix: str) -> str:
        return segments.path(self._directory, self._service, number, suffix)


def _open_file(name: str) -> int:
    # Not O_APPEND: splice refuses it.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(name, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
        return os.open(name, flags, 0o600)
