"""Back-off and suppression over any rule and any history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from holdfast.rules.lifecycle.restart import (
    SPACING_SECONDS,
    Counters,
    Ending,
    NoRestart,
    RestartAfter,
    back_off,
    decide,
    is_start_failure,
    is_success,
)
from holdfast.vocabulary.specs.services import UNLIMITED, RestartSpec, ServiceSpec

seconds = some.floats(0, 600, allow_nan=False)
luck = some.floats(0, 1, exclude_max=True)
limits = some.one_of(some.just(UNLIMITED), some.integers(0, 6))
rules = some.builds(
    RestartSpec,
    delay=some.floats(0, 30),
    max_delay=some.floats(0, 120),
    backoff=some.floats(1, 4),
    jitter=some.floats(0, 1),
    max_restarts=limits,
    reset_after=some.floats(1, 120),
)
specs = some.builds(
    lambda rule, policy, retries, start: ServiceSpec(
        name="web",
        argv=("web",),
        working_dir="/",
        restart=rule,
        restart_policy=policy,
        start_retries=retries,
        start_seconds=start,
    ),
    rules,
    some.sampled_from(["always", "on_failure", "never"]),
    some.integers(0, 5),
    some.floats(0, 5),
)
endings = some.builds(
    lambda lived, code, signal: Ending(lived, code, signal),
    seconds,
    some.one_of(some.none(), some.integers(0, 3)),
    some.one_of(some.none(), some.sampled_from([9, 11, 15])),
)
histories = some.lists(some.tuples(endings, luck), max_size=25)


@given(specs, some.integers(1, 5000), luck)
def test_a_delay_is_within_its_bounds(spec: ServiceSpec, failures: int, random: float) -> None:
    """Never negative, never above the limit, jitter within its share of the plain delay."""
    rule = spec.restart
    most = max(rule.max_delay, rule.delay)
    plain = min(rule.delay * rule.backoff ** min(failures - 1, 64), most)
    delay = back_off(spec, failures, random)
    assert 0 <= delay <= most
    assert plain * (1 - rule.jitter) - 1e-6 <= delay <= plain * (1 + rule.jitter) + 1e-6


@given(specs, some.integers(1, 100))
def test_another_failure_never_shortens_the_delay(spec: ServiceSpec, failures: int) -> None:
    """With the same luck: each wait is at least as long as the one before."""
    assert back_off(spec, failures + 1, 0.5) >= back_off(spec, failures, 0.5)


@given(specs, histories)
def test_any_history_is_suppressed_just_when_its_limits_say(
    spec: ServiceSpec, history: list[tuple[Ending, float]]
) -> None:
    """Failures in a row are counted, a stable run or a success ends the row, and the limits of
    starts and of restarts are met exactly."""
    counters, row, starts = Counters(), 0, 0
    for ending, random in history:
        decision = decide(spec, counters, ending, random)
        counters = decision.counters
        if ending.seconds >= spec.restart.reset_after:
            row = starts = 0
        if is_success(spec, ending):
            row = starts = 0
            assert isinstance(decision, RestartAfter) is (spec.restart_policy == "always")
        else:
            row += 1
            starts = starts + 1 if is_start_failure(spec, ending) else 0
            limit = spec.restart.max_restarts
            is_over = starts > spec.start_retries or (limit != UNLIMITED and row > int(limit))
            if spec.restart_policy == "never":
                assert decision == NoRestart(counters, decision.reason)
            else:
                assert isinstance(decision, NoRestart) is is_over
                assert is_over is (isinstance(decision, NoRestart) and decision.is_suppressed)
        assert (counters.failures, counters.start_failures) == (row, starts)
        if isinstance(decision, RestartAfter) and ending.seconds < SPACING_SECONDS:
            assert decision.delay >= SPACING_SECONDS - ending.seconds - 1e-9
