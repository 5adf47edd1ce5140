"""When scheduled services are started: time zones, clock steps, missed times."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rules.schedule import LATE_SECONDS, STEP_BACK_SECONDS, cron_of, look, sleep_seconds
from holdfast.vocabulary.specs.services import ScheduleSpec

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [UTC, BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")]
MINUTES = ("*", "*/5", "0", "30", "15,45", "7-9")
HOURS = ("*", "*/6", "0", "2", "3", "1-4")
DAYS = ("*", "1", "*/10", "L")
expressions = st.builds(
    lambda *parts: " ".join(parts),
    st.sampled_from(MINUTES),
    st.sampled_from(HOURS),
    st.sampled_from(DAYS),
    st.sampled_from(("*", "3", "10")),
    st.sampled_from(("*", "0", "MON-FRI")),
)
# Around both changes of the clocks in 2025, and anywhere.
moments = st.one_of(
    st.floats(1743292800, 1743400000),
    st.floats(1761350000, 1761460000),
    st.floats(1_600_000_000, 1_900_000_000),
)


def at(text: str, zone: timezone | ZoneInfo = BERLIN, *, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


def starts(cron: str, begin: float, seconds: float, zone: timezone | ZoneInfo) -> list[float]:
    """Every start when somebody looks just when told to."""
    spec, now, handled, found = ScheduleSpec(cron=cron), begin, begin, []
    while True:
        seen = look(spec, zone, handled, now)
        if seen.due is not None:
            found.append(seen.due)
        handled = seen.handled
        if seen.next is None or seen.next > begin + seconds:
            return found
        now = seen.next


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("*/5 * * * *", "*/5 * * * *"),
        ("  0 3  * * mon ", "0 3 * * MON"),
        ("@hourly", "0 * * * *"),
        ("@DAILY", "0 0 * * *"),
        ("30 0 3 * * *", "30 0 3 * * *"),
    ],
)
def test_spellings(written: str, expected: str) -> None:
    """Spaces, case and nicknames are spellings of one expression."""
    assert cron_of(written) == expected


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("61 * * * *", "minute"),
        ("* * *", "fields"),
        ("@reboot", "@hourly"),
        ("0 0 31 2 *", "day-of-month"),
        ("", "fields"),
    ],
)
def test_mistakes(written: str, told: str) -> None:
    """A mistake says where it is."""
    with pytest.raises(ValueError, match=told):
        cron_of(written)


def test_a_time_that_does_not_exist_counts_once() -> None:
    """02:30 on the night when clocks go forward is 03:00, and only once."""
    found = starts("30 2 * * *", at("2025-03-29T12:00"), 86400 * 2, BERLIN)
    assert found == [at("2025-03-30T03:00"), at("2025-03-31T02:30")]


def test_a_time_that_exists_twice_counts_once() -> None:
    """02:30 on the night when clocks go back is the first 02:30 only, whoever looks when."""
    night = at("2025-10-25T12:00")
    found = starts("30 2 * * *", night, 86400 * 2, BERLIN)
    assert found == [at("2025-10-26T02:30"), at("2025-10-27T02:30")]
    again = look(ScheduleSpec(cron="30 2 * * *"), BERLIN, found[0], at("2025-10-26T02:40", fold=1))
    assert again.due is None
    assert again.next == found[1]


def test_what_goes_by_the_hour_goes_on_by_real_time() -> None:
    """`0 * * * *` runs every 3,600 s through both changes of the clocks."""
    for begin in (at("2025-03-29T22:30"), at("2025-10-25T22:30")):
        found = starts("0 * * * *", begin, 8 * 3600, BERLIN)
        assert [b - a for a, b in itertools.pairwise(found)] == [3600.0] * 7


@settings(max_examples=150, deadline=None)
@given(expressions, moments, st.sampled_from(ZONES), st.floats(1, 90_000))
def test_looking_late_finds_the_newest_time(
    cron: str, begin: float, zone: timezone | ZoneInfo, seconds: float
) -> None:
    """Who slept finds exactly the last of the times that who did not sleep has seen."""
    cron = cron_of(cron)
    seen = look(ScheduleSpec(cron=cron, catch_up=True), zone, begin, begin + seconds)
    all_of_them = starts(cron, begin, seconds, zone)
    assert seen.due == (all_of_them[-1] if all_of_them else None)
    assert seen.next is None or seen.next > begin + seconds
    assert seen.handled <= begin + seconds


@settings(max_examples=150, deadline=None)
@given(expressions, moments, st.sampled_from(ZONES), st.lists(st.floats(-7200, 40_000), max_size=8))
def test_no_time_counts_twice(
    cron: str, begin: float, zone: timezone | ZoneInfo, steps: list[float]
) -> None:
    """However the clock is set (back by up to two hours), each time is started at most once;
    what comes every hour or more often goes on instead."""
    spec, now, handled = ScheduleSpec(cron=cron_of(cron), catch_up=True), begin, begin
    found: list[float] = []
    for step in steps:
        now = max(now + step, handled - STEP_BACK_SECONDS)
        seen = look(spec, zone, handled, now)
        if seen.handled < handled:
            # It comes often: the rest of its life is counted anew.
            assert seen.handled == now
            assert seen.next is None or seen.next - now <= 86400 + 3600
            found.clear()
        handled = seen.handled
        if seen.due is not None:
            found.append(seen.due)
    assert found == sorted(set(found))


@given(st.floats(1, 1e6), st.floats(0, 1e7), st.booleans())
def test_every(every: float, seconds: float, catch_up: bool) -> None:
    """An interval counts from the last time; after a pause one start at most."""
    begin = 1_700_000_000.0
    spec = ScheduleSpec(every=every, catch_up=catch_up)
    seen = look(spec, UTC, begin, begin + seconds)
    assert seen.next is not None
    assert begin + seconds < seen.next + 2.0
    assert seen.next <= begin + seconds + every + 2.0
    if seconds < every * 0.999:
        assert seen.due is None
    elif catch_up and seconds > every * 1.001:
        assert seen.due is not None


def test_missed_times() -> None:
    """A laptop that slept over its time has missed it, unless it is to catch up."""
    due = at("2025-06-01T03:00")
    before, nightly = due - 3600, ScheduleSpec(cron="0 3 * * *")
    assert look(nightly, BERLIN, before, due + LATE_SECONDS).due == due
    slept = look(nightly, BERLIN, before, due + 5 * 3600)
    assert (slept.due, slept.missed, slept.next) == (None, due, at("2025-06-02T03:00"))
    days = look(
        ScheduleSpec(cron="0 3 * * *", catch_up=True), BERLIN, before, due + 86400 * 30 + 7200
    )
    assert days.due == due + 86400 * 30


@pytest.mark.parametrize(
    ("spec", "wait"),
    [
        (ScheduleSpec(every=600.0), 600.0),
        (ScheduleSpec(every=7200.0), 7200.0),
        (ScheduleSpec(cron="*/5 * * * *"), 300.0),
        (ScheduleSpec(cron="0 * * * *"), 3600.0),
        (ScheduleSpec(cron="0 3 * * *"), 2 * 3600.0 + 86400.0),
    ],
)
def test_a_clock_that_is_set_back(spec: ScheduleSpec, wait: float) -> None:
    """What comes often goes on at once, and does not wait until the clock is where it was; what
    comes once a day is not done twice."""
    handled = at("2025-06-01T03:00")
    seen = look(spec, BERLIN, handled, now := handled - 2 * 3600)
    assert (seen.due, seen.missed, seen.next) == (None, None, now + wait)


def test_a_clock_that_is_corrected_by_a_little() -> None:
    """The time that was just done does not count again when the clock is a moment before it."""
    handled = at("2025-06-01T03:00")
    seen = look(ScheduleSpec(cron="*/5 * * * *"), BERLIN, handled, handled - 0.05)
    assert (seen.due, seen.next) == (None, handled + 300)


def test_a_clock_that_was_years_ahead() -> None:
    """A clock that was wrong by years does not silence a schedule for years."""
    now = at("2025-06-01T03:30")
    seen = look(ScheduleSpec(cron="0 * * * *"), BERLIN, now + 86400 * 365 * 4, now)
    assert seen.due is None
    assert seen.next == at("2025-06-01T04:00")


def test_sleep_is_short() -> None:
    """The wall clock is asked at least once a minute."""
    assert sleep_seconds(None, 0.0) == sleep_seconds(1e9, 0.0) == 60.0
    assert sleep_seconds(10.0, 4.0) == 6.0
    assert sleep_seconds(10.0, 14.0) == 0.0
    assert timedelta(seconds=STEP_BACK_SECONDS) == timedelta(hours=3)
