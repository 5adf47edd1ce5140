"""The budget of descriptors: how many runs the keeper can hold.

A run is only started if a successor of this keeper could hold it, too. A successor needs the pipes
or the terminal of each run, a pidfd and the three files of its log, and some descriptors for
itself: without them it could launch no supervisor and answer no peer. So a start is refused before
the last descriptors are taken, and the error names the limit that has to be raised. Knows nothing
of how runs are made.
"""

from __future__ import annotations

import errno
import resource

from holdfast.keeper.runs.launch import SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.keeper.descriptors import Descriptors
    from holdfast.keeper.protocol.messages import SpawnRequest
    from holdfast.keeper.runs.run import HeldRun

OWN = 32
"""Descriptors of the keeper itself. Without runs it has 18 open. The others are for peers and for
short use: the pipes of a run that starts, reading /proc, launching a supervisor, an upgrade."""
_BESIDE_PARTS = 4
_MOST_OF_A_RUN = 7
_ROOMY = 1024
"""Enough for about 160 services, and most systems allow it."""


class DescriptorBudget:
    """Counts the descriptors that the runs of a keeper need, now and after a succession."""

    def __init__(self, runs: Mapping[str, HeldRun], held: Descriptors) -> None:
        self._runs = runs
        self._held = held
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.limit: float = float("inf") if limit == resource.RLIM_INFINITY else limit

    def check(self, request: SpawnRequest) -> None:
        """Raise SpawnError if there is no room for this run. A task keeps no descriptors here."""
        kind = request.get("kind") or "service"
        if kind == "task" or OWN + _MOST_OF_A_RUN * (len(self._runs) + 8) < self.limit:
            return
        needed = 2 + (request.get("stdin") in ("pipe", "channel")) + _BESIDE_PARTS
        taken = OWN + len(self._held.names()) + sum(map(_needs, self._runs.values()))
        if taken + needed <= self.limit:
            return
        why = (
            f"the limit of {self.limit:g} open files has no room for another service: "
            f"{len(self._runs)} run, and a successor of the keeper must be able to hold them all. "
            f"This one needs a hard limit of at least {taken + needed}; raise it to {_ROOMY} or "
            "more (ulimit -Hn, LimitNOFILE= in a unit, --ulimit nofile= of a container), "
            "then `holdfast down` and `holdfast up`"
        )
        raise SpawnError("pipes", errno.EMFILE, why)


def _needs(run: HeldRun) -> int:
    if run.kind == "task":
        return 1
    return len(run.parts.keys() - {"pidfd"}) + _BESIDE_PARTS
