"""What the operating system tells about processes and peers. Reads only.

psutil is imported by `preload`, in the background: nothing here needs it at start.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import NamedTuple

from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.results import ProcessInfo

_LOCAL_PEERCRED, _LOCAL_PEERPID, _SOL_LOCAL = 0x001, 0x002, 0
_MAX_DEPTH = 200


class Peer(NamedTuple):
    """The process at the other end of a Unix socket."""

    uid: int
    pid: int | None


def preload() -> None:
    """Import what is needed later, so that it cannot come from newer files."""
    import psutil  # noqa: F401


def peer_of(sock: socket.socket) -> Peer:
    """Who connected, as the kernel says."""
    if sys.platform == "darwin":
        # struct xucred: version, uid, group count, groups
        data = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        uid = struct.unpack_from("=II", data)[1]
        pid = struct.unpack("=i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
        return Peer(uid, pid or None)
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", data)
    return Peer(uid, pid or None)


def ancestors(pid: int) -> list[int]:
    """The process and its parents, nearest first."""
    chain: list[int] = []
    current: int | None = pid
    while current and current not in chain and len(chain) < _MAX_DEPTH:
        chain.append(current)
        current = _parent(current)
    return chain


def run_id_of(pid: int) -> str | None:
    """The run that this process says it belongs to."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(b"HOLDFAST_RUN_ID="):
                    return entry.partition(b"=")[2].decode(errors="replace")
    except OSError:
        return None
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
                    command=" ".join(process.cmdline()) or name,
                    state=info.state or process.status(),
                    memory_bytes=process.memory_info().rss,
                    cpu_seconds=round(times.user + times.system, 3),
                    started_at=process.create_time(),
                )
        except psutil.Error:
            pass
        described.append(info)
    return described


class Found(NamedTuple):
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
            raise Failed(f"{pidfile} names no process: {error}", "name a pid instead") from None
    if pid is None and port is not None:
        pid = _listener(port)
    if pid is None:
        raise Failed("no process was named", "give a pid, a pid file or a port")
    try:
        process = psutil.Process(pid)
        return Found(pid, tuple(process.cmdline()), _folder(process))
    except psutil.NoSuchProcess:
        raise Failed(f"there is no process {pid}", "`ps` lists what runs") from None
    except psutil.AccessDenied:
        raise Failed(f"process {pid} belongs to somebody else", "run it as your user") from None


def _folder(process: object) -> str:
    import psutil

    try:
        return str(process.cwd())  # type: ignore[attr-defined]
    except psutil.Error:
        return "/"


def _listener(port: int) -> int:
    import psutil

    for process in psutil.process_iter():
        try:
            listens = process.net_connections(kind="tcp")
        except (psutil.Error, AttributeError):
            continue
        for connection in listens:
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                return int(process.pid)
    raise Failed(f"no process of yours listens on port {port}", "`ss -ltnp` shows who does")


def _parent(pid: int) -> int | None:
    if sys.platform == "darwin":
        import psutil

        try:
            return psutil.Process(pid).ppid()
        except psutil.Error:
            return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def raise_descriptor_limit() -> None:
    """Spare descriptors of every service are ours too: take what the hard limit allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            pass


def lower_oom_score() -> None:
    """The supervisor should not be the first to go when memory is short."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("-900")
    except OSError:
        pass
