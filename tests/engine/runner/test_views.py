"""A status is always that of now, though most of it is built and encoded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from holdfast.adapters.metrics.usage import Totals, Usage
from holdfast.engine.runner import views
from holdfast.engine.runner.declaration import Overrides
from holdfast.engine.runner.live_run import LastExit
from holdfast.engine.runner.runner import Runner
from holdfast.rules.health import Condition
from holdfast.rules.lifecycle.restart import Counters
from holdfast.vocabulary.services import ServiceStatus
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.states import Desired, ErrorType, State
from tests.engine.runner.test_replacing import Scene
from tests.engine.stage import Stage

MakeStage = Callable[..., Stage]


def written(runners: Iterable[Runner], now: float) -> dict[str, ServiceStatus]:
    return msgspec.json.decode(views.encode_statuses(runners, now), type=dict[str, ServiceStatus])


def usage(memory: int) -> Usage:
    return Usage(Totals(), 12.34, memory, 3, 1, 1)


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """One service that runs."""
    stage = make_stage()
    stage.runner.start()
    stage.settle()
    stage.advance(2.0)
    return stage


FACTS: dict[str, tuple[object, str, object]] = {
    "state": (State.PAUSED, "paused", True),
    "desired": (Desired.STOPPED, "desired", "stopped"),
    "counters": (Counters(restarts=7), "restart_count", 7),
    "reason": ("it said no", "reason", "it said no"),
    "since": (12.5, "since", 12.5),
    "last_run_id": ("run-2", "run_id", "run-2"),
    "last_exit": (LastExit(seconds=3.5), "duration", 3.5),
    "overrides": (Overrides(env_vars={"A": "1"}), "overrides", {"env_vars": ["A"]}),
    "condition": (Condition(is_ready=False), "ready", False),
    "waiting_for": (("db",), "waiting_for", ["db"]),
    "scaled": ("2 of 3", "scaled", "2 of 3"),
    "owner": (Owner(session="s-1", client="it"), "owner", {"session": "s-1", "client": "it"}),
    "ports": ({"http": 8080}, "ports", {"http": 8080}),
    "error_type": (ErrorType.TIMEOUT, "error_type", "TIMEOUT"),
    "next_scheduled": (99.0, "next_scheduled", 99.0),
}


@pytest.mark.parametrize("fact", FACTS)
def test_a_changed_fact_is_shown_at_once(fact: str, stage: Stage) -> None:
    """Both ways to show it were used just before, and kept what they built."""
    value, field, shown = FACTS[fact]
    now, runner = stage.clock.now, stage.runner
    assert getattr(written([runner], now)["web"], field) != shown
    runner._change(**{fact: value})  # type: ignore[arg-type]
    assert getattr(runner.status(), field) == shown
    assert getattr(written([runner], now)["web"], field) == shown


def test_what_a_run_uses_is_shown_at_once(stage: Stage) -> None:
    """A look at a run changes no fact of its service."""
    runner, now = stage.runner, stage.clock.now
    for memory in (5_000_000, 7_000_000):
        assert runner.run is not None
        runner.run.usage = usage(memory)
        assert runner.status().memory_mb == memory / 1e6
        assert written([runner], now)["web"].memory_mb == memory / 1e6


def test_what_changes_by_itself_is_of_now(stage: Stage) -> None:
    """Time and recorded bytes go on while all else is kept as it was built."""
    runner = stage.runner
    kept = written([runner], stage.clock.now) and runner.cached_status
    for more in (10, 20):
        stage.advance(1.2344)
        assert runner.run is not None
        runner.run.log_bytes += more
        status = written([runner], stage.clock.now)["web"]
        assert status == runner.status()
        assert status.uptime == pytest.approx(stage.clock.now - runner.run.started_mono, abs=0.0006)
        assert status.log_bytes == runner.run.log_bytes
    assert runner.cached_status is kept
    stage.keeper.exit(code=1)
    stage.settle()
    for left in (5.0, 3.5):
        status = written([runner], stage.clock.now)["web"]
        assert status == runner.status()
        assert (status.uptime, status.next_start_in) == (None, left)
        stage.advance(1.5)


def test_the_main_process_is_gone_before_its_tree_is(stage: Stage) -> None:
    """From then on there is no pid and no uptime."""
    runner = stage.runner
    assert written([runner], stage.clock.now)["web"].pid is not None
    assert runner.run is not None
    runner.run.main_gone = True
    status = written([runner], stage.clock.now)["web"]
    assert (status.pid, status.uptime) == (None, None)


def test_a_second_run_is_shown_as_it_is() -> None:
    """Its pid comes later than the run itself."""
    scene = Scene()
    try:
        scene.replace_run()
        second = scene.web.beside
        assert second.run.pid is not None
        for _ in range(2):
            assert written([scene.web], scene.clock.now)["web"].beside == second.facts()
            second.run.pid += 1
    finally:
        scene.close()


def test_who_holds_a_status_holds_that_of_then(stage: Stage) -> None:
    """A later status changes none that was given."""
    before = stage.runner.status()
    then = before.uptime
    stage.advance(5.0)
    stage.runner.status()
    assert before.uptime == then


@pytest.mark.parametrize("name", ["uptime", "log_bytes", 'a"b', "café", "next_start_in"])
def test_names_are_not_taken_for_fields(name: str, stage: Stage) -> None:
    """What users and programs write may look like what is put in."""
    runner: Any = stage.runner
    runner.name = name
    runner._change(ports={name: 80, "uptime": 81}, reason='"uptime":1,"log_bytes":2,')
    assert written([runner], stage.clock.now) == {name: runner.status()}


def test_what_is_not_text_is_told_nevertheless(stage: Stage) -> None:
    """A reason may carry bytes of the system that are not UTF-8."""
    stage.runner._change(reason="no such file: \udcff")
    assert written([stage.runner], stage.clock.now)["web"].reason == "no such file: \ufffd"


def test_many_and_none(make_stage: MakeStage) -> None:
    """Each has its own numbers, whatever state its neighbours are in."""
    runners: list[Any] = []
    for index in range(12):
        stage = make_stage()
        runner: Any = stage.runner
        runner.name = f"web{index}"
        if index % 3:
            runner.start()
            stage.settle()
            stage.advance(1.0 + index)
            runner.run.log_bytes = index
        if index % 3 == 2:
            stage.keeper.exit(code=index)
            stage.settle()
        runners.append(runner)
    now = 1020.0
    told = written(runners, now)
    assert list(told) == [runner.name for runner in runners]
    assert told == {runner.name: views.status_of(runner, now) for runner in runners}
    assert {status.status for status in told.values()} == {"pending", "running", "backoff"}
    assert written([], now) == {}
