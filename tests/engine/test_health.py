"""Histories of probes: a fake clock, and answers that the test gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.adapters.probes import Finding
from holdfast.adapters.probes.notify import Message
from holdfast.engine.health.monitor import HealthMonitor
from holdfast.engine.health.probes import Then
from holdfast.engine.runner.observers import RunObserver
from holdfast.rules.health import Condition
from holdfast.vocabulary.specs.probes import (
    LogTarget,
    NotifySpec,
    NotifyTarget,
    ProbeSpec,
    Role,
    TcpTarget,
)
from holdfast.vocabulary.specs.services import RestartSpec
from holdfast.vocabulary.states import State
from tests.engine.stage import Stage

MakeStage = Callable[..., Stage]
GOOD, BAD = Finding(True, "fine"), Finding(False, "broken")


class FakeCheck:
    """Answers at once what the test wants, or not at all."""

    def __init__(self, prober: FakeProber, probe: ProbeSpec, on_answer: Callable[[], None]) -> None:
        self.prober = prober
        self.probe = probe
        self.on_answer = on_answer
        self.then: Then | None = None
        self.is_begun = self.is_closed = False

    def begin(self) -> None:
        self.is_begun = True

    def ask(self, then: Then) -> None:
        assert self.then is None, "two questions at a time"
        self.prober.asked.append(self.probe.roles[0])
        finding = self.prober.answers.get(self.probe.roles[0])
        if finding is None:
            self.then = then
        else:
            then(finding)

    def drop(self) -> None:
        self.then = None

    def close(self) -> None:
        self.is_closed = True


class FakeProber:
    def __init__(self) -> None:
        self.answers: dict[str, Finding | None] = {}
        self.asked: list[str] = []
        self.checks: list[FakeCheck] = []

    def open(self, runner: object, probe: ProbeSpec, on_answer: Callable[[], None]) -> FakeCheck:
        self.checks.append(FakeCheck(self, probe, on_answer))
        return self.checks[-1]


class Scene:
    """A service with probes on a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.prober = FakeProber()
        self.monitor = HealthMonitor(stage.environment(), self.prober)
        stage.observers.add(self.monitor)
        self.runner = stage.runner

    def start(self) -> Any:
        future = self.runner.start()
        self.stage.settle()
        return future

    def pass_time(self, seconds: float) -> None:
        self.stage.advance(seconds)

    @property
    def state(self) -> str:
        return self.runner.state.value

    @property
    def condition(self) -> Condition:
        return self.runner.condition

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [data for name, data in self.stage.recorder.events if name == kind]


def probe(*roles: Role, **fields: Any) -> ProbeSpec:
    target = TcpTarget(host="127.0.0.1", port=1)
    return ProbeSpec(roles=roles, **{"target": target, "interval": 10.0, **fields})


@pytest.fixture
def scene(make_stage: MakeStage) -> Callable[..., Scene]:
    def make(*probes: ProbeSpec, **fields: Any) -> Scene:
        return Scene(make_stage(probes=probes, random=0.0, **fields))

    return make


def test_a_service_that_fails_liveness_is_restarted(scene: Callable[..., Scene]) -> None:
    """After `retries` failed checks in a row, with the cause on record."""
    one = scene(probe("liveness"), restart=RestartSpec(delay=1.0))
    one.prober.answers["liveness"] = GOOD
    one.start()
    one.pass_time(15.0)
    assert one.condition.health == "healthy"
    one.prober.answers["liveness"] = BAD
    one.pass_time(20.0)
    assert one.state == "running"
    assert one.condition == Condition(health="healthy", failures=2)
    one.pass_time(10.0)
    assert one.state == "backoff"
    one.prober.answers["liveness"] = None
    one.pass_time(1.0)
    assert one.state == "starting"
    assert one.runner.number == 2
    assert one.condition == Condition(health="unknown")
    assert one.events("service:condemned")[0]["cause"] == "unhealthy"
    assert "3 checks in a row failed; last: broken" in one.events("service:condemned")[0]["reason"]
    assert [data["failures"] for data in one.events("health:failed")] == [1, 2, 3]
    assert [data["to"] for data in one.events("health:changed")] == ["healthy", "unhealthy"]


