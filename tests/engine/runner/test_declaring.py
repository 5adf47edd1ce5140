"""New declarations of a live service, on the stage: what applies at once, and to what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holdfast.engine.runner.declaration import Declaration
from holdfast.rules.lifecycle.restart import Counters
from holdfast.vocabulary.specs.services import LogSpec, RestartSpec, StopSpec
from holdfast.vocabulary.states import State
from tests.engine.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage(start_seconds=10.0)
    made.asked = []  # type: ignore[attr-defined]
    request = made.keeper.request

    def spy(message: dict[str, Any], then: Any) -> None:
        made.asked.append(message)  # type: ignore[attr-defined]
        request(message, then)

    made.keeper.request = spy  # type: ignore[method-assign]
    made.runner.start(wait=False)
    made.settle()
    yield made
    made.close()


def redeclare(stage: Stage, **fields: Any) -> bool:
    spec = msgspec.structs.replace(stage.runner.declaration.spec, **fields)
    is_outdated = stage.runner.declare(Declaration(spec))
    stage.settle()
    return is_outdated


def asked(stage: Stage, word: str) -> list[dict[str, Any]]:
    return [message for message in stage.asked if message["do"] == word]  # type: ignore[attr-defined]


def test_what_the_keeper_must_know_is_told(stage: Stage) -> None:
    """How it is ended and how much is kept reach the keeper for the live run, once."""
    assert not redeclare(stage, stop=StopSpec(signal="SIGINT", grace=1.0), log=LogSpec())
    (told,) = asked(stage, "adjust")
    assert told["run_id"] == stage.keeper.live().run_id
    assert told["stop"] == {"signal": 2, "grace": 1.0}
    assert not redeclare(stage, essential=True)
    assert len(asked(stage, "adjust")) == 1


def test_only_what_makes_the_process_is_outdated(stage: Stage) -> None:
    """Other arguments make a run outdated, until it is started again or they are taken back."""
    before = stage.runner.declaration.spec.argv
    assert redeclare(stage, argv=("web", "--y"))
    assert redeclare(stage, restart_policy="always")
    assert not redeclare(stage, argv=before)
    assert redeclare(stage, argv=("web", "--y"))
    stage.runner.restart(wait=False)
    stage.settle()
    assert not stage.runner.is_outdated


def test_start_seconds_count_for_the_start_under_way(stage: Stage) -> None:
    """A start that is under way ends when the new start_seconds say so."""
    stage.advance(3)
    redeclare(stage, start_seconds=4.0)
    stage.advance(0.9)
    assert stage.runner.status().status == "starting"
    stage.advance(0.2)
    assert stage.runner.status().status == "running"


def test_reset_after_counts_for_the_live_run(stage: Stage) -> None:
    """Failures are forgotten after the new reset_after, counted from the run's start."""
    runner = stage.runner
    stage.keeper.end_main(stage.keeper.live(), 1, None)
    stage.settle()
    stage.advance(20)
    stage.advance(10)
    assert runner.state is State.RUNNING
    assert runner.counters != Counters()
    redeclare(stage, restart=RestartSpec(reset_after=40.0))
    stage.advance(41)
    assert runner.counters == Counters()


def test_a_planned_restart_is_called_off(stage: Stage) -> None:
    """A service that may not be restarted any more is not, although it was about to be."""
    stage.keeper.end_main(stage.keeper.live(), 1, None)
    stage.settle()
    redeclare(stage, restart_policy="never")
    assert stage.runner.state is State.FAILED
    stage.advance(120)
    assert len(stage.keeper.spawned) == 1
