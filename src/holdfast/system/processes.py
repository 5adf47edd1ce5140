"""What the operating system tells about processes, and the signals sent to them.

Owns procfs, pidfds, limits and the subreaper bit; every fact about a process is tied to
its start time, so a recycled pid is never taken for the old one. Creates no process,
knows no run, and never raises for a process that has vanished.
"""

from __future__ import annotations

import fcntl
import os
import resource
import struct
import sys
import time

from holdfast.system.kernel_files import names_in, read, write

if sys.platform == "darwin":
    from holdfast.system import darwin

COOKIE = b"HOLDFAST_RUN_ID="

_PR_SET_CHILD_SUBREAPER = 36
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO_SIZE = 64
_EXIT_CODE_OFFSET = 60
_EXIT_CODE_FIELD = 49
_SIGNAL_PROCESS_GROUP = 1 << 2
_KEEPER_OOM_SCORE = -900
ROUGH_SECONDS = 0.005

_subreaper = [False]
_has_children_files: list[bool] = []
_everybody: tuple[float, list[Process]] = (0.0, [])


class Process:
    """One process as it was at one moment."""

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
        # A leader that left its other threads behind looks like a zombie but still runs.
        return self.state not in "ZX" or self.threads > 1

    def __repr__(self) -> str:
        return f"Process({self.pid}, {self.name!r}, {self.state}, ppid={self.ppid})"


