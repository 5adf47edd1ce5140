"""A new run beside the old one: promoted when it is ready, and gone without a trace if not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.engine.runner.observers import RunObserver
from holdfast.rules.health import Condition
from holdfast.vocabulary.specs.services import RestartSpec
from holdfast.vocabulary.states import State
from tests.engine.cast import Cast


class Scene(Cast):
    """One service, `web`, whose run is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.keeper.most_beside = 1
        self.declare("web", overlap=True, restart=RestartSpec(delay=1.0, jitter=0.0))
        self.start("web")
        self.advance(2.0)

    @property
    def web(self) -> Any:
        return self["web"]

    def replace_run(self) -> Any:
        future = self.web.replace_run(ready_seconds=10.0)
        self.advance(0)
        return future

    def numbers(self) -> list[int]:
        """The runs that live, by number."""
        return sorted(run.facts["number"] for run in self.keeper.runs.values())

    def run(self, number: int) -> Any:
        return next(it for it in self.keeper.runs.values() if it.facts["number"] == number)

    def end(self, number: int, code: int = 1) -> None:
        self.keeper.end_main(self.run(number), code, None)
        self.advance(0)

    def steps(self) -> list[str]:
        return [data["step"] for kind, data in self.recorder.events if kind == "service:overlap"]


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


def test_the_new_one_takes_over_and_the_old_one_goes(scene: Scene) -> None:
    """The service is running all the time, and nothing counts as a failure."""
    before = scene.web.status()
    future = scene.replace_run()
    assert scene.numbers() == [1, 2]
    assert scene.web.status().pid == before.pid
    scene.advance(1.0)
    assert scene.numbers() == [2]
    assert future.result().outcome == "restarted"
    assert scene.web.status().run == 2
    assert scene.web.status().pid == scene.run(2).pid
    assert scene.web.counters.failures == 0
    assert scene.recorder.states() == ["starting", "running"]
    assert scene.steps() == ["begun", "promoted"]
    assert scene.web.beside is None
    assert "overlap:web" not in scene.keeper.kept


def test_readiness_is_awaited(scene: Scene) -> None:
    """Staying up is not enough where a probe says that it is not ready."""

    class Probe(RunObserver):
        def candidate_began(self, candidate: Any) -> None:
            candidate.judge(Condition(is_ready=False))

    scene.observers.add(Probe())
    future = scene.replace_run()
    scene.advance(5.0)
    assert scene.numbers() == [1, 2]
    scene.web.beside.judge(Condition(is_ready=True, said="here"))
    scene.advance(0)
    assert future.result().outcome == "restarted"
    assert scene.web.condition == Condition(is_ready=True, said="here")


@pytest.mark.parametrize("how", ["exit", "late", "unready", "ended as a failure"])
def test_a_new_one_that_fails_leaves_the_old_one_alone(scene: Scene, how: str) -> None:
    """The old run keeps its pid, its readiness and its counters; the answer says so."""
    pid, condition = scene.web.status().pid, scene.web.condition
    future = scene.replace_run()
    if how == "exit":
        scene.end(2, code=3)
    elif how == "late":
        scene.web.beside.judge(Condition(is_ready=False))
        scene.advance(12.0)
    elif how == "unready":
        scene.web.beside.tell_unready("status 500")
    else:
        scene.web.beside.end_as_failure("unhealthy", "three checks failed")
    scene.advance(0)
    outcome = future.result()
    assert outcome.outcome == "failed"
    assert outcome.reason.startswith("the new run failed: ")
    assert outcome.reason.endswith("; the old one goes on")
    assert outcome.pid == pid
    assert scene.numbers() == [1]
    assert (scene.web.state, scene.web.status().pid) == (State.RUNNING, pid)
    assert scene.web.condition == condition
    assert scene.web.counters.failures == 0
    scene.advance(100.0)
    assert scene.numbers() == [1]
    assert scene.steps() == ["begun", "failed"]
    again = scene.replace_run()
    scene.advance(1.0)
    assert again.result().outcome == "restarted"
    assert scene.numbers() == [3]


def test_a_new_one_that_cannot_be_started(scene: Scene) -> None:
    """A new run without a process is a failure of the new run alone."""
    scene.keeper.refuse_spawn = {"code": "spawn_failed", "message": "entering directory: no"}
    outcome = scene.replace_run().result()
    assert outcome.outcome == "failed"
    assert "entering directory: no; the old one goes on" in outcome.reason
    assert scene.web.beside is None


def test_the_old_one_dies_first(scene: Scene) -> None:
    """The candidate is the restart: there is exactly one run in the end."""
    future = scene.replace_run()
    scene.end(1)
    scene.advance(0)
    assert scene.web.run.number == 2, "at once, without a back-off"
    scene.advance(1.0)
    assert scene.numbers() == [2]
    assert scene.state("web") is State.RUNNING
    assert future.result().outcome == "restarted"
    assert [message["number"] for message in scene.keeper.spawned] == [1, 2]


