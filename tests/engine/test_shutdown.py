"""The end of everything: in order, once, and with the right last word to the keeper."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.engine.roster import Roster
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.environment import AdmitAll, RunnerEnvironment
from holdfast.engine.runner.live_run import LastExit
from holdfast.engine.runner.observers import RunObservers
from holdfast.engine.shutdown import ShutdownProcedure, exit_code_of
from holdfast.vocabulary.specs.services import Dependency, ServiceSpec
from tests.engine.stage import FakeClock, FakeKeeper, FakeRecorder

Message = dict[str, Any]


class Link:
    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.kept: dict[str, str] = {}

    def request(self, message: Message, then: object) -> None:
        self.asked.append(message)

    def keep(self, key: str, value: str | None) -> None:
        if value is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = value

    def flush(self) -> None: ...


class Store(FakeRecorder):
    async def written(self) -> bool:
        return True


class NoJobs:
    """A queue that never had a job."""

    async def retire(self, *, grace: float | None, keep_running: bool) -> None:
        """Nothing runs."""


class NoGate:
    async def stop(self) -> None: ...


class Scene:
    """Some services that run, on a keeper that obeys."""

    def __init__(self, *specs: ServiceSpec) -> None:
        self.clock = FakeClock()
        self.keeper = FakeKeeper(self.clock)
        self.store = Store()
        self.link = Link()
        self.roster = Roster(
            RunnerEnvironment(
                self.keeper,
                self.store,
                self.clock,
                lambda: 0.5,
                self.clock.call_later,
                AdmitAll(),
                RunObservers(),
            ),
            new_future=asyncio.get_running_loop().create_future,
            on_failed=lambda runner: self.shutdown.on_failed(runner),
            on_changed=lambda: None,
        )
        self.shutdown = ShutdownProcedure(
            self.roster,
            self.store,  # type: ignore[arg-type]
            self.link,  # type: ignore[arg-type]
            NoGate(),  # type: ignore[arg-type]
            NoJobs(),  # type: ignore[arg-type]
        )
        self.keeper.on_notice = self.roster.on_notice
        for spec in specs:
            self.roster.declare(Declaration(spec))
            self.roster.runners[spec.name].start()
        self.keeper.settle()

    async def last_word(self) -> Message:
        """What the keeper is told in the end."""
        for _ in range(10_000):
            self.keeper.settle()
            if self.link.asked:
                return self.link.asked[-1]
            await asyncio.sleep(0.002)
        raise AssertionError("the keeper was told nothing")


def spec(name: str, **fields: Any) -> ServiceSpec:
    return ServiceSpec(name=name, argv=(name,), working_dir="/", start_seconds=0, **fields)


def test_everything_is_stopped_in_reverse_order() -> None:
    """Who needs another is stopped before it; then the keeper ends with success."""

    async def story() -> None:
        needs = (Dependency(service="db"),)
        scene = Scene(spec("db"), spec("web", depends_on=needs))
        ending = asyncio.ensure_future(scene.shutdown.begin(why="test"))
        assert await scene.last_word() == {"do": "shutdown", "exit_code": 0}
        result = await ending
        assert (result.message, result.kept) == ("everything is stopped", [])
        assert [run_id for run_id, _ in scene.store.ended] == [
            scene.roster.runners[name].last_run_id for name in ("web", "db")
        ]
        assert scene.roster.runners["web"].start().done()
        assert not scene.keeper.runs

    asyncio.run(story())


def test_who_is_to_be_kept_is_not_touched() -> None:
    """The keeper stays for them, without a supervisor."""

    async def story() -> None:
        scene = Scene(spec("web"), spec("kept", on_supervisor_exit="keep"))
        ending = asyncio.ensure_future(scene.shutdown.begin(why="test"))
        assert await scene.last_word() == {"do": "supervise", "on": False}
        assert (await ending).kept == ["kept"]
        assert [run.service for run in scene.keeper.runs.values()] == ["kept"]

    asyncio.run(story())


def test_who_cannot_be_stopped_is_told_apart() -> None:
    """The keeper stays for them as well, and nobody takes them for kept by a wish."""

    async def story() -> None:
        scene = Scene(spec("web"), spec("kept", on_supervisor_exit="keep"))
        scene.keeper.gives_up = True
        ending = asyncio.ensure_future(scene.shutdown.begin(why="test"))
        assert await scene.last_word() == {"do": "supervise", "on": False}
        result = await ending
        assert (result.kept, result.stuck) == (["web", "kept"], ["web"])

    asyncio.run(story())


def test_a_second_request_hurries_the_first() -> None:
    """There is one shutdown; asked again with `now`, nobody gets more grace."""

    async def story() -> None:
        scene = Scene(spec("web"))
        scene.keeper.obeys = False
        first = asyncio.ensure_future(scene.shutdown.begin(why="test"))
        await asyncio.sleep(0)
        scene.keeper.settle()
        assert not first.done()
        second = asyncio.ensure_future(scene.shutdown.begin(why="test", now=True))
        assert await scene.last_word() == {"do": "shutdown", "exit_code": 0}
        assert await first == await second

    asyncio.run(story())


def test_haste_does_not_reach_who_is_to_be_kept() -> None:
    """A second Ctrl-C takes the grace of those that are being stopped, and nobody else's life."""

    async def story() -> None:
        scene = Scene(spec("web"), spec("kept", on_supervisor_exit="keep"))
        scene.keeper.obeys = False
        first = asyncio.ensure_future(scene.shutdown.begin(why="test"))
        await asyncio.sleep(0)
        scene.keeper.settle()
        second = asyncio.ensure_future(scene.shutdown.begin(why="test", now=True))
        assert await scene.last_word() == {"do": "supervise", "on": False}
        assert (await first).kept == (await second).kept == ["kept"]
        assert [run.service for run in scene.keeper.runs.values()] == ["kept"]

    asyncio.run(story())


