"""Durations and times as people write and read them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest

from holdfast.cli.terminal import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("200ms", 0.2), ("1.5s", 1.5), ("10m", 600), ("1h30m", 5400), ("7d", 604800)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """Every unit, compound ones, and bare seconds."""
    assert durations.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "10x", "-5", "5m3", "..s", "m"])
def test_nonsense_is_refused(text: str) -> None:
    """What is no duration is a ValueError, never a guess."""
    with pytest.raises(ValueError, match="not a duration"):
        durations.parse(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.42, "0.4s"), (9.99, "10s"), (59.6, "1m00s"), (192, "3m12s"),
     (7500, "2h05m"), (788400, "9d03h")],
)  # fmt: skip
def test_durations_are_shown(seconds: float | None, shown: str) -> None:
    """At most two units, and no column wider than it must be."""
    assert durations.show(seconds) == shown


def test_moments() -> None:
    """A moment is a duration ago, a time of the last 24 hours, or an ISO time."""
    before = datetime.now().astimezone() - timedelta(minutes=2)
    assert durations.parse_when(f"{before:%H:%M:%S}") == pytest.approx(time.time() - 120, abs=5)
    later = datetime.now().astimezone() + timedelta(minutes=2)
    assert durations.parse_when(f"{later:%H:%M}") < time.time() - 23 * 3600
    assert durations.parse_when("10m") == pytest.approx(time.time() - 600, abs=5)
    assert durations.parse_when("2001-09-09T01:46:40Z") == 1e9
    with pytest.raises(ValueError, match="not a time"):
        durations.parse_when("yesterday")


def test_sizes() -> None:
    """Binary units, one decimal."""
    assert [durations.show_size(n) for n in (5, 2048, 3 << 20, 5 << 40)] == [
        "5 B", "2.0 KiB", "3.0 MiB", "5120.0 GiB",
    ]  # fmt: skip


@pytest.mark.parametrize("moment", [1e18, -1e18, 1e300, float("inf"), float("nan")])
def test_a_moment_that_no_calendar_has(moment: float) -> None:
    """Of a damaged file: shown as a number, by every list that has times."""
    assert durations.show_time(moment) == f"{moment:g}"
