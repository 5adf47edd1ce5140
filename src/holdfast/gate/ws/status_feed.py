"""The status of services for their viewers, derived from the supervisor's events.

One stream of events serves the whole gate while anybody looks. It passes on only what every
caller may see who was granted a service's output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from holdfast.client.channel import Channel
from holdfast.gate.events import RETRY_SECONDS, follow_events
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.states import STREAM_STATE, State

StatusData = dict[str, Any]
Listener = Callable[[StatusData | None], None]
"""Gets each new status; None when the service was removed."""
_OVER = frozenset({State.STOPPED, State.FAILED, State.BACKOFF, State.EXITED})


def status_data(
    status: str, code: int | None = None, signal: str | None = None, reason: str | None = None
) -> StatusData:
    """Return the data of a status message: one of the four stream states, Holdfast's own state,
    and how the last run ended."""
    state = State(status)
    data: StatusData = {"state": STREAM_STATE[state], "status": status}
    if state in _OVER:
        end = {"exitCode": code, "signal": signal, "reason": reason}
        data |= {name: value for name, value in end.items() if value is not None}
    return data


class StatusFeed:
    """Tells viewers the status of their services."""

    def __init__(self, new_channel: Callable[[], Channel]) -> None:
        self._new_channel = new_channel
        self._listeners: dict[str, set[Listener]] = {}
        self._newest: dict[str, tuple[int, StatusData]] = {}
        self._ends: dict[str, dict[str, Any]] = {}
        self._task: asyncio.Task[None] | None = None

    def listen(self, service: str, seq: int, end: dict[str, Any], listener: Listener) -> None:
        """Call the listener for changes after the event with this number; `end` says how the last
        run ended."""
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
                async with aclosing(follow_events(self._new_channel, None, seq, [])) as events:
                    async for event in events:
                        seq = event["seq"]
                        self._take(event)
            except HoldfastError:
                await asyncio.sleep(10 * RETRY_SECONDS)

    def _take(self, event: dict[str, Any]) -> None:
        service, data = event.get("service"), event["data"]
        if service is None:
            return
        if event["kind"] == EventKind.EXIT.value:
            self._ends[service] = {name: data.get(name) for name in ("code", "signal", "reason")}
        elif event["kind"] == EventKind.PROCESS_STARTED.value:
            self._ends[service] = {}
        elif event["kind"] == EventKind.SERVICE_REMOVED.value:
            self._newest.pop(service, None)
            self._ends.pop(service, None)
            self._notify(service, None)
        elif event["kind"] == EventKind.TRANSITION.value:
            end = dict(self._ends.get(service) or {})
            end["reason"] = data.get("reason") or end.get("reason")
            status = status_data(data["to"], **end)
            self._newest[service] = (event["seq"], status)
            self._notify(service, status)

    def _notify(self, service: str, status: StatusData | None) -> None:
        for listener in list(self._listeners.get(service, ())):
            listener(status)
