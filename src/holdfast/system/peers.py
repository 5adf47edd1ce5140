"""The process at the other end of a Unix socket, and whether it is one that we supervise.

Keeper and supervisor ask this of every process that connects, and must judge alike: a supervised
process gets the rights of its run, not those of the user. Reads only; standard library only.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys

from holdfast.system import processes, run_marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.system.processes import Process

_SO_PEERPIDFD = 77
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_NOT_OFFERED = (errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.ENOSYS)


class Peer:
    """The user and the process at the other end of a Unix socket. There is no process if that is
    gone or hidden."""

    __slots__ = ("process", "uid")

    def __init__(self, uid: int, process: Process | None) -> None:
        self.uid = uid
        self.process = process

    def __repr__(self) -> str:
        return f"Peer({self.uid}, {self.process!r})"


class Standing:
    """Whether a process is supervised (None if that cannot be known), and its run if known."""

    __slots__ = ("is_supervised", "run_id")

    def __init__(self, is_supervised: bool | None, run_id: str | None = None) -> None:
        self.is_supervised = is_supervised
        self.run_id = run_id


def peer_of(sock: socket.socket) -> Peer:
    """Return the peer of a socket as the kernel knows it; raises OSError if it does not."""
    uid, pid = credentials(sock)
    process = processes.live_process(pid) if pid > 0 else None
    # Asked after the look at the process: while it lives, its pid is nobody else's.
    return Peer(uid, None if process is None or _has_ended(sock) else process)


def credentials(sock: socket.socket) -> tuple[int, int]:
    """Return user and pid of the process that connected; raises OSError if they are unknown."""
    if sys.platform == "darwin":
        # struct xucred: version, uid, …
        uid = struct.unpack_from("=II", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76))[1]
        return uid, struct.unpack("=i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid, pid


def _has_ended(sock: socket.socket) -> bool:
    """Return whether the process that connected has ended, where the kernel (6.5) can tell."""
    if sys.platform == "darwin":
        return False
    try:
        pidfd: int = struct.unpack("i", sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4))[0]
    except OSError as error:
        return error.errno not in _NOT_OFFERED
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(0))
    finally:
        os.close(pidfd)


def standing_of(
    process: Process | None,
    mains: Mapping[str, tuple[int, str]],
    *,
    cgroup_root: str | None,
    keeper_pid: int | None,
    supervisor_pid: int | None,
    ceilings: Collection[int],
) -> Standing:
    """Judge a process by the main processes of all live runs, each with its pid and start time.

    Supervised is a process that descends from a run, that says it is of a live run, that is in our
    cgroup, that descends from the keeper but not from the supervisor, or that is not above a
    ceiling of the keeper (`run_marks`). If it is gone or changes too fast, nobody can know."""
    if process is None:
        return Standing(None)
    claimed = processes.run_id_of(process.pid)
    line = processes.lineage(process)
    run_ids = {identity: run_id for run_id, identity in mains.items()}
    for ancestor in line:
        if ancestor.identity in run_ids:
            return Standing(True, run_ids[ancestor.identity])
    # After the ancestors: a process cannot choose its run by what it says of itself.
    if claimed in mains:
        return Standing(True, claimed)
    if cgroup_root is not None and processes.is_in_cgroup(process.pid, cgroup_root):
        return Standing(True, claimed)
    pids = {ancestor.pid for ancestor in line}
    # Orphans of runs become children of the keeper. So is the supervisor, but no client.
    if keeper_pid in pids and supervisor_pid not in pids:
        return Standing(True, claimed)
    # An orphan may have changed its parent, its session and its environment; its limit stays.
    is_outside = run_marks.is_outside(line, ceilings)
    if not is_outside and process.pid != supervisor_pid:
        return Standing(None if is_outside is None else True, _marked_run(process, mains))
    # Asked last: if the process ended meanwhile, nothing above was read reliably.
    now = processes.live_process(process.pid)
    if not line or now is None or now.start_time != process.start_time:
        return Standing(None)
    return Standing(False)


def _marked_run(process: Process, run_ids: Collection[str]) -> str | None:
    """Return the live run whose mark the process has."""
    limits = run_marks.read(process.pid)
    if limits is None or not run_marks.is_mark(limits[0]):
        return None
    return next((run_id for run_id in run_ids if run_marks.mark_of(run_id) == limits[0]), None)