def test_a_shutdown_that_was_cut_short_is_finished() -> None:
    """The next supervisor learns of it from the keeper, and ends as the first one would have."""

    async def story() -> None:
        scene = Scene(spec("web"))
        scene.keeper.obeys = False
        begun = asyncio.ensure_future(scene.shutdown.begin(why="test", exit_code=3))
        await asyncio.sleep(0)
        assert scene.keeper.runs
        begun.cancel()
        second = Scene(spec("web"))
        second.shutdown.resume(scene.link.kept)
        assert second.roster.runners["web"].is_retiring
        assert await second.last_word() == {"do": "shutdown", "exit_code": 3}
        assert not second.keeper.runs
        third = Scene(spec("web"))
        third.shutdown.resume({})
        assert not third.roster.runners["web"].is_retiring

    asyncio.run(story())


def test_what_is_kept_on_purpose_is_not_resumed() -> None:
    """When the supervisor was only to be off, the next one finds nothing to finish."""

    async def story() -> None:
        scene = Scene(spec("web"))
        ending = asyncio.ensure_future(scene.shutdown.begin(why="test", keep_running=True))
        await asyncio.sleep(0)
        assert "shutdown" in scene.link.kept
        assert await scene.last_word() == {"do": "supervise", "on": False}
        await ending
        assert scene.link.kept == {}
        assert scene.keeper.runs

    asyncio.run(story())


def test_the_keeper_hears_that_its_signal_was_noted() -> None:
    """Else it would end everything itself, in no order."""

    async def story() -> None:
        scene = Scene(spec("web"))
        scene.shutdown.on_signal(15)
        assert scene.link.asked == [{"do": "noted"}]

    asyncio.run(story())


def test_an_essential_failure_ends_everything_with_its_code() -> None:
    """For containers: the keeper exits as the service did."""

    async def story() -> None:
        scene = Scene(spec("web"), spec("main", essential=True, restart_policy="never"))
        scene.keeper.exit("main", code=42)
        assert await scene.last_word() == {"do": "shutdown", "exit_code": 42}
        assert not scene.keeper.runs

    asyncio.run(story())


def test_exit_codes_are_the_shells() -> None:
    """A signal is 128 and its number; what is not known is 1."""
    assert exit_code_of(LastExit(3)) == 3
    assert exit_code_of(LastExit(None, "SIGKILL")) == 137
    assert exit_code_of(LastExit()) == 1