@pytest.mark.parametrize("interval", [0.5, 10.0, 30.0])
def test_a_check_that_fails_for_ever_fills_no_history(
    scene: Callable[..., Scene], interval: float
) -> None:
    """The first ones, then every tenth and one a minute at most; how many is never lost."""
    one = scene(probe("liveness", interval=interval, retries=25, action="report"))
    one.prober.answers["liveness"] = BAD
    one.start()
    one.pass_time(7200.0)
    told = one.events("health:failed")
    failures = one.condition.failures
    assert failures >= 7200 // interval - 1
    assert [data["failures"] for data in told[:11]] == [*range(1, 11), told[10]["failures"]]
    assert 25 in [data["failures"] for data in told], "the one that changes the verdict"
    assert len(told) <= 13 + min(7200 / 60, 7200 / interval / 10)
    one.prober.answers["liveness"] = GOOD
    one.pass_time(interval * 2)
    told = one.events("health:failed")
    [passed] = one.events("health:passed")
    untold = sum(data.get("untold", 0) for data in (*told, passed))
    assert len(told) + untold >= failures
    assert len(told) + untold == told[-1]["failures"] + passed.get("untold", 0)


def test_a_healthy_service_fills_no_history(scene: Callable[..., Scene]) -> None:
    """A day of passed checks is two events: healthy, and ready."""
    one = scene(probe("readiness", "liveness"))
    one.prober.answers["readiness"] = GOOD
    one.start()
    one.pass_time(86400.0)
    assert len(one.prober.asked) > 8000
    told = [k for k in one.stage.recorder.kinds() if k.startswith(("health:", "service:ready"))]
    assert told == ["health:changed", "service:ready"]


def test_who_is_still_coming_up_has_not_failed(scene: Callable[..., Scene]) -> None:
    """A liveness check in the first interval may pass; that it fails counts from then on."""
    one = scene(probe("liveness"))
    one.prober.answers["liveness"] = BAD
    one.start()
    one.pass_time(9.0)
    assert one.prober.asked
    assert (one.condition.failures, one.events("health:failed")) == (0, [])
    one.pass_time(2.0)
    assert one.condition.failures == 1
    one.prober.answers["liveness"] = GOOD
    one.pass_time(10.0)
    assert one.condition == Condition(health="healthy")


def test_readiness_that_does_not_come_is_told_once(scene: Callable[..., Scene]) -> None:
    """After `retries` failed checks, with the reason; the run goes on, and may become ready."""
    one = scene(probe("readiness"))
    one.prober.answers["readiness"] = BAD
    one.start()
    one.pass_time(1000.0)
    [told] = one.events("health:changed")
    assert (told["from"], told["to"], told["reason"]) == ("unknown", "not ready", "broken")
    one.prober.answers["readiness"] = GOOD
    one.pass_time(10.0)
    assert (one.state, one.runner.number, one.condition.is_ready) == ("running", 1, True)


def test_report_only_never_restarts(scene: Callable[..., Scene]) -> None:
    """Unhealthy is told for as long as it lasts, and the run goes on."""
    one = scene(probe("liveness", action="report"))
    one.prober.answers["liveness"] = BAD
    one.start()
    one.pass_time(1000.0)
    assert one.condition.health == "unhealthy"
    assert (one.state, one.runner.number) == ("running", 1)
    one.prober.answers["liveness"] = GOOD
    one.pass_time(10.0)
    assert one.condition == Condition(health="healthy")


