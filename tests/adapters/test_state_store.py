"""Events and runs on disk: stored before published, replayed without gap or duplicate."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.store import state_store
from holdfast.adapters.store.database import Database, Done, Statement
from holdfast.adapters.store.state_store import StateStore
from holdfast.adapters.store.state_tables import OpenRun, ServiceRecord
from holdfast.app.handlers import history
from holdfast.engine.event_bus import EventBus
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.events import Event, EventKind
from holdfast.vocabulary.history import Events
from holdfast.vocabulary.states import Desired, State

Check = Callable[[StateStore, EventBus], Coroutine[Any, Any, None]]


class Desk:
    """What the history handlers need of a context."""

    def __init__(self, store: StateStore, bus: EventBus) -> None:
        self.store, self.bus, self.roster = store, bus, self

    def names(self, wanted: list[str]) -> list[str]:
        """Every name stands for itself."""
        return wanted


def with_store(path: Path, check: Check, reserved: int = 0) -> None:
    async def story() -> None:
        bus = EventBus()
        store = StateStore(
            str(path),
            asyncio.get_running_loop(),
            publish=bus.publish,
            forget=lambda _: None,
            reserve=lambda _: None,
            on_replaced=lambda: None,
        )
        store.load(reserved, [])
        bus.last_seq = store.last_seq
        try:
            await check(store, bus)
        finally:
            store.close()

    asyncio.run(story())


def test_an_event_is_on_disk_when_it_is_published(tmp_path: Path) -> None:
    """Whoever is told of an event finds it in the database."""

    async def check(store: StateStore, bus: EventBus) -> None:
        published: list[Event] = []
        stored: list[tuple[int, str]] = []

        def publish(events: list[Event]) -> None:
            published.extend(events)
            with closing(sqlite3.connect(tmp_path / "db")) as another:
                stored.extend(another.execute("SELECT seq, kind FROM events"))

        store._publish = publish
        store.event(EventKind.SERVICE_ADDED, "web")
        assert not published
        await store.written()
        assert [event.seq for event in published] == [1]
        assert stored == [(1, "service:added")]

    with_store(tmp_path / "db", check)


def test_an_exit_is_forgotten_when_it_is_on_disk(tmp_path: Path) -> None:
    """The keeper keeps it until then, and no longer."""
    forgotten: list[str] = []
    stored: list[tuple[str, int]] = []

    def forget(run_ids: list[str]) -> None:
        forgotten.extend(run_ids)
        with closing(sqlite3.connect(tmp_path / "db")) as another:
            stored.extend(another.execute("SELECT run_id, code FROM runs"))

    async def check(store: StateStore, bus: EventBus) -> None:
        store._forget = forget
        store.run_ended({"run_id": "r", "service": "web", "number": 1, "code": 7}, None, "why")
        assert not forgotten
        await store.written()

    with_store(tmp_path / "db", check)
    assert (forgotten, stored) == (["r"], [("r", 7)])


def test_no_secret_is_written_down(tmp_path: Path) -> None:
    """Whoever records it: neither in events nor with runs, on disk or told to readers."""
    said = "connecting with password=hunter2-hunter2"
    published: list[Event] = []

    async def check(store: StateStore, bus: EventBus) -> None:
        store._publish = published.extend
        store.event(EventKind.TRANSITION, "web", reason=said, more=[{"reason": said}])
        store.run_ended({"run_id": "r", "service": "web", "number": 1, "code": 1}, None, said)
        await store.written()
        (event,) = await store.events_after(0, 10, [])
        (run,) = await store.runs_of("web", 10)
        for told in (published[0].data, event["data"], {"reason": run.reason}):
            assert told["reason"] == "connecting with password=[hidden]"
        assert "hunter2" not in f"{published} {event} {run}"

    with_store(tmp_path / "db", check)
    assert b"hunter2" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_following_has_no_gap_and_no_duplicate(tmp_path: Path) -> None:
    """Readers from any number, fast and slow, while events go on: each number once."""

    async def check(store: StateStore, bus: EventBus) -> None:
        async def produce() -> None:
            for number in range(6000):
                store.event(EventKind.TRANSITION, f"s{number % 3}", n=number)
                if number % 40 == 0:
                    await asyncio.sleep(0)
            await store.written()

        async def read(since: int, pause: int, services: list[str]) -> list[int]:
            command = Events(since=since, follow=True, services=services)
            wanted = range(since + 1, 6501)
            found: list[int] = []
            expected = len([n for n in wanted if not services or f"s{(n - 501) % 3}" in services])
            if services:
                expected = len([n for n in wanted if n > 500 and (n - 501) % 3 == 1])
            answer = history.events(Desk(store, bus), command)  # type: ignore[arg-type]
            async for event in answer:  # type: ignore[union-attr]
                found.append(event["seq"])
                if pause and len(found) % pause == 0:
                    await asyncio.sleep(0.001)
                if len(found) == expected:
                    return found
            return found

        for number in range(500):
            store.event(EventKind.SERVICE_CHANGED, "old", n=number)
        await store.written()
        readers = [read(0, 0, []), read(0, 50, []), read(499, 0, []), read(300, 20, [])]
        filtered = read(0, 100, ["s1"])
        *found, chosen, _ = await asyncio.wait_for(
            asyncio.gather(*readers, filtered, produce()), 60
        )
        for numbers, since in zip(found, (0, 0, 499, 300), strict=True):
            assert numbers == list(range(since + 1, 6501))
        assert chosen == [n for n in range(501, 6501) if (n - 501) % 3 == 1]

    with_store(tmp_path / "db", check)


def test_numbers_go_on_after_a_lost_file(tmp_path: Path) -> None:
    """A new database never gives out a number that was given out before."""

    async def check(store: StateStore, bus: EventBus) -> None:
        store.event(EventKind.SERVICE_ADDED, "web")
        assert store.last_seq == 5001

    with_store(tmp_path / "db", check, reserved=5000)


def test_old_events_are_removed(tmp_path: Path) -> None:
    """Bounded by count: the oldest go, the newest stay."""
    before = state_store.MAX_EVENTS
    state_store.MAX_EVENTS = 1000
    try:

        async def check(store: StateStore, bus: EventBus) -> None:
            for _ in range(5000):
                store.event(EventKind.TRANSITION, "web")
                if store.last_seq % 100 == 0:
                    await store.written()
            left = await store.events_after(0, 10_000, [])
            assert left[-1]["seq"] >= 5000
            assert "events:dropped" in {event["kind"] for event in left}
            assert 1000 <= len(left) <= 3200

        with_store(tmp_path / "db", check)
    finally:
        state_store.MAX_EVENTS = before


def test_old_events_are_removed_where_little_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded by age, too, however few they are and however long a supervisor lives."""

    async def check(store: StateStore, bus: EventBus) -> None:
        store.event(EventKind.SERVICE_ADDED, "old")
        assert await store.written()
        with closing(sqlite3.connect(tmp_path / "db")) as other, other:
            other.execute("UPDATE events SET time = 0")
        monkeypatch.setattr(state_store, "PRUNE_SECONDS", 0.0)
        store.event(EventKind.SERVICE_ADDED, "new")
        store.flush()
        monkeypatch.undo()
        assert await store.written()
        left = [event["service"] for event in await store.events_after(0, 10, [])]
        assert left == ["new"]

    with_store(tmp_path / "db", check)


