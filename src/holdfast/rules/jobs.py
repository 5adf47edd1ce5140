"""What follows from the end of a job's attempt, and when it is tried again. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.vocabulary.specs.jobs import BackoffSpec

LONGEST_BACKOFF_SECONDS = 86400.0
Outcome = Literal["completed", "cancelled", "retry", "failed"]


class AttemptEnd(NamedTuple):
    """What is known of an attempt that is over."""

    code: int | None
    signal: str | None
    why_ended: str | None = None
    """Why Holdfast ended it: its timeout, a limit, a lease that was lost."""
    is_unknown: bool = False
    is_cancelled: bool = False


class AttemptVerdict(NamedTuple):
    outcome: Outcome
    reason: str | None


def judge(
    end: AttemptEnd, attempts: int, most: int, success_codes: tuple[int, ...] = (0,)
) -> AttemptVerdict:
    """Return what becomes of a job after an attempt."""
    if end.is_cancelled:
        return AttemptVerdict("cancelled", "cancelled")
    if end.why_ended is None and end.code is not None and end.code in success_codes:
        return AttemptVerdict("completed", None)
    return AttemptVerdict("failed" if attempts >= most else "retry", _reason(end))


def backoff_seconds(spec: BackoffSpec, attempts: int) -> float:
    """Return how long to wait after so many attempts, exactly: 2, 4, 8 … seconds by default."""
    if spec.type == "fixed":
        return spec.delay
    doubled = 2.0 ** min(max(0, attempts - 1), 40)
    return min(LONGEST_BACKOFF_SECONDS, spec.delay * doubled)


def _reason(end: AttemptEnd) -> str:
    if end.why_ended is not None:
        return end.why_ended
    if end.signal is not None:
        return f"killed by {end.signal}"
    if end.is_unknown or end.code is None:
        return "exit code unknown; it may have done its work"
    return f"exit code {end.code}"
