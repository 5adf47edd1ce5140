"""Exits are counted exactly once, wherever a supervisor dies; a real SQLite file, a fake keeper."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.store.state_store import StateStore
from holdfast.engine.event_bus import EventBus
from holdfast.engine.roster import Roster
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.environment import AdmitAll, RunnerEnvironment
from holdfast.engine.runner.observers import RunObservers
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.services import RestartSpec, ServiceSpec
from tests.engine.stage import FakeClock, FakeKeeper

SPEC = ServiceSpec(
    name="web",
    argv=("web",),
    working_dir="/",
    start_seconds=0,
    restart=RestartSpec(delay=0, max_delay=0),
)


class Life:
    """One supervisor's life: from hello to a sudden end."""

    def __init__(self, path: Path, keeper: FakeKeeper, clock: FakeClock) -> None:
        self.keeper, self.path = keeper, path
        self.bus = EventBus()
        self.forgets = True
        self.store = StateStore(
            str(path),
            asyncio.get_running_loop(),
            publish=self.bus.publish,
            forget=self._forget,
            reserve=lambda seq: keeper.keep("seq", str(seq)),
            on_replaced=lambda: None,
        )
        self.roster = Roster(
            RunnerEnvironment(
                keeper, self.store, clock, lambda: 0.5, clock.call_later, AdmitAll(), RunObservers()
            ),
            new_future=asyncio.get_running_loop().create_future,
            on_failed=lambda _: None,
            on_changed=lambda: None,
        )
        facts = keeper.hello()
        exits = [ended["run_id"] for ended in facts["exits"]]
        loaded = self.store.load(int(facts["kept"].get("seq", 0)), exits)
        keeper.on_notice = self.roster.on_notice
        self.roster.restore(facts, facts["kept"], loaded)

    def _forget(self, run_ids: list[str]) -> None:
        if self.forgets:
            self.keeper.forget(run_ids)

    def die(self, *, reads_rest: bool = True) -> None:
        """Killed: nothing that was not handed to the writer is written."""
        self.keeper.lose_supervisor(reads_rest=reads_rest)
        self.store._statements.clear()
        self.store._services.clear()
        self.store._forgettable.clear()
        self.forgets = False
        self.store.database.close()
        for runner in self.roster.runners.values():
            runner.close()


async def _start_and_run(life: Life, clock: FakeClock, spec: ServiceSpec = SPEC) -> None:
    if "web" not in life.roster.runners:
        life.roster.declare(Declaration(spec, {"SECRET": "hunter2"}))
    life.roster.runners["web"].start()
    life.roster.remember(life.roster.runners["web"])
    life.keeper.settle()
    await life.store.written()
    clock.advance(2.0)


CRASHES = {
    "before the exit is announced": {"deliver": False},
    "after deciding, with nothing sent or written": {"deliver": True, "sent": False},
    "after the spawn was sent, before the commit": {"deliver": True, "sent": True},
    "after the commit, before forgetting": {"deliver": True, "sent": True, "commit": True},
    "after everything": {"deliver": True, "sent": True, "commit": True, "forget": True},
}


@pytest.mark.parametrize("moment", CRASHES)
def test_an_exit_is_counted_once(moment: str, tmp_path: Path) -> None:
    """Whatever the moment of death: one exit event, one restart counted, one instance."""

    async def story() -> None:
        crash: dict[str, Any] = CRASHES[moment]
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        path = tmp_path / "holdfast.db"
        life = Life(path, keeper, clock)
        await _start_and_run(life, clock)
        first = keeper.live().run_id
        keeper.exit(code=1)
        if crash.get("deliver"):
            keeper.deliver_one()
        if crash.get("sent"):
            keeper.settle()
        life.forgets = bool(crash.get("forget"))
        if crash.get("commit"):
            await life.store.written()
        life.die(reads_rest=bool(crash.get("sent")) or not crash.get("deliver"))

        for _ in range(2):
            life = Life(path, keeper, clock)
            keeper.settle()
            await life.store.written()
            runner = life.roster.runners["web"]
            assert runner.counters.restarts == 1
            assert runner.counters.failures == 1
            assert runner.state.value in ("starting", "running")
            assert len(keeper.runs) == 1
            assert keeper.live().run_id != first
            assert first not in keeper.exits
            life.die()
        assert _count(path, "SELECT count(*) FROM events WHERE kind = 'exit'") == 1
        ended = "SELECT count(*) FROM runs WHERE ended_at IS NOT NULL"
        assert _count(path, ended) == 1

    asyncio.run(story())


