"""Restart decisions: policies, start failures, back-off, suppression, spacing."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.rules.lifecycle.restart import (
    Counters,
    Decision,
    Ending,
    NoRestart,
    RestartAfter,
    back_off,
    decide,
    is_start_failure,
    is_success,
    reason_of,
    spaced,
)
from holdfast.vocabulary.specs.services import UNLIMITED, RestartSpec, ServiceSpec

MIDDLE = 0.5


def spec(**fields: Any) -> ServiceSpec:
    return ServiceSpec(name="web", argv=("web",), working_dir="/", **fields)


def repeat(declared: ServiceSpec, ending: Ending, times: int) -> list[Decision]:
    counters, decisions = Counters(), []
    for _ in range(times):
        decision = decide(declared, counters, ending, MIDDLE)
        decisions.append(decision)
        counters = decision.counters
    return decisions


def test_crashes_back_off_exponentially_up_to_the_limit() -> None:
    """5, 10, 20, 40 and then 60 seconds for ever."""
    decisions = repeat(spec(), Ending(2.0, code=1), 7)
    assert [d.delay for d in decisions if isinstance(d, RestartAfter)] == [
        5,
        10,
        20,
        40,
        60,
        60,
        60,
    ]


def test_jitter_stays_within_its_share_and_the_limit() -> None:
    """Ten per cent either way, and never above max_delay."""
    assert back_off(spec(), 1, 0.0) == pytest.approx(4.5)
    assert back_off(spec(), 1, 0.999999) == pytest.approx(5.5, abs=0.001)
    assert back_off(spec(), 9, 0.999999) == 60
    assert back_off(spec(), 10_000, 0.5) == 60


def test_too_many_failures_in_a_row_are_suppressed_with_a_reason() -> None:
    """max_restarts restarts, then failed, and the reason says why."""
    decisions = repeat(spec(), Ending(2.0, code=1), 11)
    assert all(isinstance(d, RestartAfter) for d in decisions[:10])
    last = decisions[10]
    assert isinstance(last, NoRestart)
    assert last.is_suppressed
    # Why comes first: it is what a narrow terminal must not cut off.
    assert last.reason == "exit code 1; failed 11 times in a row (max_restarts 10)"
    assert last.counters.restarts == 10


def test_unlimited_restarts_never_give_up() -> None:
    """max_restarts unlimited goes on for ever."""
    declared = spec(restart=RestartSpec(max_restarts=UNLIMITED))
    assert all(isinstance(d, RestartAfter) for d in repeat(declared, Ending(2.0, code=1), 50))


def test_a_stable_run_resets_the_counters() -> None:
    """After reset_after of running, the next failure is the first again."""
    before = Counters(7, 7, 0)
    decision = decide(spec(), before, Ending(60.0, code=1), MIDDLE)
    assert isinstance(decision, RestartAfter)
    assert decision.delay == 5
    assert decision.counters == Counters(1, 1, 0)


def test_what_never_began_was_not_stable() -> None:
    """With no time to prove itself either, starts that fail are counted on."""
    declared = spec(restart=RestartSpec(reset_after=0))
    decision = decide(declared, Counters(2, 2, 2), Ending(0.0, spawn_error="no"), MIDDLE)
    assert decision.counters == Counters(3, 3, 3)


def test_start_failures_are_counted_in_a_row() -> None:
    """One that came up in between, though it crashed, ends the row."""
    decision = decide(spec(), Counters(3, 3, 3), Ending(2.0, code=1), MIDDLE)
    assert decision.counters == Counters(4, 4, 0)


def test_a_start_failure_is_retried_three_times() -> None:
    """Three retries with back-off, then failed: four starts in all."""
    decisions = repeat(spec(), Ending(0.01, code=1), 4)
    assert [d.delay for d in decisions if isinstance(d, RestartAfter)] == [5, 10, 20]
    last = decisions[3]
    assert isinstance(last, NoRestart)
    assert last.is_suppressed
    assert last.counters.start_failures == 4
    assert "4 times in a row" in last.reason


def test_no_start_retries_means_one_start() -> None:
    """start_retries 0 shows the diagnosis at once."""
    decision = decide(spec(start_retries=0), Counters(), Ending(0.0, code=1), MIDDLE)
    assert isinstance(decision, NoRestart)
    assert "once" in decision.reason


def test_a_spawn_error_is_a_start_failure_with_its_words() -> None:
    """The stage's message is the reason."""
    ending = Ending(0.0, spawn_error="entering directory /x: No such file or directory")
    assert is_start_failure(spec(), ending)
    decision = decide(spec(), Counters(), ending, MIDDLE)
    assert isinstance(decision, RestartAfter)
    assert decision.reason == "entering directory /x: No such file or directory"


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("always", 0, True),
        ("always", 1, True),
        ("on_failure", 0, False),
        ("on_failure", 1, True),
        ("never", 0, False),
        ("never", 1, False),
    ],
)
def test_the_policy_decides(policy: str, code: int, again: bool) -> None:
    """always, on_failure and never, for success and failure."""
    decision = decide(spec(restart_policy=policy), Counters(), Ending(9.0, code=code), MIDDLE)
    assert isinstance(decision, RestartAfter) is again


def test_never_means_never_also_for_a_start_failure() -> None:
    """A service that is never restarted is not retried either."""
    decision = decide(spec(restart_policy="never"), Counters(), Ending(0.0, code=1), MIDDLE)
    assert isinstance(decision, NoRestart)
    assert not decision.is_suppressed


def test_success_codes_are_the_services_own() -> None:
    """success_exit_codes decide what success is; a signal never is."""
    declared = spec(success_exit_codes=(0, 3))
    assert is_success(declared, Ending(9.0, code=3))
    assert not is_success(declared, Ending(9.0, code=1))
    assert not is_success(declared, Ending(9.0, signal=15))


def test_a_quick_success_is_no_start_failure() -> None:
    """Success within start_seconds is an exit; only `always` restarts it."""
    assert not is_start_failure(spec(), Ending(0.01, code=0))
    decision = decide(spec(restart_policy="always"), Counters(), Ending(0.01, code=0), MIDDLE)
    assert isinstance(decision, RestartAfter)


def test_an_unknown_exit_is_a_failure_that_says_so() -> None:
    """Unknown is treated as a failure, and never given a code."""
    ending = Ending(9.0, unknown="nobody saw it")
    assert reason_of(spec(), ending) == "exit code unknown (nobody saw it)"
    assert isinstance(decide(spec(), Counters(), ending, MIDDLE), RestartAfter)


def test_reasons_are_words() -> None:
    """What a person reads: code, signal name, and when it was too early."""
    assert reason_of(spec(), Ending(9.0, code=3)) == "exit code 3"
    assert reason_of(spec(), Ending(9.0, signal=9)) == "killed by SIGKILL"
    assert reason_of(spec(), Ending(0.1, code=3)) == "exit code 3 within 1 s of its start"


def test_short_lived_runs_are_spaced_even_without_delay() -> None:
    """A run that lived under a second is not followed within a second of its start."""
    assert spaced(0.0, 0.3) == pytest.approx(0.7)
    assert spaced(0.0, 1.0) == 0.0
    assert spaced(5.0, 0.3) == 5.0
    quick = spec(restart=RestartSpec(delay=0, max_delay=0, max_restarts=UNLIMITED), start_seconds=0)
    decision = decide(quick, Counters(), Ending(2.0, signal=9), MIDDLE)
    assert isinstance(decision, RestartAfter)
    assert decision.delay == 0
