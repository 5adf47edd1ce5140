"""Who is at the other end of the control socket: a person, or something that we supervise?

The same rule as at the line door (`app.application`): who is gone, who says it is of a live
run, who is in our cgroup and who descends from a run or from the keeper counts as supervised.
Asked once for each peer, when it comes in: later its pid may be somebody else's.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys

from holdfast.keeper import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.keeper.host import Process
    from holdfast.keeper.runs import Run

_SO_PEERPIDFD = 77
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_MAX_STEPS = 1000
_NOT_OFFERED = (errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.ENOSYS)


def peer_of(sock: socket.socket) -> tuple[int, Process | None]:
    """User and process at the other end; an unknown user is -1, who is gone is None."""
    try:
        if sys.platform == "darwin":
            # struct xucred: version, uid, …
            uid = struct.unpack_from("=II", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76))[1]
            pid = struct.unpack("=i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
        else:
            raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("3i", raw)
    except OSError:
        return -1, None
    found = host.process(pid) if pid > 0 else None
    # Asked after the look: while who connected lives, the pid is nobody else's.
    if found is None or not found.is_alive or _has_left(sock):
        return uid, None
    return uid, found


def _has_left(sock: socket.socket) -> bool:
    """Whether the process that connected has ended, where the kernel (6.5) can tell."""
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


def is_supervised(
    peer: Process | None,
    runs: Mapping[str, Run],
    cgroup_root: str | None,
    supervisor_pid: int | None,
) -> bool:
    """Whether this process is one of ours; yes where that cannot be ruled out."""
    if peer is None or host.run_id_of(peer.pid) in runs:
        return True
    if cgroup_root is not None and is_below(cgroup_root, host.read(f"/proc/{peer.pid}/cgroup")):
        return True
    line = lineage(peer)
    mains = {(run.pid, run.start_time) for run in runs.values()}
    if not line or any(process.identity in mains for process in line):
        return True
    pids = {process.pid for process in line}
    # Orphans of runs become the keeper's children; so is the supervisor, but no person's shell.
    if os.getpid() in pids and supervisor_pid not in pids:
        return True
    # Asked last: of a process that ended meanwhile, nothing above was read for sure.
    now = host.process(peer.pid)
    return now is None or now.identity != peer.identity or not now.is_alive


def is_below(root: str, membership: bytes | None) -> bool:
    """Whether a process with this /proc/PID/cgroup is in a cgroup beneath our root."""
    if membership is None:
        return True
    name = os.fsencode(os.path.basename(root))
    return any(
        line.startswith(b"0::") and name in line[3:].split(b"/") for line in membership.splitlines()
    )


def lineage(peer: Process) -> list[Process]:
    """The process and its ancestors, nearest first; nothing where they change too fast."""
    line = [peer]
    for _ in range(_MAX_STEPS):
        last = line[-1]
        if last.ppid <= 0:
            return line
        parent, again = host.process(last.ppid), host.process(last.pid)
        if again is None or again.identity != last.identity:
            line.pop()
            if not line:
                return []
        elif again.ppid != last.ppid:
            line[-1] = again
        elif parent is None:
            # It exists, since it is still the parent, and is hidden: another user's.
            return line
        else:
            line.append(parent)
    return []
