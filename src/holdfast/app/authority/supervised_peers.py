"""Whether a process that connects is one that we supervise: it gets its run's rights, not ours.

The rule is `system.peers.standing_of`, the same as at the keeper's socket.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from holdfast.system import peers
from holdfast.system.peers import Standing
from holdfast.system.processes import Process


class Supervised(Protocol):
    """Tells whether a peer is something that we supervise, and of which run."""

    def standing_of(self, process: Process | None) -> Standing: ...


class SupervisedProcesses:
    """Judges processes by the live runs of the keeper link."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def standing_of(self, process: Process | None) -> Standing:
        link = self._context.link
        return peers.standing_of(
            process,
            {run_id: (run.get("pid"), run.get("start_time")) for run_id, run in link.runs.items()},
            cgroup_root=link.cgroup_root,
            keeper_pid=link.keeper_pid,
            supervisor_pid=os.getpid(),
            ceilings=link.ceilings,
        )
