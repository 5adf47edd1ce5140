"""The only writer of a service's log: appends all bytes to segments, and orders them in the index.

Owns rotation, the size cap, gaps, and the moment when records become visible. It must never block,
never write half a record, and never raise when the file system refuses: refused bytes become a
counted gap.

A gap is output that could not be recorded. The index says where it is and how many bytes it has. A
killed keeper loses its count. So a gap is marked in the index where it begins, as far as the file
system allows that, and a later recorder that finds such a mark says that the number is unknown.
"""

from __future__ import annotations

import errno
import time

from holdfast.keeper.recording.intake import Source
from holdfast.keeper.recording.log_directory import log_directory_of
from holdfast.keeper.recording.segment_files import SegmentFiles
from holdfast.logbook import index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.keeper.loop import Callback, Loop, Timer
    from holdfast.keeper.protocol.messages import GapState

FLUSH_SECONDS = 0.005
CHUNK_MICROSECONDS = 1000
RETRY_SECONDS = 1.0
LOOK_SECONDS = 1.0
SMALLEST_SEGMENT = 4096
PENDING_BYTES = 64 << 10

_STREAMS = ("out", "err")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_INTERRUPTED = "recording was interrupted"


class Track:
    """A run's part of the log. Two of them grow at once while one run replaces another."""

    __slots__ = ("bytes", "is_marked", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.bytes = 0
        self.is_marked = False


class Recorder:
    """The log of one service, over all its runs."""

    __slots__ = (
        "_chunk_kind",
        "_chunk_length",
        "_chunk_offset",
        "_chunk_position",
        "_chunk_time",
        "_current",
        "_files",
        "_flush_timer",
        "_flushed_at",
        "_gap",
        "_log_directory",
        "_look_at",
        "_loop",
        "_max_size",
        "_newest",
        "_on_grew",
        "_retry_at",
        "_sources",
        "_total_size",
        "last",
        "resting",
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
        on_gap: Callable[[str, GapState, int | None, str], None],
        state: dict[str, int] | None = None,
    ) -> None:
        self.service = service
        self._loop = loop
        self._on_grew = on_grew
        self._log_directory = log_directory_of(directory)
        self._files = SegmentFiles(directory, service)
        self.limits(max_size, total_size)
        self.watching = False
        self.resting: Source | None = None
        self.last: Source | None = None
        self._sources: list[Source] = []

        self._chunk_kind = -1
        self._chunk_time = self._chunk_position = self._chunk_offset = self._chunk_length = 0
        self._flushed_at = 0.0
        self._flush_timer: Timer | None = None

        state = state or {}
        self._newest = Track(state.get("run", 0))
        self._newest.is_marked = bool(state.get("is_marked", 1))
        self._newest.bytes = state.get("run_bytes", 0)
        written = state.get("current", self._newest.number)
        self._current = self._newest if written == self._newest.number else None
        self._files.run = written if self._newest.is_marked or self._current is None else 0
        self._gap = Gap(self._files, service, on_gap, state)
        self._retry_at = 0.0
        self._look_at = 0.0

    @property
    def position(self) -> int:
        """Bytes recorded so far, over all runs and segments."""
        self._files.locate()
        return self._files.position

    def limits(self, max_size: int, total_size: int) -> None:
        self._total_size = max(total_size, 2 * SMALLEST_SEGMENT)
        # The total holds at least two segments, or each rotation would delete everything.
        size = min(max_size, self._total_size // 2, index.LARGEST_SEGMENT)
        self._max_size = max(size, SMALLEST_SEGMENT)

    @property
    def run_bytes(self) -> int:
        """How many bytes the newest run has printed."""
        return self._newest.bytes

    def begin_run(self, number: int) -> Track:
        """Streams that are attached from now on belong to this run. The index marks the run at its
        first byte."""
        self._newest = Track(number)
        self._look_at = 0.0
        return self._newest

    def resume_run(self, number: int, count: int) -> Track:
        """Go on with a run of an earlier program image, which had printed `count` bytes."""
        if self._newest.number == number:
            return self._newest
        track = Track(number)
        track.is_marked, track.bytes = bool(count), count
        return track

    def attach(
        self,
        fd: int,
        stream: str,
        *,
        on_eof: Callback,
        transit: int | None = None,
        track: Track | None = None,
    ) -> Source:
        """Record this descriptor until its end. It is never closed here. A terminal's bytes pass
        through `transit`, where they are safe."""
        kind = _STREAMS.index(stream)
        source = Source(self, self._loop, fd, kind, on_eof, transit, track or self._newest)
        self._sources.append(source)
        return source

    def state(self) -> dict[str, int]:
        """What the files do not tell, for the recorder of the next program image."""
        self.flush()
        return {
            "run": self._newest.number,
            "is_marked": int(self._newest.is_marked),
            "run_bytes": self._newest.bytes,
            "current": self._current.number if self._current else self._files.run,
            **self._gap.state(),
        }

    @property
    def is_within_gap(self) -> bool:
        """Whether output is being lost, or was lost and the index does not say so yet."""
        return bool(self._gap.why)

    def recover(self, run_number: int, *, is_within_gap: bool = False) -> Track:
        """Go on with a run whose keeper died: note that, index the bytes that are not indexed, and
        count what the run has printed. `is_within_gap`: the keeper had said that it could not
        record; its log may not say so."""
        track = self.begin_run(run_number)
        try:
            self._files.locate()
            self._files.has_mark = self._files.has_mark or is_within_gap
            if self._files.is_empty:
                return track
            if not self._files.is_open:
                self._open(is_replacement=True)
            started_at = self._files.find_run(run_number)
        except OSError as error:
            # The dead keeper probably could not write, either. How much it lost is unknown.
            self._files.has_mark = not self._files.is_open
            self.refuse(error)
            return track
        if started_at is not None:
            track.is_marked = True
            track.bytes = self._files.position - started_at
            self._current, self._files.run = track, run_number
        return track

    def prune(
        self,
        keep_segments: int | None = None,
        before: float | None = None,
        *,
        live: Collection[int] | None = (),
    ) -> tuple[int, int]:
        """Delete old segments; returns their bytes and number. The newest segment stays, and so do
        segments with bytes of `live` runs. With `live` None no run is in progress: the newest
        segment goes, too, and an empty one continues at its position."""
        files = self._files
        files.locate()
        if live is None and before is not None:
            self._retire_newest(before)
        doomed = 0
        if keep_segments is not None:
            doomed = max(0, len(files.closed) + 1 - max(1, keep_segments))
        if before is not None:
            while doomed < len(files.closed) and files.written_at(files.closed[doomed][0]) < before:
                doomed += 1
        if live and doomed:
            self.flush()
            doomed = min(doomed, files.first_of(live))
        before_bytes, before_count = files.closed_bytes, len(files.closed)
        while doomed > 0 and files.drop_oldest():
            doomed -= 1
        return before_bytes - files.closed_bytes, before_count - len(files.closed)

    def _retire_newest(self, before: float) -> None:
        files = self._files
        if not any(files.ends) or files.written_at(files.number) >= before:
            return
        try:
            if not files.is_open:
                self._open()
            self.flush()
            files.rotate(stamp())
        except OSError:
            return  # the disk is full: this segment stays, older ones go

    def flush(self) -> None:
        """Make everything that was recorded visible to readers."""
        self._finish_chunk()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if not self._files.pending:
            return
        while self._files.pending:
            if not self._try_index():
                return
        self._flushed_at = self._loop.now()
        if self.watching:
            self._on_grew(self.service, self._files.position)

    def settle(self) -> None:
        """A stream ended. Write an open gap now: no further byte may come to close it."""
        if self._gap.why and self._gap.lost and self.room():
            self._finish_chunk()
            try:
                self._gap.close_now()
            except OSError as error:
                self.refuse(error)
        self.flush()

    def close(self) -> None:
        """Write what is pending, and close every file."""
        for source in list(self._sources):
            source.detach()
        self._retry_at = 0.0
        self.settle()
        self._files.close()

    # What a source calls.

    @property
    def is_open(self) -> bool:
        return self._files.is_open

    def room(self) -> int:
        """How many bytes the current segment takes. Opens the next segment when it is full. 0 while
        the file system refuses: then bytes are to be discarded and counted."""
        if self._gap.why and self._loop.now() < self._retry_at:
            return 0
        while True:
            room = self._try_room()
            if room or self._gap.why:
                return room

    def file(self, stream: int) -> int:
        return self._files.file(stream)

    def note(self, stream: int, count: int, track: Track) -> None:
        """These bytes are in the file now."""
        files = self._files
        now = stamp()
        if was_within_gap := bool(self._gap.why):
            self._finish_chunk()
            self._gap.close(now)
        if track is not self._current or not track.is_marked:
            self._mark_run(track, now)
        offset = files.ends[stream]
        if self._chunk_kind != stream or not 0 <= now - self._chunk_time < CHUNK_MICROSECONDS:
            self._finish_chunk()
            self._chunk_kind = stream
            self._chunk_time = now
            self._chunk_position = files.position
            self._chunk_offset = offset
        self._chunk_length += count
        files.ends[stream] = offset + count
        files.position += count
        track.bytes += count
        self._log_directory.unchecked_room -= count
        while files.closed and files.closed_bytes + files.live_bytes > self._total_size:
            if not files.drop_oldest():
                break
        if was_within_gap:
            self.flush()  # only our memory knows the size of the gap until it is written
        elif self._flush_timer is None:
            wait = self._flushed_at + FLUSH_SECONDS - self._loop.now()
            if wait <= 0:
                self.flush()
            else:
                self._flush_timer = self._loop.call_later(wait, self._on_flush_due)
        elif len(files.pending) > PENDING_BYTES:
            self.flush()

    def refuse(self, error: OSError) -> None:
        """The file system refused. Delete old segments first; if there are none, begin a gap."""
        if error.errno in _FULL and self._files.drop_oldest():
            return
        self._retry_at = self._loop.now() + RETRY_SECONDS
        self._gap.begin(error.strerror or str(error))
        self._finish_chunk()

    def mark_gap(self) -> None:
        """Mark in the index that bytes are about to be lost, in case the count is lost, too."""
        if self._gap.mark() and self.watching:
            self._on_grew(self.service, self._files.position)

    def lose(self, count: int) -> None:
        self._gap.lost += count

    def on_detached(self, source: Source) -> None:
        self._sources.remove(source)
        if self.last is source:
            self.last = None

    # How it is done.

    def _open(self, *, is_replacement: bool = False) -> None:
        if why := self._files.open(stamp(), is_replacement=is_replacement):
            self._gap.inherit(why)

    def _try_room(self) -> int:
        try:
            return self._make_room()
        except OSError as error:
            self.refuse(error)
            return 0

    def _make_room(self) -> int:
        files = self._files
        if not files.is_open:
            self._open()
        elif self._gap.why or self._loop.now() >= self._look_at:
            self._look_at = self._loop.now() + LOOK_SECONDS
            if files.is_gone() or (self._gap.why and files.is_obstructed()):
                self._finish_chunk()
                files.replace(stamp())
        room = self._max_size - files.ends[0] - files.ends[1]
        if room <= 0 or files.index_end + len(files.pending) >= self._max_size:
            self._finish_chunk()
            files.rotate(stamp())
            room = self._max_size
        if self._gap.why and files.pending:
            files.write_index()
        if self._log_directory.unchecked_room <= 0:
            while not self._log_directory.has_space(is_resuming=bool(self._gap.why)):
                if not files.drop_oldest():
                    raise OSError(errno.ENOSPC, "the free-space floor is reached")
        return room

    def _mark_run(self, track: Track, now: int) -> None:
        self._finish_chunk()
        if track.is_marked:
            how = index.GOES_ON
        else:
            is_beside = any(source.track is not track for source in self._sources)
            how = index.BESIDE if is_beside else index.ALONE
        track.is_marked = True
        self._current, self._files.run = track, track.number
        number, position = track.number, self._files.position
        self._files.pending += index.pack(index.RUN, now, position, number, how)

    def _finish_chunk(self) -> None:
        if self._chunk_length:
            self._files.pending += index.pack(
                self._chunk_kind,
                self._chunk_time,
                self._chunk_position,
                self._chunk_offset,
                self._chunk_length,
            )
            self._chunk_length = 0
        self._chunk_kind = -1

    def _try_index(self) -> bool:
        """Write the index. False if a gap began. True also if segments were deleted to make room:
        then another try makes sense."""
        try:
            self._files.write_index()
        except OSError as error:
            self.refuse(error)
        return not self._gap.why

    def _on_flush_due(self) -> None:
        self._flush_timer = None
        self.flush()


class Gap:
    """The gap of one log. There is one while `why` is not empty."""

    __slots__ = ("_files", "_is_counted", "_marked", "_service", "_tell", "lost", "why")

    def __init__(
        self,
        files: SegmentFiles,
        service: str,
        tell: Callable[[str, GapState, int | None, str], None],
        state: dict[str, int],
    ) -> None:
        self._files = files
        self._service = service
        self._tell = tell
        self._is_counted = True
        self._marked = state.get("marked", 0)  # in which segment
        self.lost = state.get("lost", 0)
        self.why = _INTERRUPTED if self.lost or self._marked else ""
        files.is_mark_known = bool(self._marked)

    def state(self) -> dict[str, int]:
        return {"lost": self.lost, "marked": self._marked}

    def begin(self, why: str) -> None:
        if not self.why:
            self.why = why
            self._files.is_within_gap = True
            self._tell(self._service, "begin", 0, why)

    def inherit(self, why: str) -> None:
        """The log was left within a gap, or damaged: how much was lost is unknown."""
        self.why = self.why or why
        self._is_counted = False

    def mark(self) -> bool:
        """Mark in the index that the gap began, once in each segment. Returns whether that was
        written now, and with it all pending records."""
        files = self._files
        if not files.is_open or self._marked == files.number:
            return False
        try:
            self._write(index.pack(index.GAP_BEGINS, stamp(), files.position, 0, 0))
        except OSError:
            return self._flag()
        self._marked = files.number
        return True

    def _flag(self) -> bool:
        """Mark it in the header, because no record can be added. Always returns False."""
        try:
            self._files.flag_gap()
        except OSError:
            return False
        self._marked = self._files.number
        return False

    def close(self, now: int) -> None:
        """Bytes are recorded again: the index first says how many were lost."""
        if self.lost:
            self._files.pending += index.pack_gap(now, self._files.position, self.lost)
        self._end()

    def close_now(self) -> None:
        """Write the gap although no byte follows. The gap is over only if that succeeds."""
        self._write(index.pack_gap(stamp(), self._files.position, self.lost))
        self._end()

    def _write(self, record: bytes) -> None:
        files = self._files
        files.pending += record
        try:
            files.write_index()
        except OSError:
            # Records are written whole and in order, so the last one was not written.
            del files.pending[-index.RECORD_SIZE :]
            raise

    def _end(self) -> None:
        lost, why = self.lost if self._is_counted else None, self.why
        self._files.is_flag_over = bool(self._marked)
        self._files.is_within_gap = False
        self.lost = self._marked = 0
        self.why = ""
        self._is_counted = True
        self._tell(self._service, "end", lost, why)


def stamp() -> int:
    """The current time, in microseconds, as in the index."""
    return time.time_ns() // 1000
