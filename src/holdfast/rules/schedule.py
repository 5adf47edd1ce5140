"""When a scheduled service is started, from the wall clock and what was done before. Pure.

A local time that does not exist (clocks go forward) counts at the first minute that does; one that
exists twice counts once. A schedule by the hour or more often follows real time, even when the
clock is set back; a rarer one is not repeated by that. Times at which there was no supervisor are
missed, unless they are to be caught up, then once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from math import floor
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from holdfast.vocabulary.specs.services import ScheduleSpec

LATE_SECONDS = 60.0
"""A start that comes this late still counts: the supervisor was busy, or was being replaced."""
STEP_BACK_SECONDS = 3 * 3600.0
"""A clock set back by less does not repeat what was done; one set back by more was wrong."""
OFTEN_SECONDS = 3600.0
"""A schedule this frequent does not wait until a clock that was set back catches up."""
LOOK_SECONDS = 60.0
"""The longest sleep: after it the wall clock is read again, as it may have been set."""
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
RANGES = {
    "second": "0–59",
    "minute": "0–59",
    "hour": "0–23",
    "day-of-month": "1–31, or L for the last",
    "month": "1–12, or JAN–DEC",
    "day-of-week": "0–7 (0 and 7 are Sunday), or SUN–SAT",
}
"""The values of each field of a cron expression."""
MOST_STEPS = 4000


class Look(NamedTuple):
    """What one look at the clock finds."""

    due: float | None
    """Start it now, for this time."""
    missed: float | None
    """This time passed, and is not caught up."""
    handled: float
    """All times up to here are settled."""
    next: float | None
    """The next time; None: there is none in the next fifty years."""


def cron_of(text: str) -> str:
    """Return a cron expression in its normal form; raises ValueError if it is none."""
    words = text.split()
    if len(words) == 1 and words[0].startswith("@"):
        if words[0].lower() not in NICKNAMES:
            raise ValueError(f'"{text}" is not known; write one of {", ".join(NICKNAMES)}')
        return NICKNAMES[words[0].lower()]
    if len(words) not in (5, 6):
        raise ValueError(
            f'"{text}" has {len(words)} fields; '
            'write five: minute hour day month weekday, as "*/5 * * * *"'
        )
    expression = " ".join(words).upper()
    try:
        CronSim(expression, datetime(2024, 1, 1)).__next__()  # noqa: DTZ001
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        known = RANGES.get(field)
        span = f"it is {known}, as in" if known else "write"
        raise ValueError(f'the {field} of "{text}" is not right; {span} "*/5 * * * *"') from None
    except StopIteration:
        raise ValueError(f'"{text}" is a time that never comes; write another') from None
    return expression


def look(spec: ScheduleSpec, zone: tzinfo, handled: float, now: float) -> Look:
    """Return what is due at `now`, when all times up to `handled` are settled."""
    if handled > now and _goes_on(spec, zone, handled, now):
        handled = now
    latest = _latest(spec, zone, handled, now) if now > handled else None
    if latest is None:
        return Look(None, None, handled, _next(spec, zone, handled))
    is_made_good = spec.catch_up or now - latest <= LATE_SECONDS
    due, missed = (latest, None) if is_made_good else (None, latest)
    return Look(due, missed, latest, _next(spec, zone, max(latest, now) if spec.cron else latest))


def _goes_on(spec: ScheduleSpec, zone: tzinfo, handled: float, now: float) -> bool:
    """Return whether to follow at once a clock that was set back since `handled`."""
    if spec.every is not None or handled - now > STEP_BACK_SECONDS:
        return True
    following = _next(spec, zone, handled)
    # By less than one interval it is waited for: the same time must not count twice.
    return following is not None and following - handled <= min(OFTEN_SECONDS, handled - now)


def sleep_seconds(following: float | None, now: float) -> float:
    """Return how long to wait until the next look."""
    return LOOK_SECONDS if following is None else min(LOOK_SECONDS, max(0.0, following - now))


def _next(spec: ScheduleSpec, zone: tzinfo, after: float) -> float | None:
    if spec.every is not None:
        return after + spec.every
    for time in _times(spec, zone, after, is_back=False):
        if time > after:
            return time
    return None


def _latest(spec: ScheduleSpec, zone: tzinfo, handled: float, now: float) -> float | None:
    """Return the newest time after `handled` that has come."""
    if spec.every is not None:
        # A little more, because sums and differences of large numbers differ in the last bit.
        count = floor((now - handled) / spec.every + 1e-6)
        return handled + count * spec.every if count > 0 else None
    # One second more, so that a time that is just now is found.
    for time in _times(spec, zone, floor(now) + 1.0, is_back=True):
        if time <= now:
            return time if time > handled else None
    return None


def _times(spec: ScheduleSpec, zone: tzinfo, begin: float, *, is_back: bool) -> Iterator[float]:
    assert spec.cron is not None
    simulated = CronSim(spec.cron, datetime.fromtimestamp(begin, zone), reverse=is_back)
    for _ in range(MOST_STEPS):
        try:
            yield next(simulated).timestamp()
        except StopIteration:
            return