def test_an_exit_while_no_supervisor_is_there_is_not_lost(tmp_path: Path) -> None:
    """The journalled exit drives the restart policy of the next supervisor."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        life = Life(tmp_path / "db", keeper, clock)
        await _start_and_run(life, clock)
        life.die()
        keeper.exit(code=5)
        keeper.lose_supervisor()
        life = Life(tmp_path / "db", keeper, clock)
        keeper.settle()
        status = life.roster.runners["web"].status()
        assert status.restart_count == 1
        assert len(keeper.runs) == 1
        runs = await life.store.runs_of("web", 10)
        await life.store.written()
        runs = await life.store.runs_of("web", 10)
        assert [run.exit_code for run in runs] == [None, 5]
        life.die()

    asyncio.run(story())


@pytest.mark.parametrize("code", [0, 143])
def test_a_restart_that_was_cut_short_is_made_good(tmp_path: Path, code: int) -> None:
    """A service that was being restarted when the supervisor died is started at once, whatever its
    exit code; and that is no crash, though the database has not heard of the restart."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        keeper.obeys = False
        life = Life(tmp_path / "db", keeper, clock)
        await _start_and_run(life, clock)
        first = keeper.live().run_id
        life.roster.runners["web"].restart()
        life.die()
        keeper.exit(code=code)
        keeper.lose_supervisor()
        life = Life(tmp_path / "db", keeper, clock)
        keeper.settle()
        runner = life.roster.runners["web"]
        assert runner.state.value == "running"
        assert (runner.counters.restarts, runner.counters.failures) == (0, 0)
        assert keeper.live().run_id != first
        await life.store.written()
        causes = "SELECT count(*) FROM events WHERE data LIKE '%exited%'"
        assert _count(tmp_path / "db", causes) == 0
        life.die()

    asyncio.run(story())


@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("asked", ["", "restart", "stop"])
def test_an_end_as_a_failure_that_was_cut_short_is_one(
    tmp_path: Path, asked: str, is_seen: bool
) -> None:
    """After a run that was being ended for trouble when the supervisor died, the restart policy
    decides, unless somebody asked for a restart. A supervisor that saw its end may die, too."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        keeper.obeys = False
        life = Life(tmp_path / "db", keeper, clock)
        await _start_and_run(life, clock, replace(SPEC, restart_policy="never"))
        runner = life.roster.runners["web"]
        runner.end_as_failure("unhealthy", "it said no")
        if asked:
            getattr(runner, asked)()
        keeper.settle()
        if is_seen:
            keeper.exit(code=0, leftovers=1)
            keeper.settle()
            keeper.end_leftovers()
            await life.store.written()
        life.die()
        if not is_seen:
            keeper.exit(code=0)
        keeper.lose_supervisor(reads_rest=False)
        life = Life(tmp_path / "db", keeper, clock)
        keeper.settle()
        runner = life.roster.runners["web"]
        told = (runner.state.value, runner.reason, len(keeper.spawned))
        expected = {
            "": ("failed", "it said no", 1),
            "restart": ("running", None, 2),
            "stop": ("stopped", "exit code 0", 1),
        }
        assert told == expected[asked]
        assert not any(key.startswith("sentence:") for key in keeper.kept)
        life.die()

    asyncio.run(story())


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_stopped_service_stays_stopped(tmp_path: Path, by_hand: bool) -> None:
    """What was wanted, and by whom, survives the supervisor, with and without the database."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        life = Life(tmp_path / "db", keeper, clock)
        await _start_and_run(life, clock)
        life.roster.runners["web"].stop(by_hand=by_hand)
        keeper.settle()
        life.roster.runners["web"].stop()  # as a shutdown does
        life.die()
        for path in (tmp_path / "db", tmp_path / "another"):
            life = Life(path, keeper, clock)
            keeper.settle()
            assert not keeper.runs
            assert life.roster.runners["web"].state.value == "stopped"
            assert life.roster.runners["web"].desired.value == "stopped"
            assert life.roster.runners["web"].stopped_by_hand is by_hand
            await life.store.written()
            life.die()
            after_a_boot = Life(path, FakeKeeper(clock), clock)
            assert after_a_boot.roster.records["web"].desired.value == "stopped"
            assert after_a_boot.roster.records["web"].stopped_by_hand is by_hand
            after_a_boot.die()
        life = Life(tmp_path / "db", keeper, clock)
        life.roster.runners["web"].start()
        keeper.settle()
        life.die()
        life = Life(tmp_path / "db", keeper, clock)
        assert not life.roster.runners["web"].stopped_by_hand
        life.die()

    asyncio.run(story())


