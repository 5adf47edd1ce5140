"""Runs that are judged: ended as a failure, admitted late, found ready."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.engine.runner.observers import RunObserver
from holdfast.rules.health import Condition
from holdfast.vocabulary.specs.services import RestartSpec
from holdfast.vocabulary.states import State
from tests.engine.stage import Stage

MakeStage = Callable[..., Stage]


class Held:
    """Nobody starts until let go."""

    def __init__(self) -> None:
        self.waiting: Callable[[], None] | None = None

    def admit(self, service: object, begin: Callable[[], None]) -> None:
        self.waiting = begin

    def withdraw(self, service: object) -> None:
        self.waiting = None

    def let_go(self) -> None:
        assert self.waiting is not None
        self.waiting()


class Witness(RunObserver):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def run_began(self, runner: object) -> None:
        self.told.append("began")

    def run_over(self, runner: object) -> None:
        self.told.append("over")
        raise RuntimeError("a broken monitor")


def state_of(stage: Stage) -> State:
    return stage.runner.state


def test_a_run_is_ended_as_a_failure(make_stage: MakeStage) -> None:
    """Its exit code does not matter: it is started again after a back-off, with the reason."""
    one = make_stage()
    one.runner.start()
    one.settle()
    one.advance(2.0)
    assert one.runner.end_as_failure("unhealthy", "three checks failed")
    assert state_of(one) is State.STOPPING
    one.settle()
    assert state_of(one) is State.BACKOFF
    assert one.runner.reason == "three checks failed"
    assert one.runner.counters.failures == 1
    one.advance(5.0)
    assert state_of(one) is State.STARTING
    assert one.recorder.states()[-4:] == ["stopping", "failed", "backoff", "starting"]


def test_an_end_while_starting_is_a_start_failure(make_stage: MakeStage) -> None:
    """It counts against `start_retries`, and clients that wait for the start are told why."""
    one = make_stage(start_retries=0, start_seconds=10.0)
    future = one.runner.start()
    one.settle()
    one.advance(3.0)
    assert one.runner.end_as_failure("startup", "it did not come up")
    one.settle()
    assert state_of(one) is State.FAILED
    assert future.result().outcome == "failed"
    assert "it did not come up" in (future.result().reason or "")


@pytest.mark.parametrize("verb", ["stop", "restart"])
def test_a_request_overrules_a_verdict(make_stage: MakeStage, verb: str) -> None:
    """A stop or a restart is just that, and no failure is counted."""
    one = make_stage()
    one.runner.start()
    one.settle()
    one.advance(2.0)
    one.runner.end_as_failure("unhealthy", "three checks failed")
    getattr(one.runner, verb)()
    one.settle()
    assert state_of(one) is (State.STOPPED if verb == "stop" else State.STARTING)
    assert one.runner.counters.failures == 0


def test_nothing_that_does_not_live_is_ended_as_a_failure(make_stage: MakeStage) -> None:
    """A verdict that comes too late changes nothing."""
    one = make_stage()
    assert not one.runner.end_as_failure("unhealthy", "whatever")
    assert state_of(one) is State.PENDING


def test_a_start_waits_for_admission(make_stage: MakeStage) -> None:
    """A held service spawns nothing, and a stop lets it out of the line."""
    one = make_stage()
    held = Held()
    one.admission = held
    one.runner = one.new_runner()
    future = one.runner.start()
    one.settle()
    assert one.keeper.spawned == []
    assert state_of(one) is State.PENDING
    held.let_go()
    one.settle()
    one.advance(1.0)
    assert future.result().outcome == "started"
    one.runner.stop()
    assert held.waiting is None


def test_a_restart_after_a_crash_waits_for_admission(make_stage: MakeStage) -> None:
    """Back-off alone does not start it: what it needs may be gone."""
    one = make_stage(restart=RestartSpec(delay=1.0))
    one.runner.start()
    one.settle()
    one.advance(2.0)
    held = Held()
    one.runner._environment = replace(one.runner._environment, admission=held)
    one.keeper.exit()
    one.settle()
    one.advance(5.0)
    assert state_of(one) is State.BACKOFF
    held.let_go()
    one.settle()
    assert state_of(one) is State.STARTING


def test_a_start_is_answered_when_it_is_ready(make_stage: MakeStage) -> None:
    """A startup probe holds back `running`, a readiness probe only the answer."""
    one = make_stage()
    future = one.runner.start()
    one.settle()
    one.runner.judge(Condition(is_started=False, is_ready=False))
    one.advance(5.0)
    assert state_of(one) is State.STARTING
    one.runner.judge(Condition(is_started=True, is_ready=False))
    assert state_of(one) is State.RUNNING
    assert not future.done()
    one.runner.judge(Condition(is_started=True, is_ready=True))
    assert future.result().outcome == "started"


def test_observers_are_told_and_cannot_harm(make_stage: MakeStage) -> None:
    """A broken monitor takes neither the service nor the others with it."""
    one = make_stage()
    witness = Witness()
    one.observers.add(witness)
    one.runner.start()
    one.settle()
    one.runner.stop()
    one.settle()
    assert witness.told[0] == "began"
    assert "over" in witness.told
    assert state_of(one) is State.STOPPED
