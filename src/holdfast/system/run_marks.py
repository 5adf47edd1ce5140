"""Two numbers in a kernel limit that tell whose process a process is.

Linux limits the processor time of real-time tasks (`RLIMIT_RTTIME`, in microseconds). The limit
has no effect on other tasks, is unlimited unless somebody sets it, and survives everything that a
process can do to leave its family: fork, exec, a new session, an empty environment. Everybody can
read it in `/proc/PID/limits`. So the keeper writes two numbers there, each of them far beyond the
age of any machine:

- The soft limit of a run's processes is the run's *mark*, a hash of its run id. It tells which run
  an orphan came from. A process can change it, but only on purpose.
- The hard limit of the keeper and of all that it starts is the keeper's *ceiling*. Only a process
  with CAP_SYS_RESOURCE can raise it again, so that a process above the ceiling was not started by
  this keeper, and one at or below it is not known to be a person.

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

from holdfast.system import process_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from holdfast.system.process_identity import One, Seen

RLIMIT = 15
"""RLIMIT_RTTIME, which Python names on Linux only."""
UNLIMITED = 1 << 64
_LEVEL_SHIFT, _TICKS_SHIFT = 56, 22
_TOP_LEVEL, _LOWEST_LEVEL = 63, 1
_TICKS_MASK, _PID_MASK = (1 << 34) - 1, (1 << 22) - 1
_FIRST_MARK, _END_OF_MARKS = 1 << 55, 1 << 56
_LINE = b"Max realtime timeout"


def mark_of(run_id: str) -> int:
    """The soft limit of every process of a run."""
    text = run_id.encode()
    return _FIRST_MARK | crc32(text) << 23 | crc32(text[::-1]) >> 9


def is_mark(soft: int) -> bool:
    return _FIRST_MARK <= soft < _END_OF_MARKS


def read(pid: int) -> tuple[int, int] | None:
    """Soft and hard limit of a process; None where that cannot be read."""
    if sys.platform != "linux":
        return None
    try:
        fd = os.open(f"/proc/{pid}/limits", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _parse(os.read(fd, 8192))
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)


def _parse(data: bytes) -> tuple[int, int] | None:
    at = data.rfind(_LINE)
    if at < 0:
        return None
    soft, hard = data[at + len(_LINE) :].split(None, 2)[:2]
    return _number(soft), _number(hard)


def _number(text: bytes) -> int:
    return UNLIMITED if text == b"unlimited" else int(text)


def own() -> tuple[int, int] | None:
    """Soft and hard limit of this process as `setrlimit` takes them."""
    return resource.getrlimit(RLIMIT) if sys.platform == "linux" else None


def can_mark() -> bool:
    """Whether the hard limit of this process leaves room for the marks of runs."""
    limits = read(os.getpid())
    return limits is not None and limits[1] >= _END_OF_MARKS


def marks_all() -> bool:
    """Whether this process is a keeper with a ceiling: all that it ever started has a mark."""
    limits = read(os.getpid())
    return limits is not None and _END_OF_MARKS <= limits[1] < UNLIMITED


def is_above_own(pid: int) -> bool:
    """Whether a process has a higher hard limit than this one: it cannot have come from a keeper
    that was limited like this one."""
    own, its = read(os.getpid()), read(pid)
    return own is not None and its is not None and its[1] > own[1]


def lower_ceiling(start_time: str | None) -> int | None:
    """Lower the hard limit of this process, which began at that time, for good. The ceiling, or
    None where the system does not let us have one."""
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
    """The ceilings that a keeper wrote into its note; anything else there is damage. A limit that
    many processes have must not be taken for one: all that has a ceiling of ours is ended."""
    told = note.get("ceilings")
    return [it for it in told if _is_ceiling(it)] if isinstance(told, list) else []


def _is_ceiling(value: object) -> bool:
    if not isinstance(value, int):
        return False
    level, origin = divmod(value, 1 << _LEVEL_SHIFT)
    return _LOWEST_LEVEL <= level <= _TOP_LEVEL and origin > 0


def impose(pid: int, mark: int) -> None:
    """Give a process that others started a run's mark and the ceiling of this process; its children
    inherit both. Leaves it alone where it has a lower ceiling, or belongs to another user."""
    if sys.platform != "linux":
        return
    limits, own_limits = read(pid), read(os.getpid())
    if limits is None or own_limits is None or not own_limits[1] < limits[1]:
        return
    soft = mark if limits[0] == UNLIMITED else min(limits[0], own_limits[1])
    try:
        resource.prlimit(pid, RLIMIT, (soft, own_limits[1]))
    except OSError:
        return  # it ended, or we may not: it is known by its parents, as before


def has_ceiling(ceiling: int) -> bool:
    """Whether this is the hard limit of this process: a kernel of 32 bits keeps a smaller one."""
    limits = read(os.getpid())
    return limits is not None and limits[1] == ceiling


def is_beneath(ceiling: int) -> bool:
    """Whether this process is bound by a ceiling, so that all that it starts is, too. Every process
    of this user can lower the hard limit further."""
    limits = read(os.getpid())
    return limits is not None and limits[1] <= ceiling


def _origin(pid: int, start_time: str) -> int:
    return (int(start_time) & _TICKS_MASK) << _TICKS_SHIFT | pid & _PID_MASK


def is_outside(
    line: Sequence[One], ceilings: Collection[int], look: Callable[[int], One | None]
) -> bool | None:
    """Whether a process, given with its ancestors, was surely started by none of the keepers with
    these ceilings. None where its limits cannot be read. `look` sees a process."""
    if not ceilings:
        return True  # nothing is known that would speak against it
    limits = read(line[0].pid) if line else None
    if limits is None:
        return None
    binding = [ceiling for ceiling in ceilings if limits[1] <= ceiling]
    if not binding:
        return True
    keepers = _possible_keepers(line, look)
    return all(_is_beside(keepers, ceiling) for ceiling in binding)


def _possible_keepers(line: Sequence[One], look: Callable[[int], One | None]) -> Sequence[One]:
    """Those of a line that may be the keeper of a Holdfast beside ours. An ancestor of this process
    is not: a Holdfast below a keeper has a lower level. Orphans of a killed keeper become children
    of such an ancestor, and its limit may have been lowered by them to look like a keeper's."""
    itself = look(os.getpid())
    ours = (
        {it.pid for it in process_identity.lineage(itself, look)} if itself is not None else set()
    )
    return [it for it in line if it.pid not in ours] if ours else []


def _is_beside(keepers: Sequence[Seen], ceiling: int) -> bool:
    """Whether one of these is the keeper of a Holdfast beside the one with this ceiling."""
    for process in keepers:
        limits = read(process.pid)
        if limits is not None and _is_other_keeper(process, limits[1], ceiling):
            return _is_keeper_program(process.pid)
    return False


def _is_keeper_program(pid: int) -> bool:
    """Whether a process was started as a keeper. Its arguments are its own to change, its limit is
    not."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
    except OSError:
        return False
    return b"holdfast" in words and b"keeper" in words


def _is_other_keeper(process: Seen, hard: int, ceiling: int) -> bool:
    """Whether this is the keeper of a Holdfast beside ours. What our keeper started has its start
    time, or an earlier one, in its limit and began later; a Holdfast in it has a lower level."""
    is_beside = hard != ceiling and hard >> _LEVEL_SHIFT == ceiling >> _LEVEL_SHIFT
    is_keeper = hard & ((1 << _LEVEL_SHIFT) - 1) == _origin(process.pid, process.start_time)
    return is_beside and is_keeper
