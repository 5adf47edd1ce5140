"""The one application service: who asks, may they, and who answers.

Every door passes through `identify` and `dispatch`; no door and no handler decides about
permission itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from typing import Any, Protocol

from holdfast.adapters import processes
from holdfast.adapters.processes import Peer
from holdfast.app.registry import HANDLERS
from holdfast.rules.permissions import permit, role_of
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.commands import Command
from holdfast.vocabulary.commands.command import Effect
from holdfast.vocabulary.errors import Refused
from holdfast.vocabulary.results import Result

Answer = Result | Awaitable[Result] | AsyncGenerator[Any, None]


class Supervised(Protocol):
    """Tells which run a process belongs to, if any."""

    def run_of(self, pid: int) -> str | None: ...


class Application:
    """Identifies, permits and dispatches."""

    def __init__(self, context: Any, supervised: Supervised) -> None:
        self._context = context
        self._supervised = supervised
        self._work: set[asyncio.Task[Result]] = set()

    def identify(self, peer: Peer) -> Actor:
        """The actor at the other end of a Unix socket; raises Refused for another user."""
        run_id = self._supervised.run_of(peer.pid) if peer.pid else None
        role = role_of(peer_uid=peer.uid, own_uid=os.geteuid(), is_supervised=run_id is not None)
        if role is Role.STRANGER:
            raise Refused("this Holdfast belongs to another user", "use one of your own")
        return Actor(role, f"uid {peer.uid} pid {peer.pid}", run_id)

    def dispatch(self, actor: Actor, command: Command) -> Answer:
        """Answer a command: a result at once, one to await, or a stream of items."""
        verdict = permit(actor, command.permission)
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
    """Finds the run of a process by what it says, by its ancestors, by its adopted parent."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def run_of(self, pid: int) -> str | None:
        runs = self._context.link.runs
        claimed = processes.run_id_of(pid)
        if claimed in runs:
            return claimed
        mains = {run["pid"]: run_id for run_id, run in runs.items() if run.get("pid")}
        chain = processes.ancestors(pid)
        for ancestor in chain:
            if ancestor in mains:
                return str(mains[ancestor])
        # Orphans of runs become the keeper's children; so is the supervisor, but no client.
        if self._context.link.keeper_pid in chain and os.getpid() not in chain:
            return claimed or "unknown"
        return None
