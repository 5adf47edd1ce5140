"""Input for a run's standard input or terminal, queued while the run does not read.

Owns a bounded queue in front of one descriptor. Never blocks. Never closes the descriptor: it calls
back when everything before the end of input is written.
"""

from __future__ import annotations

import os

from holdfast.keeper.loop import WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.loop import Loop

LIMIT = 1 << 20


class Feed:
    """Queued input of one run."""

    __slots__ = ("_copy", "_ends", "_fd", "_loop", "_on_end", "_pending")

    def __init__(self, fd: int, loop: Loop, on_end: Callable[[], None]) -> None:
        self._fd = fd
        self._loop = loop
        self._on_end = on_end
        self._pending = bytearray()
        self._ends = False
        # The loop already watches the master of a terminal for output, so a copy is watched.
        self._copy = -1

    def write(self, data: bytes, ends: bool = False) -> bool:
        """Queue all of it. False, and nothing is queued, if the queue would exceed its limit."""
        if len(self._pending) + len(data) > LIMIT:
            return False
        self._pending += data
        self._ends = self._ends or ends
        self._flush()
        return True

    def state(self) -> tuple[bytes, bool]:
        return bytes(self._pending), self._ends

    def close(self) -> None:
        self._pending.clear()
        self._stop_waiting()

    def _flush(self) -> None:
        while self._pending:
            try:
                written = os.write(self._fd, self._pending[:65536])
            except BlockingIOError:
                self._wait()
                return
            except OSError:
                self._pending.clear()  # the run ended, or closed its input
                self._ends = True
                break
            del self._pending[:written]
        self._stop_waiting()
        if self._ends:
            self._ends = False
            self._on_end()

    def _wait(self) -> None:
        if self._copy < 0:
            self._copy = os.dup(self._fd)
            self._loop.watch(self._copy, self._flush, WRITE)

    def _stop_waiting(self) -> None:
        if self._copy >= 0:
            self._loop.unwatch(self._copy)
            os.close(self._copy)
            self._copy = -1