def test_flapping_does_not_flap(scene: Callable[..., Scene]) -> None:
    """Every other check fails: nothing changes, nothing restarts."""
    one = scene(probe("readiness", "liveness"))
    one.prober.answers["readiness"] = GOOD
    one.start()
    one.pass_time(5.0)
    for number in range(50):
        one.prober.answers["readiness"] = BAD if number % 2 else GOOD
        one.pass_time(10.0)
    assert (one.runner.number, one.condition.is_ready) == (1, True)
    assert len(one.events("health:changed")) == 1


def test_startup_comes_first(scene: Callable[..., Scene]) -> None:
    """Nothing else is asked, and the service is not running, before it has passed."""
    one = scene(probe("startup"), probe("readiness"), probe("liveness"))
    one.prober.answers.update(startup=BAD, readiness=GOOD, liveness=GOOD)
    future = one.start()
    one.pass_time(15.0)
    assert set(one.prober.asked) == {"startup"}
    assert one.state == "starting"
    one.prober.answers["startup"] = GOOD
    one.pass_time(10.0)
    assert one.state == "running"
    assert future.result().outcome == "started"
    one.prober.asked.clear()
    one.pass_time(100.0)
    assert set(one.prober.asked) == {"readiness", "liveness"}


def test_a_startup_that_never_passes_is_a_start_failure(scene: Callable[..., Scene]) -> None:
    """It has `retries` times `interval`, then the start has failed."""
    one = scene(probe("startup"), start_retries=0)
    one.prober.answers["startup"] = BAD
    future = one.start()
    one.pass_time(31.0)
    assert one.state == "failed"
    assert future.result().outcome == "failed"
    assert one.events("service:condemned")[0]["cause"] == "start_failure"


def test_who_waits_is_told_that_it_will_not_be_ready(scene: Callable[..., Scene]) -> None:
    """A start does not wait for ever; the service goes on."""
    one = scene(probe("readiness"))
    one.prober.answers["readiness"] = BAD
    future = one.start()
    one.pass_time(31.0)
    assert future.result().outcome == "failed"
    assert future.result().reason == "not ready: broken"
    assert (one.state, one.runner.number) == ("running", 1)
    one.prober.answers["readiness"] = GOOD
    one.pass_time(10.0)
    assert one.condition.is_ready
    assert one.events("service:ready") == [{"after": pytest.approx(40.0, abs=1.0)}]


def test_readiness_is_seen_soon(scene: Callable[..., Scene]) -> None:
    """Who starts within a second does not wait for an interval of 30 s."""
    one = scene(probe("readiness", "liveness", interval=30.0))
    one.prober.answers["readiness"] = BAD
    future = one.start()
    one.pass_time(1.2)
    one.prober.answers["readiness"] = GOOD
    one.pass_time(0.5)
    assert future.result().outcome == "started"
    assert one.events("health:failed") == [], "who comes up within an interval has not failed"


def test_the_initial_delay_is_kept(scene: Callable[..., Scene]) -> None:
    """Nothing is asked before it is over."""
    one = scene(probe("readiness", initial_delay=60.0))
    one.prober.answers["readiness"] = GOOD
    one.start()
    one.pass_time(59.0)
    assert one.prober.asked == []
    one.pass_time(2.0)
    assert one.condition.is_ready


def test_success_needs_its_threshold(scene: Callable[..., Scene]) -> None:
    """So many passed checks in a row make it ready, an interval apart."""
    one = scene(probe("readiness", success_threshold=3))
    one.prober.answers["readiness"] = GOOD
    one.start()
    one.pass_time(12.0)
    assert one.condition.is_ready is False
    one.pass_time(10.0)
    assert one.condition.is_ready is True


def test_a_slow_check_is_not_doubled(scene: Callable[..., Scene]) -> None:
    """As long as one is under way there is no second (the inquiry would complain)."""
    one = scene(probe("liveness"))
    one.start()
    one.pass_time(100.0)
    assert one.prober.asked == ["liveness"]
    then = one.prober.checks[0].then
    assert then is not None
    one.prober.checks[0].then = None
    then(GOOD)
    one.pass_time(10.0)
    assert one.prober.asked == ["liveness"] * 2


