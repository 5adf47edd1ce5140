"""Scheduled services on the stage: their times, what is skipped, what survives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.schedules import Schedules
from holdfast.vocabulary.specs.services import ScheduleSpec, ServiceSpec
from holdfast.vocabulary.states import Desired, State
from tests.engine.stage import Stage

EVERY = ScheduleSpec(every=600.0)
Make = Callable[..., "Times"]


class Times:
    """A stage whose service is scheduled."""

    def __init__(self, schedule: ScheduleSpec = EVERY, **fields: Any) -> None:
        self.stage = Stage(schedule=schedule, **fields)
        self.runners = {"web": self.stage.runner}
        self.schedules = self.attend()

    def attend(self) -> Schedules:
        self.stage.observers = type(self.stage.observers)()
        self.stage.runner._environment = self.stage.environment()
        schedules = Schedules(
            self.stage.environment(),
            kept=lambda: self.stage.keeper.kept,
            runners=lambda: self.runners,
            start=lambda runner: runner.start(wait=False),
        )
        self.stage.observers.add(schedules)
        schedules.declared(self.stage.runner)
        return schedules

    def arm(self) -> None:
        self.schedules.arm(self.stage.runner)
        self.stage.settle()

    def skips(self) -> list[str]:
        kinds = self.stage.recorder.events
        return [data["reason"] for kind, data in kinds if kind == "schedule:skipped"]

    def declare(self, **fields: Any) -> None:
        spec = msgspec.structs.replace(self.stage.runner.declaration.spec, **fields)
        self.stage.runner.declare(Declaration(spec))
        self.schedules.declared(self.stage.runner)

    def suspend(self, seconds: float) -> None:
        """The wall clock goes on while nothing else does."""
        clock = self.stage.clock
        setattr(clock, "time", lambda: 1_700_000_000.0 + clock.now + seconds)  # noqa: B010

    @property
    def runs(self) -> int:
        return len(self.stage.keeper.spawned)


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Times] = []

    def build(*arguments: Any, **fields: Any) -> Times:
        made.append(Times(*arguments, **fields))
        return made[-1]

    yield build
    for times in made:
        times.stage.close()


def test_started_at_its_times_only(make: Make) -> None:
    """Nothing runs before the first time; an ended run waits for the next."""
    times = make()
    times.arm()
    stage = times.stage
    stage.advance(599)
    assert times.runs == 0
    assert stage.runner.status().next_scheduled == stage.clock.time() + 1
    stage.advance(2)
    assert times.runs == 1
    stage.keeper.end_main(stage.keeper.live(), 0, None)
    stage.settle()
    assert stage.runner.state is State.EXITED
    stage.advance(590)
    assert times.runs == 1
    stage.advance(10)
    assert times.runs == 2


def test_success_waits_even_with_policy_always(make: Make) -> None:
    """`always` does not start a scheduled service outside of its times; failures are retried."""
    times = make(restart_policy="always", start_seconds=0.0)
    times.arm()
    stage = times.stage
    stage.advance(600)
    stage.keeper.end_main(stage.keeper.live(), 0, None)
    stage.advance(100)
    assert (times.runs, stage.runner.state) == (1, State.EXITED)
    stage.advance(500)
    stage.advance(2)
    stage.keeper.end_main(stage.keeper.live(), 1, None)
    stage.settle()
    assert stage.runner.state is State.BACKOFF
    stage.advance(60)
    assert times.runs == 3


def test_no_overlap(make: Make) -> None:
    """A time that comes while it runs is skipped, and that is told."""
    times = make()
    times.arm()
    times.stage.advance(600)
    times.stage.advance(601)
    assert times.runs == 1
    assert times.skips() == ["it still runs"]


def test_stopped_by_hand_rests(make: Make) -> None:
    """After a stop nothing is started and no next time is told; a start goes on with both."""
    times = make()
    times.arm()
    stage = times.stage
    stage.runner.stop()
    stage.advance(1800)
    assert times.runs == 0
    assert times.skips() == []
    assert stage.runner.status().next_scheduled is msgspec.UNSET
    stage.runner.start()
    stage.settle()
    assert times.runs == 1
    assert stage.runner.status().next_scheduled is not msgspec.UNSET


def test_missed_while_nobody_was_there(make: Make) -> None:
    """A supervisor that comes back late tells what was missed, and starts at the next time."""
    times = make()
    times.arm()
    times.suspend(1000)
    times.stage.advance(60)
    assert times.runs == 0
    assert times.skips() == ["nobody was there at the time"]
    times.stage.advance(200)
    assert times.runs == 1


def test_caught_up_once(make: Make) -> None:
    """With catch_up one run makes good for all times that were missed."""
    times = make(ScheduleSpec(every=600.0, catch_up=True))
    times.arm()
    times.suspend(10_000)
    times.stage.advance(60)
    assert times.runs == 1
    times.stage.advance(60)
    assert times.runs == 1


def test_a_new_supervisor_repeats_nothing(make: Make) -> None:
    """What was settled is in the keeper's memory: no time counts twice."""
    times = make(ScheduleSpec(cron="0 * * * *", timezone="UTC", catch_up=True))
    times.arm()
    stage = times.stage
    stage.advance(3600)
    assert times.runs == 1
    stage.keeper.end_main(stage.keeper.live(), 0, None)
    stage.settle()
    times.attend()
    stage.advance(30)
    assert times.runs == 1
    stage.advance(3600)
    assert times.runs == 2


