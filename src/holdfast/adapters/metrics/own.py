"""What one process of Holdfast itself uses: a small read on Linux."""

from __future__ import annotations

import os
import sys
import time


def usage_of(pid: int) -> tuple[float | None, int | None]:
    """Return CPU seconds and resident bytes of a process; None for a number that is unknown."""
    if sys.platform != "linux":
        from holdfast.adapters.metrics import portable

        found = portable.sample_process(pid)
        return (round(found.user + found.system, 3), found.memory) if found else (None, None)
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
