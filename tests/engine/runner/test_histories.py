"""Histories of one service, written as data and replayed through the real runner."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast.engine.runner.declaration import stop_settings
from holdfast.vocabulary.specs.services import UNLIMITED, RestartSpec, ServiceSpec, StopSpec
from tests.engine.stage import Stage

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import EndedNotice, EndedProcess, ExitFacts

MakeStage = Callable[..., Stage]

Step = tuple[str, Any]


def ended(run_id: str, report: list[EndedProcess], *, empty: bool = True) -> EndedNotice:
    """The keeper's notice that a tree is gone, or is not."""
    facts: dict[str, Any] = {"seconds": 0.1, "report": report, "empty": empty}
    return cast("EndedNotice", {"notice": "ended", "run_id": run_id, "service": "web", **facts})


HISTORIES: dict[str, tuple[dict[str, Any], list[Step], list[str]]] = {
    "a start that stays up": (
        {},
        [("start", None), ("pass", 1.0)],
        ["starting", "running"],
    ),
    "a stop is done when the tree is empty": (
        {},
        [("start", None), ("pass", 1.0), ("stop", None)],
        ["starting", "running", "stopping", "stopped"],
    ),
    "a stop while starting": (
        {},
        [("start", None), ("stop", None)],
        ["starting", "stopping", "stopped"],
    ),
    "a crash backs off and starts again": (
        {},
        [("start", None), ("pass", 2.0), ("exit", 1), ("pass", 5.0), ("pass", 1.0)],
        ["starting", "running", "failed", "backoff", "starting", "running"],
    ),
    "a crash without delay starts again in the same turn": (
        {"restart": RestartSpec(delay=0, max_delay=0)},
        [("start", None), ("pass", 2.0), ("exit", 1)],
        ["starting", "running", "failed", "starting"],
    ),
    "a success stays exited": (
        {},
        [("start", None), ("pass", 2.0), ("exit", 0), ("pass", 99.0)],
        ["starting", "running", "exited"],
    ),
    "a success is restarted by always": (
        {"restart_policy": "always"},
        [("start", None), ("pass", 2.0), ("exit", 0), ("pass", 5.0)],
        ["starting", "running", "exited", "backoff", "starting"],
    ),
    "a quick success is an exit, no start failure": (
        {},
        [("start", None), ("exit", 0)],
        ["starting", "exited"],
    ),
    "start failures: three retries, then failed": (
        {},
        [("start", None), ("exit", 1), ("pass", 5.0), ("exit", 1), ("pass", 10.0), ("exit", 1),
         ("pass", 20.0), ("exit", 1), ("pass", 999.0)],
        ["starting", "failed", "backoff"] * 3 + ["starting", "failed"],
    ),
    "a stop while backing off": (
        {},
        [("start", None), ("exit", 1), ("stop", None), ("pass", 99.0)],
        ["starting", "failed", "backoff", "stopped"],
    ),
    "pause and resume": (
        {},
        [("start", None), ("pass", 1.0), ("pause", None), ("resume", None)],
        ["starting", "running", "paused", "running"],
    ),
    "a paused service can end": (
        {"restart_policy": "never"},
        [("start", None), ("pass", 1.0), ("pause", None), ("exit", 9)],
        ["starting", "running", "paused", "failed"],
    ),
    "a restart is a stop and a start": (
        {},
        [("start", None), ("pass", 1.0), ("restart", None), ("pass", 1.0)],
        ["starting", "running", "stopping", "stopped", "starting", "running"],
    ),
    "leftovers hold up the next start": (
        {"restart": RestartSpec(delay=0, max_delay=0)},
        [("start", None), ("pass", 2.0), ("exit with leftovers", 1), ("pass", 9.0),
         ("leftovers end", None)],
        ["starting", "running", "failed", "backoff", "starting"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", HISTORIES)
def test_history(title: str, make_stage: MakeStage) -> None:
    """The service passes through exactly these states."""
    fields, steps, states = HISTORIES[title]
    stage = make_stage(**fields)
    for verb, value in steps:
        match verb:
            case "start" | "stop" | "restart" | "pause" | "resume":
                getattr(stage.runner, verb)()
            case "pass":
                stage.advance(value)
            case "exit":
                stage.keeper.exit(code=value)
            case "exit with leftovers":
                stage.keeper.exit(code=value, leftovers=1)
            case "leftovers end":
                stage.keeper.end_leftovers()
        stage.settle()
    assert stage.recorder.states() == states


def test_crashes_restart_after_5_10_20_40_60_seconds(make_stage: MakeStage) -> None:
    """The schedule as the user sees it: nothing starts a moment earlier."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    for number, delay in enumerate([5, 10, 20, 40, 60, 60], start=2):
        stage.advance(2.0)
        stage.keeper.exit(code=1)
        stage.settle()
        assert stage.runner.status().next_start_in == pytest.approx(delay)
        stage.advance(delay - 0.01)
        assert len(stage.keeper.spawned) == number - 1
        stage.advance(0.02)
        assert len(stage.keeper.spawned) == number
        assert stage.runner.counters.restarts == number - 1


def test_suppression_and_a_manual_restart_after_it(make_stage: MakeStage) -> None:
    """After five failures in a row it is left failed; the sixth start, by hand, works."""
    stage = make_stage(restart=RestartSpec(max_restarts=4, delay=1, max_delay=1))
    stage.runner.start()
    stage.settle()
    for _ in range(5):
        stage.advance(1.0)
        stage.advance(2.0)
        stage.keeper.exit(code=7)
        stage.settle()
    status = stage.runner.status()
    assert status.status == "failed"
    assert status.restart_count == 4
    assert status.exit_code == 7
    assert "5 times in a row (max_restarts 4)" in str(status.reason)
    assert stage.failed == ["web"]
    assert "service:suppressed" in stage.recorder.kinds()
    answer = stage.runner.restart()
    stage.settle()
    stage.advance(1.0)
    assert answer.result().outcome == "restarted"
    assert stage.runner.status().restart_count == 0


def test_the_counter_resets_after_a_stable_run(make_stage: MakeStage) -> None:
    """Sixty seconds of running make the next failure the first, and status shows it."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    for _ in range(3):
        stage.advance(2.0)
        stage.keeper.exit(code=1)
        stage.settle()
        stage.advance(60.0)
    assert stage.runner.status().restart_count == 3
    stage.advance(61.0)
    assert stage.runner.status().restart_count == 0
    stage.keeper.exit(code=1)
    stage.settle()
    assert stage.runner.status().next_start_in == pytest.approx(5)


def test_a_restart_by_request_forgets_failures(make_stage: MakeStage) -> None:
    """Also of what has come up again: the next crash is the first."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.advance(2.0)
    stage.keeper.exit(code=1)
    stage.settle()
    stage.advance(6.0)
    assert stage.runner.status().restart_count == 1
    stage.runner.restart()
    stage.settle()
    stage.advance(2.0)
    assert (stage.runner.state.value, stage.runner.status().restart_count) == ("running", 0)
    stage.keeper.exit(code=1)
    stage.settle()
    assert stage.runner.status().next_start_in == pytest.approx(5)


def test_the_exit_of_another_run_is_not_its_own(make_stage: MakeStage) -> None:
    """A late word of an earlier run is recorded, and touches nothing that runs."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.advance(2.0)
    facts: ExitFacts = {
        "run_id": "run-before",
        "service": "web",
        "code": 3,
        "seconds": 5.0,
        "empty": True,
    }
    stage.runner.on_exit(facts)
    stage.runner.on_ended(ended("run-before", []))
    stage.settle()
    assert stage.runner.state.value == "running"
    assert stage.runner.run is not None
    assert not stage.runner.run.main_gone
    assert len(stage.keeper.spawned) == 1


def test_a_start_failure_tells_code_and_reason(make_stage: MakeStage) -> None:
    """The client that asked gets the exit code and the reason, and that it is retried."""
    stage = make_stage()
    answer = stage.runner.start()
    stage.settle()
    stage.keeper.exit(code=3)
    stage.settle()
    outcome = answer.result()
    assert (outcome.outcome, outcome.status, outcome.exit_code) == ("failed", "backoff", 3)
    assert outcome.reason == "exit code 3 within 1 s of its start"
    assert stage.runner.status().start_failures == 1


def test_a_spawn_failure_is_a_start_failure(make_stage: MakeStage) -> None:
    """The keeper's stage message reaches the client that asked; three retries follow."""
    stage = make_stage()
    stage.keeper.refuse_spawn = {"code": "spawn_failed", "message": "entering directory: gone"}
    answer = stage.runner.start()
    stage.settle()
    assert answer.result().reason == "entering directory: gone"
    for delay in (5, 10, 20):
        stage.advance(delay)
    assert stage.runner.state.value == "failed"
    assert stage.runner.status().start_failures == 4


def test_short_runs_are_spaced_without_delay(make_stage: MakeStage) -> None:
    """With no delay a run that died after 0.3 s is followed 1 s after its start."""
    stage = make_stage(
        start_seconds=0, restart=RestartSpec(delay=0, max_delay=0, max_restarts=UNLIMITED)
    )
    stage.runner.start()
    stage.settle()
    stage.advance(0.3)
    stage.keeper.exit(code=1)
    stage.settle()
    assert len(stage.keeper.spawned) == 1
    stage.advance(0.69)
    assert len(stage.keeper.spawned) == 1
    stage.advance(0.02)
    assert len(stage.keeper.spawned) == 2


def test_verbs_are_idempotent(make_stage: MakeStage) -> None:
    """Starting what runs and stopping what is stopped are successes that say so."""
    stage = make_stage()
    assert stage.runner.stop().result().outcome == "already_stopped"
    stage.runner.start()
    stage.settle()
    stage.advance(1.0)
    assert stage.runner.start().result().outcome == "already_running"
    assert stage.runner.resume().result().outcome == "not_paused"
    stage.runner.pause()
    stage.settle()
    assert stage.runner.pause().result().outcome == "already_paused"
    assert len(stage.keeper.spawned) == 1


def test_overrides_hold_until_a_start_without_them(make_stage: MakeStage) -> None:
    """args replace the arguments, env_vars add; an automatic restart keeps both."""
    from holdfast.engine.runner.declaration import Overrides

    stage = make_stage(env={"A": "1"}, restart=RestartSpec(delay=1, max_delay=1))
    stage.runner.restart(overrides=Overrides(args=("--y",), env_vars={"B": "2"}))
    stage.settle()
    stage.advance(2.0)
    stage.keeper.exit(code=1)
    stage.settle()
    stage.advance(1.0)
    for message in stage.keeper.spawned:
        assert message["argv"] == ["web", "--y"]
        assert message["env"] == {"A": "1", "B": "2", "PYTHONUNBUFFERED": "1"}
    assert stage.runner.status().overrides == {"args": ["--y"], "env_vars": ["B"]}
    stage.runner.restart()
    stage.settle()
    assert stage.keeper.spawned[-1]["argv"] == ["web", "--x"]
    assert stage.runner.status().overrides is None


def test_an_unkillable_tree_is_failed_and_never_doubled(make_stage: MakeStage) -> None:
    """While a process of the last run is left, nothing new is started."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.keeper.obeys = False
    answer = stage.runner.stop()
    stage.settle()
    run_id = stage.keeper.live().run_id
    report: list[EndedProcess] = [{"pid": 1, "name": "web", "how": "unkillable"}]
    stage.runner.on_ended(ended(run_id, report, empty=False))
    assert answer.result().outcome == "failed"
    assert stage.runner.start().result().outcome == "failed"
    assert len(stage.keeper.spawned) == 1


def test_the_exit_before_the_end_request_finishes_the_stop(make_stage: MakeStage) -> None:
    """A process that ends by itself while it is being stopped leaves it stopped."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.advance(1.0)
    stage.keeper.exit(code=0)
    answer = stage.runner.stop()
    stage.settle()
    assert answer.result().outcome in ("stopped", "already_stopped")
    assert stage.runner.state.value in ("stopped", "exited")
    assert stage.runner.run is None


def test_a_stop_signal_by_a_name_that_only_we_know() -> None:
    """A real-time signal that the configuration allows reaches the keeper as its number."""
    spec = ServiceSpec(
        name="web", argv=("web",), working_dir="/", stop=StopSpec(signal="SIGRTMIN+3")
    )
    assert stop_settings(spec)["signal"] == signal.SIGRTMIN + 3
