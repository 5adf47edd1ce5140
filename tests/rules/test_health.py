"""Thresholds, order, plans and consequences of probes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules import health
from holdfast.rules.health import Condition, ProbePlan, ProbeTally
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    LogTarget,
    NotifyTarget,
    ProbeSpec,
    Role,
    TcpTarget,
)
from holdfast.vocabulary.specs.services import ServiceSpec

TCP = TcpTarget(host="127.0.0.1", port=1)
ROLES: list[tuple[Role, ...]] = [
    ("startup",), ("readiness",), ("liveness",), ("readiness", "liveness"),
]  # fmt: skip

probes = st.builds(
    ProbeSpec,
    roles=st.sampled_from(ROLES),
    target=st.sampled_from([TCP, ExecTarget(argv=("x",)), LogTarget(pattern="x"), NotifyTarget()]),
    interval=st.floats(0.05, 600),
    retries=st.integers(1, 8),
    success_threshold=st.integers(1, 5),
    initial_delay=st.floats(0, 60),
    action=st.sampled_from(["restart", "report"]),
)
randoms = st.floats(0, 1, exclude_max=True)


def probe_of(*roles: Role, **fields: Any) -> ProbeSpec:
    return ProbeSpec(roles=roles or ("liveness",), **{"target": TCP, **fields})


def spec_of(*asked: ProbeSpec) -> ServiceSpec:
    return ServiceSpec(name="web", argv=("web",), working_dir="/", probes=asked)


def run_through(probe: ProbeSpec, answers: list[bool]) -> list[ProbeTally]:
    tallies = [ProbeTally()]
    for answer in answers:
        tallies.append(health.count(probe, tallies[-1], is_passed=answer))
    return tallies


@given(probes, st.lists(st.booleans(), max_size=60))
def test_a_verdict_needs_its_answers_in_a_row(probe: ProbeSpec, answers: list[bool]) -> None:
    """It is what the last long enough row of equal answers said, whatever came between."""
    expected: bool | None = None
    for number, tally in enumerate(run_through(probe, answers)):
        seen = answers[:number]
        if len(seen) >= probe.retries and not any(seen[-probe.retries :]):
            expected = False
        if len(seen) >= probe.success_threshold and all(seen[-probe.success_threshold :]):
            expected = True
        assert tally.verdict is expected
        assert not (tally.failures and tally.passes)


@given(st.integers(2, 8), st.lists(st.booleans(), max_size=60))
def test_flapping_never_changes_a_verdict(retries: int, answers: list[bool]) -> None:
    """Failures that are never `retries` in a row leave a healthy service healthy."""
    probe, row, tally = probe_of(retries=retries), 0, ProbeTally(True)
    for answer in answers:
        row = 0 if answer or row + 1 == retries else row + 1
        tally = health.count(probe, tally, is_passed=row == 0)
        assert tally.verdict is True
        assert health.sentence(probe, ProbeTally(True), tally) is None


@given(probes, st.lists(st.booleans(), max_size=60))
def test_a_sentence_is_passed_once_and_never_by_a_report(
    probe: ProbeSpec, answers: list[bool]
) -> None:
    """One for each change to failing; none by who only reports, none for readiness alone."""
    tallies = run_through(probe, answers)
    pairs = list(pairwise(tallies))
    causes = [health.sentence(probe, before, after) for before, after in pairs]
    falls = [after.verdict is False and before.verdict is not False for before, after in pairs]
    if probe.action == "report" or probe.roles == ("readiness",):
        assert not any(causes)
    else:
        assert [cause is not None for cause in causes] == falls
        cause = "start_failure" if "startup" in probe.roles else "unhealthy"
        assert set(causes) <= {None, cause}


@given(st.lists(probes, max_size=5), st.data())
def test_the_condition_is_what_all_probes_say(asked: list[ProbeSpec], data: st.DataObject) -> None:
    """None where nobody asks; ready only if all say so; unhealthy if one does."""
    verdicts = data.draw(st.lists(st.sampled_from([None, True, False]), min_size=len(asked)))
    pairs = [(probe, ProbeTally(v)) for probe, v in zip(asked, verdicts, strict=False)]
    found = health.condition(pairs)
    by_role = {
        role: [tally.verdict for probe, tally in pairs if role in probe.roles]
        for role in ("startup", "readiness", "liveness")
    }
    assert (found.is_started is None) == (not by_role["startup"])
    assert (found.is_ready is None) == (not by_role["readiness"])
    assert (found.health is None) == (not by_role["liveness"])
    if by_role["readiness"]:
        assert found.is_ready == (set(by_role["readiness"]) == {True})
    if by_role["liveness"]:
        assert (found.health == "unhealthy") == (False in by_role["liveness"])
        assert (found.health == "healthy") == (set(by_role["liveness"]) == {True})


@given(probes, randoms)
def test_the_first_check_keeps_its_delay(probe: ProbeSpec, random: float) -> None:
    """Not before the initial delay, not later than an interval after it."""
    plan = health.first(probe, 1000.0, random)
    assert 1000.0 + probe.initial_delay <= plan.due
    assert plan.due <= plan.counted <= 1000.0 + probe.initial_delay + probe.interval + 1e-6


@given(probes, st.lists(st.tuples(st.booleans(), randoms, st.floats(0, 3)), max_size=40))
def test_failures_count_once_an_interval(
    probe: ProbeSpec, checks: list[tuple[bool, float, float]]
) -> None:
    """However often an impatient probe asks, at most one failure an interval counts, the next
    check is never in the past, and none waits longer than an interval."""
    now, plan, has_passed = 0.0, health.first(probe, 0.0, 0.5), False
    last_counted: float | None = None
    for is_passed, random, took in checks:
        now = plan.due + took
        if plan.is_counted:
            if last_counted is not None:
                assert plan.counted - last_counted >= probe.interval / 2 - 1e-6
            last_counted = plan.counted
        is_first_pass = is_passed and not has_passed
        has_passed = has_passed or is_passed
        plan = health.following(
            probe, plan, now, random, has_passed=has_passed, is_first_pass=is_first_pass
        )
        assert now <= plan.due <= now + probe.interval + 1e-6
        assert plan.due <= max(plan.counted, now)


def test_checks_do_not_drift() -> None:
    """Each answer takes a while; the times of the checks stay a grid."""
    probe = probe_of(interval=10.0)
    plan = health.first(probe, 0.0, 0.0)
    for number in range(1, 100):
        plan = health.following(probe, plan, plan.due + 0.3, 0.5, has_passed=True)
        assert plan.due == pytest.approx(10.0 * number)


def test_a_check_that_takes_too_long_skips_its_successors() -> None:
    """What was missed is not made up for; the grid stays."""
    probe = probe_of(interval=10.0)
    plan = health.following(probe, ProbePlan(0.0, 0.0), 35.0, 0.5, has_passed=True)
    assert plan.due == 40.0


def test_somebody_who_waits_is_not_kept_waiting() -> None:
    """With an interval of 30 s, readiness is seen soon after it is there."""
    probe = probe_of("readiness", "liveness")
    now, plan, asked = 0.0, health.first(probe, 0.0, 0.0), []
    while plan.due < 40:
        asked.append(plan.due)
        now = plan.due
        plan = health.following(probe, plan, now, 0.5, has_passed=False)
    assert [time for time in asked if time < 3.2] == pytest.approx([0.0, 0.1, 0.3, 0.7, 1.5, 3.1])
    assert 30.0 in asked
    plan = health.following(probe, ProbePlan(1.5, 30.0, 4), 1.5, 0.5, has_passed=True,
                            is_first_pass=True)  # fmt: skip
    assert plan.due == pytest.approx(1.5 + 22.5)


def test_services_that_start_together_part_ways() -> None:
    """The first checks of 500 services, and those after, do not fall into one moment."""
    alive, both = probe_of("liveness"), probe_of("readiness", "liveness")
    randoms = [number / 500 for number in range(500)]
    firsts = [health.first(alive, 0.0, random).due for random in randoms]
    assert len({int(due * 1000) for due in firsts}) == 500
    quick = [health.first(both, 0.0, random).due for random in randoms]
    assert len({int(due * 1000) for due in quick}) > 200
    later = [
        health.following(
            both, ProbePlan(0.0, 0.0), 0.1, random, has_passed=True, is_first_pass=True
        ).due
        for random in randoms
    ]
    assert len({int(due * 1000) for due in later}) == 500


@pytest.mark.parametrize(
    ("is_started", "asked"),
    [(False, ["startup"]), (True, ["readiness", "liveness"]), (None, ["readiness", "liveness"])],
)
def test_startup_comes_first(is_started: bool | None, asked: list[str]) -> None:
    """As long as startup has not passed, nothing else is asked."""
    every = [probe_of("startup"), probe_of("readiness"), probe_of("liveness")]
    found = [probe for probe in every if health.is_asked(probe, is_started=is_started)]
    assert [probe.roles[0] for probe in found] == asked


def test_the_beginning_of_a_run() -> None:
    """What nobody asks is None; what is asked is not known to be good."""
    assert health.initial(spec_of()) == Condition()
    every = (probe_of("startup"), probe_of("readiness", "liveness"))
    assert health.initial(spec_of(*every)) == Condition(False, False, "unknown")
    assert health.initial(spec_of(probe_of("liveness"))) == Condition(health="unknown")


@given(probes)
def test_what_had_passed_stays_passed(probe: ProbeSpec) -> None:
    """A new supervisor goes on with what was known; nothing is made up."""
    assert health.resumed(probe, Condition(True, True, "healthy")).verdict is True
    assert health.resumed(probe, Condition(False, False, "unhealthy")).verdict is None
    assert health.resumed(probe, Condition()).verdict is None
    nearly = health.resumed(probe, Condition(False, False, "unhealthy", failures=99))
    assert health.count(probe, nearly, is_passed=False).verdict is False


def test_more_time_can_be_asked_for() -> None:
    """A plan can be put off, never brought forward."""
    assert health.postponed(ProbePlan(5.0, 7.0, 3), 6.0) == ProbePlan(6.0, 7.0, 3)
    assert health.postponed(ProbePlan(5.0, 7.0, 3), 60.0) == ProbePlan(60.0, 60.0, 3)