def test_services_and_runs_are_found_again(tmp_path: Path) -> None:
    """What one supervisor records, the next one loads."""
    run = OpenRun("run-1", "web", 4, 77, "123", "boot", 10.0)

    async def write(store: StateStore, bus: EventBus) -> None:
        record = ServiceRecord(desired=Desired.RUNNING, state=State.BACKOFF, since=1.0, failures=3)
        store.save_service("web", lambda: record)
        store.run_started(run)
        await store.written()

    async def end(store: StateStore, bus: EventBus) -> None:
        facts = {"run_id": "run-1", "service": "web", "number": 4, "pid": 77, "code": 3}
        store.run_ended({**facts, "ended_at": 12.0, "seconds": 2.0}, None, "exit code 3")
        store.run_ended({**facts, "ended_at": 12.0, "seconds": 2.0}, None, "exit code 3")
        await store.written()
        found = await store.runs_of("web", 10)
        assert [(it.number, it.exit_code, it.started_at) for it in found] == [(4, 3, 10.0)]
        assert await store.prune_runs(["web"], 11.0) == 0
        assert await store.prune_runs(["web"], 13.0) == 1

    with_store(tmp_path / "db", write)

    async def load() -> None:
        store = StateStore(
            str(tmp_path / "db"),
            asyncio.get_running_loop(),
            publish=lambda _: None,
            forget=lambda _: None,
            reserve=lambda _: None,
            on_replaced=lambda: None,
        )
        loaded = store.load(0, ["run-1"])
        assert loaded.services["web"].failures == 3
        assert loaded.open_runs == [run]
        assert not loaded.ended
        store.close()

    asyncio.run(load())
    with_store(tmp_path / "db", end)


def test_a_burst_is_few_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded while a transaction is under way becomes one more, and is awaited."""
    sizes = []
    submit = Database.submit

    def counting(self: Database, statements: list[Statement], done: Done) -> None:
        sizes.append(len(statements))
        submit(self, statements, done)

    monkeypatch.setattr(Database, "submit", counting)

    async def check(store: StateStore, bus: EventBus) -> None:
        assert await store.written()
        for number in range(100):
            store.event(EventKind.SERVICE_ADDED, f"s{number}")
            store.flush()
        assert await store.written()
        assert len(await store.events_after(0, 1000, [])) == 100
        assert sizes[-2:] == [1, 99]

    with_store(tmp_path / "db", check)


def test_a_full_disk_costs_a_bounded_amount_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written is kept, the newest of it, and what was dropped is told."""
    monkeypatch.setattr(state_store, "MOST_HELD", 100)

    async def check(store: StateStore, bus: EventBus) -> None:
        await store.written()
        other = sqlite3.connect(tmp_path / "db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for number in range(1000):
            store.event(EventKind.SERVICE_ADDED, f"s{number}")
            store.flush()
            assert len(store._statements) <= 110
            assert len(store._events) <= 110
        assert not await store.written(0.02)
        following = asyncio.ensure_future(bus.newer_than(1000))
        other.execute("ROLLBACK")
        other.close()
        await asyncio.wait_for(following, 30)
        place, told = 0, []
        while batch := bus.after(place, 7):
            told += batch
            place = batch[-1].seq
        assert told[-1].kind == "events:dropped"
        assert told[-1].data["lost"] > 700
        assert told[-2].service == "s999"
        assert await store.written()
        stored = {event["seq"] for event in await store.events_after(0, 10_000, [])}
        assert {event.seq for event in told} <= stored

    with_store(tmp_path / "db", check)


def test_a_history_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Who asks for the history hears why there is none now, and what to do."""
    (tmp_path / "db").mkdir()

    async def check(store: StateStore, bus: EventBus) -> None:
        with pytest.raises(Failed, match="history cannot be read"):
            await store.runs_of("web", 5)

    with_store(tmp_path / "db", check)
