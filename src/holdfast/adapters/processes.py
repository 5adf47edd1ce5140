"""Processes as psutil describes them, for answers to users: command, memory, ports.

Identity, family and signals are not its matter (`system.processes`). psutil is imported by
`preload`, in the background, because nothing at the start needs it. All else here is slow: call it
in a thread.
"""

from __future__ import annotations

import os
import sys
import time

import msgspec

from holdfast.secrets.redaction import redact_arguments
from holdfast.system import processes
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.services import ProcessInfo


def preload() -> None:
    """Import what is needed later, so that it cannot come from newer files."""
    import psutil  # noqa: F401

    from holdfast.adapters.probes import http, log, tcp  # noqa: F401


def describe(found: list[dict[str, object]]) -> list[ProcessInfo]:
    """Describe the processes of a tree that the keeper listed."""
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
    """Return when a process began. psutil counts from a boot time in whole seconds."""
    found = processes.live_process(pid)
    if found is None or sys.platform != "linux":
        return None
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round(booted + int(found.start_time) / os.sysconf("SC_CLK_TCK"), 2)


class AdoptableProcess(msgspec.Struct, frozen=True):
    """A process that a user wants to hand over to us."""

    pid: int
    argv: tuple[str, ...]
    working_dir: str


def find(pid: int | None, pidfile: str | None, port: int | None) -> AdoptableProcess:
    """Find the process that a user names by pid, pid file or port; raises Failed."""
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
    is_kernel = processes.is_kernel_thread(pid)
    if is_kernel or pid in (1, os.getpid(), os.getppid()):
        whose = "the init process of this machine" if pid == 1 else "part of this Holdfast"
        whose = "a thread of the kernel, which nobody can stop" if is_kernel else whose
        raise Failed(
            f"process {pid} cannot be adopted: it is {whose}",
            "name the process of your service; `ps -e` lists what runs",
        )
    try:
        process = psutil.Process(pid)
        return AdoptableProcess(pid, tuple(process.cmdline()), _folder(process))
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        raise Failed(f"there is no process {pid}", "`ps` lists what runs") from None
    except psutil.AccessDenied:
        raise Failed(f"process {pid} belongs to somebody else", "run it as your user") from None


def _folder(process: object) -> str:
    import psutil

    try:
        return str(process.cwd())  # type: ignore[attr-defined]
    except psutil.Error:
        return "/"


def holder_of_port(port: int) -> str | None:
    """Return command and pid of the listener on a port, as a text; None if it is unknown."""
    from holdfast.adapters.ports.holders import command_of

    pid = _listener(port)
    command = "" if pid is None else command_of(pid)
    return f"{command} (pid {pid})" if command else None


def listener(port: int) -> tuple[int, str] | None:
    """Return pid and name of the listener on a port; None if it is unknown."""
    import psutil

    pid = _listener(port)
    try:
        return None if pid is None else (pid, psutil.Process(pid).name())
    except psutil.Error:
        return None


def _listener(port: int) -> int | None:
    from holdfast.adapters.ports.holders import sockets

    return next((pid for number, _, pid in sockets() if number == port and pid is not None), None)
