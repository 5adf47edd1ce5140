"""What starts or restarts a service without a request: `watch` and `schedule`.

The readers of cron expressions and time zones are imported only when a schedule is read.
"""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.adapters.config.document import Node, Scalar, Table
from holdfast.adapters.config.kinds.blocks import Block, Key, Values
from holdfast.adapters.config.kinds.kind import INTERPOLATED, Kind, Reading, ScalarKind, Schema
from holdfast.adapters.config.kinds.scalars import Boolean, Choice, Duration, ListOf, Text
from holdfast.adapters.config.sources import resolve_path
from holdfast.system.patterns import pattern
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.quantities import parse_duration, parse_signal, signal_name
from holdfast.vocabulary.specs.services import ScheduleSpec, WatchSpec

RESTART = "restart"
LONGEST_DEBOUNCE = 60.0


class WatchAction(ScalarKind):
    """`restart`, or a signal: `signal HUP`, `SIGHUP`."""

    wanted = "restart or a signal"

    def convert(self, text: str) -> str:
        word = text.strip()
        if word.lower() == RESTART:
            return RESTART
        name = word.split(None, 1)[1] if word.lower().startswith("signal ") else word
        try:
            return signal_name(parse_signal(name))
        except ValueError:
            raise ValueError(f'"{text}" is not known; write restart, or signal HUP') from None

    def schema(self) -> Schema:
        return {"type": ["string", "integer"], "examples": [RESTART, "signal HUP"]}


WATCH = Block(
    [
        Key("paths", ListOf(Text()), "Files: patterns with *, ** and ?, or folders."),
        Key("ignore", ListOf(Text()), "Files that do not count, beside the usual ones."),
        Key("debounce", Duration("s"), "Changes count as one until it is quiet so long."),
        Key("action", WatchAction(), "restart, or a signal as `signal HUP`."),
        Key("polling", Boolean(), "Compare again and again, where nobody tells changes."),
    ],
    spec=WatchSpec,
    definition="watch",
    synonyms={"path": "paths", "files": "paths", "exclude": "ignore", "delay": "debounce"},
)


class WatchPaths(Kind):
    """Patterns of files, or a block with `paths`."""

    wanted = "a list of files"

    def read(self, node: Node, key: str, reading: Reading) -> WatchSpec | None:
        fields: dict[str, Any]
        if isinstance(node, Table):
            values = WATCH.read(node, key, reading)
            if values is None or values.refused:
                return None
            fields = dict(values)
        else:
            fields = {"paths": ListOf(Text()).read(node, key, reading)}
        if fields.get("debounce", 0.0) > LONGEST_DEBOUNCE:
            hint = "write 300ms; a bare number counts seconds"
            reading.note(node, f"{key}.debounce", "is more than a minute", hint)
            return None
        if not fields.get("paths"):
            reading.note(node, key, "names no files", 'write watch: ["src/**/*.py"]')
            return None
        fields["paths"] = tuple(self.make_absolute(text, reading) for text in fields["paths"])
        fields["ignore"] = tuple(
            self.make_absolute(text, reading) if "/" in text.rstrip("/") else text.rstrip("/")
            for text in fields.get("ignore", ())
        )
        return WatchSpec(**fields)

    def make_absolute(self, text: str, reading: Reading) -> str:
        return os.path.normpath(resolve_path(text, reading.folder, reading.environ))

    def hint(self) -> str:
        return 'write watch: ["src/**/*.py"], or keys: paths, ignore, debounce, action'

    def schema(self) -> Schema:
        listed = ListOf(Text()).schema()
        return {"anyOf": [*listed["anyOf"], WATCH.schema()]}


SHORTEST_SECONDS = 1.0
_EVERY = pattern(r"@?every\s+(\S.*)", re.IGNORECASE)
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo")


class Cron(ScalarKind):
    """Five fields of cron, or a nickname as @daily."""

    wanted = "a cron expression"

    def convert(self, text: str) -> str:
        from holdfast.rules.schedule import cron_of

        return cron_of(text)

    def hint(self) -> str:
        return 'write "*/5 * * * *" (minute hour day month weekday) or @daily'

    def schema(self) -> Schema:
        return {"type": "string", "examples": ["*/5 * * * *", "@hourly", "@daily", "@weekly"]}


