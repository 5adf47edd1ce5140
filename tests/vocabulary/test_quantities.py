"""Durations, sizes and signals are read as people write them and shown as people read them."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from holdfast.vocabulary.quantities import (
    format_duration,
    format_size,
    parse_duration,
    parse_signal,
    parse_size,
    signal_name,
)


@pytest.mark.parametrize(
    ("text", "unit", "seconds"),
    [
        ("5s", "s", 5),
        ("200ms", "s", 0.2),
        ("10m", "s", 600),
        ("1h30m", "s", 5400),
        ("1h 30m", "s", 5400),
        ("1.5h", "s", 5400),
        ("2 days", "s", 172800),
        ("1d2h3m4s", "s", 93784),
        ("5000", "ms", 5),
        (5000, "ms", 5),
        (2.5, "s", 2.5),
        ("30", "s", 30),
        ("5S", "ms", 5),
        ("500us", "s", 0.0005),
        ("10 seconds", "ms", 10),
        ("3 min", "s", 180),
        ("0", "s", 0),
    ],
)
def test_durations(text: Any, unit: str, seconds: float) -> None:
    """A duration has units, or is a bare number in the unit of its key."""
    assert parse_duration(text, unit) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["soon", "", "5x", "s", "5s5", "-5s", "-1", -1, True, float("nan"), "1e99", "9999999w"]
)
def test_bad_durations(text: Any) -> None:
    """What is not a duration is refused with a message, never guessed."""
    with pytest.raises(ValueError, match=r"duration|unit|negative|century"):
        parse_duration(text)


def test_bad_duration_names_the_unit_of_a_bare_number() -> None:
    """The message says what a bare number would mean for this key."""
    with pytest.raises(ValueError, match="write 5s, 200ms, 1h30m or a number of milliseconds"):
        parse_duration("soon", "ms")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16MB", 16_000_000),
        ("16MiB", 16 * 1024**2),
        ("16M", 16 * 1024**2),
        ("1GiB", 1024**3),
        ("1.5k", 1536),
        ("10 kb", 10_000),
        ("100", 100),
        (100, 100),
        ("0", 0),
    ],
)
def test_sizes(text: Any, size: int) -> None:
    """MB counts in thousands, MiB and a bare M in 1024s, as GNU tools do."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["big", "", "-1", -5, "5 apples", "1e3", True])
def test_bad_sizes(text: Any) -> None:
    """What is not a size is refused."""
    with pytest.raises(ValueError, match=r"size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["TERM", "SIGTERM", "sigterm", 15, "15", " Term "])
def test_signals(text: Any) -> None:
    """A signal is a name with or without SIG, in any case, or a number."""
    assert parse_signal(text) == signal.SIGTERM


@pytest.mark.parametrize("text", ["NOPE", 0, 999, "", "-1", True, "RTMIN+99"])
def test_bad_signals(text: Any) -> None:
    """What is not a signal is refused."""
    with pytest.raises(ValueError, match="is not a signal"):
        parse_signal(text)


@pytest.mark.parametrize("number", [int(s) for s in signal.valid_signals()])
def test_signal_names_read_back(number: int) -> None:
    """Every valid signal has a name that reads back as itself."""
    assert parse_signal(signal_name(number)) == number


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0124, "12ms"),
        (0.9999, "1s"),
        (4.25, "4.2s"),
        (59.6, "1m"),
        (90, "1m 30s"),
        (3600, "1h"),
        (5400, "1h 30m"),
        (273600, "3d 4h"),
        (-90, "-1m 30s"),
    ],
)
def test_shown_durations(seconds: float, text: Any) -> None:
    """A duration is shown in its two largest units."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (16 * 1024**2, "16.0 MiB"), (1024**2 - 1, "1.0 MiB")],
)
def test_shown_sizes(size: int, text: Any) -> None:
    """A size is shown in binary units."""
    assert format_size(size) == text


@pytest.mark.parametrize("seconds", [0, 0.25, 1, 7.5, 42, 60, 3600, 5400, 86400])
def test_shown_durations_read_back(seconds: float) -> None:
    """What we show of a round duration can be typed back."""
    assert parse_duration(format_duration(seconds)) == seconds
