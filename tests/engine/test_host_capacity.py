"""Room on the host: asked before every start, refused or waited for, in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.adapters.metrics.host import HostUsage
from holdfast.engine.admission.host_capacity import HostCapacity
from holdfast.engine.runner.environment import AdmitAll
from holdfast.engine.runner.observers import RunObservers
from holdfast.vocabulary.specs.resources import HostLimits
from holdfast.vocabulary.specs.settings import Settings
from tests.engine.stage import Stage


class Host:
    """A machine whose load a test sets."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.whole = 0.0
        self.memory = 10

    def use(self, percent: float, seconds: float = 100.0) -> None:
        self.whole += seconds
        self.busy += seconds * percent / 100

    def __call__(self) -> HostUsage:
        return HostUsage(self.busy, self.whole, self.memory, 100)


class GatedStage(Stage):
    """A service behind a gate."""

    def __init__(self) -> None:
        self.host = Host()
        super().__init__()

    def environment(self):  # type: ignore[no-untyped-def]
        self.gate = HostCapacity(
            AdmitAll(), self.clock.call_later, lambda: len(self.keeper.runs), self.host
        )
        self.admission = self.gate
        self.observers = RunObservers()
        self.observers.add(self.gate)
        return super().environment()

    def limit(self, **fields: object) -> None:
        self.gate.use(Settings(limits=HostLimits(**fields)))  # type: ignore[arg-type]


@pytest.fixture
def stage() -> Iterator[GatedStage]:
    made = GatedStage()
    yield made
    made.close()


def test_without_limits_nothing_is_measured(stage: GatedStage) -> None:
    """A start passes at once, and no timer runs."""
    stage.runner.start()
    stage.settle()
    assert stage.keeper.live().pid
    assert stage.gate.cpu is None


def test_a_busy_host_refuses_with_both_values(stage: GatedStage) -> None:
    """The start fails, is not tried again, and leaves no run; an idle host takes it."""
    stage.limit(max_cpu=80.0)
    stage.host.use(93)
    stage.advance(2)
    future = stage.runner.start()
    outcome = future.result()
    assert (
        outcome.reason == "CPU limit exceeded: it is at 93 %, at most 80 % allowed (limits.max_cpu)"
    )
    assert (outcome.error_type, outcome.code) == ("RESOURCE_EXCEEDED", "resource_exceeded")
    assert stage.runner.state.value == "failed"
    stage.advance(100)
    assert stage.keeper.spawned == []
    for _ in range(10):
        stage.host.use(5)
        stage.advance(2)
    stage.runner.start()
    stage.settle()
    assert len(stage.keeper.spawned) == 1
    assert stage.runner.error_type is None, "a start that began forgets the refusal"


def test_an_automatic_restart_comes_back_later(stage: GatedStage) -> None:
    """What crashed is not given up because the host is busy: it tries again, uncounted."""
    stage.limit(max_cpu=80.0)
    stage.host.use(5)
    stage.runner.start()
    stage.advance(5)
    for _ in range(20):
        stage.host.use(99)
        stage.advance(2)
    counters = stage.runner.counters
    stage.keeper.exit(code=1)
    stage.settle()
    stage.host.use(99)
    stage.advance(20)
    assert stage.runner.state.value == "backoff"
    assert len(stage.keeper.spawned) == 1
    assert stage.runner.counters.failures == counters.failures + 1
    for _ in range(40):
        stage.host.use(1)
        stage.advance(2)
    assert len(stage.keeper.spawned) == 2
    assert stage.runner.state.value == "running"


def test_with_a_queue_a_start_waits_and_says_what_for(stage: GatedStage) -> None:
    """It begins by itself when there is room, and not after it was stopped."""
    stage.limit(max_cpu=80.0, queue_when_busy=True)
    stage.host.use(95)
    stage.advance(2)
    outcome = stage.runner.start().result()
    assert outcome.outcome == "waiting"
    assert "it is at 95 %, at most 80 % allowed" in stage.runner.waiting_for[0]
    assert stage.keeper.spawned == []
    stage.runner.stop()
    for _ in range(20):
        stage.host.use(1)
        stage.advance(2)
    assert stage.keeper.spawned == []
    for _ in range(20):
        stage.host.use(99)
        stage.advance(2)
    stage.runner.start()
    assert stage.keeper.spawned == []
    for _ in range(20):
        stage.host.use(1)
        stage.advance(2)
    assert len(stage.keeper.spawned) == 1


def test_one_short_peak_refuses_nobody(stage: GatedStage) -> None:
    """The measure is smoothed over ten seconds."""
    stage.limit(max_cpu=80.0)
    for _ in range(10):
        stage.host.use(10, 2)
        stage.advance(2)
    stage.host.use(100, 1)
    stage.advance(2)
    stage.runner.start()
    stage.settle()
    assert len(stage.keeper.spawned) == 1


def test_what_cannot_be_measured_refuses_nobody(stage: GatedStage) -> None:
    """Unknown is no reason."""

    def fail() -> HostUsage:
        raise OSError("no /proc here")

    stage.gate._measure = fail
    stage.limit(max_cpu=1.0, max_memory=1.0)
    stage.runner.start()
    stage.settle()
    assert len(stage.keeper.spawned) == 1
