"""Two numbers in a kernel limit that tell which keeper and run a process came from.

Linux limits the processor time of real-time tasks (`RLIMIT_RTTIME`, in microseconds). The limit
has no effect on other tasks and is unlimited unless somebody sets it. It survives everything that a
process can do to leave its family: fork, exec, a new session, an empty environment. Every process
can read it in `/proc/PID/limits`. So the keeper writes two numbers there, each far beyond the age
of any machine:

- The soft limit of a run's processes is the run's *mark*, a hash of its run id. It tells which run
  an orphan came from. A process can change it, but only on purpose.
- The hard limit of the keeper and of all that it starts is the keeper's *ceiling*. Only a process
  with CAP_SYS_RESOURCE can raise it again. So a process above the ceiling was not started by this
  keeper, and one at or below it is not known to be a person's.

A ceiling consists of a level, the start time and the pid of its keeper. A Holdfast that runs inside
a service of another takes a lower level, so that the processes around it are above its ceiling.
Two Holdfasts side by side have the same level. The start time tells them apart: nobody but a keeper
began at the very moment that its own hard limit names, because all others began after it.

Reads any process, changes only the limits of its own. Standard library only.
"""

from __future__ import annotations

import os
import resource
import sys
from binascii import crc32

from holdfast.system import kernel_files, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.system.processes import Process

RLIMIT = 15
"""RLIMIT_RTTIME, which Python names on Linux only."""
UNLIMITED = 1 << 64
_LEVEL_SHIFT, _TICKS_SHIFT = 56, 22
_TOP_LEVEL, _LOWEST_LEVEL = 63, 1
_TICKS_MASK, _PID_MASK = (1 << 34) - 1, (1 << 22) - 1
_FIRST_MARK, _END_OF_MARKS = 1 << 55, 1 << 56
_LINE = b"Max realtime timeout"


def mark_of(run_id: str) -> int:
    """Return the soft limit of every process of a run."""
    text = run_id.encode()
    return _FIRST_MARK | crc32(text) << 23 | crc32(text[::-1]) >> 9


def is_mark(soft: int) -> bool:
    return _FIRST_MARK <= soft < _END_OF_MARKS


def read(pid: int) -> tuple[int, int] | None:
    """Return the soft and hard limit of a process; None if they cannot be read."""
    data = kernel_files.read(f"/proc/{pid}/limits") if sys.platform == "linux" else None
    try:
        return _parse(data) if data else None
    except ValueError:
        return None


def _parse(data: bytes) -> tuple[int, int] | None:
    at = data.rfind(_LINE)
    if at < 0:
        return None
    soft, hard = data[at + len(_LINE) :].split(None, 2)[:2]
    return _number(soft), _number(hard)


def _number(text: bytes) -> int:
    return UNLIMITED if text == b"unlimited" else int(text)


def own() -> tuple[int, int] | None:
    """Return the soft and hard limit of this process as `setrlimit` takes them."""
    return resource.getrlimit(RLIMIT) if sys.platform == "linux" else None


def can_mark() -> bool:
    """Return whether the hard limit of this process leaves room for the marks of runs."""
    limits = read(os.getpid())
    return limits is not None and limits[1] >= _END_OF_MARKS


def marks_all() -> bool:
    """Return whether this process is a keeper with a ceiling. All that it started has a mark."""
    limits = read(os.getpid())
    return limits is not None and _END_OF_MARKS <= limits[1] < UNLIMITED


def is_above_own(pid: int) -> bool:
    """Return whether a process has a higher hard limit than this one. Then it cannot have come from
    a keeper that was limited like this one."""
    own, its = read(os.getpid()), read(pid)
    return own is not None and its is not None and its[1] > own[1]


def lower_ceiling(start_time: str | None) -> int | None:
    """Lower the hard limit of this process, which began at that time, for good. Return the ceiling,
    or None where the system does not allow one."""
    before = read(os.getpid())
    if before is None or not start_time:
        return None
    level = min(before[1] >> _LEVEL_SHIFT, _TOP_LEVEL + 1) - 1
    if level < _LOWEST_LEVEL:
        return None
    ceiling = level << _LEVEL_SHIFT | _origin(os.getpid(), start_time)
    soft = min(before[0], ceiling)
    try:
        resource.setrlimit(RLIMIT, (soft, ceiling))
    except (OSError, ValueError):
        return None
    return ceiling if has_ceiling(ceiling) else None


