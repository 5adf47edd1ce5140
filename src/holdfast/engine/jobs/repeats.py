"""Adds repeated jobs at their times. A time is settled together with its job, so none counts twice.

Sleeps at most a minute, because a clock may be set and a machine suspended. A time that was missed
is made good once if it is less than a minute ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.adapters.own_log import logger
from holdfast.adapters.queue.store import JobStore, NewJob
from holdfast.engine.runner.environment import CallLater, Clock, PendingCall
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.specs.jobs import RepeatSpec

if TYPE_CHECKING:
    from holdfast.rules.schedule import Look

SHORTEST_SECONDS = 0.01
RETRY_SECONDS = 5.0
_log = logger("jobs")


class Repeats:
    """Every repetition of a queue, and its next time."""

    def __init__(
        self,
        store: JobStore,
        clock: Clock,
        call_later: CallLater,
        on_added: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._call_later = call_later
        self._on_added = on_added
        self._known: dict[str, RepeatSpec] = {}
        self._timer: PendingCall | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        self._known = {repeat.id: repeat for repeat in await self._store.repeats()}
        if self._known:
            await self._guarded(self._look)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def all(self) -> list[tuple[RepeatSpec, float | None]]:
        """Every repetition with its next time."""
        return [(repeat, self._look_at(repeat).next) for repeat in self._known.values()]

    def get(self, repeat: str) -> RepeatSpec | None:
        return self._known.get(repeat)

    async def add(self, repeat: RepeatSpec) -> float | None:
        """Keep it, and return its first time."""
        await self._store.set_repeat(repeat)
        self._known[repeat.id] = repeat
        await self._look()
        return self._look_at(repeat).next

    async def remove(self, repeat: str) -> None:
        await self._store.remove_repeat(repeat)
        self._known.pop(repeat, None)

    def _look_at(self, repeat: RepeatSpec) -> Look:
        from holdfast.adapters import time_zones
        from holdfast.rules import schedule

        zone = time_zones.zone(repeat.schedule.timezone)
        return schedule.look(repeat.schedule, zone, repeat.handled, self._clock.time())

    async def _look(self) -> None:
        from msgspec.structs import replace

        from holdfast.rules.schedule import sleep_seconds

        now, wait = self._clock.time(), sleep_seconds(None, 0.0)
        for repeat in list(self._known.values()):
            found = self._look_at(repeat)
            if found.handled != repeat.handled:
                await self._settle(repeat, found.due, found.handled)
                self._known[repeat.id] = replace(repeat, handled=found.handled)
            wait = min(wait, sleep_seconds(found.next, now))
        if self._known:
            self._sleep(max(SHORTEST_SECONDS, wait))

    async def _settle(self, repeat: RepeatSpec, due: float | None, handled: float) -> None:
        job = None
        if due is not None:
            # The time is part of the id: the same time never gives two jobs.
            job = NewJob(
                request=repeat.request,
                priority=repeat.priority,
                id=f"job-{repeat.id.removeprefix('repeat-')}{int(due * 1000):011x}",
            )
        if await self._store.settle_repeat(repeat.id, handled, job):
            self._on_added()

    def _sleep(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._timer = self._call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._looking = asyncio.ensure_future(self._guarded(self._look))

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except HoldfastError as error:
            _log.error("repeated jobs have to wait: %s", error)
            self._sleep(RETRY_SECONDS)
        except Exception:  # noqa: BLE001 - a fault of ours must not end the queue
            _log.exception("repeated jobs have to wait")
            self._sleep(RETRY_SECONDS)
