"""The files of one service's log, opened for writing: the newest segment with its index, and the
older segments, which may be deleted.

Owns the positions in the files and the end of the index. Knows nothing of time, gaps or streams.
Raises every refusal of the file system as OSError, and leaves nothing half done.

An index is checked when it is opened, never later. Records at its end that do not follow from those
before them are damaged. They are moved to a file beside the index, and their bytes are indexed
again, with a gap of unknown size before them.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.keeper.recording.log_directory import log_directory_of
from holdfast.logbook import index, segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_SUFFIXES = ("out", "err")
MOST_SET_ASIDE = 1 << 20
_INTERRUPTED = "recording was interrupted"
_DAMAGED = "the log's index was damaged"


class SegmentFiles:
    """`position` counts the recorded bytes of all segments, and `ends` those of each stream in the
    newest. `run` is the run in progress that the header of a new segment names."""

    __slots__ = (
        "_directory",
        "_files",
        "_index",
        "_is_damaged",
        "_is_located",
        "_log_directory",
        "_repaired_header",
        "_service",
        "closed",
        "closed_bytes",
        "ends",
        "has_mark",
        "index_end",
        "is_flag_over",
        "is_mark_known",
        "is_within_gap",
        "number",
        "pending",
        "position",
        "run",
    )

    def __init__(self, directory: str, service: str) -> None:
        self._directory = directory
        self._service = service
        self._log_directory = log_directory_of(directory)
        self._is_located = False
        self._is_damaged = False
        self._repaired_header = b""
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
        # Whether the index ends within a gap, and whether its size is known.
        self.has_mark = self.is_mark_known = False
        # Whether a new segment begins within a gap, and whether the flag of the last gap is stale.
        self.is_within_gap = self.is_flag_over = False

    @property
    def is_open(self) -> bool:
        return self._index >= 0

    @property
    def is_empty(self) -> bool:
        """There is no segment at all."""
        return not self.number

    @property
    def live_bytes(self) -> int:
        """The size of the newest segment, with records that are still to be written."""
        return self.ends[0] + self.ends[1] + self.index_end + len(self.pending)

    def locate(self) -> None:
        """Find the segments and the position. Changes nothing."""
        if self._is_located:
            return
        numbers = self._log_directory.take(self._service)
        self._is_located = True
        self._is_damaged, self._repaired_header = False, b""
        self.ends, self.index_end = [0, 0], 0
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
            before = (self._extent(number) for number in reversed(numbers[:-1]))
            last = next((extent for extent in before if extent is not None), None)
            if last is not None:
                self.position, self.has_mark = last.end, last.has_mark
            self._is_damaged = self._size("idx") >= index.RECORD_SIZE
            return
        header = extent.header
        self._is_damaged = extent.is_damaged or not header.is_sound
        if not header.is_sound:
            self._repaired_header = index.pack(
                index.HEADER, header.created, header.base, index.VERSION, header.run
            )
        self.position = extent.end
        self.ends = list(extent.ends)
        self.index_end = extent.size
        self.has_mark = extent.has_mark

    def open(self, now: int, *, is_replacement: bool = False) -> str:
        """Continue the newest segment, or begin the first. If it was left within a gap, or is
        damaged, the index says now that an unknown number of bytes is missing, and the reason is
        returned."""
        self.locate()
        is_unknown = self.has_mark and not self.is_mark_known
        if not self.number:
            self._create(1, now, is_unknown=is_unknown)
            self.has_mark = False
            return _INTERRUPTED if is_unknown else ""
        if not self.run:
            self.run = self._last_run(self.number)
        sizes = [self._size("out"), self._size("err")]
        is_short = sizes[0] < self.ends[0] or sizes[1] < self.ends[1]
        if is_short or self.is_obstructed():
            # Power was lost, and bytes in the index never reached the disk. Or something that is
            # no file has the name of one.
            self._retire(sum(sizes) + self.index_end)
            self._create(self.number + 1, now, is_unknown=is_unknown)
            self.has_mark = False
            return _INTERRUPTED if is_unknown else ""
        why = _DAMAGED if self._is_damaged else _INTERRUPTED if is_unknown else ""
        self._continue(sizes, now, is_replacement, is_unknown)
        self.has_mark = False
        return why

    def file(self, stream: int) -> int:
        """The descriptor for the bytes of this stream. The file is created at its first byte."""
        fd = self._files[stream]
        if fd < 0:
            fd = _open_file(self._path(self.number, _SUFFIXES[stream]))
            os.lseek(fd, self.ends[stream], os.SEEK_SET)
            self._files[stream] = fd
        return fd

    def is_gone(self) -> bool:
        """Whether a file that is open here was deleted: nobody would ever read it."""
        fds = (fd for fd in (self._index, *self._files) if fd >= 0)
        return any(os.fstat(fd).st_nlink == 0 for fd in fds)

    def is_obstructed(self) -> bool:
        """Whether something that is no file has the name of one."""
        return any(_is_no_file(self._path(self.number, suffix)) for suffix in segments.SUFFIXES)

    def replace(self, now: int) -> None:
        """Begin the next segment in place of one that was deleted."""
        self.pending.clear()
        self._close_descriptors()
        self._create(self.number + 1, now)

    def rotate(self, now: int) -> None:
        """Complete the index of this segment, then begin the next. Readers rely on that order."""
        self.write_index()
        number, size = self.number, self.live_bytes
        before = number, self.ends, self.index_end, self._index, self._files
        self._index, self._files = -1, [-1, -1]
        try:
            self._create(number + 1, now)
        except OSError:
            # The full segment stays open: a gap can only be marked there.
            self.number, self.ends, self.index_end, self._index, self._files = before
            raise
        for fd in (*before[4], before[3]):
            if fd >= 0:
                os.close(fd)
        self.closed.append((number, size))
        self.closed_bytes += size

    def flag_gap(self) -> None:
        """Mark in the header that a gap began. Unlike a record, that needs no space."""
        os.pwrite(self._index, b"\1", index.FLAG_AT)

    def write_index(self) -> None:
        """Append the pending records to the index, never half a record."""
        while self.pending:
            count = os.pwrite(self._index, self.pending, self.index_end)
            whole = count - count % index.RECORD_SIZE
            self.index_end += whole
            del self.pending[:whole]
            if not whole:
                os.ftruncate(self._index, self.index_end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.is_flag_over:
            os.pwrite(self._index, b"\0", index.FLAG_AT)
            self.is_flag_over = False

    def drop_oldest(self) -> bool:
        """Delete the oldest closed segment. False if there is none, or if that is refused."""
        if not self.closed:
            return False
        number, size = self.closed[0]
        try:
            segments.remove(self._directory, self._service, number)
        except OSError:
            return False
        del self.closed[0]
        self.closed_bytes -= size
        return True

    def written_at(self, number: int) -> float:
        """When a segment was last written, in Unix seconds."""
        try:
            return os.stat(self._path(number, "idx")).st_mtime
        except FileNotFoundError:
            return 0.0

    def first_of(self, runs: Collection[int]) -> int:
        """How many closed segments come before the first one with bytes of these runs."""
        for place, (number, _) in enumerate(self.closed):
            try:
                fd = segments.open_file(self._path(number, "idx"))
            except FileNotFoundError:
                continue
            try:
                if index.has_run(fd, runs):
                    return place
            finally:
                os.close(fd)
        return len(self.closed)

    def find_run(self, run: int) -> int | None:
        """The position at which a run begins, if it is the last one."""
        for number in (self.number, *(number for number, _ in reversed(self.closed))):
            try:
                fd = segments.open_file(self._path(number, "idx"))
            except FileNotFoundError:
                return None
            try:
                position = index.find_run(fd, run, self.position)
                header = index.read_header(fd)
            finally:
                os.close(fd)
            if position is not None:
                return position
            if header is None or header.run != run:
                return None
        return None

    def close(self) -> None:
        self._close_descriptors()
        if self._is_located and self.number:
            numbers = [number for number, _ in self.closed]
            self._log_directory.give_back(self._service, [*numbers, self.number])
        self._is_located = False
        self.closed = []
        self.pending.clear()

    def _continue(self, sizes: list[int], now: int, is_replacement: bool, is_unknown: bool) -> None:
        """Open the newest segment. Index bytes that were written and not indexed; their time and
        order are unknown."""
        position = self.position
        records = bytearray()
        if self._is_damaged:
            self._set_aside()
        if not self.index_end:
            records += self._header(now)
        if is_unknown:
            records += index.pack(index.GAP_UNCOUNTED, now, position, 0, 0)
        if self._is_damaged:
            records += index.pack(index.GAP_UNCOUNTED, now, position, index.DAMAGED, 0)
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
        self._is_damaged, self._repaired_header = False, b""

    def _set_aside(self) -> None:
        """Copy the damaged records to a file beside the index, if that can be written. They help to
        find the cause, but must not prevent recording."""
        name = self._path(self.number, "idx")
        try:
            fd = segments.open_file(name)
            try:
                damaged = os.pread(fd, len(self._repaired_header), 0)
                damaged += os.pread(fd, MOST_SET_ASIDE, self.index_end)
            finally:
                os.close(fd)
            aside = _open_file(name + segments.SET_ASIDE)
            try:
                end = os.fstat(aside).st_size
                os.pwrite(aside, damaged[: max(0, MOST_SET_ASIDE - end)], end)
            finally:
                os.close(aside)
        except OSError:
            return

    def _retire(self, size: int) -> None:
        self.closed.append((self.number, size))
        self.closed_bytes += size

    def _create(self, number: int, now: int, *, is_unknown: bool = False) -> None:
        while not segments.is_free(self._directory, self._service, number):
            number += 1
        self._is_damaged, self._repaired_header = False, b""
        self.number = number
        self.ends = [0, 0]
        self.index_end = 0
        records = self._header(now)
        if is_unknown:
            records += index.pack(index.GAP_UNCOUNTED, now, self.position, 0, 0)
        if self.is_within_gap:
            records += index.pack(index.GAP_BEGINS, now, self.position, 0, 0)
        try:
            self._open_index(number, records)
        except OSError:
            # Leave nothing of a segment that could not be begun: the next try begins it.
            self._unlink(number)
            raise

    def _unlink(self, number: int) -> None:
        try:
            os.unlink(self._path(number, "idx"))
        except OSError:
            return  # it was not created, or stays empty

    def _header(self, now: int) -> bytes:
        return index.pack(index.HEADER, now, self.position, index.VERSION, self.run)

    def _open_index(self, number: int, records: bytes | bytearray) -> None:
        """Open the index, cut it to whole records, and add these. All of it is done, or nothing."""
        fd = _open_file(self._path(number, "idx"))
        try:
            os.ftruncate(fd, self.index_end)
            if self._repaired_header:
                os.pwrite(fd, self._repaired_header, 0)
            if os.pwrite(fd, records, self.index_end) < len(records):
                os.ftruncate(fd, self.index_end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self.has_mark and not self.is_mark_known:
                os.pwrite(fd, b"\0", index.FLAG_AT)  # a record marks the gap now
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
            fd = segments.open_file(self._path(number, "idx"))
        except FileNotFoundError:
            return 0
        try:
            return index.last_run(fd)
        finally:
            os.close(fd)

    def _extent(self, number: int) -> index.Extent | None:
        try:
            fd = segments.open_file(self._path(number, "idx"))
        except FileNotFoundError:
            return None
        try:
            return index.read_extent(fd)
        finally:
            os.close(fd)

    def _size(self, suffix: str) -> int:
        return segments.file_size(self._path(self.number, suffix))

    def _path(self, number: int, suffix: str) -> str:
        return segments.path(self._directory, self._service, number, suffix)


def _open_file(name: str) -> int:
    # No O_APPEND, because splice refuses it. O_NONBLOCK, because a named pipe would block us.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(name, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
        fd = os.open(name, flags, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def _is_no_file(name: str) -> bool:
    return os.path.lexists(name) and not segments.is_file(name)
