"""The embedded store: what survives a kill, several processes, damage, and a long queue."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.queue.sqlite_store import SqliteJobStore
from holdfast.adapters.queue.store import Ending, NewJob
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.specs.jobs import JobRequest
from tests.harness import PYTHON, kill_9, read_until, started

_CLAIMER = """
import asyncio, sys
from holdfast.adapters.queue.sqlite_store import SqliteJobStore
from holdfast.adapters.queue.store import Ending
async def work():
    store = SqliteJobStore(sys.argv[1])
    await store.open()
    while found := await store.claim(sys.argv[2], 60.0, {"": 1}, ["run"]):
        (job,) = found
        assert await store.complete(job.id, job.token, Ending())
        print(job.id, flush=True)
    await store.close()
asyncio.run(work())
"""
_ADDER = """
import asyncio, sys
from holdfast.adapters.queue.sqlite_store import SqliteJobStore
from holdfast.adapters.queue.store import NewJob
from holdfast.vocabulary.specs.jobs import JobRequest
async def work():
    store = SqliteJobStore(sys.argv[1])
    await store.open()
    for number in range(10_000):
        await store.add([NewJob(request=JobRequest(argv=("true",)), id=f"job-{number}")])
        print(f"job-{number}", flush=True)
asyncio.run(work())
"""


def with_store(path: Path, story: Callable[[SqliteJobStore], Coroutine[Any, Any, Any]]) -> Any:
    async def play() -> Any:
        store = SqliteJobStore(str(path))
        await store.open()
        try:
            return await story(store)
        finally:
            await store.close()

    return asyncio.run(play())


def new_jobs(count: int) -> list[NewJob]:
    return [NewJob(request=JobRequest(argv=("true",))) for _ in range(count)]


def test_processes_that_race_claim_each_job_once(tmp_path: Path) -> None:
    """Four processes empty one queue: every job is handed out, and none twice."""
    path = tmp_path / "jobs.db"
    with_store(path, lambda store: store.add(new_jobs(300)))
    workers = [
        subprocess.Popen(
            [PYTHON, "-c", _CLAIMER, str(path), f"node-{n}"], stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    claimed = [line for worker in workers for line in worker.communicate(timeout=60)[0].split()]
    assert [worker.returncode for worker in workers] == [0] * 4
    assert len(claimed) == len(set(claimed)) == 300


def test_equal_ids_are_not_given_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many jobs in one moment, two ids could be equal; another one is taken then."""
    ids = iter(["job-1", "job-1", "job-2"])
    monkeypatch.setattr("holdfast.adapters.queue.sqlite_store.new_job_id", lambda _: next(ids))
    added = with_store(tmp_path / "jobs.db", lambda store: store.add(new_jobs(2)))
    assert [job.id for job, _ in added] == ["job-1", "job-2"]


def test_what_was_added_survives_kill_9(tmp_path: Path) -> None:
    """A job whose adding was answered is in the file, whatever happens in the next moment."""
    path = tmp_path / "jobs.db"
    with started([PYTHON, "-c", _ADDER, str(path)]) as adder:
        seen = read_until(adder, b"job-30\n")
        kill_9(adder.pid)
        adder.wait()
        assert adder.stdout is not None
        seen += adder.stdout.read()
    last = seen.decode().split("\n")[-2]
    found = with_store(path, lambda store: store.get(last))
    assert found is not None
    assert found.state == "waiting"


def test_a_file_that_is_no_database_is_moved_aside(tmp_path: Path) -> None:
    """The queue begins anew, and the damaged file is kept."""
    path = tmp_path / "jobs.db"
    path.write_bytes(b"this is no database at all" * 100)
    with_store(path, lambda store: store.add(new_jobs(1)))
    assert len(list(tmp_path.glob("jobs.db.corrupt-*"))) == 1


def test_a_locked_file_is_an_error_and_not_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot write says so, loses nothing, and works again later."""
    path = tmp_path / "jobs.db"
    monkeypatch.setattr("holdfast.adapters.queue.sqlite_store._LOCK_SECONDS", 0.05)

    async def story(store: SqliteJobStore) -> None:
        await store.add(new_jobs(1))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Failed, match="locked"):
                await store.claim("a", 30.0, {"": 1}, ["run"])
            other.execute("ROLLBACK")
        (found,) = await store.claim("a", 30.0, {"": 1}, ["run"])
        assert await store.complete(found.id, str(found.token), Ending())

    with_store(path, story)


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Commands of jobs are nobody else's business."""
    path = tmp_path / "jobs.db"
    with_store(path, lambda store: store.add(new_jobs(1)))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("state", ["waiting", "delayed", "active"])
def test_adding_and_claiming_read_no_whole_queue(tmp_path: Path, state: str) -> None:
    """Whatever is asked often takes an index, so its cost does not grow with the queue."""
    path = tmp_path / "jobs.db"
    with_store(path, lambda store: store.add(new_jobs(1)))
    queries = {
        "waiting": "SELECT priority, seq, id FROM jobs WHERE state = 'waiting' AND template = ?"
        " ORDER BY priority, seq LIMIT 1",
        "delayed": "UPDATE jobs SET state = 'waiting' WHERE state = 'delayed' AND run_at <= ?",
        "active": "SELECT id FROM jobs WHERE state = 'active' AND lease_until <= ?",
    }
    with closing(sqlite3.connect(path)) as db:
        plan = " ".join(
            str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {queries[state]}", ("1",))
        )
    assert "USING" in plan
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("text", [b"{", b'{"argv": 1}', b"\xff", None, 7])
def test_a_request_that_cannot_be_read_says_so_and_hides_no_other(
    tmp_path: Path, text: object
) -> None:
    """It is claimed, listed and ended like any job; what comes after it is told."""
    path = tmp_path / "jobs.db"

    async def story(store: SqliteJobStore) -> None:
        first, second = [job for job, _ in await store.add(new_jobs(2))]
        await store.add([NewJob(request=JobRequest(argv=("true",)), after=(first.id,), id="job-3")])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            stored = b"null" if text is None else text
            other.execute("UPDATE jobs SET request = ? WHERE id = ?", (stored, first.id))
            other.execute("INSERT INTO repeats VALUES ('repeat-x', ?)", (stored,))
        claimed = await store.claim("a", 30.0, {"": 2}, ["run-1", "run-2"])
        assert [job.id for job in claimed] == [first.id, second.id]
        assert claimed[0].damage is not None
        assert claimed[1].damage is None
        assert [job.id for job in await store.active("a")] == [first.id, second.id]
        assert await store.repeats() == []
        assert await store.fail(first.id, str(claimed[0].token), Ending(reason="x"), None)
        assert {job.id for job in await store.find(["failed"])} == {first.id, "job-3"}

    with_store(path, story)
