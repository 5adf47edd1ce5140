"""Actions about trouble, on a fake keeper: only the runner changes a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.engine.workflows.recovery import recover
from holdfast.vocabulary.specs.services import RestartSpec
from holdfast.vocabulary.specs.workflows import RecoverySpec
from holdfast.vocabulary.states import State
from tests.engine.stage import Stage

MakeStage = Callable[..., Stage]


def up(make_stage: MakeStage, **recovery: RecoverySpec) -> Stage:
    stage = make_stage(recovery=recovery, restart=RestartSpec(delay=1.0, jitter=0))
    stage.runner.start()
    stage.settle()
    stage.advance(5)
    return stage


def state_of(stage: Stage) -> State:
    return stage.runner.state


def recoveries(stage: Stage) -> list[tuple[str, str]]:
    found = (data for kind, data in stage.recorder.events if kind == "service:recovery")
    return [(data["cause"], data["action"]) for data in found]


def test_by_default_it_is_restarted(make_stage: MakeStage) -> None:
    """Trouble that was found ends the run as a failure, and the restart policy goes on."""
    it = up(make_stage)
    recover(it.runner, "unhealthy", "HTTP 500")
    it.settle()
    it.advance(2)
    assert len(it.keeper.spawned) == 2
    assert recoveries(it) == []


@pytest.mark.parametrize("cause", ["unhealthy", "memory", "timeout"])
def test_stop(make_stage: MakeStage, cause: str) -> None:
    """It is stopped and stays so, and says why."""
    it = up(make_stage, **{cause: RecoverySpec(action="stop")})
    recover(it.runner, cause, "trouble")
    it.settle()
    it.advance(100)
    assert state_of(it) is State.STOPPED
    assert len(it.keeper.spawned) == 1
    assert recoveries(it) == [(cause, "stop")]
    assert it.runner.reason == "trouble"
    known = {"memory": "RESOURCE_EXCEEDED", "timeout": "TIMEOUT", "unhealthy": None}
    assert getattr(it.runner.error_type, "value", None) == known[cause]


def test_who_waits_is_told_why_it_was_stopped(make_stage: MakeStage) -> None:
    """Nobody asked for that stop; the trouble did."""
    it = make_stage(recovery={"unhealthy": RecoverySpec(action="stop")})
    asked = it.runner.start()
    it.settle()
    recover(it.runner, "unhealthy", "HTTP 500")
    it.settle()
    assert (asked.result().outcome, asked.result().reason) == ("failed", "HTTP 500")


@pytest.mark.parametrize("action", ["notify", "command"])
def test_a_start_that_fails_its_startup_check_is_over(make_stage: MakeStage, action: Any) -> None:
    """What is done about it is done beside the restart policy, as after any failed start."""
    it = make_stage(
        recovery={"start_failure": RecoverySpec(action=action, command="tell")},
        restart=RestartSpec(delay=1.0, jitter=0),
    )
    it.runner.start()
    it.settle()
    recover(it.runner, "start_failure", "no answer")
    it.settle()
    it.advance(2)
    assert len(it.keeper.spawned) == 2
    assert recoveries(it) == [("start_failure", action)]


def test_notify(make_stage: MakeStage) -> None:
    """It is told, and nothing else happens."""
    it = up(make_stage, unhealthy=RecoverySpec(action="notify"))
    recover(it.runner, "unhealthy", "trouble")
    it.settle()
    assert state_of(it) is State.RUNNING
    assert recoveries(it) == [("unhealthy", "notify")]


def test_signal(make_stage: MakeStage) -> None:
    """The main process gets the signal, and goes on."""
    it = up(make_stage, unhealthy=RecoverySpec(action="signal", signal="SIGHUP"))
    sent: list[dict[str, Any]] = []
    ask = it.keeper.request

    def request(message: dict[str, Any], then: Callable[[dict[str, Any]], None]) -> None:
        sent.append(message)
        ask(message, then)

    it.keeper.request = request  # type: ignore[method-assign]
    recover(it.runner, "unhealthy", "trouble")
    it.settle()
    run_id = it.keeper.live().run_id
    assert sent == [{"do": "signal", "run_id": run_id, "signal": 1, "to": "main"}]
    assert state_of(it) is State.RUNNING


def test_a_crash_with_stop_is_not_started_again(make_stage: MakeStage) -> None:
    """The restart policy would; `recovery: {crash: stop}` says no, and the reason says why."""
    it = up(make_stage, crash=RecoverySpec(action="stop"))
    it.keeper.exit(code=1)
    it.settle()
    it.advance(100)
    assert state_of(it) is State.FAILED
    assert "recovery of crash: stop" in (it.runner.reason or "")
    assert len(it.keeper.spawned) == 1


def test_a_crash_with_notify_is_started_again(make_stage: MakeStage) -> None:
    """What is done beside it does not hinder the restart policy."""
    it = up(make_stage, crash=RecoverySpec(action="notify"))
    it.keeper.exit(code=1)
    it.settle()
    it.advance(2)
    assert len(it.keeper.spawned) == 2
    assert recoveries(it) == [("crash", "notify")]


def test_suppressed(make_stage: MakeStage) -> None:
    """The action for giving up comes once, when it is given up."""
    it = make_stage(
        recovery={"suppressed": RecoverySpec(action="notify")},
        restart=RestartSpec(delay=1.0, jitter=0, max_restarts=1),
    )
    it.runner.start()
    it.settle()
    for _ in range(2):
        it.advance(5)
        it.keeper.exit(code=1)
        it.settle()
    assert state_of(it) is State.FAILED
    assert recoveries(it) == [("suppressed", "notify")]


def test_a_request_to_stop_is_no_trouble(make_stage: MakeStage) -> None:
    """What ends because a user stopped it calls for no action."""
    it = up(make_stage, crash=RecoverySpec(action="notify"))
    it.runner.stop()
    it.settle()
    assert recoveries(it) == []