def test_probes_of_a_paused_service_wait(scene: Callable[..., Scene]) -> None:
    """It cannot answer; it has an interval to come back."""
    one = scene(probe("liveness"))
    one.prober.answers["liveness"] = GOOD
    one.start()
    one.pass_time(15.0)
    one.runner.pause()
    one.stage.settle()
    one.prober.asked.clear()
    one.prober.answers["liveness"] = BAD
    one.pass_time(1000.0)
    assert one.prober.asked == []
    one.runner.resume()
    one.stage.settle()
    one.pass_time(9.0)
    assert one.prober.asked == []
    one.prober.answers["liveness"] = GOOD
    one.pass_time(2.0)
    assert one.prober.asked == ["liveness"]
    assert (one.runner.number, one.condition.failures) == (1, 0)


def test_probes_end_with_the_run(scene: Callable[..., Scene]) -> None:
    """A service that is stopped is not asked any more."""
    one = scene(probe("liveness"))
    one.start()
    one.pass_time(1.0)
    one.runner.stop()
    one.stage.settle()
    one.prober.asked.clear()
    one.pass_time(100.0)
    assert one.prober.asked == []
    assert one.prober.checks[0].is_closed


def test_other_probes_apply_to_the_live_run(scene: Callable[..., Scene]) -> None:
    """A declaration with other probes takes effect without a restart; without any, nothing is
    claimed any more."""
    import msgspec

    from holdfast.engine.runner.declaration import Declaration

    one = scene(probe("liveness"))
    one.prober.answers.update(liveness=GOOD, readiness=GOOD)
    one.start()
    one.pass_time(15.0)
    other = msgspec.structs.replace(one.stage.spec, probes=(probe("readiness"),))
    one.runner.declare(Declaration(other))
    one.monitor.declared(one.runner)
    one.pass_time(1.0)
    assert one.condition == Condition(is_ready=True)
    one.runner.declare(Declaration(msgspec.structs.replace(other, probes=())))
    one.monitor.declared(one.runner)
    assert one.condition == Condition()
    assert one.runner.number == 1


def test_a_run_that_cannot_speak_is_not_asked_to(scene: Callable[..., Scene]) -> None:
    """`notify` in a new declaration holds for the next run; this one stays ready."""
    import msgspec

    from holdfast.engine.runner.declaration import Declaration

    one = scene(probe("readiness"))
    one.prober.answers["readiness"] = GOOD
    one.start()
    one.pass_time(5.0)
    told = (probe("readiness", target=NotifyTarget()),)
    other = msgspec.structs.replace(one.stage.spec, probes=told, notify=NotifySpec())
    one.runner.declare(Declaration(other))
    one.monitor.declared(one.runner)
    one.pass_time(100.0)
    assert one.condition == Condition(is_ready=True)
    one.runner.restart()
    one.stage.settle()
    one.pass_time(5.0)
    assert one.condition == Condition(is_ready=False)


# What services say


def speaking(scene: Callable[..., Scene], *more: ProbeSpec, **fields: Any) -> Scene:
    told = probe("readiness", target=NotifyTarget())
    return scene(told, *more, notify=NotifySpec(), **fields)


def test_ready_is_when_it_says_so(scene: Callable[..., Scene]) -> None:
    """Neither sooner nor later, and it is asked nothing."""
    one = speaking(scene)
    future = one.start()
    one.pass_time(5.0)
    assert one.condition.is_ready is False
    one.monitor.hear(one.runner, Message(is_ready=True, status="serving"))
    assert one.condition == Condition(is_ready=True, said="serving")
    assert future.result().outcome == "started"
    one.pass_time(1000.0)
    assert one.events("health:failed") == []


