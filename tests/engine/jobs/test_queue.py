"""The queue's own work outlives errors that nobody expected."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.adapters.queue.sqlite_store import SqliteJobStore
from holdfast.adapters.queue.store import NewJob, StoredJob
from holdfast.engine.jobs import queue as queues
from holdfast.vocabulary.specs.jobs import JobRequest


class FaultyStore(SqliteJobStore):
    """A store whose first look at active jobs and first claim raise what no caller expects."""

    faults = 0

    def _fault_once(self, most: int) -> None:
        if self.faults < most:
            self.faults += 1
            raise RuntimeError("nobody expected this")

    async def active(self, node: str) -> list[StoredJob]:
        self._fault_once(1)
        return await super().active(node)

    async def claim(self, *args: Any) -> list[StoredJob]:
        self._fault_once(2)
        return await super().claim(*args)


class Link:
    """A keeper that has nothing and takes everything."""

    def forget(self, run_ids: list[str]) -> None:
        pass

    def request(self, message: object, on_reply: object) -> None:
        pass


class Clock:
    """The host's clocks."""

    def steady(self) -> float:
        return time.time()

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def test_an_unexpected_error_ends_neither_recovery_nor_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is tried again: the queue gets ready, and its jobs end, also those it stumbles over."""
    monkeypatch.setattr(queues, "STORE_RETRY_SECONDS", 0.01)

    async def story() -> None:
        store = FaultyStore(str(tmp_path / "jobs.db"))
        queue = queues.JobQueue(
            cast("Any", Link()),
            store,
            asyncio.get_running_loop(),
            cast("Any", Clock()),
            event=lambda *args, **fields: None,
            environ=dict,
            project="",
        )
        job, _ = await queue.add(NewJob(request=JobRequest(argv=("true",))))
        bell = queue.follow(job.id)
        # The keeper cannot be asked to start anything: that is one more error nobody expects.
        while (now := await store.get(job.id)) is not None and now.state != "failed":
            await bell.wait()
            bell.clear()
        assert now is not None
        assert "an error within Holdfast: AttributeError" in str(now.reason)
        assert store.faults == 2
        await queue.close()

    asyncio.run(asyncio.wait_for(story(), 30))
