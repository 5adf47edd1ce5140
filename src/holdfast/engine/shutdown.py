"""The shutdown of a whole Holdfast: services in reverse order, then supervisor and keeper.

Decides which services are stopped. A service with `on_supervisor_exit: keep` goes on; then the
keeper stays, without a supervisor.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.own_log import logger
from holdfast.adapters.store.state_store import StateStore
from holdfast.engine.gate.gate import Gate
from holdfast.engine.jobs.queue import JobQueue
from holdfast.engine.roster import Roster
from holdfast.engine.runner.live_run import LastExit
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.errors import ShuttingDown
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.holdfast import ShutdownResult

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import Reply

ANSWER_SECONDS = 0.02
_log = logger("shutdown")


class ShutdownPlan(msgspec.Struct, frozen=True):
    """How Holdfast is shut down. The keeper remembers it, so that the next supervisor can finish a
    shutdown that was cut short."""

    why: str = "a shutdown that was cut short"
    keep_running: bool = False
    now: bool = False
    exit_code: int = 0


class ShutdownProcedure:
    """Begun at most once; further requests join it and may only make it faster."""

    def __init__(
        self,
        roster: Roster,
        store: StateStore,
        link: KeeperLink,
        gate: Gate,
        jobs: JobQueue,
    ) -> None:
        self._jobs = jobs
        self._gate = gate
        self._roster = roster
        self._store = store
        self._link = link
        self._task: asyncio.Task[ShutdownResult] | None = None
        self._ending: asyncio.Task[ShutdownResult] | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._plan = ShutdownPlan()

    def check_not_begun(self) -> None:
        """Refuse a declaration or a start that comes too late, rather than stop it at once."""
        if self._task is not None:
            raise ShuttingDown("Holdfast is being shut down", "`holdfast up`, when it is down")

    async def begin(
        self, *, keep_running: bool = False, now: bool = False, exit_code: int = 0, why: str
    ) -> ShutdownResult:
        """Stop all services that are to be stopped. Returns the stopped and those left."""
        if self._task is None:
            self._plan = ShutdownPlan(why, keep_running, now, exit_code)
            self._remember()
            self._store.event(EventKind.HOLDFAST_STOPPING, why=why, keep_running=keep_running)
            self._roster.retire()
            self._task = asyncio.create_task(self._stop_all())
        elif now:
            self._plan = msgspec.structs.replace(self._plan, now=True)
            self._remember()
            for name in self._to_stop():
                if self._roster.runners[name].has_processes:
                    self._roster.runners[name].stop(grace=0)
        return await asyncio.shield(self._task)

    def resume(self, kept: dict[str, str]) -> None:
        """Finish a shutdown that was cut short. Called before services are restored."""
        if keeper_memory.SHUTDOWN not in kept:
            return
        try:
            plan = msgspec.json.decode(kept[keeper_memory.SHUTDOWN], type=ShutdownPlan)
        except msgspec.MsgspecError as error:
            _log.error("a shutdown was cut short, and how it was asked is unknown: %s", error)
            plan = ShutdownPlan()
        _log.warning("going on with a shutdown that was cut short: %s", plan.why)
        self._roster.retire()
        self._ending = asyncio.ensure_future(
            self.begin(
                keep_running=plan.keep_running,
                now=plan.now,
                exit_code=plan.exit_code,
                why=plan.why,
            )
        )

    def _remember(self) -> None:
        self._link.keep(keeper_memory.SHUTDOWN, msgspec.json.encode(self._plan).decode())

    async def _finish(self) -> None:
        """Tell the keeper, which then ends this supervisor."""
        await asyncio.sleep(ANSWER_SECONDS)
        await self._gate.stop()
        await self._store.written()
        if self._plan.keep_running or self._alive():
            self._link.keep(keeper_memory.SHUTDOWN, None)
            self._link.request({"do": "supervise", "on": False}, _log_refusal)
        else:
            code = self._plan.exit_code
            self._link.request({"do": "shutdown", "exit_code": code}, _log_refusal)
        self._link.flush()

    def on_failed(self, runner: Runner) -> None:
        """A service failed for good. If it is essential, Holdfast is shut down."""
        if not runner.declaration.spec.essential or self._task is not None:
            return
        code = exit_code_of(runner.last_exit)
        _log.warning("%s is essential and failed: %s", runner.name, runner.reason)
        why = f"{runner.name} is essential and failed"
        self._ending = asyncio.ensure_future(self.begin(exit_code=code, why=why))

    def on_signal(self, number: int) -> None:
        """The keeper got a signal to end; the second one means at once."""
        self._link.request({"do": "noted"}, _log_refusal)
        why, is_second = f"signal {number} to the keeper", self._task is not None
        self._ending = asyncio.ensure_future(self.begin(why=why, now=is_second))

    async def _stop_all(self) -> ShutdownResult:
        grace = 0.0 if self._plan.now else None
        retiring = asyncio.ensure_future(
            self._jobs.retire(grace=grace, keep_running=self._plan.keep_running)
        )
        await self._roster.stop(self._to_stop(), grace=grace)
        await retiring
        await self._store.written()
        # The caller, through the gate or not, is answered before the gate and we are ended.
        self._finishing = asyncio.create_task(self._finish())
        left, stopped = self._alive(), self._to_stop()
        stuck = [name for name in left if name in stopped]
        if self._plan.keep_running:
            message = "the supervisor is off; keeper and services stay"
        elif left:
            kept = [name for name in left if name not in stuck]
            parts = (("could not be", stuck), ("kept running", kept))
            told = "; ".join(f"{how}: {', '.join(names)}" for how, names in parts if names)
            message = f"everything else is stopped; {told}"
        else:
            message = "everything is stopped"
        return ShutdownResult(message=message, kept=left, stuck=stuck)

    def _to_stop(self) -> list[str]:
        """The services that the shutdown stops."""
        if self._plan.keep_running:
            return []
        return [
            name
            for name, runner in self._roster.runners.items()
            if runner.declaration.spec.on_supervisor_exit == "stop"
        ]

    def _alive(self) -> list[str]:
        """The services that still have a process."""
        return [name for name, runner in self._roster.runners.items() if runner.has_processes]


def exit_code_of(last: LastExit) -> int:
    """The exit code that a shell would give; 1 if the exit is unknown or nothing was started."""
    if last.signal is not None and last.signal in signal.Signals.__members__:
        return 128 + signal.Signals[last.signal].value
    return last.code or 1


def _log_refusal(reply: Reply) -> None:
    if not reply.get("ok"):
        _log.error("the keeper would not end: %s", reply.get("error"))