def ceilings_of(note: Mapping[str, object]) -> list[int]:
    """Return the ceilings that a keeper wrote into its note. Anything else there is damage: a limit
    that many processes have must not be taken for a ceiling, because all processes with a ceiling
    of ours are ended."""
    values = note.get("ceilings")
    return [value for value in values if _is_ceiling(value)] if isinstance(values, list) else []


def _is_ceiling(value: object) -> bool:
    if not isinstance(value, int):
        return False
    level, origin = divmod(value, 1 << _LEVEL_SHIFT)
    return _LOWEST_LEVEL <= level <= _TOP_LEVEL and origin > 0


def impose(pid: int, mark: int) -> None:
    """Give a process that others started a run's mark and the ceiling of this process; its children
    inherit both. Do nothing if it has a lower ceiling or belongs to another user."""
    if sys.platform != "linux":
        return
    limits, own_limits = read(pid), read(os.getpid())
    if limits is None or own_limits is None or not own_limits[1] < limits[1]:
        return
    soft = mark if limits[0] == UNLIMITED else min(limits[0], own_limits[1])
    try:
        resource.prlimit(pid, RLIMIT, (soft, own_limits[1]))
    except OSError:
        return  # it ended, or we may not; it is known by its parents, as before


def has_ceiling(ceiling: int) -> bool:
    """Return whether this is the hard limit of this process. A 32-bit kernel keeps a smaller."""
    limits = read(os.getpid())
    return limits is not None and limits[1] == ceiling


def is_beneath(ceiling: int) -> bool:
    """Return whether this process is bound by a ceiling, and so is all that it starts. Every
    process of this user can lower the hard limit further."""
    limits = read(os.getpid())
    return limits is not None and limits[1] <= ceiling


def _origin(pid: int, start_time: str) -> int:
    return (int(start_time) & _TICKS_MASK) << _TICKS_SHIFT | pid & _PID_MASK


def is_outside(line: Sequence[Process], ceilings: Collection[int]) -> bool | None:
    """Return whether a process, given with its ancestors, was surely started by none of the keepers
    with these ceilings; None if its limits cannot be read."""
    if not ceilings:
        return True  # nothing is known that would speak against it
    limits = read(line[0].pid) if line else None
    if limits is None:
        return None
    binding = [ceiling for ceiling in ceilings if limits[1] <= ceiling]
    if not binding:
        return True
    keepers = _possible_keepers(line)
    return all(_is_beside(keepers, ceiling) for ceiling in binding)


def _possible_keepers(line: Sequence[Process]) -> Sequence[Process]:
    """Return those of a line that may be the keeper of a Holdfast beside ours. An ancestor of this
    process is not, because a Holdfast below a keeper has a lower level. Orphans of a killed keeper
    become children of such an ancestor, and may have lowered its limit to look like a keeper's."""
    itself = processes.live_process(os.getpid())
    if itself is None:
        return []
    ours = {process.pid for process in processes.lineage(itself)}
    return [process for process in line if process.pid not in ours] if ours else []


def _is_beside(keepers: Sequence[Process], ceiling: int) -> bool:
    """Return whether one of these is the keeper of a Holdfast beside the one with this ceiling."""
    for process in keepers:
        limits = read(process.pid)
        if limits is not None and _is_other_keeper(process, limits[1], ceiling):
            return _is_keeper_program(process.pid)
    return False


def _is_keeper_program(pid: int) -> bool:
    """Return whether a process was started as a keeper. It can change its arguments, but not its
    limit."""
    words = kernel_files.read(f"/proc/{pid}/cmdline") or b""
    return b"holdfast" in words and b"keeper" in words


def _is_other_keeper(process: Process, hard: int, ceiling: int) -> bool:
    """Return whether this is the keeper of a Holdfast beside ours. Processes that our keeper
    started began after the start time in their limit. A Holdfast among them has a lower level."""
    is_beside = hard != ceiling and hard >> _LEVEL_SHIFT == ceiling >> _LEVEL_SHIFT
    is_keeper = hard & ((1 << _LEVEL_SHIFT) - 1) == _origin(process.pid, process.start_time)
    return is_beside and is_keeper
