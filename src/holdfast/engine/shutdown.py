"""The end of a whole Holdfast: services in reverse order, then supervisor and keeper.

Owns who is stopped and who is left. A service with `on_supervisor_exit: keep` makes the
keeper stay, with the supervisor off.
"""

from __future__ import annotations

import asyncio
import signal

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.own_log import logger
from holdfast.adapters.state_store import StateStore
from holdfast.engine.live_run import LastExit
from holdfast.engine.roster import Roster
from holdfast.engine.service_runner import ServiceRunner
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.results import ShutdownResult

ANSWER_SECONDS = 0.02
_log = logger("shutdown")


class Shutdown:
    """Begun at most once; further requests join it and may only make it faster."""

    def __init__(self, roster: Roster, store: StateStore, link: KeeperLink) -> None:
        self._roster = roster
        self._store = store
        self._link = link
        self._task: asyncio.Task[ShutdownResult] | None = None
        self._ending: asyncio.Task[ShutdownResult] | None = None
        self._exit_code = 0
        self._keeps_all = False

    async def begin(
        self, *, keep_running: bool = False, now: bool = False, exit_code: int = 0, why: str
    ) -> ShutdownResult:
        """Stop what is to be stopped; answers what was done, and who is left."""
        if self._task is None:
            self._exit_code, self._keeps_all = exit_code, keep_running
            self._store.event(Kind.HOLDFAST_STOPPING, why=why, keep_running=keep_running)
            self._task = asyncio.create_task(self._stop_all(now=now))
        elif now:
            for runner in self._roster.runners.values():
                if runner.run is not None:
                    runner.stop(grace=0)
        return await asyncio.shield(self._task)

    def _finish(self) -> None:
        """The last word to the keeper; it retires us then."""
        if self._keeps_all or self._left():
            self._link.request({"do": "supervise", "on": False}, _log_refusal)
        else:
            self._link.request({"do": "shutdown", "exit_code": self._exit_code}, _log_refusal)
        self._link.flush()

    def on_failed(self, runner: ServiceRunner) -> None:
        """A service failed for good; an essential one takes Holdfast with it."""
        if not runner.declaration.spec.essential or self._task is not None:
            return
        code = exit_code_of(runner.last_exit)
        _log.warning("%s is essential and failed: %s", runner.name, runner.reason)
        why = f"{runner.name} is essential and failed"
        self._ending = asyncio.ensure_future(self.begin(exit_code=code, why=why))

    def on_signal(self, number: int) -> None:
        """The keeper was asked to end; a second time means at once."""
        why, is_second = f"signal {number} to the keeper", self._task is not None
        self._ending = asyncio.ensure_future(self.begin(why=why, now=is_second))

    async def _stop_all(self, *, now: bool) -> ShutdownResult:
        self._roster.retire()
        if not self._keeps_all:
            names = [
                name
                for name, runner in self._roster.runners.items()
                if runner.declaration.spec.on_supervisor_exit == "stop"
            ]
            await self._roster.stop(names, grace=0.0 if now else None)
        await self._store.written()
        # Whoever asked is answered before the keeper ends us.
        asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._finish)
        left = self._left()
        if self._keeps_all:
            message = "the supervisor is off; keeper and services stay"
        elif left:
            message = f"everything else is stopped; kept running: {', '.join(left)}"
        else:
            message = "everything is stopped"
        return ShutdownResult(message=message, kept=left)

    def _left(self) -> list[str]:
        return [name for name, runner in self._roster.runners.items() if runner.run is not None]


def exit_code_of(last: LastExit) -> int:
    """What a shell would answer for this exit; an unknown or unstarted one is 1."""
    if last.signal is not None and last.signal in signal.Signals.__members__:
        return 128 + signal.Signals[last.signal].value
    return last.code or 1


def _log_refusal(reply: dict[str, object]) -> None:
    if not reply.get("ok"):
        _log.error("the keeper would not end: %s", reply.get("error"))