def test_another_schedule_counts_from_now(make: Make) -> None:
    """A changed schedule takes the place of the old one at once; none leaves it as it is."""
    times = make()
    times.arm()
    times.declare(schedule=ScheduleSpec(every=60.0))
    times.stage.advance(61)
    assert times.runs == 1
    times.declare(schedule=None)
    times.stage.advance(3600)
    assert times.runs == 1
    assert times.stage.runner.status().next_scheduled is msgspec.UNSET
    assert not [key for key in times.stage.keeper.kept if key.startswith("schedule:")]


def test_an_armed_service_is_not_started_by_a_new_supervisor(make: Make) -> None:
    """What waits for its time is remembered as wanted, but not as running."""
    times = make()
    times.stage.runner.stop(by_hand=True)
    times.arm()
    assert times.stage.runner.desired is Desired.RUNNING
    assert not times.stage.runner.stopped_by_hand
    assert times.stage.keeper.kept["desired:web"] == "pending"


def test_overlap_takes_the_first_free_instance(make: Make) -> None:
    """With overlap: allow each time starts one instance; when all are busy it is skipped."""
    allow = ScheduleSpec(every=600.0, overlap="allow")
    times = make(allow)
    stage = times.stage
    stage.runner.close()
    times.runners.clear()
    names = ("job@1", "job@2")
    for index, name in enumerate(names, start=1):
        stage.spec = ServiceSpec(
            name=name, argv=("x",), working_dir="/", schedule=allow, template="job", index=index
        )
        times.runners[name] = stage.new_runner()
        times.schedules.declared(times.runners[name])
    for name in names:
        times.schedules.arm(times.runners[name])
    for _ in range(3):
        stage.advance(601)
    assert [message["service"] for message in stage.keeper.spawned] == ["job@1", "job@2"]
    assert times.skips() == ["all 2 instances are busy"]


def test_armed_while_it_is_being_stopped(make: Make) -> None:
    """The stop is carried out, and only its time starts it; a restart under way stays one."""
    times = make()
    times.arm()
    stage = times.stage
    stage.keeper.obeys = False
    stage.runner.start(wait=False)
    stage.settle()
    stage.runner.stop(by_hand=True)
    times.arm()
    assert stage.keeper.kept["desired:web"] == "pending"
    stage.keeper.exit(code=None, signal=15)
    stage.settle()
    assert (times.runs, stage.runner.state) == (1, State.STOPPED)
    stage.advance(600)
    assert times.runs == 2
    stage.runner.restart(wait=False)
    times.arm()
    stage.keeper.exit(code=None, signal=15)
    stage.settle()
    assert times.runs == 3


@pytest.mark.parametrize("is_replaced", [True, False])
@pytest.mark.parametrize("schedule", [EVERY, ScheduleSpec(cron="*/10 * * * *")])
def test_a_clock_set_back_delays_no_frequent_service(
    make: Make, is_replaced: bool, schedule: ScheduleSpec
) -> None:
    """Two hours back, with the same supervisor or during its replacement: it goes on."""
    times = make(schedule)
    times.arm()
    stage = times.stage
    stage.advance(601)
    assert times.runs == 1
    stage.keeper.end_main(stage.keeper.live(), 0, None)
    stage.settle()
    wall = stage.clock.time
    stage.clock.time = lambda: wall() - 7200.0  # type: ignore[method-assign]
    if is_replaced:
        times.schedules = times.attend()
    stage.advance(661)
    assert times.runs == 2
    assert stage.runner.status().next_scheduled - stage.clock.time() <= 600.0  # type: ignore[operator]
