"""Facts of the keeper that `status` shows: how much each live run has printed, and which
processes belong to no run. It is asked only when somebody looks.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import Clock
from holdfast.vocabulary.errors import HoldfastError

FRESH_SECONDS = 0.1
PATIENCE_SECONDS = 0.015


class LogSizes:
    """Keeps the byte counts of runs fresh for readers."""

    def __init__(self, roster: Roster, link: KeeperLink, clock: Clock) -> None:
        self._roster = roster
        self._link = link
        self._clock = clock
        self._asked_at = float("-inf")
        self.unclaimed: list[dict[str, Any]] = []
        """Processes that descend from the keeper and belong to no run: `pid`, `name`."""
        self._refreshing: asyncio.Task[None] | None = None

    def is_fresh(self) -> bool:
        return self._clock.monotonic() - self._asked_at < FRESH_SECONDS

    async def refresh(self) -> None:
        """Ask the keeper, but never keep a reader waiting for long."""
        if self._refreshing is None or self._refreshing.done():
            self._asked_at = self._clock.monotonic()
            self._refreshing = asyncio.create_task(self._ask())
        await asyncio.wait([self._refreshing], timeout=PATIENCE_SECONDS)

    async def _ask(self) -> None:
        try:
            facts = await self._link.ask({"do": "list", "only": "log_bytes"})
        except HoldfastError:
            return
        self.unclaimed = [{**process} for process in facts.get("unclaimed") or ()]
        for run in facts.get("runs") or ():
            runner = self._roster.runners.get(run["service"])
            live = runner.run if runner is not None else None
            if live is not None and live.run_id == run["run_id"]:
                live.log_bytes = run.get("log_bytes") or 0
        self._asked_at = self._clock.monotonic()