def test_a_reload_is_not_ready_and_no_failure(scene: Callable[..., Scene]) -> None:
    """Ready is lost for as long as it reloads; nothing is restarted."""
    one = speaking(scene)
    one.start()
    one.monitor.hear(one.runner, Message(is_ready=True))
    one.pass_time(5.0)
    one.monitor.hear(one.runner, Message(is_ready=False))
    assert one.condition == Condition(is_ready=False)
    assert one.events("health:changed")[-1]["reason"] == "it says that it reloads"
    one.monitor.hear(one.runner, Message(is_ready=True))
    assert one.condition == Condition(is_ready=True)
    assert one.runner.number == 1


def test_who_says_too_much_is_heard_now_and_then(scene: Callable[..., Scene]) -> None:
    """A thousand words a second are a few changes a second, and the last one counts."""
    one = speaking(scene)
    one.start()
    one.monitor.hear(one.runner, Message(is_ready=True))
    changes: list[str | None] = []

    class Listener(RunObserver):
        def changed(self, runner: Any) -> None:
            changes.append(runner.condition.said)

    one.stage.observers.add(Listener())
    for number in range(1000):
        one.monitor.hear(one.runner, Message(status=f"step {number}"))
    one.pass_time(1.0)
    assert {said for said in changes if said} == {"step 999"}
    assert len(changes) <= 3


def test_more_time_to_start(scene: Callable[..., Scene]) -> None:
    """EXTEND_TIMEOUT_USEC puts off the end of the startup."""
    told = probe("startup", target=NotifyTarget(), retries=1)
    one = scene(told, notify=NotifySpec(), start_retries=0)
    one.start()
    one.pass_time(9.0)
    one.monitor.hear(one.runner, Message(extend_seconds=60.0))
    one.pass_time(50.0)
    assert one.state == "starting"
    one.monitor.hear(one.runner, Message(is_ready=True))
    assert one.state == "running"


def test_the_watchdog_bites_who_is_silent(scene: Callable[..., Scene]) -> None:
    """From when it is ready; the reason says what was missed."""
    watchdog = probe("liveness", target=NotifyTarget(), retries=1)
    one = speaking(scene, watchdog, restart=RestartSpec(delay=60.0))
    one.start()
    one.pass_time(100.0)
    assert one.runner.number == 1, "it counts from when it is ready"
    one.monitor.hear(one.runner, Message(is_ready=True))
    for _ in range(20):
        one.pass_time(9.0)
        one.monitor.hear(one.runner, Message(watchdog=True))
    assert one.condition.health == "healthy"
    one.pass_time(9.9)
    assert one.state == "running"
    one.pass_time(0.2)
    assert one.state == "backoff"
    assert one.runner.reason == "watchdog missed: no WATCHDOG=1 within 10 s"
    assert one.events("service:condemned")[0]["cause"] == "unhealthy"


def test_a_call_for_help_is_heard_at_once(scene: Callable[..., Scene]) -> None:
    """WATCHDOG=trigger does not wait for the interval."""
    one = speaking(scene, probe("liveness", target=NotifyTarget(), retries=1))
    one.start()
    one.monitor.hear(one.runner, Message(is_ready=True))
    one.pass_time(2.0)
    one.monitor.hear(one.runner, Message(watchdog=False))
    one.stage.settle()
    assert one.state == "backoff"


def test_who_stops_is_left_alone(scene: Callable[..., Scene]) -> None:
    """After STOPPING=1 a failing probe restarts nothing; its exit will tell."""
    one = speaking(scene, probe("liveness"))
    one.prober.answers["liveness"] = GOOD
    one.start()
    one.monitor.hear(one.runner, Message(is_ready=True))
    one.pass_time(5.0)
    one.monitor.hear(one.runner, Message(is_ready=False, is_stopping=True))
    one.prober.answers["liveness"] = BAD
    one.pass_time(300.0)
    assert (one.state, one.runner.number) == ("running", 1)
    assert one.condition.is_ready is False


