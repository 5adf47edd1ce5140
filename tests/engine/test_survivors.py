"""Runs that the database calls open and the keeper does not have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.adapters.store.state_tables import OpenRun, ServiceRecord
from holdfast.engine.roster import Roster
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.environment import AdmitAll, RunnerEnvironment
from holdfast.engine.runner.observers import RunObservers
from holdfast.engine.survivors import Survivors
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import Desired, State
from tests.engine.stage import FakeClock, FakeKeeper, FakeRecorder

Message = dict[str, Any]


class Link:
    """A keeper's answers to `adopt`: what is alive is adopted, the rest is not found."""

    def __init__(self, alive: set[int]) -> None:
        self.alive = alive
        self.strays: list[Message] = []
        self.is_paused = False
        self.boot_id = "boot"
        self.asked: list[Message] = []

    async def ask(self, message: Message) -> Message:
        if message["do"] == "strays":
            return {"strays": self.strays}
        self.asked.append(message)
        if message["do"] == "end_rest":
            return {"pids": [8]}
        if message["pid"] not in self.alive:
            raise Failed("no such process")
        return {**message, "ok": True, "adopted": True, "paused": self.is_paused}

    def request(self, message: Message, then: object) -> None:
        self.asked.append(message)


class Scene:
    def __init__(self, alive: set[int], **fields: Any) -> None:
        self.clock = FakeClock()
        self.keeper = FakeKeeper(self.clock)
        self.recorder = FakeRecorder()
        self.roster = Roster(
            RunnerEnvironment(
                self.keeper,
                self.recorder,
                self.clock,
                lambda: 0.5,
                self.clock.call_later,
                AdmitAll(),
                RunObservers(),
            ),
            new_future=asyncio.get_running_loop().create_future,
            on_failed=lambda _: None,
            on_changed=lambda: None,
        )
        self.link = Link(alive)
        self.survivors = Survivors(self.roster, self.link)  # type: ignore[arg-type]
        if fields.pop("declared", True):
            spec = ServiceSpec(name="web", argv=("web",), working_dir="/", **fields)
            self.roster.declare(Declaration(spec))

    def left(self, *pids: int, start_time: str | None = "5") -> None:
        self.roster.open_runs["web"] = [
            OpenRun(f"run-{pid}", "web", number, pid, start_time, "boot", 1.0)
            for number, pid in enumerate(pids, 1)
        ]


def test_a_survivor_is_adopted() -> None:
    """It is asked for by its whole identity, and becomes the service's run."""

    async def story() -> None:
        scene = Scene({7})
        scene.left(7)
        assert await scene.survivors.settle(["web"]) == ["web"]
        (asked,) = scene.link.asked
        assert (asked["pid"], asked["start_time"], asked["boot_id"]) == (7, "5", "boot")
        assert asked["cookie"] is True
        status = scene.roster.runners["web"].status()
        assert (status.status, status.pid, status.adopted) == ("running", 7, True)
        assert scene.roster.open_runs == {}

    asyncio.run(story())


def test_a_survivor_that_is_paused_is_told_so() -> None:
    """Whoever froze it, it is not called running."""

    async def story() -> None:
        scene = Scene({7})
        scene.left(7)
        scene.link.is_paused = True
        assert await scene.survivors.settle(["web"]) == ["web"]
        assert scene.roster.runners["web"].state is State.PAUSED

    asyncio.run(story())


@pytest.mark.parametrize("start_time", ["5", None])
def test_an_end_that_nobody_saw_is_unknown(start_time: str | None) -> None:
    """No code is invented; without a start time nobody is even asked for."""

    async def story() -> None:
        scene = Scene(set() if start_time else {7})
        scene.left(7, start_time=start_time)
        assert await scene.survivors.settle(["web"]) == []
        ((run_id, reason),) = scene.recorder.ended
        assert run_id == "run-7"
        assert "exit code unknown" in reason
        assert scene.roster.runners["web"].last_exit.code is None

    asyncio.run(story())


def test_there_is_one_instance_ever() -> None:
    """Of two survivors the newer is kept, the older ended."""

    async def story() -> None:
        scene = Scene({7, 8})
        scene.left(7, 8)
        await scene.survivors.settle(["web"])
        assert scene.roster.runners["web"].status().pid == 8
        assert [(it["do"], it["run_id"]) for it in scene.link.asked[-1:]] == [("end", "run-7")]

    asyncio.run(story())


