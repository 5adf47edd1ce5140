"""What the operating system tells about processes and peers. Reads only.

psutil is imported by `preload`, in the background: nothing here needs it at start.
"""

from __future__ import annotations

import os
import socket
import sys
import time

import msgspec

from holdfast.secrets.redaction import redact_arguments
from holdfast.system import process_identity
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.services import ProcessInfo

if sys.platform == "darwin":
    from holdfast.system import darwin

LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Where some Pythons find their own library."""
_ROOMY_TABLE = 4096
_OOM_SCORE = -900
_PF_KTHREAD = 0x00200000


class Process(msgspec.Struct, frozen=True):
    """A process as it was at one moment; pid and start time together are its identity."""

    pid: int
    start_time: str
    ppid: int


class Peer(msgspec.Struct, frozen=True):
    """Who is at the other end of a Unix socket; without a process if that is gone or hidden."""

    uid: int
    process: Process | None


def preload() -> None:
    """Import what is needed later, so that it cannot come from newer files."""
    import psutil  # noqa: F401

    from holdfast.adapters.probes import http, log, tcp  # noqa: F401


def peer_of(sock: socket.socket) -> Peer:
    """Who connected, as the kernel says."""
    uid, pid = process_identity.credentials(sock)
    found = process(pid) if pid > 0 else None
    return Peer(uid, None if process_identity.has_left(sock) else found)


def process(pid: int) -> Process | None:
    """A live process as it is now."""
    if sys.platform == "darwin":
        # As the keeper tells them: psutil writes the same start time in another way.
        found = darwin.process(pid)
        if found is None or found[3] == "Z":
            return None
        return Process(pid, found[4], found[1])
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # A leader that left its other threads behind looks like a zombie but still runs.
        if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:
            return None
        return Process(pid, fields[19].decode(), int(fields[1]))
    except (OSError, ValueError, IndexError):
        return None


def run_id_of(pid: int) -> str | None:
    """The run that this process says it belongs to."""
    for entry in (_environment(pid) or b"").split(b"\0"):
        if entry.startswith(b"HOLDFAST_RUN_ID="):
            return entry.partition(b"=")[2].decode(errors="replace")
    return None


def _environment(pid: int) -> bytes | None:
    if sys.platform == "darwin":
        return darwin.environment(pid)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return None


def describe(found: list[dict[str, object]]) -> list[ProcessInfo]:
    """The keeper's list of a tree with what psutil adds; call it in a thread."""
    import psutil

    described = []
    for fact in found:
        pid = int(str(fact["pid"]))
        name = str(fact.get("name") or "")
        info = ProcessInfo(
            pid=pid,
            ppid=int(str(fact.get("ppid") or 0)),
            name=name,
            command=name,
            state=str(fact.get("state") or ""),
        )
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                info = ProcessInfo(
                    pid=pid,
                    ppid=info.ppid,
                    name=name or process.name(),
                    command=" ".join(redact_arguments(process.cmdline())) or name,
                    state=info.state or process.status(),
                    memory_bytes=process.memory_info().rss,
                    cpu_seconds=round(times.user + times.system, 3),
                    started_at=_started_at(pid) or process.create_time(),
                )
        except psutil.Error:
            pass
        described.append(info)
    return described


def _started_at(pid: int) -> float | None:
    """When it began. psutil counts from a boot that Linux tells in whole seconds only."""
    found = process(pid)
    if found is None or sys.platform != "linux":
        return None
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round(booted + int(found.start_time) / os.sysconf("SC_CLK_TCK"), 2)


class Found(msgspec.Struct, frozen=True):
    """A process that the user wants to hand over to us."""

    pid: int
    argv: tuple[str, ...]
    working_dir: str


def find(pid: int | None, pidfile: str | None, port: int | None) -> Found:
    """The process that is meant; call it in a thread."""
    import psutil

    if pid is None and pidfile is not None:
        try:
            with open(pidfile, encoding="ascii") as file:
                pid = int(file.read().split()[0])
        except (OSError, ValueError, IndexError) as error:
            why = error.strerror if isinstance(error, OSError) else "it begins with no number"
            raise Failed(f"{pidfile} names no process: {why}", "name a pid instead") from None
    if pid is None and port is not None:
        pid = _listener(port)
        if pid is None:
            message = f"no process of yours listens on port {port}"
            raise Failed(message, "`ss -ltnp` shows who does")
    if pid is None:
        raise Failed("no process was named", "give a pid, a pid file or a port")
    is_kernel = _is_of_kernel(pid)
    if is_kernel or pid in (1, os.getpid(), os.getppid()):
        whose = "the init process of this machine" if pid == 1 else "part of this Holdfast"
        whose = "a thread of the kernel, which nobody can stop" if is_kernel else whose
        raise Failed(
            f"process {pid} cannot be adopted: it is {whose}",
            "name the process of your service; `ps -e` lists what runs",
        )
    try:
        process = psutil.Process(pid)
        return Found(pid, tuple(process.cmdline()), _folder(process))
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        raise Failed(f"there is no process {pid}", "`ps` lists what runs") from None
    except psutil.AccessDenied:
        raise Failed(f"process {pid} belongs to somebody else", "run it as your user") from None


def _is_of_kernel(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return bool(int(file.read().rpartition(b")")[2].split()[6]) & _PF_KTHREAD)
    except (OSError, ValueError, IndexError):
        return False


def _folder(process: object) -> str:
    import psutil

    try:
        return str(process.cwd())  # type: ignore[attr-defined]
    except psutil.Error:
        return "/"


def holder_of_port(port: int) -> str | None:
    """Who listens on a port, as command and pid; None if that cannot be told. Slow."""
    from holdfast.adapters.ports.holders import command_of

    pid = _listener(port)
    command = "" if pid is None else command_of(pid)
    return f"{command} (pid {pid})" if command else None


def listener(port: int) -> tuple[int, str] | None:
    """Pid and name of who listens on a port; None if that cannot be told. Slow."""
    import psutil

    pid = _listener(port)
    try:
        return None if pid is None else (pid, psutil.Process(pid).name())
    except psutil.Error:
        return None


def _listener(port: int) -> int | None:
    from holdfast.adapters.ports.holders import sockets

    return next((pid for number, _, pid in sockets() if number == port and pid is not None), None)


def parent_is_gone(pid: int, seconds: float) -> bool:
    """Whether our parent has died. Its end of a socket closes a moment before that shows."""
    deadline = time.monotonic() + seconds
    while os.getppid() == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def raise_descriptor_limit() -> None:
    """Spare descriptors of every service are ours too: take what the hard limit allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            pass


def widen_descriptor_table() -> None:
    """Let the kernel make room for many descriptors while this process has one thread: later
    each doubling of the table would halt it for milliseconds."""
    import fcntl
    import resource

    wanted = min(_ROOMY_TABLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0]) - 1
    try:
        os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, wanted))
    except OSError:
        return  # it grows when it has to


def lower_oom_score() -> None:
    """The supervisor should not be the first to go when memory is short."""
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            if int(file.read()) > _OOM_SCORE:
                file.write(str(_OOM_SCORE))
    except OSError:
        pass
