"""Each kind of trouble has its name, its words and its own handling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.engine.runner.declaration import kernel_limits, spawn_message
from holdfast.rules.lifecycle import restart
from holdfast.rules.lifecycle.restart import Counters, Ending
from holdfast.vocabulary.specs.resources import LimitAction, MemoryLimit
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import ErrorType
from tests.engine.stage import Stage

LIMIT = MemoryLimit(size=512 * 1024 * 1024)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage(memory_limit=LIMIT)
    made.runner.start()
    made.advance(5)
    yield made
    made.close()


def facts_of(stage: Stage, kind: str) -> dict[str, Any]:
    return [data for name, data in stage.recorder.events if name == kind][-1]


def test_a_kill_by_the_kernel_tells_the_limit(stage: Stage) -> None:
    """`oom_kills` of the keeper's exit is the cause of a SIGKILL."""
    run = stage.keeper.live()
    stage.runner.on_exit(
        {
            "run_id": run.run_id, "service": "web", "number": 1, "pid": run.pid, "code": None,
            "signal": 9, "unknown": False, "seconds": 5.0, "empty": True, "oom_kills": 3,
            "rusage": None,
        }
    )  # fmt: skip
    reason = "killed by the kernel: memory limit 512.0 MiB reached"
    assert stage.runner.reason == reason
    assert stage.runner.error_type is ErrorType.RESOURCE_EXCEEDED
    assert facts_of(stage, "exit")["error_type"] == "RESOURCE_EXCEEDED"
    assert stage.runner.state.value == "backoff", "then the restart policy decides"


def test_who_was_asked_to_end_is_in_no_trouble(stage: Stage) -> None:
    """A stop has no error type, and forgets that of before."""
    stage.keeper.exit(code=3)
    stage.settle()
    assert stage.runner.status().error_type == "UNEXPECTED_EXIT"
    stage.runner.start()
    stage.advance(2)
    stage.runner.stop()
    stage.settle()
    assert stage.runner.error_type is None
    assert facts_of(stage, "exit")["error_type"] is None


@pytest.mark.parametrize(
    ("cause", "wanted"),
    [
        ("timeout", ErrorType.TIMEOUT),
        ("memory", ErrorType.RESOURCE_EXCEEDED),
        ("processes", ErrorType.RESOURCE_EXCEEDED),
        ("unhealthy", None),
    ],
)
def test_the_cause_of_a_run_that_was_ended_as_a_failure(
    stage: Stage, cause: str, wanted: ErrorType | None
) -> None:
    """What a monitor ends is told by its cause, in the exit and afterwards."""
    stage.runner.end_as_failure(cause, "too much")
    stage.settle()
    assert stage.runner.error_type is wanted
    assert facts_of(stage, "exit")["error_type"] == (wanted.value if wanted else None)
    assert stage.runner.reason == "too much"


def test_a_failed_spawn_is_tried_again() -> None:
    """SPAWN_FAILED, with back-off, `start_retries` times."""
    stage = Stage(start_retries=2)
    stage.keeper.refuse_spawn = {"message": "running x: No such file", "stage": "exec"}
    stage.runner.start()
    for _ in range(20):
        stage.advance(6)
    failures = [data for kind, data in stage.recorder.events if kind == "process:start_failed"]
    assert [data["error_type"] for data in failures] == ["SPAWN_FAILED"] * 3
    assert stage.runner.state.value == "failed"
    stage.close()


def test_a_refusal_is_no_failure_of_the_service() -> None:
    """By request it stays; an automatic start comes back, and neither is counted."""
    spec, counters = ServiceSpec(name="web", argv=("x",), working_dir="/"), Counters(2, 3, 0)
    refused = Ending(0.0, spawn_error="busy", cause=restart.REFUSED)
    decision = restart.decide(spec, counters, refused, 0.5)
    assert isinstance(decision, restart.NoRestart)
    assert not decision.is_suppressed
    again = replace(refused, cause=restart.REFUSED_AGAIN)
    later = restart.decide(spec, counters, again, 0.5)
    assert isinstance(later, restart.RestartAfter)
    assert decision.counters == later.counters == counters


@pytest.mark.parametrize(("action", "has_memory"), [("kill", True), ("restart", False)])
def test_the_kernel_gets_what_it_may_enforce(action: LimitAction, has_memory: bool) -> None:
    """Only a kill is the kernel's; a gentler action needs the monitor."""
    stage = Stage(
        memory_limit=MemoryLimit(size=5_000_000, action=action), cpu_limit=150.0, process_limit=9
    )
    limits = kernel_limits(stage.spec)
    assert limits == {**({"memory": 5_000_000} if has_memory else {}), "cpu": 150.0, "processes": 9}
    message = spawn_message(stage.runner.declaration, None, "run-1", 1)
    assert message["limits"] == limits
    stage.close()
