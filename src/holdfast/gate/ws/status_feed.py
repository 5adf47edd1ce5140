"""How services are, for their viewers: made from events that may be told to everybody who was
granted to follow the service. One stream of events for the whole gate, while anybody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from holdfast.client.channel import Channel
from holdfast.gate.events import RETRY_SECONDS, follow
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.states import STREAM_STATE, State

Condition = dict[str, Any]
Listener = Callable[[Condition | None], None]
_OVER = frozenset({State.STOPPED, State.FAILED, State.BACKOFF, State.EXITED})


def condition(
    status: str, code: int | None = None, signal: str | None = None, reason: str | None = None
) -> Condition:
    """Status data: the four states of streams, our own, and how the last run ended."""
    state = State(status)
    found: Condition = {"state": STREAM_STATE[state], "status": status}
    if state in _OVER:
        told = {"exitCode": code, "signal": signal, "reason": reason}
        found |= {name: value for name, value in told.items() if value is not None}
    return found


class Conditions:
    """What is told about every service that has viewers. None: it is not known any more."""

    def __init__(self, new_channel: Callable[[], Channel]) -> None:
        self._new_channel = new_channel
        self._listeners: dict[str, set[Listener]] = {}
        self._newest: dict[str, tuple[int, Condition]] = {}
        self._ends: dict[str, dict[str, Any]] = {}
        self._task: asyncio.Task[None] | None = None

    def listen(self, service: str, seq: int, end: dict[str, Any], listener: Listener) -> None:
        """Be told what comes after the event of this number; `end` is that of the last run."""
        self._listeners.setdefault(service, set()).add(listener)
        self._ends.setdefault(service, end)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._follow(seq))
        elif service in self._newest and self._newest[service][0] > seq:
            listener(self._newest[service][1])

    async def leave(self, service: str, listener: Listener) -> None:
        listeners = self._listeners.get(service, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(service, None)
        if not self._listeners and self._task is not None:
            task, self._task = self._task, None
            self._newest, self._ends = {}, {}
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, seq: int) -> None:
        while True:
            try:
                async with aclosing(follow(self._new_channel, None, seq, [])) as events:
                    async for event in events:
                        seq = event["seq"]
                        self._take(event)
            except HoldfastError:
                await asyncio.sleep(10 * RETRY_SECONDS)

    def _take(self, event: dict[str, Any]) -> None:
        service, data = event.get("service"), event["data"]
        if service is None:
            return
        if event["kind"] == Kind.EXIT.value:
            self._ends[service] = {name: data.get(name) for name in ("code", "signal", "reason")}
        elif event["kind"] == Kind.PROCESS_STARTED.value:
            self._ends[service] = {}
        elif event["kind"] == Kind.SERVICE_REMOVED.value:
            self._newest.pop(service, None)
            self._ends.pop(service, None)
            self._tell(service, None)
        elif event["kind"] == Kind.TRANSITION.value:
            end = dict(self._ends.get(service) or {})
            end["reason"] = data.get("reason") or end.get("reason")
            found = condition(data["to"], **end)
            self._newest[service] = (event["seq"], found)
            self._tell(service, found)

    def _tell(self, service: str, found: Condition | None) -> None:
        for listener in list(self._listeners.get(service, ())):
            listener(found)