def test_without_the_database_only_history_is_lost(tmp_path: Path) -> None:
    """Runs are adopted again from the keeper, the environment is still there."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        life = Life(tmp_path / "db", keeper, clock)
        await _start_and_run(life, clock)
        run_id, seq = keeper.live().run_id, life.store.last_seq
        life.die()
        life = Life(tmp_path / "new", keeper, clock)
        runner = life.roster.runners["web"]
        assert runner.state.value == "running"
        assert runner.run is not None
        assert runner.run.run_id == run_id
        assert runner.declaration.environ == {"SECRET": "hunter2"}
        life.store.event(EventKind.TRANSITION, "web")
        assert life.store.last_seq > seq
        life.die()

    asyncio.run(story())


def test_a_planned_restart_is_waited_for_again(tmp_path: Path) -> None:
    """A back-off goes on where it was, not from the beginning."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        life = Life(tmp_path / "db", keeper, clock)
        slow = ServiceSpec(name="web", argv=("web",), working_dir="/", start_seconds=0)
        life.roster.declare(Declaration(slow))
        await _start_and_run(life, clock)
        keeper.exit(code=1)
        keeper.settle()
        await life.store.written()
        clock.advance(3.0)
        life.die()
        life = Life(tmp_path / "db", keeper, clock)
        runner = life.roster.runners["web"]
        assert runner.state.value == "backoff"
        assert runner.status().next_start_in == pytest.approx(2.0, abs=0.01)
        clock.advance(2.1)
        keeper.settle()
        assert len(keeper.runs) == 1
        assert runner.counters.restarts == 1
        life.die()

    asyncio.run(story())


def test_a_run_that_was_ending_is_waited_for(tmp_path: Path) -> None:
    """A supervisor that dies during a restart leaves its successor to finish it."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        life = Life(tmp_path / "db", keeper, clock)
        await _start_and_run(life, clock)
        keeper.obeys = False
        life.roster.runners["web"].restart()
        await life.store.written()
        life.die()
        life = Life(tmp_path / "db", keeper, clock)
        assert life.roster.runners["web"].state.value == "stopping"
        first = keeper.live()
        keeper.end_main(first, None, 15)
        keeper.settle()
        assert len(keeper.spawned) == 2
        assert life.roster.runners["web"].run is not None
        life.die()

    asyncio.run(story())


def test_no_environment_reaches_the_disk(tmp_path: Path) -> None:
    """Secrets are in the keeper's memory only."""

    async def story() -> None:
        clock = FakeClock()
        keeper = FakeKeeper(clock)
        life = Life(tmp_path / "db", keeper, clock)
        await _start_and_run(life, clock)
        life.die()

    asyncio.run(story())
    for file in tmp_path.iterdir():
        assert b"hunter2" not in file.read_bytes()


def _count(path: Path, query: str) -> int:
    with sqlite3.connect(path) as db:
        found: tuple[int] = db.execute(query).fetchone()
    db.close()
    return found[0]