@pytest.mark.parametrize("verb", ["stop", "restart"])
def test_a_request_ends_both(scene: Scene, verb: str) -> None:
    """Stopped means that no process of either is left."""
    future = scene.replace_run()
    scene.keeper.obeys = False
    asked = getattr(scene.web, verb)()
    scene.advance(0)
    assert scene.numbers() == [1, 2]
    scene.keeper.end_main(scene.run(1), None, 15)
    scene.advance(0)
    assert not asked.done()
    assert scene.state("web") is State.STOPPING
    scene.keeper.end_main(scene.run(2), None, 15)
    scene.advance(1.0)
    assert future.result().outcome == "failed"
    if verb == "stop":
        assert asked.result().outcome == "stopped"
        assert scene.numbers() == []
        assert scene.state("web") is State.STOPPED
    else:
        assert asked.result().outcome == "restarted"
        assert scene.numbers() == [3]


def test_the_promoted_one_crashes_while_the_old_one_lingers(scene: Scene) -> None:
    """Nothing is started as long as a process of the old run is there."""
    scene.replace_run()
    scene.keeper.obeys = False
    scene.advance(1.0)
    assert scene.numbers() == [1, 2]
    scene.end(2)
    scene.advance(5.0)
    assert scene.numbers() == [1]
    scene.keeper.end_main(scene.run(1), None, 15)
    scene.advance(2.0)
    assert scene.numbers() == [3]
    assert scene.state("web") is State.RUNNING


def test_only_a_live_run_is_replaced(scene: Scene) -> None:
    """There is one candidate at a time, and only for a service that runs."""
    scene.replace_run()
    assert (
        scene.web.replace_run(ready_seconds=1.0).result().reason == "a restart of it is under way"
    )
    scene.web.stop()
    scene.advance(0)
    outcome = scene.web.replace_run(ready_seconds=1.0).result()
    assert outcome.reason == "it is stopped, so there is nothing to relieve"


@pytest.mark.parametrize("is_promoted", [False, True])
def test_one_run_is_left_when_the_supervisor_dies(scene: Scene, is_promoted: bool) -> None:
    """The old one stays, unless the new one has taken its place already."""
    scene.keeper.obeys = False
    scene.replace_run()
    if is_promoted:
        scene.advance(1.0)
    assert scene.numbers() == [1, 2]
    scene.lose_supervisor()
    staying, leaving = (2, 1) if is_promoted else (1, 2)
    assert scene.web.run.number == staying
    assert scene.state("web") is State.RUNNING
    if leaving in scene.numbers():
        scene.keeper.end_main(scene.run(leaving), None, 15)
    scene.advance(10.0)
    assert scene.numbers() == [staying]
    assert scene.web.counters.failures == 0
    assert scene.web.beside is None
    scene.keeper.obeys = True
    scene.web.restart()
    scene.advance(2.0)
    assert scene.numbers() == [3]


@pytest.mark.parametrize("dead", [1, 2])
def test_a_death_that_nobody_saw(scene: Scene, dead: int) -> None:
    """Whichever of the two ends while no supervisor is there, the other one is the service."""
    scene.replace_run()
    scene.keeper.lose_supervisor()
    scene.keeper.end_main(scene.run(dead), 1, None)
    scene.keeper._outbox.clear()
    scene.lose_supervisor()
    scene.advance(10.0)
    assert scene.numbers() == [3 - dead]
    assert scene.web.run.number == 3 - dead
    assert scene.state("web") is State.RUNNING


@pytest.mark.parametrize("seed", range(60))
def test_any_history_ends_with_one_run_or_none(scene: Scene, seed: int) -> None:
    """Requests, crashes, deaths of the supervisor and message orders, in any mixture."""
    choose = random.Random(seed)
    futures = []
    for _ in range(choose.randrange(5, 40)):
        match choose.choice(
            ["replace", "replace", "stop", "start", "restart", "crash", "pass", "pass", "die"]
        ):
            case "replace":
                futures.append(scene.web.replace_run(ready_seconds=3.0))
            case "stop" | "start" | "restart" as verb:
                futures.append(getattr(scene.web, verb)())
            case "crash":
                alive = [run for run in scene.keeper.runs.values() if not run.main_gone]
                if alive:
                    scene.keeper.end_main(choose.choice(alive), choose.choice([0, 1]), None)
            case "pass":
                scene.advance(choose.choice([0, 0.3, 1.0, 4.0]))
            case "die":
                scene.lose_supervisor()
                futures.clear()
    scene.advance(0)
    last = scene.web.restart()
    for _ in range(5):
        scene.advance(5.0)
    assert last.result().outcome == "restarted"
    assert all(future.done() for future in futures)
    assert len(scene.numbers()) == 1
    assert scene.state("web") is State.RUNNING
    assert scene.web.beside is None