def test_ready_before_its_time_counts(scene: Callable[..., Scene]) -> None:
    """READY=1 while another probe still waits for the startup is not forgotten."""
    one = speaking(scene, probe("startup"))
    one.prober.answers["startup"] = BAD
    one.start()
    one.monitor.hear(one.runner, Message(is_ready=True))
    assert one.condition.is_ready is False
    one.prober.answers["startup"] = GOOD
    one.pass_time(10.0)
    assert one.condition == Condition(is_started=True, is_ready=True)


def test_metrics_are_passed_on_and_bounded(scene: Callable[..., Scene]) -> None:
    """By a hundred names a service."""
    one = speaking(scene)
    got: list[tuple[str, str, float]] = []
    one.monitor.on_metric = lambda *metric: got.append(metric)
    one.start()
    one.monitor.hear(one.runner, Message(metrics=(("jobs", 3.0), ("jobs", 4.0))))
    assert got == [("web", "jobs", 3.0), ("web", "jobs", 4.0)]
    many = tuple((f"m{number}", 1.0) for number in range(500))
    one.monitor.hear(one.runner, Message(metrics=many))
    assert len({name for _, name, _ in got}) == 100


def test_a_line_of_the_run_is_told(scene: Callable[..., Scene]) -> None:
    """It is not asked for every moment, and not again once it was seen."""
    one = scene(probe("readiness", target=LogTarget(pattern="up")))
    one.prober.answers["readiness"] = BAD
    future = one.start()
    one.pass_time(5.0)
    assert one.prober.asked == []
    one.prober.answers["readiness"] = GOOD
    one.prober.checks[0].on_answer()
    assert future.result().outcome == "started"
    one.prober.asked.clear()
    one.pass_time(1000.0)
    assert one.prober.asked == []


def test_what_was_known_outlives_the_supervisor(scene: Callable[..., Scene]) -> None:
    """READY=1 is said once: the next supervisor knows it, and asks nothing to be told again."""
    one = speaking(scene, probe("startup"))
    one.prober.answers["startup"] = GOOD
    one.start()
    one.pass_time(1.0)
    one.monitor.hear(one.runner, Message(is_ready=True, status="serving"))
    one.pass_time(1.0)
    stage = one.stage
    stage.keeper.lose_supervisor()
    from holdfast.engine.runner.declaration import Declaration
    from holdfast.engine.runner.remains import Remains
    from holdfast.engine.runner.runner import Runner

    again = Scene(stage)
    runner = Runner(
        Declaration(stage.spec),
        stage.environment(),
        new_future=stage.loop.create_future,
        on_failed=lambda _: None,
    )
    hello = stage.keeper.hello()
    runner.restore(Remains(run=hello["runs"][0]))
    assert runner.state is State.RUNNING
    assert runner.condition == Condition(is_started=True, is_ready=True, said="serving")
    again.prober.asked.clear()
    stage.advance(100.0)
    assert again.prober.asked == []


def test_a_startup_under_way_outlives_the_supervisor(scene: Callable[..., Scene]) -> None:
    """A run that has not started up is not taken for a running one."""
    one = scene(probe("startup", retries=100))
    one.prober.answers["startup"] = BAD
    one.start()
    one.pass_time(30.0)
    stage = one.stage
    stage.keeper.lose_supervisor()
    from holdfast.engine.runner.declaration import Declaration
    from holdfast.engine.runner.remains import Remains
    from holdfast.engine.runner.runner import Runner

    again = Scene(stage)
    again.prober.answers["startup"] = BAD
    runner = Runner(
        Declaration(stage.spec),
        stage.environment(),
        new_future=stage.loop.create_future,
        on_failed=lambda _: None,
    )
    runner.restore(Remains(run=stage.keeper.hello()["runs"][0]))
    assert runner.state is State.STARTING
    again.prober.answers["startup"] = GOOD
    stage.advance(10.0)
    assert runner.state.value == "running"