class ZoneName(ScalarKind):
    """A name of the time zone database."""

    wanted = "a time zone"

    def convert(self, text: str) -> str:
        from holdfast.adapters import time_zones

        if not time_zones.is_zone(text):
            guess = closest(text, list(_ZONES))
            hint = f'did you mean "{guess}"? ' if guess else ""
            raise ValueError(
                f'"{text}" is not a time zone of this machine; {hint}write Europe/Berlin or UTC'
                " (the names come with the package tzdata)"
            )
        return text

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string", "examples": list(_ZONES)}, INTERPOLATED]}


SCHEDULE = Block(
    [
        Key("cron", Cron(), "When: minute hour day month weekday, or @hourly, @daily …"),
        Key("every", Duration("s", is_zero_allowed=False), "Instead of cron: so often."),
        Key("timezone", ZoneName(), "Whose clock: a name as Europe/Berlin; the machine's."),
        Key(
            "overlap",
            Choice("skip", "allow"),
            "A time that comes while it runs: nothing happens, or a free instance is started.",
        ),
        Key("catch_up", Boolean(), "Make good for times that were missed, once."),
    ],
    spec=ScheduleSpec,
    definition="schedule",
    synonyms={"tz": "timezone", "time_zone": "timezone", "interval": "every", "when": "cron"},
)


class Schedule(Kind):
    """A cron expression, «every 10m», or a block."""

    wanted = "a schedule"

    def read(self, node: Node, key: str, reading: Reading) -> ScheduleSpec | None:
        if isinstance(node, Scalar):
            fields = self.read_short_form(node, key, reading)
        else:
            values = SCHEDULE.read(node, key, reading)
            fields = None if values is None else self.check_keys(values, reading)
        if fields is None:
            return None
        from holdfast.adapters import time_zones

        if "timezone" not in fields and time_zones.is_zone(reading.environ.get("TZ") or "/"):
            fields["timezone"] = reading.environ["TZ"]
        return ScheduleSpec(**fields)

    def read_short_form(self, node: Scalar, key: str, reading: Reading) -> dict[str, Any] | None:
        every = _EVERY.fullmatch((reading.expand(node, key) or "").strip())
        if every is None:
            cron = Cron().read(node, key, reading)
            return None if cron is None else {"cron": cron}
        try:
            seconds = parse_duration(every[1], "s")
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            reading.note(node, key, message, hint, node.text[:200])
            return None
        return {"every": seconds} if self.check_length(seconds, node, key, reading) else None

    def check_keys(self, values: Values, reading: Reading) -> dict[str, Any] | None:
        if values.refused:
            return None
        if ("cron" in values) == ("every" in values):
            message = "says both cron and every" if "cron" in values else "does not say when"
            hint = 'write cron: "*/5 * * * *" or every: 10m'
            reading.note(values.node, values.path, message, hint)
            return None
        where, path = values.at("every"), values.path_of("every")
        if "every" in values and not self.check_length(values["every"], where, path, reading):
            return None
        return dict(values)

    def check_length(self, seconds: float, node: Node, key: str, reading: Reading) -> bool:
        if seconds < SHORTEST_SECONDS:
            reading.note(node, key, "is too short an interval", "write 1s or more")
        return seconds >= SHORTEST_SECONDS

    def hint(self) -> str:
        return 'write schedule: "*/5 * * * *", schedule: every 10m, or keys: cron, timezone …'

    def schema(self) -> Schema:
        text = {"type": "string", "examples": ["*/5 * * * *", "@daily", "every 10m"]}
        return {"anyOf": [text, SCHEDULE.schema()]}


def check_schedules(reading: Reading, services: dict[str, Values]) -> None:
    """Check schedules against the number of instances."""
    for values in services.values():
        spec: ScheduleSpec | None = values.get("schedule")
        count = len(values.instances or ())
        if spec is not None and spec.overlap == "allow" and count < 2:
            message = "overlap: allow starts a free instance, and there is only one"
            path = f"{values.path_of('schedule')}.overlap"
            reading.note(values.at("schedule"), path, message, "add instances: 2 or more")
