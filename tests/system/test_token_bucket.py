"""A token bucket limits a rate, and forgives a burst."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from holdfast.system.token_bucket import TokenBucket


@given(
    st.floats(0.1, 1000),
    st.integers(1, 100),
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
def test_never_more_than_the_burst_and_the_rate(
    rate: float, burst: int, pauses: list[float]
) -> None:
    """In any stretch of time; and a caller that has to wait may pass after it."""
    now, passed = pauses[0], 0
    bucket = TokenBucket(burst, now)
    for pause in (0.0, *pauses[1:]):
        now += pause
        seconds = bucket.take(rate, burst, now)
        passed += not seconds
        if seconds:
            later = copy.copy(bucket)
            assert later.take(rate, burst, now + seconds * 1.0001 + 1e-6) == 0.0
    assert passed <= burst + rate * sum(pauses[1:]) + 1e-6
    assert bucket.is_full(rate, burst, now + burst / rate + 1)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    """And takes nothing."""
    bucket = TokenBucket(2, 100.0)
    assert not bucket.take(1, 2, 100.0)
    assert not bucket.take(1, 2, 50.0)
    assert bucket.take(1, 2, 50.0) > 0


def test_a_refusal_takes_nothing() -> None:
    """Asking again while there is no token does not make the wait longer."""
    bucket = TokenBucket(1, 0.0)
    assert not bucket.take(0.5, 1, 0.0)
    assert [bucket.take(0.5, 1, 0.0) for _ in range(3)] == [2.0, 2.0, 2.0]
    assert not bucket.take(0.5, 1, 2.0)
