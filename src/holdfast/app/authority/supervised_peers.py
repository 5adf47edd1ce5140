"""Whether who connects is something that we supervise: it gets its run's rights, not ours."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Protocol

from holdfast.adapters import processes
from holdfast.adapters.processes import Process
from holdfast.system import process_identity, run_marks


class Standing(NamedTuple):
    """Whether a process is supervised (None: that cannot be told), and its run if known."""

    is_supervised: bool | None
    run_id: str | None = None


class Supervised(Protocol):
    """Tells whether a peer is something that we supervise, and of which run."""

    def standing_of(self, process: Process | None) -> Standing: ...


class SupervisedProcesses:
    """The same rule as at the keeper's socket (`keeper.processes.peers`): a process that is gone,
    that says it is of a live run, that is in our cgroup, that descends from a run or from the
    keeper, or that is not above the keeper's ceiling (`run_marks`)."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def standing_of(self, process: Process | None) -> Standing:
        if process is None:
            return Standing(None)
        link = self._context.link
        claimed = processes.run_id_of(process.pid)
        line = process_identity.lineage(process, processes.process)
        mains = {(run.get("pid"), run.get("start_time")): name for name, run in link.runs.items()}
        for one in line:
            if (one.pid, one.start_time) in mains:
                return Standing(True, mains[one.pid, one.start_time])
        # After the ancestors: a run cannot pass for another by what it says of itself.
        if claimed in link.runs:
            return Standing(True, claimed)
        root = link.cgroup_root
        if root is not None and process_identity.is_in_cgroup(process.pid, root):
            return Standing(True, claimed)
        pids = {one.pid for one in line}
        # Orphans of runs become the keeper's children; so is the supervisor, but no client.
        if link.keeper_pid in pids and os.getpid() not in pids:
            return Standing(True, claimed)
        # An orphan whose parents, session and environment tell nothing any more.
        is_outside = run_marks.is_outside(line, link.ceilings, processes.process)
        if not is_outside and process.pid != os.getpid():
            return Standing(None if is_outside is None else True, self._marked_run(process))
        # Asked last: of a process that ended meanwhile, nothing above was read for sure.
        now = processes.process(process.pid)
        if not line or now is None or now.start_time != process.start_time:
            return Standing(None)
        return Standing(False)

    def _marked_run(self, process: Process) -> str | None:
        """The live run whose mark the process has."""
        limits = run_marks.read(process.pid)
        if limits is None or not run_marks.is_mark(limits[0]):
            return None
        runs = self._context.link.runs
        return next((run_id for run_id in runs if run_marks.mark_of(run_id) == limits[0]), None)
