"""Who is at the other end of the control socket: a person, or something that we supervise?

The same rule as at the line door (`app.authority.supervised_peers`): a process that is gone,
that says it is of a live run, that is in our cgroup, that descends from a run or from the keeper,
or that is not above the keeper's ceiling (`run_marks`) counts as supervised.
Asked once for each peer, when it comes in: later its pid may be somebody else's.
"""

from __future__ import annotations

import os

from holdfast.system import process_identity, processes, run_marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Mapping

    from holdfast.keeper.runs.run import Run
    from holdfast.system.processes import Process


def peer_of(sock: socket.socket) -> tuple[int, Process | None]:
    """User and process at the other end; an unknown user is -1, who is gone is None."""
    try:
        uid, pid = process_identity.credentials(sock)
    except OSError:
        return -1, None
    found = processes.process(pid) if pid > 0 else None
    if found is None or not found.is_alive or process_identity.has_left(sock):
        return uid, None
    return uid, found


def is_supervised(
    peer: Process | None,
    runs: Mapping[str, Run],
    cgroup_root: str | None,
    supervisor_pid: int | None,
    ceilings: Collection[int] = (),
) -> bool:
    """Whether this process is one of ours; yes where that cannot be ruled out."""
    if peer is None or processes.run_id_of(peer.pid) in runs:
        return True
    if cgroup_root is not None and process_identity.is_in_cgroup(peer.pid, cgroup_root):
        return True
    line = process_identity.lineage(peer, processes.process)
    mains = {(run.pid, run.start_time) for run in runs.values()}
    if not line or any(process.identity in mains for process in line):
        return True
    pids = {process.pid for process in line}
    # Orphans of runs become the keeper's children; so is the supervisor, but no person's shell.
    if os.getpid() in pids and supervisor_pid not in pids:
        return True
    # An orphan whose parents, session and environment tell nothing any more.
    if not run_marks.is_outside(line, ceilings, processes.process) and peer.pid != supervisor_pid:
        return True
    # Asked last: of a process that ended meanwhile, nothing above was read for sure.
    now = processes.process(peer.pid)
    return now is None or now.identity != peer.identity or not now.is_alive
