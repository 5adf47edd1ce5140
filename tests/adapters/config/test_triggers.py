"""`schedule:` and `watch:` in a configuration: every form, every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.services import ScheduleSpec, ServiceSpec, WatchSpec


def read(folder: Path, keys: str, **environ: str) -> ServiceSpec:
    path = folder / "holdfast.yaml"
    path.write_text(f"services:\n  web:\n    command: web\n    {keys}\n")
    services = load(str(path), environ=environ).services
    return next(iter(services.values()))


@pytest.mark.parametrize(
    ("written", "fields"),
    [
        ('"*/5 * * * *"', {"cron": "*/5 * * * *"}),
        ("'@daily'", {"cron": "0 0 * * *"}),
        ("every 10m", {"every": 600.0}),
        ("{every: 90}", {"every": 90.0}),
        ("{cron: '0 3 * * MON', timezone: Europe/Berlin}",
         {"cron": "0 3 * * MON", "timezone": "Europe/Berlin"}),
        ("{cron: '@hourly', catch_up: true}", {"cron": "0 * * * *", "catch_up": True}),
    ],
)  # fmt: skip
def test_schedules(tmp_path: Path, written: str, fields: dict[str, Any]) -> None:
    """A schedule is a cron expression, a nickname, an interval, or a block."""
    assert read(tmp_path, f"schedule: {written}").schedule == ScheduleSpec(**fields)


def test_the_callers_time_zone(tmp_path: Path) -> None:
    """Without a zone of its own a schedule goes by that of `holdfast up`."""
    spec = read(tmp_path, "schedule: '@daily'", TZ="Asia/Tokyo").schedule
    assert spec == ScheduleSpec(cron="0 0 * * *", timezone="Asia/Tokyo")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("'99 * * * *'", "minute"),
        ("'* * *'", "3 fields"),
        ("every soon", "soon"),
        ("every 10ms", "too short"),
        ("{timezone: UTC}", "does not say when"),
        ("{cron: '@daily', every: 1h}", "both cron and every"),
        ("{cron: '@daily', timezone: Europe/Berlin/x}", "not a time zone"),
        ("{cron: '@daily', overlap: allow}", "instances: 2"),
        ("{cron: '@daily', tz: UTC}", "timezone"),
        ("[1, 2]", "schedule"),
    ],
)
def test_mistakes_in_schedules(tmp_path: Path, written: str, told: str) -> None:
    """Every mistake says what is wrong and what to write."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"schedule: {written}")
    assert told in str(caught.value.message) + str(caught.value.hint)


def test_overlap_with_instances(tmp_path: Path) -> None:
    """A schedule may overlap when there are instances to take over."""
    spec = read(tmp_path, "schedule: {every: 5s, overlap: allow}\n    instances: 2")
    assert spec.schedule == ScheduleSpec(every=5.0, overlap="allow")


@pytest.mark.parametrize(
    ("written", "fields"),
    [
        ("src/**/*.py", {"paths": ("src/**/*.py",)}),
        ("[src, ../lib/*.js]", {"paths": ("src", "../lib/*.js")}),
        ("{paths: src, ignore: ['*.log', src/gen/, build/**]}",
         {"paths": ("src",), "ignore": ("*.log", "src/gen", "build/**")}),
        ("{paths: [a], debounce: 1s, action: signal HUP}",
         {"paths": ("a",), "debounce": 1.0, "action": "SIGHUP"}),
        ("{paths: [a], action: usr1, polling: yes}",
         {"paths": ("a",), "action": "SIGUSR1", "polling": True}),
    ],
)  # fmt: skip
def test_watches(tmp_path: Path, written: str, fields: dict[str, Any]) -> None:
    """Patterns are relative to the file; what has a slash is a path, the rest a name."""
    found = read(tmp_path, f"watch: {written}").watch
    for name in ("paths", "ignore"):
        fields[name] = tuple(
            str((tmp_path / text).resolve()) if name == "paths" or "/" in text else text
            for text in fields.get(name, ())
        )
    assert found == WatchSpec(**fields)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("[]", "names no files"),
        ("{debounce: 1s}", "names no files"),
        ("{paths: a, action: dance}", "signal HUP"),
        ("{path: a}", "paths"),
        ("{paths: a, debounce: often}", "often"),
        ("{paths: a, debounce: 300}", "300ms"),
    ],
)
def test_mistakes_in_watches(tmp_path: Path, written: str, told: str) -> None:
    """Every mistake says what is wrong and what to write."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"watch: {written}")
    assert told in str(caught.value.message) + str(caught.value.hint)