def boot_id() -> str:
    if sys.platform == "darwin":
        return darwin.boot_id()
    return (read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()


def facts() -> dict[str, bool | int]:
    """What this machine offers, for `hello` and `doctor`."""
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


def raise_nofile() -> tuple[int, int]:
    """Raise the soft limit of descriptors to the hard one; the original limits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard
    if sys.platform == "darwin":
        # The hard limit says «infinite» to everybody and is refused; what was granted is kept.
        wanted = max(soft, min(hard, darwin.OPEN_MAX))
    if soft != wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft, hard
    return soft, hard


def lower_oom() -> int | None:
    """Make the keeper a late victim of the OOM killer; the original score if that worked."""
    original = read("/proc/self/oom_score_adj")
    if original is None or int(original) <= _KEEPER_OOM_SCORE:
        return None
    if not write("/proc/self/oom_score_adj", b"%d" % _KEEPER_OOM_SCORE):
        return None
    return int(original)


def set_subreaper() -> bool:
    """Let orphaned descendants come to this process instead of init."""
    if sys.platform != "linux":
        return False
    import ctypes

    _subreaper[0] = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return _subreaper[0]


def give_memory_back() -> None:
    """Free pages amidst our memory, of which much work at once leaves many, to the system."""
    if sys.platform == "linux":
        import ctypes

        # Only glibc keeps them, and knows this.
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)


def is_subreaper() -> bool:
    return _subreaper[0]


def pidfd_open(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except (OSError, ValueError, OverflowError):
        return None


def pidfd_exit_status(fd: int) -> int | None:
    """The wait status of a reaped process that need not be our child, if the kernel tells."""
    answer = _pidfd_info(fd)
    if answer is None or not struct.unpack_from("<Q", answer)[0] & _PIDFD_INFO_EXIT:
        return None
    status: int = struct.unpack_from("<i", answer, _EXIT_CODE_OFFSET)[0]
    return status


def zombie_exit_status(pid: int, start_time: str) -> int | None:
    """The wait status of a process that has ended and that its parent has not reaped; None if it
    is gone or another one by now, or if the kernel keeps it from us."""
    if sys.platform != "linux":
        return None
    data = read(f"/proc/{pid}/stat")
    found = _parse_stat(data) if data else None
    if data is None or found is None or found.is_alive or found.start_time != start_time:
        return None
    # Field 52; the name, field 2, may hold spaces and parentheses.
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) <= _EXIT_CODE_FIELD:
        return None
    status = int(fields[_EXIT_CODE_FIELD])
    return status if status or _may_inspect(pid) else None


def _may_inspect(pid: int) -> bool:
    """Whether the kernel tells us what it keeps from strangers, who are shown zeros. It asks for
    the same right before it shows this link, which zombies have, too."""
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


def _has_exit_info(fd: int) -> bool:
    major, minor = [*os.uname().release.split("."), "0"][:2]
    release = (int(major), int("".join(c for c in minor if c.isdigit()) or "0"))
    return release >= (6, 15) and _pidfd_info(fd) is not None


def send_signal(pid: int, start_time: str, number: int, pidfd: int | None = None) -> bool:
    """Signal exactly the process of that pid and start time; False if it is not there."""
    if pid <= 0:
        return False
    if pidfd is not None:
        return _pidfd_signal(pidfd, number)
    fd = pidfd_open(pid)
    try:
        # Verified after opening: from here on the descriptor names that very process.
        if _identity_of(pid) != start_time:
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
    """Whether this child of ours has ended, reaped or not, without reaping it."""
    if sys.platform == "darwin":
        return _identity_of(pid) is None
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _pidfd_signal(fd: int, number: int, flags: int = 0) -> bool:
    if sys.platform != "linux":
        return False
    import signal

    try:
        signal.pidfd_send_signal(fd, number, None, flags)
        return True
    except OSError:
        return False


def _identity_of(pid: int) -> str | None:
    found = process(pid)
    return found.start_time if found is not None and found.is_alive else None


def is_alive(seen: Process) -> bool:
    """Whether that very process is there still."""
    return _identity_of(seen.pid) == seen.start_time


def start_time(pid: int) -> str | None:
    """An opaque token that differs between two processes of the same pid in one boot."""
    if sys.platform == "darwin":
        found = process(pid)
        return found.start_time if found is not None else None
    data = read(f"/proc/{pid}/stat")
    return data[data.rfind(b")") + 2 :].split(None, 20)[19].decode() if data else None


def ticks_now() -> int | None:
    """The current time in the unit of start times, where they can be compared."""
    if sys.platform != "linux":
        return None
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def age_of(start_time: str) -> float:
    """Seconds since the start time of a process; 0 where there is none to compare with."""
    if not start_time:
        return 0.0
    if sys.platform == "darwin":
        return max(0.0, time.time() - float(start_time))
    now = ticks_now()
    return 0.0 if now is None else max(0.0, (now - int(start_time)) / os.sysconf("SC_CLK_TCK"))


def process(pid: int) -> Process | None:
    if sys.platform == "darwin":
        return _of_darwin(darwin.process(pid))
    data = read(f"/proc/{pid}/stat")
    return _parse_stat(data) if data else None


def _parse_stat(data: bytes) -> Process | None:
    # The name may itself hold spaces and parentheses: it ends at the last one.
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split(None, 20)
    if opening < 0 or len(fields) < 20:
        return None
    return Process(
        int(data[:opening]),
        int(fields[1]),
        data[opening + 1 : closing].decode("utf-8", "replace"),
        fields[0].decode(),
        fields[19].decode(),
        int(fields[3]),
        int(fields[2]),
        int(fields[17]),
    )


def all_processes(is_rough: bool = False) -> list[Process]:
    """Every process that can be seen, in one pass; slow: only where nothing else works. Rough:
    as they were a few milliseconds ago, for who asks a hundred times in a row."""
    global _everybody
    if not is_rough or time.monotonic() > _everybody[0]:
        found = _list_processes()
        _everybody = (time.monotonic() + ROUGH_SECONDS, found)
    return _everybody[1]


def _list_processes() -> list[Process]:
    if sys.platform == "darwin":
        return [Process(*found) for found in darwin.processes()]
    pids = [int(name) for name in names_in("/proc") if name.isdigit()]
    return [found for pid in pids if (found := process(pid)) is not None]


def children(pid: int, threads: int = 0) -> list[int]:
    """Direct children, of whichever thread; zombies included. Cheaper of who is known to have
    one thread."""
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
    """Direct children of this single-threaded process, cheaply."""
    return children(os.getpid(), 1)


def _can_read_children() -> bool:
    if not _has_children_files:
        _has_children_files.append(os.path.exists("/proc/thread-self/children"))
    return _has_children_files[0]


def run_id_of(pid: int, patience_seconds: float = 0.001) -> str | None:
    """The run a process was started for, as its initial environment says."""
    return find_run_id(pid, patience_seconds)[0]


def find_run_id(pid: int, patience_seconds: float) -> tuple[str | None, bool]:
    """The same, and whether that is its last word: who shows no environment at all may be in the
    middle of an exec."""
    environment = _environment(pid, patience_seconds)
    for item in (environment or b"").split(b"\0"):
        if item.startswith(COOKIE):
            return item[len(COOKIE) :].decode("utf-8", "replace"), True
    return None, environment != b""


def marks_of(pid: int, patience_seconds: float = 0.001) -> dict[str, str]:
    """Whatever Holdfast put into the initial environment of a process."""
    marks = {}
    for item in (_environment(pid, patience_seconds) or b"").split(b"\0"):
        if item.startswith(b"HOLDFAST_"):
            name, _, value = item.decode("utf-8", "replace").partition("=")
            marks[name] = value
    return marks


def is_environment_whole(pid: int) -> bool:
    """Whether the initial environment of a process can be read and nothing was written over it."""
    items = [it for it in (_environment(pid, 0.001) or b"").split(b"\0") if it]
    return bool(items) and all(b"=" in item for item in items)


def hides_marks(pid: int) -> bool:
    """Whether the system keeps the environment of this process to itself, as macOS does with
    its own programs."""
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


if sys.platform == "darwin":

    def _of_darwin(found: darwin.Found | None) -> Process | None:
        return None if found is None else Process(*found)
