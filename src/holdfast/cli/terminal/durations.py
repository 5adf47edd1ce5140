"""Durations and times as people write and read them: `10m`, `1h30m`, `3m12s`."""

from __future__ import annotations

import time

_FORM = "not a duration; write 200ms, 30s, 10m, 2h or 7d"


def parse(text: str) -> float:
    """Seconds; a bare number is seconds. Raises ValueError that shows the form."""
    from holdfast.vocabulary.quantities import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(_FORM) from None


def parse_count(text: str) -> int:
    """A whole number, 0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def parse_place(text: str) -> float:
    """A place among events: the number of an event (int) or a time (float)."""
    try:
        return parse_count(text)
    except ValueError:
        return parse_when(text)


def parse_when(text: str) -> float:
    """Unix seconds of a moment: a duration ago, or a local time, of today or in ISO form."""
    try:
        return time.time() - parse(text)
    except ValueError:
        pass
    from datetime import datetime, timedelta
    from datetime import time as time_of_day

    try:
        if len(text) <= len("hh:mm:ss"):
            now = datetime.now().astimezone()
            moment = datetime.combine(now, time_of_day.fromisoformat(text)).astimezone()
            return (moment if moment <= now else moment - timedelta(days=1)).timestamp()
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise ValueError("not a time; write 10m, 2h, 14:00 or 2030-01-31T12:00") from None


def show(seconds: float | None) -> str:
    """At most two units: `0.4s`, `12s`, `3m12s`, `2h05m`, `9d03h`."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def show_size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def show_time(moment: float | None) -> str:
    """Local time of day; with the date when it is not today's. A moment that no calendar has is
    shown as a number."""
    if moment is None:
        return "-"
    try:
        local = time.localtime(moment)
    except (OverflowError, OSError, ValueError):
        return f"{moment:g}"
    is_today = time.strftime("%Y%m%d", local) == time.strftime("%Y%m%d")
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", local)
