"""What probes say of a run, when they are asked, and what follows. Pure.

A verdict changes only after several equal answers in a row, so that flapping health makes nothing
else flap. Startup comes first: until it has passed, nothing else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.vocabulary.specs.probes import ProbeSpec, Role
from holdfast.vocabulary.specs.services import ServiceSpec

HEALTHY, UNHEALTHY, UNKNOWN = "healthy", "unhealthy", "unknown"
QUICK_SECONDS = 0.1
"""A run that has not passed yet is asked again after this, then twice this, and so on."""
SPREAD_SECONDS = 0.25
"""The first checks of services that start together are spread over this time."""
TOLD_FAILURES = 10
"""So many failed checks in a row are reported one by one; then every tenth."""
TOLD_SECONDS = 60.0
"""And no more than one in this time."""
TOLD_BY_THE_SERVICE = ("notify", "log")
"""Kinds that need no asking: the service or its log says when it happens."""


class Condition(msgspec.Struct, frozen=True):
    """What is known of a live run beyond that it lives. None: no probe asks."""

    is_started: bool | None = None
    """Whether its startup probe has passed."""
    is_ready: bool | None = None
    health: str | None = None
    """healthy, unhealthy, or unknown as long as no probe has answered."""
    said: str | None = None
    """What the service says of itself."""
    failures: int = 0
    """Failed checks in a row, of the worst probe."""
    is_overdue: bool = False
    """Whether it failed to start up or to become ready too often."""


class ProbeTally(msgspec.Struct, frozen=True):
    """The results of one probe so far."""

    verdict: bool | None = None
    """Passing or failing; None as long as neither was seen often enough."""
    failures: int = 0
    """Failed checks in a row."""
    passes: int = 0
    """Passed checks in a row."""


class ProbePlan(msgspec.Struct, frozen=True):
    """When a probe is asked next, on monotonic time."""

    due: float
    counted: float
    """When the next check whose failure counts is due: one in each interval."""
    attempts: int = 0
    """Checks so far."""

    @property
    def is_counted(self) -> bool:
        """Whether a failure counts. A pass always does."""
        return self.due >= self.counted


_NOBODY_ASKS = Condition()


def initial(spec: ServiceSpec) -> Condition:
    """Return the condition of a run that has just begun."""
    if not spec.probes:
        return _NOBODY_ASKS
    return condition([(probe, ProbeTally()) for probe in spec.probes])


def condition(
    tallies: Sequence[tuple[ProbeSpec, ProbeTally]], said: str | None = None
) -> Condition:
    """Return what all the probes of a run together say of it."""

    def of(role: Role) -> list[bool | None]:
        return [tally.verdict for probe, tally in tallies if role in probe.roles]

    startup, readiness, liveness = of("startup"), of("readiness"), of("liveness")
    health = None
    if liveness:
        health = UNHEALTHY if False in liveness else UNKNOWN if None in liveness else HEALTHY
    return Condition(
        is_started=all(startup) if startup else None,
        is_ready=all(readiness) if readiness else None,
        health=health,
        said=said,
        failures=max((tally.failures for _, tally in tallies), default=0),
        is_overdue=False in startup or False in readiness,
    )


def resumed(probe: ProbeSpec, known: Condition) -> ProbeTally:
    """Return what an earlier supervisor knew of a run: passed stays passed, the rest is asked
    again.
    """
    if "startup" in probe.roles:
        is_passed = known.is_started is True
    elif "readiness" in probe.roles:
        is_passed = known.is_ready is True
    else:
        is_passed = known.health == HEALTHY
    # It is unknown whether the last verdict was carried out: one more failure repeats it.
    return (
        ProbeTally(True) if is_passed else ProbeTally(None, min(known.failures, probe.retries - 1))
    )


def is_asked(probe: ProbeSpec, *, is_started: bool | None) -> bool:
    """Return whether this probe is asked now: startup first, the others once that passed."""
    return ("startup" in probe.roles) == (is_started is False)


def count(probe: ProbeSpec, tally: ProbeTally, *, is_passed: bool) -> ProbeTally:
    """Return the tally after one more check that counts."""
    if is_passed:
        passes = tally.passes + 1
        verdict = True if passes >= probe.success_threshold else tally.verdict
        return ProbeTally(verdict, 0, passes)
    failures = tally.failures + 1
    return ProbeTally(False if failures >= probe.retries else tally.verdict, failures, 0)


def is_told(before: ProbeTally, after: ProbeTally, *, seconds: float) -> bool:
    """Return whether a failed check is an event, so many seconds after the last event.

    One that changes the verdict always is; of endless ones, a few are.
    """
    if after.failures <= TOLD_FAILURES or after.verdict != before.verdict:
        return True
    return after.failures % TOLD_FAILURES == 0 and seconds >= TOLD_SECONDS


def sentence(probe: ProbeSpec, before: ProbeTally, after: ProbeTally) -> str | None:
    """Return the cause for which the run must end, if this check failed once too often."""
    if probe.action == "report" or after.verdict is not False or before.verdict is False:
        return None
    if "startup" in probe.roles:
        return "start_failure"
    return "unhealthy" if "liveness" in probe.roles else None


def is_impatient(probe: ProbeSpec) -> bool:
    """Return whether something waits for its first success."""
    is_awaited = "startup" in probe.roles or "readiness" in probe.roles
    return is_awaited and probe.kind not in TOLD_BY_THE_SERVICE


def first(
    probe: ProbeSpec, now: float, random: float, *, age: float = 0.0, has_passed: bool = False
) -> ProbePlan:
    """Return the first check of a run that is `age` seconds old; the checks of many runs are
    spread.
    """
    begin = now + max(0.0, probe.initial_delay - age)
    if probe.kind in TOLD_BY_THE_SERVICE:
        return at(begin + probe.interval)
    # A run that is still coming up within one interval has not failed.
    counted = begin if has_passed else begin + max(0.0, probe.interval - age)
    spread = probe.interval
    if is_impatient(probe) and not has_passed:
        counted, spread = begin + probe.interval, min(SPREAD_SECONDS, probe.interval)
    due = begin + random * spread
    return ProbePlan(due, max(due, counted))


def following(
    probe: ProbeSpec,
    plan: ProbePlan,
    now: float,
    random: float,
    *,
    has_passed: bool,
    is_first_pass: bool = False,
) -> ProbePlan:
    """Return the check after one that was answered now; its own duration does not add up."""
    counted, attempts = plan.counted, plan.attempts + 1
    if is_first_pass:
        # Services that started together are spread here.
        counted = now + probe.interval * (1 + random) / 2
    elif plan.is_counted:
        missed = max(0.0, now - counted) // probe.interval
        counted += probe.interval * (missed + 1)
    if has_passed or not is_impatient(probe):
        return ProbePlan(max(now, counted), counted, attempts)
    quick = now + QUICK_SECONDS * 2 ** min(plan.attempts, 20)
    return ProbePlan(max(now, min(quick, counted)), counted, attempts)


def at(time: float) -> ProbePlan:
    """Return a check at this time that counts."""
    return ProbePlan(time, time)


def postponed(plan: ProbePlan, until: float) -> ProbePlan:
    """Return the same plan, but not before this time."""
    return ProbePlan(max(plan.due, until), max(plan.counted, until), plan.attempts)


def after_pause(probe: ProbeSpec, plan: ProbePlan, now: float, *, has_passed: bool) -> ProbePlan:
    """Return the next check of a service that was frozen: it has an interval to recover, unless
    something waits for it.
    """
    counted = now + probe.interval
    is_quick = is_impatient(probe) and not has_passed
    due = min(counted, now + QUICK_SECONDS) if is_quick else counted
    return ProbePlan(due, counted, plan.attempts)
