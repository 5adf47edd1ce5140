"""A stage for recording: a real loop, real pipes and a real directory of logs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from holdfast.keeper.loop import Loop
from holdfast.keeper.recording import log_directory
from holdfast.keeper.recording.intake import Source
from holdfast.keeper.recording.recorder import Recorder
from holdfast.logbook.cursors import BEGINNING, Cursor
from holdfast.logbook.entries import Line, Note, Stream
from holdfast.logbook.lines import lines
from holdfast.logbook.reader import Reader

SERVICE = "web"
PLENTY = 1 << 30


class Stage:
    """One service's recorder and the write ends of its streams."""

    def __init__(self, directory: str, max_size: int = 1 << 20, total_size: int = PLENTY) -> None:
        self.directory = directory
        self.loop = Loop()
        self.gaps: list[tuple[str, int | None, str]] = []
        self.grew: list[int] = []
        self.ended: list[str] = []
        self._limits = max_size, total_size
        self._fds: list[int] = []
        self.recorder = self.new_recorder()
        self.reader = Reader(directory, SERVICE)

    def new_recorder(self, state: dict[str, int] | None = None, service: str = SERVICE) -> Recorder:
        return Recorder(
            self.directory,
            service,
            *self._limits,
            self.loop,
            lambda _, position: self.grew.append(position),
            lambda _, what, lost, why: self.gaps.append((what, lost, why)),
            state=state,
        )

    def attach(
        self, stream: Stream = "out", recorder: Recorder | None = None
    ) -> tuple[int, Source]:
        read, write = os.pipe()
        self._fds += [read, write]
        source = (recorder or self.recorder).attach(
            read, stream, on_eof=lambda: self.ended.append(stream)
        )
        return write, source

    def close_fd(self, fd: int) -> None:
        self._fds.remove(fd)
        os.close(fd)

    def say(self, data: bytes, stream: Stream = "out") -> None:
        """Record exactly these bytes as one chunk of a stream."""
        write, source = self.attach(stream)
        for at in range(0, len(data), 60_000):
            os.write(write, data[at : at + 60_000])
            source.drain(PLENTY)
        source.detach()
        self.close_fd(write)

    def lose_keeper(self) -> None:
        """As if the keeper died: what is in memory is gone, the files are as they are."""
        log_directory._log_directories.clear()
        self.recorder = self.new_recorder()

    def run_until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        deadline = self.loop.now() + seconds

        def look() -> None:
            if condition() or self.loop.now() > deadline:
                self.loop.stop()
            else:
                self.loop.call_later(0.002, look)

        look()
        self.loop._is_running = not condition()
        self.loop.run()
        assert condition(), "the deadline passed"

    def raw(self, stream: Stream | None = None, cursor: Cursor = BEGINNING) -> bytes:
        return b"".join(self.reader.raw(cursor, stream))

    def entries(
        self, cursor: Cursor = BEGINNING, stream: Stream | None = None
    ) -> list[Line | Note]:
        return list(lines(self.reader, cursor, stream))

    def lines(self, cursor: Cursor = BEGINNING, stream: Stream | None = None) -> list[bytes]:
        return [e.data for e in self.entries(cursor, stream) if isinstance(e, Line)]

    def notes(self, cursor: Cursor = BEGINNING) -> list[tuple[str, int]]:
        return [(e.kind, e.lost or e.run) for e in self.entries(cursor) if isinstance(e, Note)]

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self.recorder.close()
        log_directory._log_directories.clear()
        for fd in self._fds:
            os.close(fd)
        self.loop._wake.close()
        self.loop._waker.close()
        self.loop._selector.close()
