"""Moves bytes from a run's pipe or terminal into its log.

Owns how bytes are taken; where they go is the recorder's affair. It must not block. It takes at
most TURN_BYTES of a stream in one turn of the loop, so that one flood cannot starve the others.

How bytes move. On Linux, `splice` moves them from the pipe into the file inside the kernel.
Elsewhere they are read and written. A terminal cannot be spliced into a file, so its bytes first
go into a pipe of our own (its *transit*) and from there into the file. Bytes must never wait in
our memory: they would be lost if we were killed. A pipe outlives us, because the supervisor holds
a copy of it. For the same reason `_peek` looks for a first byte without taking it while the log
has no files yet.

Why the pace matters. Every chunk costs the same, however small it is: a wake-up, a splice, and a
record of the index. A program that prints many short lines would wake the keeper for each of them.
So the intake waits a little and takes more at once. It must not wait too long: a full pipe blocks
the program, and a line that is not taken is not visible to readers.

The control law. After each chunk, `_consider_rest` looks at its size and at the time since the
chunk before:

1. The chunk filled three quarters of the pipe or more: the writer is faster than we are. Enlarge
   the pipe (`_grow`): 64 KiB, then 256 KiB, then 1 MiB.
2. The chunk came more than a millisecond after the one before, or it filled a quarter of the pipe,
   or the other stream of the run printed in between: this is no stream of small chunks. Go on as
   before.
3. At this pace, the largest pipe would be half full within a millisecond. A timer of the loop is
   too coarse for that, so the whole loop *breathes*: it sleeps for 0.1 ms at the end of the turn,
   once for all streams that ask for it.
4. Four small chunks came in a row. Enlarge the pipe as far as possible. If it has 256 KiB or more
   then, stop watching it and take what has gathered after one millisecond (a *rest*). The rest is
   repeated as long as less than half of the pipe fills meanwhile. A pipe that filled up made its
   writer wait, so the stream is watched again; it may rest again after its next small chunk.

A stream that rests must not change the order of output. When the other stream of the run has
something to say, the resting one is woken first (`wake`), because its bytes are older.

Larger pipes count against an allowance of the user. Beyond it the kernel gives every program of
that user pipes of 8 KiB, so all our pipes together take at most half of it (`PipeAccount`).

When the log refuses bytes (a full disk), they are read, thrown away and counted as a gap
(`_discard`), so that no service ever blocks because of its log.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.keeper.loop import Callback, Loop, Timer
    from holdfast.keeper.recording.recorder import Recorder, Track

TURN_BYTES = 1 << 20
COPY_BYTES = 1 << 16
REST_SECONDS = 0.001
BREATH_SECONDS = 0.0001
SMALL_IN_A_ROW = 4
PAUSE_NANOSECONDS = 1_000_000
PIPE_SIZES = (256 << 10, 1 << 20)
SMALLEST_RESTING_PIPE = 256 << 10

NOTHING = -1
END = 0

_CAN_SPLICE = sys.platform == "linux"
_splice: Any = getattr(os, "splice", None)
_F_SETPIPE_SZ = 1031
_F_GETPIPE_SZ = 1032
_UNLIMITED_PIPES = 1 << 24 | 1 << 21  # CAP_SYS_RESOURCE, CAP_SYS_ADMIN
_SPLICE_FLAGS = 1 | 2  # SPLICE_F_MOVE | SPLICE_F_NONBLOCK


class PipeAccount:
    """How much of the user's allowance our pipes take: never more than half of it."""

    def __init__(self) -> None:
        self._allowance: int | None = None
        self.taken = 0

    def allows(self, extra: int) -> bool:
        if self._allowance is None:
            self._allowance = self._read_allowance()
        return self.taken + extra <= self._allowance

    @staticmethod
    def _read_allowance() -> int:
        try:
            with open("/proc/self/status", "rb") as file:
                capabilities = int(file.read().split(b"CapEff:")[1].split()[0], 16)
            with open("/proc/sys/fs/pipe-user-pages-soft", "rb") as file:
                pages = int(file.read())
        except (OSError, ValueError, IndexError):
            return 0
        if capabilities & _UNLIMITED_PIPES:
            return 1 << 62
        return pages * os.sysconf("SC_PAGE_SIZE") // 2 if pages else 1 << 62


pipes = PipeAccount()
_null_fd = -1


def _null() -> int:
    """A descriptor to discard bytes to; -1 if even that cannot be opened."""
    global _null_fd
    if _null_fd < 0:
        try:
            _null_fd = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return -1
    return _null_fd