def test_survivors_of_unknown_services_can_be_stopped() -> None:
    """Who is not declared any more stays visible, and is not started again."""

    async def story() -> None:
        scene = Scene({7}, declared=False)
        scene.left(7)
        assert await scene.survivors.settle_strangers() == ["web"]
        runner = scene.roster.runners["web"]
        assert runner.status().pid == 7
        assert runner.declaration.spec.restart_policy == "never"

    asyncio.run(story())


def test_an_end_of_a_stranger_is_told_once_it_is_declared() -> None:
    """What was started before `up` does not make an ended run one that still runs."""

    async def story() -> None:
        scene = Scene(set(), declared=False)
        scene.left(7)
        assert await scene.survivors.settle_strangers() == []
        assert await scene.survivors.settle_strangers() == []
        spec = ServiceSpec(name="web", argv=("web",), working_dir="/")
        scene.roster.declare(Declaration(spec))
        assert await scene.survivors.settle(["web"]) == []
        ((run_id, reason),) = scene.recorder.ended
        assert run_id == "run-7"
        assert "exit code unknown" in reason
        assert scene.roster.open_runs == {}

    asyncio.run(story())


def test_a_stop_by_hand_of_a_stranger_is_carried_out() -> None:
    """Not being declared yet, it is not wanted running again."""

    async def story() -> None:
        scene = Scene({7, 8}, declared=False)
        scene.left(7, 8)
        scene.roster.records["web"] = ServiceRecord(
            desired=Desired.STOPPED, stopped_by_hand=True, state=State.STOPPING, since=0.0, number=2
        )
        settling = asyncio.ensure_future(scene.survivors.settle_strangers())
        await asyncio.sleep(0)
        runner = scene.roster.runners["web"]
        assert (runner.state, runner.desired) == (State.STOPPING, Desired.STOPPED)
        assert runner.stopped_by_hand
        settling.cancel()

    asyncio.run(story())


def test_a_stray_is_adopted_like_a_survivor() -> None:
    """What was started but never recorded becomes the service's run; it is looked for once."""

    async def story() -> None:
        scene = Scene({7})
        stray = {"run_id": "run-7", "service": "web", "pid": 7, "start_time": "5"}
        scene.link.strays = [{**stray, "started_at": 1.0}]
        assert await scene.survivors.settle(["web"]) == ["web"]
        assert scene.roster.runners["web"].status().pid == 7
        assert await scene.survivors.settle(["web"]) == []
        assert len(scene.link.asked) == 1

    asyncio.run(story())


@pytest.mark.parametrize(("start_time", "is_accounted"), [("5", True), ("", True), ("", False)])
def test_what_outlived_its_run_is_ended(start_time: str, is_accounted: bool) -> None:
    """A daemon whose run is recorded, or has no main process, is not taken for the service."""

    async def story() -> None:
        scene = Scene({7})
        stray = {"run_id": "run-7", "service": "web", "pid": 7, "start_time": start_time}
        scene.link.strays = [{**stray, "started_at": 1.0}]
        runner = scene.roster.runners["web"]
        if is_accounted:
            runner._change(accounted="run-7", number=4)
        assert await scene.survivors.settle(["web"]) == []
        [asked] = scene.link.asked
        assert (asked["do"], asked["run_id"], asked.get("pid")) == ("end_rest", "run-7", None)
        assert asked.get("number") == (4 if is_accounted else None)
        assert asked["stop"]["signal"] == 15
        assert runner.run is None

    asyncio.run(story())


def test_what_a_run_left_is_ended_before_it_is_closed() -> None:
    """The main process is gone: whatever else lives of the run goes, too."""

    async def story() -> None:
        scene = Scene(set())
        scene.left(7)
        assert await scene.survivors.settle(["web"]) == []
        assert [it["do"] for it in scene.link.asked] == ["adopt", "end_rest"]
        adopt, rest = scene.link.asked
        for key in ("run_id", "service", "number", "pid", "start_time", "stop", "log"):
            assert rest[key] == adopt[key]

    asyncio.run(story())
