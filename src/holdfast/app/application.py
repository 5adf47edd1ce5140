"""The one application service: who asks, may they, and who answers.

Every door passes through `identify` and `dispatch`; no door and no handler decides about
permission itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from typing import Any, NamedTuple, Protocol

from holdfast.adapters import processes
from holdfast.adapters.processes import Peer, Process
from holdfast.app.registry import HANDLERS
from holdfast.rules.permissions import permit, role_of
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.commands import Command
from holdfast.vocabulary.commands.command import Effect
from holdfast.vocabulary.errors import Refused
from holdfast.vocabulary.results import Result

Answer = Result | Awaitable[Result] | AsyncGenerator[Any, None]


class Standing(NamedTuple):
    """Whether a process is supervised (None: that cannot be told), and its run if known."""

    is_supervised: bool | None
    run_id: str | None = None


class Supervised(Protocol):
    """Tells whether a peer is something that we supervise, and of which run."""

    def standing_of(self, process: Process | None) -> Standing: ...


class Application:
    """Identifies, permits and dispatches."""

    def __init__(self, context: Any, supervised: Supervised) -> None:
        self._context = context
        self._supervised = supervised
        self._work: set[asyncio.Task[Result]] = set()

    def identify(self, peer: Peer) -> Actor:
        """The actor at the other end of a Unix socket; raises Refused for another user."""
        is_supervised, run_id = self._supervised.standing_of(peer.process)
        role = role_of(peer_uid=peer.uid, own_uid=os.geteuid(), is_supervised=is_supervised)
        if role is Role.STRANGER:
            raise Refused("this Holdfast belongs to another user", "use one of your own")
        pid = peer.process.pid if peer.process else "unknown"
        return Actor(role, f"uid {peer.uid} pid {pid}", run_id)

    def dispatch(self, actor: Actor, command: Command) -> Answer:
        """Answer a command: a result at once, one to await, or a stream of items."""
        verdict = permit(actor, command)
        if not verdict.is_allowed:
            raise Refused(
                f"{command.name} is refused: {verdict.reason}",
                "ask the owner of this Holdfast",
                {"actor": actor.name, "needs": command.permission.value},
            )
        answer: Answer = HANDLERS[type(command)](self._context, command)
        if asyncio.iscoroutine(answer) and command.effect is not Effect.READS:
            return self._finish(answer)
        return answer

    def _finish(self, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]:
        """What changes something is done to its end, also if who asked hangs up."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return asyncio.shield(task)


class SupervisedProcesses:
    """The same rule as at the keeper's socket (`keeper.peers`): who is gone, who says it is of
    a live run, who is in our cgroup and who descends from a run or from the keeper."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def standing_of(self, process: Process | None) -> Standing:
        if process is None:
            return Standing(None)
        link = self._context.link
        claimed = processes.run_id_of(process.pid)
        if claimed in link.runs:
            return Standing(True, claimed)
        line = processes.lineage(process)
        mains = {(run.get("pid"), run.get("start_time")): name for name, run in link.runs.items()}
        for one in line:
            if (one.pid, one.start_time) in mains:
                return Standing(True, mains[one.pid, one.start_time])
        root = link.cgroup_root
        if root is not None and processes.is_in_cgroup(process.pid, root):
            return Standing(True, claimed)
        pids = {one.pid for one in line}
        # Orphans of runs become the keeper's children; so is the supervisor, but no client.
        if link.keeper_pid in pids and os.getpid() not in pids:
            return Standing(True, claimed)
        # Asked last: of a process that ended meanwhile, nothing above was read for sure.
        now = processes.process(process.pid)
        if not line or now is None or now.start_time != process.start_time:
            return Standing(None)
        return Standing(False)