_is_breath_due = False


def _breathe(loop: Loop) -> None:
    """Sleep for a moment at the end of this turn, once for all streams that ask. The selector
    cannot wait for less than a millisecond, and a fast writer fills any pipe in that time."""
    global _is_breath_due
    if not _is_breath_due:
        _is_breath_due = True
        loop.at_turn_end(_breath)


def _breath() -> None:
    global _is_breath_due
    _is_breath_due = False
    time.sleep(BREATH_SECONDS)


class Source:
    """One stream of a run: a descriptor whose bytes go to the log until it ends."""

    __slots__ = (
        "_can_splice",
        "_has_ended",
        "_last_taken",
        "_loop",
        "_on_eof",
        "_pipe_size",
        "_recorder",
        "_rest",
        "_small_chunks",
        "_transit",
        "fd",
        "is_open",
        "stream",
        "track",
    )

    def __init__(
        self,
        recorder: Recorder,
        loop: Loop,
        fd: int,
        stream: int,
        on_eof: Callback,
        transit: int | None,
        track: Track,
    ) -> None:
        self.track = track
        self._recorder = recorder
        self._loop = loop
        self.fd = fd
        self.stream = stream
        self._transit = transit
        self._has_ended = False
        self._on_eof = on_eof
        self._can_splice = _CAN_SPLICE
        self._rest: Timer | None = None
        self._small_chunks = 0
        self._last_taken = 0
        self.is_open = True
        self._pipe_size = 0
        os.set_blocking(fd, False)
        if transit is not None:
            # A keeper before us may have left bytes in it.
            loop.call_later(0, self._on_ready)
        elif self._can_splice:
            try:
                self._pipe_size = fcntl.fcntl(fd, _F_GETPIPE_SZ)
            except OSError:
                self._can_splice = False
        pipes.taken += self._pipe_size
        loop.watch(fd, self._on_ready)

    def drain(self, limit_bytes: int) -> int:
        """Take bytes until none are left, the stream ends, or the limit is reached. Returns how
        many were taken. Calls `on_eof` if the stream ends."""
        taken = 0
        while self.is_open and taken < limit_bytes:
            count = self._take(min(TURN_BYTES, limit_bytes - taken))
            if count == NOTHING:
                break
            if count == END:
                self._end()
                break
            taken += count
        return taken

    def detach(self) -> None:
        """Stop taking. The descriptor stays open, and `on_eof` will not be called."""
        if not self.is_open:
            return
        self.is_open = False
        pipes.taken -= self._pipe_size
        if self._rest is not None:
            self._stop_resting()
        else:
            self._loop.unwatch(self.fd)
        self._recorder.on_detached(self)

    def wake(self) -> None:
        """End a rest early, because the other stream of the run has something to say. Bytes that
        wait here were printed before and must be recorded before."""
        self._stop_resting()
        count = self._take(TURN_BYTES)
        if count == END:
            self._end()
        else:
            self._small_chunks = 0
            self._loop.watch(self.fd, self._on_ready)

    def _on_ready(self) -> None:
        if not self.is_open:
            return
        if self._transit is not None:
            if self.drain(TURN_BYTES) >= TURN_BYTES:
                self._loop.call_later(0, self._on_ready)
            return
        resting = self._recorder.resting
        if resting is not None:
            resting.wake()
        count = self._take(TURN_BYTES)
        if count > 0:
            if count * 4 >= self._pipe_size * 3 > 0:
                self._grow()
            self._consider_rest(count)
        elif count == END:
            self._end()

    def _consider_rest(self, count: int) -> None:
        """Rest, or let the loop breathe, if this stream comes in small chunks. The prose at the
        head of this module explains the rule."""
        now = time.monotonic_ns()
        passed = now - self._last_taken
        is_in_a_row = passed < PAUSE_NANOSECONDS
        self._last_taken = now
        recorder = self._recorder
        if not is_in_a_row or count * 4 >= self._pipe_size or recorder.last is not self:
            recorder.last = self
            self._small_chunks = 0
            return
        if count * PAUSE_NANOSECONDS >= PIPE_SIZES[-1] // 2 * passed:
            _breathe(self._loop)
            return
        self._small_chunks += 1
        if self._small_chunks < SMALL_IN_A_ROW:
            return
        while self._pipe_size < PIPE_SIZES[-1] and self._grow():
            pass
        if self._pipe_size >= SMALLEST_RESTING_PIPE:
            self._loop.unwatch(self.fd)
            recorder.resting = self
            self._rest = self._loop.call_later(REST_SECONDS, self._on_rested)

    def _on_rested(self) -> None:
        count = self._take(TURN_BYTES)
        # A pipe that filled up meanwhile made its writer wait: then do not rest.
        if 0 < count < self._pipe_size // 2:
            self._rest = self._loop.call_later(REST_SECONDS, self._on_rested)
            return
        self._stop_resting()
        # One more small chunk, and the stream may rest again.
        self._small_chunks = SMALL_IN_A_ROW - 1 if count > 0 else 0
        self._last_taken = time.monotonic_ns()
        if count == END:
            self._end()
        else:
            self._loop.watch(self.fd, self._on_ready)

    def _stop_resting(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._recorder.resting is self:
            self._recorder.resting = None

    def _grow(self) -> bool:
        """Enlarge the pipe by one step; False if it is the largest or the kernel refuses."""
        for size in PIPE_SIZES:
            if size > self._pipe_size:
                break
        else:
            return False
        if not pipes.allows(size - self._pipe_size):
            return False
        try:
            fcntl.fcntl(self.fd, _F_SETPIPE_SZ, size)
        except OSError:
            return False
        pipes.taken += size - self._pipe_size
        self._pipe_size = size
        return True

    def _end(self) -> None:
        self.detach()
        self._recorder.settle()
        self._on_eof()

    def _take(self, limit: int) -> int:
        """Move up to `limit` bytes into the log. Returns their number, NOTHING if none are there,
        END at the end. Bytes that the log refuses are thrown away and counted."""
        recorder = self._recorder
        if not recorder.is_open and (there := self._peek()) <= 0:
            return there
        while True:
            # This may open the next segment, so it comes before the file is chosen.
            room = recorder.room()
            if not room:
                return self._discard(limit)
            try:
                if not self._can_splice:
                    return self._copy(min(limit, room))
                source = self._source()
                file = recorder.file(self.stream)
                count = int(_splice(source, file, min(limit, room), flags=_SPLICE_FLAGS))
            except BlockingIOError:
                return END if self._has_ended else NOTHING
            except OSError as error:
                if error.errno == errno.EINVAL and self._can_splice:
                    self._can_splice = False
                else:
                    recorder.refuse(error)
                continue
            if count:
                recorder.note(self.stream, count, self.track)
            return count

    def _source(self) -> int:
        """The descriptor to splice from. A terminal's bytes are moved into its transit first."""
        if self._transit is None:
            return self.fd
        try:
            while _splice(self.fd, self._transit, COPY_BYTES, flags=_SPLICE_FLAGS):
                pass
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise
            # A terminal reports EIO when its other side is closed.
            self._has_ended = True
        return self._transit

    def _peek(self) -> int:
        """Look for a byte without taking it: 1 if there is one, else NOTHING or END. Bytes in our
        memory would be lost if we were killed while the files are made."""
        if not _CAN_SPLICE:
            return 1
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        if self._transit is not None:
            poll.register(self._transit, select.POLLIN)
        ready = dict(poll.poll(0))
        if any(events & select.POLLIN for events in ready.values()):
            return 1
        return END if ready else NOTHING

    def _copy(self, limit: int) -> int:
        data = self._read(min(limit, COPY_BYTES))
        view = memoryview(data)
        while view:
            try:
                count = os.write(self._recorder.file(self.stream), view)
            except OSError as error:
                self._recorder.refuse(error)
                if self._recorder.room():
                    continue
                self._recorder.mark_gap()
                self._recorder.lose(len(view))
                break
            self._recorder.note(self.stream, count, self.track)
            view = view[count:]
        return len(data)

    def _discard(self, limit: int) -> int:
        if (there := self._peek()) <= 0:
            return there
        self._recorder.mark_gap()
        null = _null() if self._can_splice else -1
        try:
            if null >= 0:
                count = int(_splice(self._source(), null, limit, flags=_SPLICE_FLAGS))
            else:
                count = len(self._read(min(limit, COPY_BYTES)))
        except BlockingIOError:
            return END if self._has_ended else NOTHING
        except OSError:
            if null < 0:
                raise
            self._can_splice = False
            return self._discard(limit)
        self._recorder.lose(count)
        return count

    def _read(self, limit: int) -> bytes:
        try:
            return os.read(self.fd, limit)
        except OSError as error:
            # A terminal reports EIO when its other side is closed.
            if error.errno in (errno.EIO, errno.EBADF):
                return b""
            raise
