"""Facts about processes, and signals to exactly one of them.

The one place that parses `/proc/PID/stat`. Every fact is tied to the start time of the process:
pid, start time and boot are its identity, and a pid that was used again is never taken for the old
process. Creates no process, knows no run, and never raises for a process that has vanished.
Standard library only, and nothing heavy: the keeper and the command line load it at start.

When is a process alive? A process whose main thread has ended before its other threads is shown as
a zombie, but it still runs, holds its descriptors and cannot be reaped. So a process has ended only
if it is shown as a zombie and has no other thread.
"""

from __future__ import annotations

import fcntl
import os
import resource
import struct
import sys
import time

from holdfast.system.kernel_files import names_in, read
from holdfast.system.own_process import is_subreaper

if sys.platform == "darwin":
    from holdfast.system import darwin

RUN_ID_VARIABLE = b"HOLDFAST_RUN_ID="
ROUGH_SECONDS = 0.005

# Fields of /proc/PID/stat behind the name, counted from the state.
STATE, PPID, PGID, SESSION, FLAGS = 0, 1, 2, 3, 6
USER_TICKS, SYSTEM_TICKS, CHILDREN_USER_TICKS, CHILDREN_SYSTEM_TICKS = 11, 12, 13, 14
THREADS, START_TIME, RESIDENT_PAGES, EXIT_CODE = 17, 19, 21, 49

_PF_KTHREAD = 0x00200000
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO_SIZE = 64
_EXIT_CODE_OFFSET = 60
_SIGNAL_PROCESS_GROUP = 1 << 2
_MOST_STEPS = 1000

_has_children_files: list[bool] = []
_everybody: tuple[float, list[Process]] = (0.0, [])


class Process:
    """One process as it was at one moment. `threads` counts those that run: none, if it has ended
    and its parent has not reaped it."""

    __slots__ = ("name", "pgid", "pid", "ppid", "session", "start_time", "state", "threads")

    def __init__(
        self,
        pid: int,
        ppid: int,
        name: str,
        state: str,
        start_time: str,
        session: int,
        pgid: int,
        threads: int = 1,
    ) -> None:
        self.pid = pid
        self.ppid = ppid
        self.name = name
        self.state = state
        self.start_time = start_time
        self.session = session
        self.pgid = pgid
        self.threads = threads

    @property
    def identity(self) -> tuple[int, str]:
        return (self.pid, self.start_time)

    @property
    def is_alive(self) -> bool:
        return self.threads > 0

    def __repr__(self) -> str:
        return f"Process({self.pid}, {self.name!r}, {self.state}, ppid={self.ppid})"


# One process


def process(pid: int) -> Process | None:
    """Return a process as it is now, also one that has ended and was not reaped."""
    if sys.platform == "darwin":
        found = darwin.process(pid)
        return None if found is None else _of_darwin(found)
    data = read(f"/proc/{pid}/stat")
    return _parse(data) if data else None


def live_process(pid: int) -> Process | None:
    """Return a process as it is now, None if it has ended."""
    found = process(pid)
    return found if found is not None and found.is_alive else None


def stat_fields(data: bytes, most: int = -1) -> list[bytes]:
    """Return the fields of a `stat` file behind the name. The name may contain spaces and
    parentheses; it ends at the last one."""
    return data[data.rfind(b")") + 2 :].split(None, most)


def live_threads(fields: list[bytes]) -> int:
    """Return how many threads of a process run; 0 if it has ended. See the top of this module."""
    threads = int(fields[THREADS])
    return 0 if threads <= 1 and fields[STATE] in (b"Z", b"X") else threads


def _parse(data: bytes) -> Process | None:
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = stat_fields(data, START_TIME + 1)
    if opening < 0 or len(fields) <= START_TIME:
        return None
    return Process(
        int(data[:opening]),
        int(fields[PPID]),
        data[opening + 1 : closing].decode("utf-8", "replace"),
        fields[STATE].decode(),
        fields[START_TIME].decode(),
        int(fields[SESSION]),
        int(fields[PGID]),
        live_threads(fields),
    )


