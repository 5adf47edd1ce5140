"""What a process of ours asks of the kernel for itself: descriptors, memory, orphans.

Reads and changes only the process that calls it. Where the system refuses, it goes on without.
Standard library only.
"""

from __future__ import annotations

import os
import resource
import sys
import time

from holdfast.system.kernel_files import read, write

if sys.platform == "darwin":
    from holdfast.system import darwin

LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables by which some Pythons find their own library."""
_OOM_SCORE = -900
_PR_SET_CHILD_SUBREAPER = 36
_ROOMY_TABLE = 4096

_subreaper = [False]


def raise_descriptor_limit() -> tuple[int, int]:
    """Raise the soft limit of open descriptors to the hard one; return the limits before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard
    if sys.platform == "darwin":
        # The hard limit is infinite, and refused as a soft one. What was granted is kept.
        wanted = max(soft, min(hard, darwin.OPEN_MAX))
    if soft != wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft, hard
    return soft, hard


def widen_descriptor_table() -> None:
    """Make the kernel allocate room for many descriptors while this process has one thread. Later
    each doubling of the table would stop it for milliseconds."""
    import fcntl

    wanted = min(_ROOMY_TABLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0]) - 1
    try:
        os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, wanted))
    except OSError:
        return  # it grows when it has to


def lower_oom_score() -> int | None:
    """Make this process a late victim when memory is short; return the score before, or None if
    nothing was changed."""
    before = read("/proc/self/oom_score_adj")
    if before is None or int(before) <= _OOM_SCORE:
        return None
    return int(before) if write("/proc/self/oom_score_adj", b"%d" % _OOM_SCORE) else None


def set_subreaper() -> bool:
    """Make orphaned descendants children of this process instead of init's."""
    if sys.platform != "linux":
        return False
    import ctypes

    _subreaper[0] = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return _subreaper[0]


def is_subreaper() -> bool:
    """Return whether `set_subreaper` succeeded in this process."""
    return _subreaper[0]


def give_memory_back() -> None:
    """Return free pages to the system. A burst of work leaves many of them in the allocator."""
    if sys.platform == "linux":
        import ctypes

        # Only glibc keeps them, and has this function.
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)


def is_orphaned(parent: int, seconds: float) -> bool:
    """Return whether the parent of this process has died. Its end of a socket closes a moment
    before that is visible, so wait for it."""
    deadline = time.monotonic() + seconds
    while os.getppid() == parent:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True
