"""Decides whether, and after how long, a service that ended is started again. Pure.

Counters count consecutive failures, and a stable run resets them; there is no lifetime counter.
Durations and a random number come in: this module has neither a clock nor a random source.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from holdfast.vocabulary.quantities import format_size, signal_name
from holdfast.vocabulary.specs.services import UNLIMITED, ServiceSpec
from holdfast.vocabulary.states import ErrorType

REFUSED, REFUSED_AGAIN, OUT_OF_MEMORY = "refused", "refused_again", "oom"
"""Causes: a requested start that the limits refused, an automatic one, a kill by the kernel."""
NEVER_BEGAN = (REFUSED, REFUSED_AGAIN)
"""Causes of a start that did not take place."""
RESOURCE_CAUSES = (REFUSED, REFUSED_AGAIN, OUT_OF_MEMORY, "memory", "processes")
SPACING_SECONDS = 1.0
"""After a run that was shorter, the next one starts no sooner than this after its start."""


class Counters(msgspec.Struct, frozen=True):
    """What is remembered between the runs of a service."""

    restarts: int = 0
    """Automatic restarts in a row."""
    failures: int = 0
    """Failures in a row, of either kind."""
    start_failures: int = 0
    """Starts in a row that did not stay up."""


class Ending(msgspec.Struct, frozen=True):
    """How a run ended, or why it could not be started."""

    seconds: float
    code: int | None = None
    signal: int | None = None
    unknown: str | None = None
    """Why the exit code is not known."""
    spawn_error: str | None = None
    verdict: str | None = None
    """Why we ended it, as a failure of its own."""
    is_start: bool = False
    """Whether we did so before it had started up."""
    cause: str | None = None
    """The cause of the verdict; or `oom`, `refused`, `refused_again`, if a limit was reached."""


class RunVerdict(msgspec.Struct, frozen=True):
    """Why a live run is being ended as a failure of its own.

    Lives in the keeper's memory until the run has ended: fields are only added.
    """

    reason: str
    seconds: float
    is_start: bool
    cause: str

    def ending(self) -> Ending:
        return Ending(self.seconds, verdict=self.reason, is_start=self.is_start, cause=self.cause)


class RestartAfter(msgspec.Struct, frozen=True):
    """Start it again after `delay` seconds."""

    delay: float
    counters: Counters
    reason: str


class NoRestart(msgspec.Struct, frozen=True):
    """Leave it as it is."""

    counters: Counters
    reason: str
    is_suppressed: bool = False


Decision = RestartAfter | NoRestart


def is_success(spec: ServiceSpec, ending: Ending) -> bool:
    return (
        ending.spawn_error is None
        and ending.verdict is None
        and ending.unknown is None
        and ending.signal is None
        and ending.code in spec.success_exit_codes
    )


def is_start_failure(spec: ServiceSpec, ending: Ending) -> bool:
    """A failure before the service was up for its `start_seconds`."""
    if ending.spawn_error is not None or ending.is_start:
        return True
    if ending.verdict is not None:
        return False
    return not is_success(spec, ending) and ending.seconds < spec.start_seconds


def reason_of(spec: ServiceSpec, ending: Ending) -> str:
    """The ending in words."""
    words = _plain_reason(ending)
    if ending.cause == OUT_OF_MEMORY and ending.signal is not None:
        limit = spec.memory_limit
        what = f"memory limit {format_size(limit.size)} reached" if limit else "out of memory"
        return f"killed by the kernel: {what}"
    if ending.spawn_error is None and ending.verdict is None and is_start_failure(spec, ending):
        words += f" within {spec.start_seconds:g} s of its start"
    return words


def error_type(spec: ServiceSpec, ending: Ending) -> ErrorType | None:
    """The kind of trouble; None: there was none, or the service's health tells it."""
    if ending.cause in RESOURCE_CAUSES:
        return ErrorType.RESOURCE_EXCEEDED
    if ending.cause == "timeout":
        return ErrorType.TIMEOUT
    if ending.spawn_error is not None:
        return ErrorType.SPAWN_FAILED
    if ending.verdict is not None or is_success(spec, ending):
        return None
    return ErrorType.UNEXPECTED_EXIT


def decide(spec: ServiceSpec, before: Counters, ending: Ending, random: float) -> Decision:
    """Decide what follows from this ending; `random` is in [0, 1)."""
    reason = reason_of(spec, ending)
    if ending.cause == REFUSED:
        return NoRestart(before, reason)
    if ending.cause == REFUSED_AGAIN:
        # This is not its own failure: it waits for the next attempt, and nothing is counted.
        return RestartAfter(
            spaced(back_off(spec, max(1, before.failures), random), 0.0), before, reason
        )
    if ending.spawn_error is None and ending.seconds >= spec.restart.reset_after:
        before = Counters()
    if is_success(spec, ending):
        return _after_success(spec, before, ending, reason, random)
    start_failures = before.start_failures + 1 if is_start_failure(spec, ending) else 0
    failures = before.failures + 1
    counters = Counters(before.restarts, failures, start_failures)
    if spec.restart_policy == "never":
        return NoRestart(counters, reason)
    if ending.spawn_error is not None and spec.origin == "run":
        # Somebody has just typed it: a program that cannot be executed is a typing error.
        return NoRestart(counters, reason, is_suppressed=True)
    if start_failures > spec.start_retries:
        words = f"failed to start {_times(start_failures)} (start_retries {spec.start_retries})"
        return NoRestart(counters, f"{reason}; {words}", is_suppressed=True)
    limit = spec.restart.max_restarts
    if limit != UNLIMITED and failures > limit:
        return NoRestart(
            counters,
            f"{reason}; failed {_times(failures)} (max_restarts {limit})",
            is_suppressed=True,
        )
    delay = spaced(back_off(spec, failures, random), ending.seconds)
    return RestartAfter(delay, replace(counters, restarts=before.restarts + 1), reason)


def _times(failures: int) -> str:
    return f"{failures} times in a row" if failures > 1 else "once"


def back_off(spec: ServiceSpec, failures: int, random: float) -> float:
    """The delay after the n-th failure in a row: exponential, capped, with jitter."""
    rule = spec.restart
    # The exponent is capped: 2.0 ** 5000 would overflow after days of failures.
    delay = min(rule.delay * rule.backoff ** min(failures - 1, 64), max(rule.max_delay, rule.delay))
    delay *= 1 + rule.jitter * (2 * random - 1)
    return min(delay, max(rule.max_delay, rule.delay))


def spaced(delay: float, lived_seconds: float) -> float:
    """The delay, extended if the previous run was too short."""
    if lived_seconds >= SPACING_SECONDS:
        return delay
    return max(delay, SPACING_SECONDS - lived_seconds)


def _after_success(
    spec: ServiceSpec, before: Counters, ending: Ending, reason: str, random: float
) -> Decision:
    counters = Counters(restarts=before.restarts)
    # A scheduled service that has done its work waits for its next time.
    if spec.restart_policy != "always" or spec.schedule is not None:
        return NoRestart(counters, reason)
    delay = spaced(back_off(spec, 1, random), ending.seconds)
    return RestartAfter(delay, replace(counters, restarts=before.restarts + 1), reason)


def _plain_reason(ending: Ending) -> str:
    if ending.spawn_error is not None:
        return ending.spawn_error
    if ending.verdict is not None:
        return ending.verdict
    if ending.unknown is not None:
        return f"exit code unknown ({ending.unknown})"
    if ending.signal is not None:
        return f"killed by {signal_name(ending.signal)}"
    return f"exit code {ending.code}"