if sys.platform == "darwin":

    def _of_darwin(found: darwin.Facts) -> Process:
        return Process(*found, threads=0 if found[3] == "Z" else 1)


def start_time(pid: int) -> str | None:
    """Return an opaque text that differs between two processes of the same pid in one boot."""
    if sys.platform == "darwin":
        found = process(pid)
        return found.start_time if found is not None else None
    data = read(f"/proc/{pid}/stat")
    return stat_fields(data, START_TIME + 1)[START_TIME].decode() if data else None


def is_alive(seen: Process) -> bool:
    """Return whether that very process still runs."""
    return _live_start_time(seen.pid) == seen.start_time


def _live_start_time(pid: int) -> str | None:
    found = live_process(pid)
    return found.start_time if found is not None else None


def is_kernel_thread(pid: int) -> bool:
    """Return whether this is a thread of the kernel, which no signal ends."""
    fields = stat_fields(read(f"/proc/{pid}/stat") or b"") if sys.platform == "linux" else []
    return len(fields) > FLAGS and bool(int(fields[FLAGS]) & _PF_KTHREAD)


def user_of(pid: int) -> int | None:
    """Return the user of a process."""
    if sys.platform == "darwin":
        return darwin.user_of(pid)
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


# Time


def boot_id() -> str:
    """Return an identity of the current boot of the machine."""
    if sys.platform == "darwin":
        return darwin.boot_id()
    return (read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()


def ticks_now() -> int | None:
    """Return the current time in the unit of start times, where they can be compared."""
    if sys.platform != "linux":
        return None
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def age_of(start_time: str) -> float:
    """Return the seconds since a start time; 0 where it cannot be compared."""
    if not start_time:
        return 0.0
    if sys.platform == "darwin":
        return max(0.0, time.time() - float(start_time))
    now = ticks_now()
    return 0.0 if now is None else max(0.0, (now - int(start_time)) / os.sysconf("SC_CLK_TCK"))


# Families


def all_processes(is_rough: bool = False) -> list[Process]:
    """Return every process that can be seen, in one pass. Slow: only where nothing else works. If
    `is_rough`, the list may be milliseconds old, for callers that ask a hundred times in a row."""
    global _everybody
    if not is_rough or time.monotonic() > _everybody[0]:
        found = _list_processes()
        _everybody = (time.monotonic() + ROUGH_SECONDS, found)
    return _everybody[1]


def _list_processes() -> list[Process]:
    if sys.platform == "darwin":
        return [_of_darwin(found) for found in darwin.processes()]
    pids = [int(name) for name in names_in("/proc") if name.isdigit()]
    return [found for pid in pids if (found := process(pid)) is not None]


def children(pid: int, threads: int = 0) -> list[int]:
    """Return the direct children of all threads of a process, zombies included. Faster for a
    process that is known to have one thread."""
    if sys.platform != "linux" or not _can_read_children():
        return [found.pid for found in all_processes() if found.ppid == pid]
    try:
        names = [str(pid)] if threads == 1 else names_in(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in names:
        if data := read(f"/proc/{pid}/task/{thread}/children"):
            found.extend(map(int, data.split()))
    return found


def own_children() -> list[int]:
    """Return the direct children of this process, which must have one thread."""
    return children(os.getpid(), 1)


def _can_read_children() -> bool:
    if not _has_children_files:
        _has_children_files.append(os.path.exists("/proc/thread-self/children"))
    return _has_children_files[0]


def lineage(first: Process) -> list[Process]:
    """Return the process and its ancestors, nearest first; empty if they change too fast."""
    line = [first]
    for _ in range(_MOST_STEPS):
        last = line[-1]
        if last.ppid <= 0:
            return line
        parent, again = live_process(last.ppid), live_process(last.pid)
        if again is None or again.start_time != last.start_time:
            line.pop()
            if not line:
                return []
        elif again.ppid != last.ppid:
            line[-1] = again
        elif parent is None:
            # It exists, since it is still the parent. It is hidden: another user's.
            return line
        else:
            line.append(parent)
    return []


def is_in_cgroup(pid: int, root: str) -> bool:
    """Return whether a process is in a cgroup beneath this one; True if that cannot be known."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            return is_below(root, file.read())
    except OSError:
        return True


def is_below(root: str, membership: bytes) -> bool:
    """The same for a process with this content of /proc/PID/cgroup."""
    name = os.fsencode(os.path.basename(root))
    return any(
        line.startswith(b"0::") and name in line[3:].split(b"/") for line in membership.splitlines()
    )


# What Holdfast put into the environment of its processes


def run_id_of(pid: int, patience_seconds: float = 0.001) -> str | None:
    """Return the run that a process was started for, as its initial environment says."""
    return find_run_id(pid, patience_seconds)[0]


def find_run_id(pid: int, patience_seconds: float) -> tuple[str | None, bool]:
    """Return the run of a process, and whether that is final. A process without any environment
    may be in the middle of an exec."""
    environment = _environment(pid, patience_seconds)
    for item in (environment or b"").split(b"\0"):
        if item.startswith(RUN_ID_VARIABLE):
            return item[len(RUN_ID_VARIABLE) :].decode("utf-8", "replace"), True
    return None, environment != b""


def marks_of(pid: int, patience_seconds: float = 0.001) -> dict[str, str]:
    """Return the variables that Holdfast put into the initial environment of a process."""
    marks = {}
    for item in (_environment(pid, patience_seconds) or b"").split(b"\0"):
        if item.startswith(b"HOLDFAST_"):
            name, _, value = item.decode("utf-8", "replace").partition("=")
            marks[name] = value
    return marks


def is_environment_whole(pid: int) -> bool:
    """Return whether the initial environment of a process can be read and was not overwritten."""
    items = [item for item in (_environment(pid, 0.001) or b"").split(b"\0") if item]
    return bool(items) and all(b"=" in item for item in items)


def hides_marks(pid: int) -> bool:
    """Return whether the system hides the environment of this process, as macOS does with its own
    programs."""
    return sys.platform == "darwin" and b"=" not in (darwin.environment(pid) or b"")


def _environment(pid: int, patience_seconds: float) -> bytes | None:
    if sys.platform == "darwin":
        return darwin.environment(pid)
    until = time.monotonic() + patience_seconds
    while True:
        # In the middle of an exec both are empty, in this order.
        command = read(f"/proc/{pid}/cmdline")
        environment = read(f"/proc/{pid}/environ")
        if environment or command != b"" or time.monotonic() >= until:
            return environment
        os.sched_yield()


def belongs_to_run(sender: tuple[int, int], main: tuple[int, str], run_id: str) -> bool:
    """Return whether a sender, given by pid and user, is a process of the run whose main process
    has this pid and start time. A sender that ended meanwhile is believed if its user is ours or
    the run's, because the address that it wrote to is a secret of the run."""
    pid, uid = sender
    if pid == main[0] > 0:
        return True
    found = live_process(pid) if pid > 0 else None
    if found is not None:
        if run_id_of(pid) == run_id:
            return True
        if any(ancestor.identity == main for ancestor in lineage(found)):
            return True
        # Asked last: if the process ended meanwhile, nothing above was read reliably.
        if not _is_ending(pid):
            return False
    return uid in (os.geteuid(), user_of(main[0]))


def _is_ending(pid: int) -> bool:
    """Return whether a process has ended or is about to, so that nothing can be read of it."""
    if sys.platform == "darwin":
        return live_process(pid) is None
    try:
        os.readlink(f"/proc/{pid}/exe")
    except PermissionError:
        return False
    except OSError:
        return True
    return False


# Signals and exits


def send_signal(pid: int, start_time: str, number: int, pidfd: int | None = None) -> bool:
    """Signal exactly the process with this pid and start time; return False if it is gone."""
    if pid <= 0:
        return False
    if pidfd is not None:
        return _pidfd_signal(pidfd, number)
    fd = pidfd_open(pid)
    try:
        # Verified after opening: from here on the descriptor names that very process.
        if _live_start_time(pid) != start_time:
            return False
        if fd is not None:
            return _pidfd_signal(fd, number)
        os.kill(pid, number)
        return True
    except OSError:
        return False
    finally:
        if fd is not None:
            os.close(fd)


def send_group_signals(pid: int, start_time: str, numbers: tuple[int, ...]) -> bool:
    """Send these signals, in order, to the process group that this very process leads."""
    if pid <= 1:
        return False
    fd = pidfd_open(pid)
    try:
        leader = process(pid)
        if leader is None or leader.start_time != start_time or leader.pgid != pid:
            return False
        for number in numbers:
            # Before Linux 6.9 by number, which is safe for a child until it is reaped.
            if fd is None or not _pidfd_signal(fd, number, _SIGNAL_PROCESS_GROUP):
                os.killpg(pid, number)
        return True
    except OSError:
        return False
    finally:
        if fd is not None:
            os.close(fd)


def has_exited(pid: int) -> bool:
    """Return whether this child of ours has ended, without reaping it."""
    if sys.platform == "darwin":
        return live_process(pid) is None
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def pidfd_open(pid: int) -> int | None:
    """Return a pidfd, or None where there is none."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except (OSError, ValueError, OverflowError):
        return None


def pidfd_exit_status(fd: int) -> int | None:
    """Return the wait status of a reaped process, child or not, if the kernel tells it."""
    answer = _pidfd_info(fd)
    if answer is None or not struct.unpack_from("<Q", answer)[0] & _PIDFD_INFO_EXIT:
        return None
    status: int = struct.unpack_from("<i", answer, _EXIT_CODE_OFFSET)[0]
    return status


def zombie_exit_status(pid: int, start_time: str) -> int | None:
    """Return the wait status of a process that has ended and that its parent has not reaped. None
    if it is gone or another process by now, or if the kernel hides it from us."""
    if sys.platform != "linux":
        return None
    data = read(f"/proc/{pid}/stat")
    found = _parse(data) if data else None
    if data is None or found is None or found.is_alive or found.start_time != start_time:
        return None
    fields = stat_fields(data)
    if len(fields) <= EXIT_CODE:
        return None
    status = int(fields[EXIT_CODE])
    return status if status or _may_inspect(pid) else None


def _may_inspect(pid: int) -> bool:
    """Return whether the kernel shows us true values, not the zeros that it shows to strangers. It
    requires the same right for this link, which zombies have, too."""
    try:
        os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return False
    return True


def _pidfd_info(fd: int) -> bytes | None:
    request = struct.pack("<Q", _PIDFD_INFO_EXIT).ljust(_PIDFD_INFO_SIZE, b"\0")
    try:
        return fcntl.ioctl(fd, _PIDFD_GET_INFO, request)
    except OSError:
        return None


def _pidfd_signal(fd: int, number: int, flags: int = 0) -> bool:
    if sys.platform != "linux":
        return False
    import signal

    try:
        signal.pidfd_send_signal(fd, number, None, flags)
        return True
    except OSError:
        return False


def terminal_size(pid: int) -> tuple[int, int] | None:
    """Return columns and rows of the terminal that is a process's standard input; None if it is
    none or the system does not tell."""
    import termios

    path = f"/proc/{pid}/fd/0"
    try:
        if not os.readlink(path).startswith("/dev/pts/"):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        rows, columns = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))[:2]
    except OSError:
        return None
    finally:
        os.close(fd)
    return (columns, rows) if columns and rows else None


# The machine


def facts() -> dict[str, bool | int]:
    """Return what this machine offers, for `hello` and `doctor`."""
    fd = pidfd_open(os.getpid())
    has_info = fd is not None and _has_exit_info(fd)
    if fd is not None:
        os.close(fd)
    return {
        "pidfd": fd is not None,
        "pidfd_info": has_info,
        "subreaper": is_subreaper(),
        "splice": hasattr(os, "splice"),
        "pipe_max": int(read("/proc/sys/fs/pipe-max-size") or b"65536"),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def _has_exit_info(fd: int) -> bool:
    major, minor = [*os.uname().release.split("."), "0"][:2]
    release = (int(major), int("".join(c for c in minor if c.isdigit()) or "0"))
    return release >= (6, 15) and _pidfd_info(fd) is not None
