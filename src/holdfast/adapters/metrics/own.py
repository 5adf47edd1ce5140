"""What one process of ours uses: a small read, for whoever asks about Holdfast itself."""

from __future__ import annotations

import os
import time


def look(pid: int) -> tuple[float | None, int | None]:
    """CPU seconds and resident bytes of one process; None where that is not told."""
    return _cpu(pid), _memory(pid)


def _cpu(pid: int) -> float | None:
    if pid == os.getpid():
        return round(time.process_time(), 3)
    try:
        # The clock of another process: kernel/time/posix-cpu-timers.c, CPUCLOCK_SCHED.
        return round(time.clock_gettime((~pid << 3) | 2), 3)
    except (OSError, OverflowError):
        return None


def _memory(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
