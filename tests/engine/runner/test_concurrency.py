"""Many clients at once: one instance ever, everybody answered, the last wish wins."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from holdfast.vocabulary.specs.services import RestartSpec
from tests.engine.stage import Stage

MakeStage = Callable[..., Stage]


@pytest.mark.parametrize("seed", range(150))
def test_any_interleaving_ends_as_the_last_client_wished(seed: int, make_stage: MakeStage) -> None:
    """Random requests, crashes, message orders and timers; the keeper asserts one instance."""
    choose = random.Random(seed)
    stage = make_stage(restart=RestartSpec(delay=choose.choice([0, 1]), max_delay=2))
    stage.keeper.obeys = True
    answers, last = [], ""
    for _ in range(choose.randrange(5, 60)):
        match choose.choice(["start", "stop", "restart", "crash", "take", "deliver", "pass"]):
            case "start" | "stop" | "restart" as verb:
                answers.append(getattr(stage.runner, verb)())
                last = verb
            case "crash":
                alive = [run for run in stage.keeper.runs.values() if not run.main_gone]
                if alive:
                    code = choose.choice([0, 1])
                    stage.keeper.end_main(alive[0], code, None, choose.choice([0, 0, 1]))
            case "take":
                stage.keeper.take_one()
            case "deliver":
                stage.keeper.deliver_one()
            case "pass":
                stage.clock.advance(choose.choice([0.1, 0.7, 3.0]))
    stage.settle()
    for run in [run for run in stage.keeper.runs.values() if run.main_gone]:
        stage.keeper.end_leftovers(run.service)
    stage.settle()
    if last in ("start", "restart"):
        answers.append(stage.runner.start())
    stage.settle()
    stage.advance(5.0)
    assert all(answer.done() for answer in answers)
    assert len(stage.keeper.runs) <= 1
    if last == "stop":
        assert not stage.keeper.runs
        assert stage.runner.state.value in ("stopped", "failed", "exited")
    elif last:
        assert stage.runner.state.value == "running"
        assert len(stage.keeper.runs) == 1


def test_a_stop_supersedes_a_start_and_says_so(make_stage: MakeStage) -> None:
    """The client that asked for the start is told the truth, not left waiting."""
    stage = make_stage()
    started = stage.runner.start()
    stopped = stage.runner.stop()
    assert started.result().outcome == "failed"
    assert started.result().reason == "a later request stopped it"
    stage.settle()
    assert stopped.result().outcome == "stopped"


def test_a_stop_that_ends_a_back_off_says_so(make_stage: MakeStage) -> None:
    """Nothing ran, but something was about to: this stop has changed it, the next one nothing."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.advance(2.0)
    stage.keeper.exit(code=1)
    stage.settle()
    assert stage.runner.state.value == "backoff"
    assert stage.runner.stop().result().outcome == "stopped"
    assert stage.runner.stop().result().outcome == "already_stopped"


def test_a_start_during_a_stop_starts_when_the_tree_is_empty(make_stage: MakeStage) -> None:
    """Both are answered: the stop with stopped, the start with started, one after the other."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.advance(1.0)
    stopped, started = stage.runner.stop(), stage.runner.start()
    stage.settle()
    assert stopped.result().outcome == "stopped"
    stage.advance(1.0)
    assert started.result().outcome == "started"
    assert len(stage.keeper.spawned) == 2


def test_a_shorter_grace_reaches_the_keeper(make_stage: MakeStage) -> None:
    """A second stop with grace 0 kills at once."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.keeper.obeys = False
    first = stage.runner.stop()
    stage.settle()
    assert not first.done()
    second = stage.runner.stop(grace=0)
    stage.settle()
    assert first.result().outcome == second.result().outcome == "stopped"
