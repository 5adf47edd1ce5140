"""The stores that the conformance suite is run against."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.queue.sqlite_store import SqliteJobStore
from holdfast.adapters.queue.store import JobStore


class Clock:
    """A wall clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


Story = Callable[[JobStore, Clock], Coroutine[Any, Any, None]]
Play = Callable[[Story], None]


async def _sqlite(path: Path, clock: Clock, story: Story) -> None:
    store = SqliteJobStore(str(path / "jobs.db"), clock)
    await store.open()
    try:
        await story(store, clock)
    finally:
        await store.close()


STORES = {"sqlite": _sqlite}


@pytest.fixture(params=list(STORES))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays a story with a new store of each kind."""
    clock = Clock()

    def run(story: Story) -> None:
        asyncio.run(asyncio.wait_for(STORES[request.param](tmp_path, clock, story), 60))

    return run
