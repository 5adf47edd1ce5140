"""The only writer of a service's log: appends every byte to segments and orders it in
their index.

Owns segments, rotation, the size cap, gaps, and recovery after a keeper died. It must
never block, never tear a record, and never raise for what the file system refuses: that
becomes a counted gap.
"""

from __future__ import annotations

import errno
import os
import time

from holdfast.keeper.intake import Source
from holdfast.keeper.shelf import shelf_of
from holdfast.logbook import index, segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.loop import Callback, Loop, Timer

FLUSH_SECONDS = 0.005
CHUNK_MICROSECONDS = 1000
RETRY_SECONDS = 1.0
SMALLEST_SEGMENT = 4096
LARGEST_SEGMENT = (1 << 32) - 1
PENDING_RECORDS_BYTES = 64 << 10

_SUFFIXES = ("out", "err")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Recorder:
    """The log of one service, over all its runs."""

    __slots__ = (
        "_chunk_kind",
        "_chunk_length",
        "_chunk_offset",
        "_chunk_position",
        "_chunk_time",
        "_closed",
        "_closed_bytes",
        "_directory",
        "_ends",
        "_files",
        "_flush_timer",
        "_flushed_at",
        "_index",
        "_index_end",
        "_is_located",
        "_is_marked",
        "_loop",
        "_lost",
        "_max_size",
        "_number",
        "_on_gap",
        "_on_grew",
        "_pending",
        "_position",
        "_retry_at",
        "_run",
        "_shelf",
        "_sources",
        "_total_size",
        "_why",
        "last",
        "resting",
        "run_bytes",
        "service",
        "watching",
    )

    def __init__(
        self,
        directory: str,
        service: str,
        max_size: int,
        total_size: int,
        loop: Loop,
        on_grew: Callable[[str, int], None],
        on_gap: Callable[[str, str, int, str], None],
        state: dict[str, int] | None = None,
    ) -> None:
        self._directory = directory
        self.service = service
        self._loop = loop
        self._on_grew = on_grew
        self._on_gap = on_gap
        self._shelf = shelf_of(directory)
        self.limits(max_size, total_size)
        self.watching = False
        self.resting: Source | None = None
        self.last: Source | None = None
        self._sources: list[Source] = []

        self._is_located = False
        self._position = 0
        self._number = 0
        self._closed: list[tuple[int, int]] = []
        self._closed_bytes = 0
        self._files = [-1, -1]
        self._ends = [0, 0]
        self._index = -1
        self._index_end = 0

        self._pending = bytearray()
        self._chunk_kind = -1
        self._chunk_time = self._chunk_position = self._chunk_offset = self._chunk_length = 0
        self._flushed_at = 0.0
        self._flush_timer: Timer | None = None

        state = state or {}
        self._run = state.get("run", 0)
        self._is_marked = bool(state.get("is_marked", 1))
        self.run_bytes = state.get("run_bytes", 0)
        self._lost = state.get("lost", 0)
        self._why = "" if not self._lost else "recording was interrupted"
        self._retry_at = 0.0

    @property
    def position(self) -> int:
        """Bytes recorded so far, over all runs and segments."""
        self._locate()
        return self._position

    def limits(self, max_size: int, total_size: int) -> None:
        self._total_size = max(total_size, 2 * SMALLEST_SEGMENT)
        # At least two segments, or each rotation would delete everything.
        size = min(max_size, self._total_size // 2, LARGEST_SEGMENT)
        self._max_size = max(size, SMALLEST_SEGMENT)

    def begin_run(self, number: int) -> None:
        """What is recorded from now on belongs to this run; it is marked at its first byte."""
        self._run = number
        self._is_marked = False
        self.run_bytes = 0

    def attach(self, fd: int, stream: str, *, is_terminal: bool, on_eof: Callback) -> Source:
        """Record this descriptor until its end; it is never closed here."""
        source = Source(self, self._loop, fd, _SUFFIXES.index(stream), is_terminal, on_eof)
        self._sources.append(source)
        return source

    def state(self) -> dict[str, int]:
        """What the files cannot tell, for the recorder of the next program image."""
        self.flush()
        return {
            "run": self._run,
            "is_marked": int(self._is_marked),
            "run_bytes": self.run_bytes,
            "lost": self._lost,
        }

    def recover(self, run_number: int) -> None:
        """The keeper before us died during this run: note it, index what it left behind,
        and count what the run has printed."""
        self._run = run_number
        self._is_marked = False
        self.run_bytes = 0
        if not self._shelf_has_files():
            return
        try:
            self._open(is_replacement=True)
        except OSError as error:
            self.refuse(error)
            return
        started_at = self._find_run(run_number)
        if started_at is not None:
            self._is_marked = True
            self.run_bytes = self._position - started_at
        self.flush()

    def prune(
        self,
        keep_segments: int | None = None,
        before: float | None = None,
        all: bool = False,  # noqa: A002
    ) -> tuple[int, int]:
        """Delete old segments and return (bytes, segments). The newest stays, unless all
        are to go and nothing is attached; positions go on from where they were."""
        self._locate()
        doomed = 0
        if all:
            doomed = len(self._closed)
        elif keep_segments is not None:
            doomed = max(0, len(self._closed) + 1 - max(1, keep_segments))
        if before is not None and not all:
            while doomed < len(self._closed) and self._ended_at(self._closed[doomed][0]) < before:
                doomed += 1
        deleted = sum(self._drop_oldest() for _ in range(doomed))
        if all and not self._sources and self._ends != [0, 0]:
            deleted += self._drop_live()
            doomed += 1
        return deleted, doomed

    def flush(self) -> None:
        """Make everything recorded so far visible to readers."""
        self._finish_chunk()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if not self._pending:
            return
        while self._pending:
            if not self._try_index():
                return
        self._flushed_at = self._loop.now()
        if self.watching:
            self._on_grew(self.service, self._position)

    def settle(self) -> None:
        """A stream ended: nothing may come that would write down an open gap."""
        if self._why and self._lost and self.room():
            self._end_gap(_now())
        self.flush()

    def close(self) -> None:
        """Write what is pending and let go of every file."""
        for source in list(self._sources):
            source.detach()
        self._retry_at = 0.0
        self.settle()
        self._close_files()
        if self._is_located:
            numbers = [number for number, _ in self._closed]
            self._shelf.give_back(self.service, [*numbers, self._number] if self._number else [])
        self._is_located = False
        self._closed = []
        self._pending.clear()

    # What a source calls.

    @property
    def is_open(self) -> bool:
        return self._index >= 0

    def room(self) -> int:
        """How many bytes the current segment takes; opens the next one when it is full.
        0 while the log refuses: then bytes are to be discarded and counted."""
        if self._why and self._loop.now() < self._retry_at:
            return 0
        while True:
            room = self._try_room()
            if room or self._why:
                return room

    def file(self, stream: int) -> int:
        """The descriptor to write this stream's bytes to; created at its first byte."""
        fd = self._files[stream]
        if fd < 0:
            name = segments.path(self._directory, self.service, self._number, _SUFFIXES[stream])
            fd = self._files[stream] = _open_file(name)
            os.lseek(fd, self._ends[stream], os.SEEK_SET)
        return fd

    def note(self, stream: int, count: int) -> None:
        """These bytes are in the file now."""
        now = _now()
        if self._why:
            self._end_gap(now)
        if not self._is_marked:
            self._mark_run(now)
        offset = self._ends[stream]
        if self._chunk_kind != stream or not 0 <= now - self._chunk_time < CHUNK_MICROSECONDS:
            self._finish_chunk()
            self._chunk_kind = stream
            self._chunk_time = now
            self._chunk_position = self._position
            self._chunk_offset = offset
        self._chunk_length += count
        self._ends[stream] = offset + count
        self._position += count
        self.run_bytes += count
        self._shelf.unchecked_room -= count
        if self._closed and self._closed_bytes + self._live_size() > self._total_size:
            self._drop_oldest()
        if self._flush_timer is None:
            wait = self._flushed_at + FLUSH_SECONDS - self._loop.now()
            if wait <= 0:
                self.flush()
            else:
                self._flush_timer = self._loop.call_later(wait, self._on_flush_due)
        elif len(self._pending) > PENDING_RECORDS_BYTES:
            self.flush()

    def refuse(self, error: OSError) -> None:
        """The file system refused. Give up old segments first; else begin a gap."""
        if error.errno in _FULL and self._closed:
            self._drop_oldest()
            return
        self._begin_gap(error.strerror or str(error))

    def lose(self, count: int) -> None:
        self._lost += count

    def on_detached(self, source: Source) -> None:
        self._sources.remove(source)
        if self.last is source:
            self.last = None

    # Gaps.

    def _begin_gap(self, why: str) -> None:
        self._retry_at = self._loop.now() + RETRY_SECONDS
        if not self._why:
            self._why = why
            self._on_gap(self.service, "begin", 0, why)

    def _end_gap(self, now: int) -> None:
        lost, why = self._lost, self._why
        self._lost = 0
        self._why = ""
        if lost:
            self._finish_chunk()
            self._pending += index.pack_gap(now, self._position, lost)
        self._on_gap(self.service, "end", lost, why)

    # Segments.

    def _try_room(self) -> int:
        try:
            return self._make_room()
        except OSError as error:
            self.refuse(error)
            return 0

    def _make_room(self) -> int:
        if self._index < 0:
            self._open()
        room = self._max_size - self._ends[0] - self._ends[1]
        if room <= 0 or self._index_end + len(self._pending) >= self._max_size:
            self._rotate()
            room = self._max_size
        if self._why and self._pending:
            self._write_index()
        if self._shelf.unchecked_room <= 0:
            while not self._shelf.has_space(is_resuming=bool(self._why)):
                if not self._closed:
                    raise OSError(errno.ENOSPC, "the free-space floor is reached")
                self._drop_oldest()
        return room

    def _live_size(self) -> int:
        return self._ends[0] + self._ends[1] + self._index_end + len(self._pending)

    def _shelf_has_files(self) -> bool:
        self._locate()
        return bool(self._number)

    def _locate(self) -> None:
        """Find the segments and the position; touches nothing."""
        if self._is_located:
            return
        numbers = self._shelf.take(self.service)
        self._is_located = True
        self._closed = [
            (number, segments.size(self._directory, self.service, number))
            for number in numbers[:-1]
        ]
        self._closed_bytes = sum(size for _, size in self._closed)
        if not numbers:
            return
        self._number = numbers[-1]
        extent = self._extent(self._number)
        if extent is None:
            before = self._extent(numbers[-2]) if len(numbers) > 1 else None
            self._position = before.end if before else 0
            return
        self._position = extent.end
        self._ends = list(extent.ends)
        self._index_end = extent.size

    def _extent(self, number: int) -> index.Extent | None:
        try:
            fd = os.open(self._path(number, "idx"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return index.read_extent(fd)
        finally:
            os.close(fd)

    def _path(self, number: int, suffix: str) -> str:
        return segments.path(self._directory, self.service, number, suffix)

    def _open(self, is_replacement: bool = False) -> None:
        """Continue the newest segment, or begin the first."""
        self._locate()
        if not self._number:
            self._create(1)
            return
        sizes = [self._file_size("out"), self._file_size("err")]
        if sizes[0] < self._ends[0] or sizes[1] < self._ends[1]:
            # Power was lost: the index knows of bytes that never reached the disk.
            self._closed.append((self._number, sum(sizes) + self._index_end))
            self._closed_bytes += sum(sizes) + self._index_end
            self._create(self._number + 1)
            return
        self._continue(sizes, is_replacement)

    def _continue(self, sizes: list[int], is_replacement: bool) -> None:
        """Index what was written but not indexed: its time and order are unknown."""
        now = _now()
        position = self._position
        records = bytearray()
        if not self._index_end:
            records += self._header(now)
        if is_replacement or sizes != self._ends:
            records += index.pack(index.REPLACED, now, position, 0, 0)
        for kind, end, size in (
            (index.OUT_RECOVERED, self._ends[0], sizes[0]),
            (index.ERR_RECOVERED, self._ends[1], sizes[1]),
        ):
            if size > end:
                records += index.pack(kind, now, position, end, size - end)
                position += size - end
        self._open_index(self._number, records)
        self._ends = sizes
        self._position = position

    def _file_size(self, suffix: str) -> int:
        try:
            return os.stat(self._path(self._number, suffix)).st_size
        except FileNotFoundError:
            return 0

    def _create(self, number: int) -> None:
        self._number = number
        self._ends = [0, 0]
        self._index_end = 0
        self._open_index(number, self._header(_now()))

    def _header(self, now: int) -> bytes:
        run = self._run if self._is_marked else 0
        return index.pack(index.HEADER, now, self._position, index.VERSION, run)

    def _open_index(self, number: int, records: bytes | bytearray) -> None:
        """Open the index, cut to whole records, and add these: all of it or nothing."""
        fd = _open_file(self._path(number, "idx"))
        try:
            os.ftruncate(fd, self._index_end)
            if os.pwrite(fd, records, self._index_end) < len(records):
                os.ftruncate(fd, self._index_end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.close(fd)
            raise
        self._index = fd
        self._index_end += len(records)

    def _rotate(self) -> None:
        self._finish_chunk()
        self._write_index()
        self._close_files()
        size = self._live_size()
        self._closed.append((self._number, size))
        self._closed_bytes += size
        self._create(self._number + 1)

    def _close_files(self) -> None:
        for fd in (*self._files, self._index):
            if fd >= 0:
                os.close(fd)
        self._files = [-1, -1]
        self._index = -1

    def _drop_oldest(self) -> int:
        number, size = self._closed.pop(0)
        self._closed_bytes -= size
        segments.remove(self._directory, self.service, number)
        return size

    def _drop_live(self) -> int:
        """Delete the newest segment too; an index with nothing but its header stays, so
        that positions go on and no cursor comes to mean another place."""
        self.flush()
        if self._pending:
            return 0
        self._close_files()
        number = self._number
        try:
            self._create(number + 1)
        except OSError as error:
            self.refuse(error)
            return 0
        self._close_files()
        return segments.remove(self._directory, self.service, number)

    def _ended_at(self, number: int) -> float:
        try:
            return os.stat(self._path(number, "idx")).st_mtime
        except FileNotFoundError:
            return 0.0

    def _find_run(self, run_number: int) -> int | None:
        for number in (self._number, *(number for number, _ in reversed(self._closed))):
            try:
                fd = os.open(self._path(number, "idx"), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                position = index.find_run(fd, run_number)
                header = index.read_header(fd)
            finally:
                os.close(fd)
            if position is not None:
                return position
            if header is None or header[1] != run_number:
                return None
        return None

    # The index.

    def _mark_run(self, now: int) -> None:
        self._finish_chunk()
        self._is_marked = True
        self._pending += index.pack(index.RUN, now, self._position, self._run, 0)

    def _finish_chunk(self) -> None:
        if self._chunk_length:
            self._pending += index.pack(
                self._chunk_kind,
                self._chunk_time,
                self._chunk_position,
                self._chunk_offset,
                self._chunk_length,
            )
            self._chunk_length = 0
        self._chunk_kind = -1

    def _try_index(self) -> bool:
        """False when a gap began; after old segments made way it is worth another try."""
        try:
            self._write_index()
        except OSError as error:
            self.refuse(error)
        return not self._why

    def _write_index(self) -> None:
        """Write the pending records at the end of the index; never half a record."""
        while self._pending:
            count = os.pwrite(self._index, self._pending, self._index_end)
            whole = count - count % index.RECORD_SIZE
            self._index_end += whole
            del self._pending[:whole]
            if not whole:
                os.ftruncate(self._index, self._index_end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _on_flush_due(self) -> None:
        self._flush_timer = None
        self.flush()


def _now() -> int:
    return time.time_ns() // 1000


def _open_file(name: str) -> int:
    # Not O_APPEND: splice refuses it.
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
