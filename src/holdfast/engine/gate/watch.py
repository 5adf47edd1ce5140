"""Asks the gate now and then whether it still answers, and ends one that does not.

A gate that hangs keeps its sockets, so everybody who comes to it waits. It is asked as its clients
ask, over HTTP; any answer is a good one. Two questions without an answer end the run as a failure,
and the runner starts the next gate. A busy gate has the time of both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import CallLater, PendingCall
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.states import State

INTERVAL_SECONDS = 15.0
ANSWER_SECONDS = 8.0
MOST_MISSED = 2
AGAIN_SECONDS = 2.0
"""After a question without an answer, the next one comes sooner."""
PATH = "/health"
_log = logger("gate")


async def ask(address: str, seconds: float = ANSWER_SECONDS) -> str | None:
    """Return why the gate does not answer; None if it does."""
    from holdfast.adapters.http_client import HttpError, request

    try:
        await request(
            address + PATH,
            timeout_seconds=seconds,
            headers={"connection": "close"},
            is_checked=False,
        )
    except HttpError as error:
        return str(error)
    return None


class GateWatch:
    """Watches the run of one gate after the other."""

    def __init__(
        self,
        call_later: CallLater,
        address: Callable[[], str],
        question: Callable[[str], Awaitable[str | None]] = ask,
    ) -> None:
        self._call_later = call_later
        self._address = address
        self._question = question
        self._pending: PendingCall | None = None
        self._asking: asyncio.Task[None] | None = None
        self._missed = 0
        self._run_id: str | None = None

    def begin(self, runner: Runner) -> None:
        """Watch this gate, from now until `stop`."""
        self.stop()
        self._ask_later(runner)

    def stop(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _ask_later(self, runner: Runner) -> None:
        seconds = AGAIN_SECONDS if self._missed else INTERVAL_SECONDS

        def look() -> None:
            self._pending = None
            self._asking = asyncio.get_running_loop().create_task(self._look(runner))

        self._pending = self._call_later(seconds, look)

    async def _look(self, runner: Runner) -> None:
        run = runner.run
        if run is not None and run.run_id != self._run_id:
            self._run_id, self._missed = run.run_id, 0
        if run is not None and runner.state is State.RUNNING and self._address():
            why = await self._question(self._address())
            is_same = runner.run is not None and runner.run.run_id == self._run_id
            self._missed = self._missed + 1 if why is not None and is_same else 0
            if self._missed >= MOST_MISSED:
                _log.error("the gate does not answer (%s); another takes its place", why)
                runner.end_as_failure("health", f"it does not answer: {why}", 0.0)
        self._asking = None
        self._ask_later(runner)
