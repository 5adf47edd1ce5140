"""What follows from an attempt, and how long the next one waits."""

from __future__ import annotations

import pytest

from holdfast.rules.jobs import LONGEST_BACKOFF_SECONDS, AttemptEnd, backoff_seconds, judge
from holdfast.vocabulary.specs.jobs import BackoffSpec


def test_the_wait_doubles_exactly() -> None:
    """2, 4, 8 seconds by default, without jitter; fixed stays, and nothing waits for ever."""
    assert [backoff_seconds(BackoffSpec(), n) for n in (1, 2, 3)] == [2.0, 4.0, 8.0]
    assert [backoff_seconds(BackoffSpec(type="fixed", delay=5.0), n) for n in (1, 9)] == [5.0, 5.0]
    assert backoff_seconds(BackoffSpec(), 500) == LONGEST_BACKOFF_SECONDS


@pytest.mark.parametrize(
    ("end", "attempts", "outcome", "reason"),
    [
        (AttemptEnd(0, None), 1, "completed", None),
        (AttemptEnd(2, None), 1, "completed", None),
        (AttemptEnd(1, None), 1, "retry", "exit code 1"),
        (AttemptEnd(1, None), 3, "failed", "exit code 1"),
        (AttemptEnd(None, "SIGKILL"), 1, "retry", "killed by SIGKILL"),
        (
            AttemptEnd(None, None, is_unknown=True),
            1,
            "retry",
            "exit code unknown; it may have done",
        ),
        (AttemptEnd(0, None, "took longer than its timeout of 1s"), 3, "failed", "took longer"),
        (AttemptEnd(0, None, is_cancelled=True), 3, "cancelled", "cancelled"),
        (AttemptEnd(1, None, "its lease", is_cancelled=True), 1, "cancelled", "cancelled"),
    ],
)
def test_every_end_of_an_attempt_is_judged(
    end: AttemptEnd, attempts: int, outcome: str, reason: str | None
) -> None:
    """A success code completes it, a cancel cancels, all else is a failure with its reason."""
    verdict = judge(end, attempts, 3, success_codes=(0, 2))
    assert verdict.outcome == outcome
    assert (verdict.reason or "").startswith(reason or "")
