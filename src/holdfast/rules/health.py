"""What probes say of a run, when they are asked, and what follows. Pure; no clock, no I/O.

A verdict changes only after so many equal answers in a row, so that health which flaps does
not flap anything else. Startup comes first: until it has passed, nothing else is asked.
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
"""The first checks of services that start together lie at most this far apart."""
TOLD_FAILURES = 10
"""So many failed checks in a row are told one by one; then every tenth."""
TOLD_SECONDS = 60.0
"""And no more than one in this time."""
TOLD_BY_THE_SERVICE = ("notify", "log")
"""Kinds that need no asking: they are told when it happens."""


class Condition(msgspec.Struct, frozen=True):
    """What is known of a live run beyond that it lives. None: nobody asks."""

    is_started: bool | None = None
    """Whether its startup probe has succeeded."""
    is_ready: bool | None = None
    health: str | None = None
    """healthy, unhealthy, or unknown as long as no probe has answered."""
    said: str | None = None
    """What the service says of itself."""
    failures: int = 0
    """Failed checks in a row, of the worst probe."""
    is_overdue: bool = False
    """Whether it failed to start up or to become ready, as often as it may."""


class Tally(msgspec.Struct, frozen=True):
    """What the checks of one probe came to."""

    verdict: bool | None = None
    """Passing or failing; None as long as neither was seen often enough."""
    failures: int = 0
    """Failed checks in a row."""
    passes: int = 0
    """Passed checks in a row."""


class Plan(msgspec.Struct, frozen=True):
    """When a probe is asked next, on monotonic time."""

    due: float
    counted: float
    """When the next check is whose failure counts: one each interval."""
    attempts: int = 0
    """Checks so far."""

    @property
    def is_counted(self) -> bool:
        """Whether a failure counts. A pass always does."""
        return self.due >= self.counted


_NOBODY_ASKS = Condition()


def initial(spec: ServiceSpec) -> Condition:
    """The condition of a run that has just begun."""
    if not spec.probes:
        return _NOBODY_ASKS
    return condition([(probe, Tally()) for probe in spec.probes])


def condition(tallies: Sequence[tuple[ProbeSpec, Tally]], said: str | None = None) -> Condition:
    """What all the probes of a run together say of it."""

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


def resumed(probe: ProbeSpec, known: Condition) -> Tally:
    """What an earlier supervisor knew of a run: passed is passed, the rest is asked anew."""
    if "startup" in probe.roles:
        is_passed = known.is_started is True
    elif "readiness" in probe.roles:
        is_passed = known.is_ready is True
    else:
        is_passed = known.health == HEALTHY
    # Whether the last sentence was carried out nobody knows: one more failure repeats it.
    return Tally(True) if is_passed else Tally(None, min(known.failures, probe.retries - 1))


def is_asked(probe: ProbeSpec, *, is_started: bool | None) -> bool:
    """Whether it is this probe's time: startup alone, and the others once that has passed."""
    return ("startup" in probe.roles) == (is_started is False)


def count(probe: ProbeSpec, tally: Tally, *, is_passed: bool) -> Tally:
    """The tally after one more check that counts."""
    if is_passed:
        passes = tally.passes + 1
        verdict = True if passes >= probe.success_threshold else tally.verdict
        return Tally(verdict, 0, passes)
    failures = tally.failures + 1
    return Tally(False if failures >= probe.retries else tally.verdict, failures, 0)


def is_told(before: Tally, after: Tally, *, seconds: float) -> bool:
    """Whether a failed check is an event, so many seconds after the last that was: one that
    changes the verdict always, and of those that go on for ever a few."""
    if after.failures <= TOLD_FAILURES or after.verdict != before.verdict:
        return True
    return after.failures % TOLD_FAILURES == 0 and seconds >= TOLD_SECONDS


def sentence(probe: ProbeSpec, before: Tally, after: Tally) -> str | None:
    """The cause for which a run has to go, if this check was one too many."""
    if probe.action == "report" or after.verdict is not False or before.verdict is False:
        return None
    if "startup" in probe.roles:
        return "start_failure"
    return "unhealthy" if "liveness" in probe.roles else None


def is_impatient(probe: ProbeSpec) -> bool:
    """Whether somebody waits for its first success."""
    is_awaited = "startup" in probe.roles or "readiness" in probe.roles
    return is_awaited and probe.kind not in TOLD_BY_THE_SERVICE


def first(
    probe: ProbeSpec, now: float, random: float, *, age: float = 0.0, has_passed: bool = False
) -> Plan:
    """The first check of a run that lives for `age` seconds; those of many are spread."""
    begin = now + max(0.0, probe.initial_delay - age)
    if probe.kind in TOLD_BY_THE_SERVICE:
        return at(begin + probe.interval)
    # Who is still coming up within an interval has not failed.
    counted = begin if has_passed else begin + max(0.0, probe.interval - age)
    spread = probe.interval
    if is_impatient(probe) and not has_passed:
        counted, spread = begin + probe.interval, min(SPREAD_SECONDS, probe.interval)
    due = begin + random * spread
    return Plan(due, max(due, counted))


def following(
    probe: ProbeSpec,
    plan: Plan,
    now: float,
    random: float,
    *,
    has_passed: bool,
    is_first_pass: bool = False,
) -> Plan:
    """The check after one that has its answer now; what it took does not add up."""
    counted, attempts = plan.counted, plan.attempts + 1
    if is_first_pass:
        # Services that started together part ways here.
        counted = now + probe.interval * (1 + random) / 2
    elif plan.is_counted:
        missed = max(0.0, now - counted) // probe.interval
        counted += probe.interval * (missed + 1)
    if has_passed or not is_impatient(probe):
        return Plan(max(now, counted), counted, attempts)
    quick = now + QUICK_SECONDS * 2 ** min(plan.attempts, 20)
    return Plan(max(now, min(quick, counted)), counted, attempts)


def at(time: float) -> Plan:
    """A check that counts, at this time."""
    return Plan(time, time)


def postponed(plan: Plan, until: float) -> Plan:
    """The same, but not before this."""
    return Plan(max(plan.due, until), max(plan.counted, until), plan.attempts)


def after_pause(probe: ProbeSpec, plan: Plan, now: float, *, has_passed: bool) -> Plan:
    """A service that was frozen has an interval to come back, unless somebody waits for it."""
    counted = now + probe.interval
    is_quick = is_impatient(probe) and not has_passed
    due = min(counted, now + QUICK_SECONDS) if is_quick else counted
    return Plan(due, counted, plan.attempts)
