"""The keys `policies`, `security.filters` and `security.rate_limit`.

A policy that would not be applied is a problem: no restriction is ever left out silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.adapters.config.document import ListNode, Node
from holdfast.adapters.config.kinds.blocks import Block, Key, Values, default_of
from holdfast.adapters.config.kinds.kind import Kind, Reading, ScalarKind, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Duration,
    Integer,
    ListOf,
    Number,
    Text,
)
from holdfast.system.patterns import pattern
from holdfast.vocabulary.actors import Role
from holdfast.vocabulary.command import Door, Effect
from holdfast.vocabulary.commands import COMMANDS, canonical_name, why_unknown
from holdfast.vocabulary.specs.policies import ALL_DAY, FilterSpec, PolicySpec, RateLimit, Window
from holdfast.vocabulary.specs.settings import Configuration

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = f"(?:{'|'.join(_DAYS)})"
_TIMES = pattern(
    rf"(?:(?P<days>{_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*)\s*)?"
    r"(?:(?P<begin>\d{1,2}:\d{2})-(?P<end>\d{1,2}:\d{2})\s*)?(?P<zone>[A-Za-z][\w+/-]*)?",
    re.IGNORECASE,
)
_EXAMPLE = 'write "Mon-Fri 09:00-17:00 Europe/Berlin"'


class WeekTimes(ScalarKind):
    """Days, hours and a time zone. Each may be left out."""

    wanted = "times of the week"

    def convert(self, text: str) -> Window:
        found = _TIMES.fullmatch(text.strip())
        if found is None or not text.strip():
            raise ValueError(f'"{text}" is no times of the week; {_EXAMPLE}')
        begin, end = (
            _parse_minute(found["begin"], 0, text),
            _parse_minute(found["end"], ALL_DAY, text),
        )
        if begin in (end, ALL_DAY):
            raise ValueError(f'"{text}" is no time at all; {_EXAMPLE}')
        return Window(
            days=_parse_days(found["days"]), begin=begin, end=end, zone=_check_zone(found["zone"])
        )

    def hint(self) -> str:
        return _EXAMPLE

    def schema(self) -> Schema:
        return {"type": "string", "examples": ["Mon-Fri 09:00-17:00 Europe/Berlin", "Sat,Sun"]}


def _parse_days(text: str | None) -> tuple[int, ...]:
    days: set[int] = set()
    for part in text.lower().split(",") if text else ["mon-sun"]:
        first, _, last = part.partition("-")
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        days |= {day % 7 for day in range(begin, end + 1 + 7 * (end < begin))}
    return tuple(sorted(days))


def _parse_minute(text: str | None, default: int, whole: str) -> int:
    if text is None:
        return default
    hour, minute = map(int, text.split(":"))
    if minute > 59 or hour * 60 + minute > ALL_DAY:
        raise ValueError(f'"{whole}": {text} is no time of a day; {_EXAMPLE}')
    return hour * 60 + minute


def _check_zone(name: str | None) -> str | None:
    from holdfast.adapters.time_zones import is_zone

    if name is not None and not is_zone(name):
        raise ValueError(f'"{name}" is no time zone; {_EXAMPLE}')
    return name


ROLES = tuple(role.value for role in Role if role is not Role.STRANGER)
POLICY = Block(
    [
        Key("name", Text(), "What people are told of it; its number by default."),
        Key(
            "effect",
            Choice("confirm", "deny", "allow"),
            "Let somebody approve it first, refuse it, or look at no further policy.",
        ),
        Key("reason", Text(), "Why, for the caller who is refused and for approvers."),
        Key("actors", ListOf(Text()), "Only of these: names of tokens and sessions, with `*`."),
        Key("roles", ListOf(Choice(*ROLES)), "Only of these roles."),
        Key("doors", ListOf(Choice(*(door.value for door in Door))), "Only by these doors."),
        Key("commands", ListOf(Text()), "Only these commands, with `*`."),
        Key("services", ListOf(Text()), "Only about these services, with `*`."),
        Key("tags", ListOf(Text()), "Only about services with one of these tags."),
        Key("paths", ListOf(Text()), "Only about these files, with `*`."),
        Key("tools", ListOf(Text()), "Only calls of these tools, as `SERVER__TOOL`, with `*`."),
        Key("times", ListOf(WeekTimes()), "Only then: days, hours, time zone."),
        Key(
            "approve_within",
            Duration("s", is_zero_allowed=False),
            "A confirmation that does not come by then is a refusal.",
        ),
        Key("approvers", Choice("operator", "admin"), "The least role that approves."),
    ],
    spec=PolicySpec,
    definition="policy",
    synonyms={
        "expires": "approve_within",
        "actor": "actors",
        "role": "roles",
        "command": "commands",
        "service": "services",
        "tag": "tags",
        "path": "paths",
        "tool": "tools",
        "time": "times",
    },
)


class PolicyList(Kind):
    """A list of policies. The first that matches a request decides."""

    wanted = "a list of policies"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[PolicySpec, ...] | None:
        items: Sequence[Node] = node.items if isinstance(node, ListNode) else [node]
        found = []
        for number, item in enumerate(items, 1):
            values = POLICY.read(item, f"{key}[{number - 1}]", reading)
            policy = None if values is None else _build_policy(values, number, reading)
            if policy is not None:
                found.append(policy)
        return tuple(found)

    def hint(self) -> str:
        return "write - {effect: confirm, roles: [agent], commands: [restart]}"

    def schema(self) -> Schema:
        one = POLICY.schema()
        return {"anyOf": [{"type": "array", "items": one}, one]}


def _build_policy(values: Values, number: int, reading: Reading) -> PolicySpec | None:
    given: dict[str, Any] = dict(values)
    if "effect" not in given:
        if "effect" not in values.refused:
            hint = "write effect: confirm, deny or allow"
            reading.note(values.node, values.path, "a policy has an effect", hint)
        return None
    if values.refused:
        return None
    _check_commands(values, given, reading)
    if given["effect"] != "confirm":
        for name in ("approve_within", "approvers"):
            if name in given:
                message = f"only effect: confirm has it, not {given['effect']}"
                reading.note(values.at(name), values.path_of(name), message, "remove it")
    given.setdefault("name", str(number))
    return PolicySpec(**given)


def _check_commands(values: Values, given: Mapping[str, Any], reading: Reading) -> None:
    where = (values.at("commands"), values.path_of("commands"))
    for name in given.get("commands", ()):
        known = COMMANDS.get(name)
        if known is None and not set(name) & set("*?["):
            wrong = why_unknown(name) or (f'no command "{name}"', f'write "{canonical_name(name)}"')
            reading.note(*where, *wrong)
        elif known is not None and given["effect"] == "confirm" and known.effect is Effect.READS:
            message = f"{name} changes nothing, so nobody confirms it"
            reading.note(*where, message, "write effect: deny, or leave it out")


FILTERS = Block(
    [
        Key("max_length", Integer(1), "The longest text of an argument, in characters."),
        Key("control_characters", Boolean(), "Whether texts may hold them."),
        Key("forbid", ListOf(Text()), "No text may match one of these, with `*`."),
    ],
    spec=FilterSpec,
    definition="filters",
)
RATE_LIMIT = Block(
    [
        Key("requests_per_second", Number(0.01, 1_000_000), "For how long on end."),
        Key("burst", Integer(1), "So many at once."),
    ],
    spec=RateLimit,
    definition="rate_limit",
)


def build_request_settings(
    reading: Reading, values: Values, chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings about requests. Keys that need mode advanced are refused without it."""
    security: Values = values.get("security") or Values("security", values.node)
    mode = chosen.get("runtime_mode", default_of(Configuration, "runtime_mode"))
    for where, name in ((values, "policies"), (security, "filters")):
        if where.get(name) and mode != "advanced":
            message = "mode proxy would not heed this"
            hint = "write runtime_mode: advanced"
            reading.note(where.at(name), where.path_of(name), message, hint)
    fields = {name: security[name] for name in ("rate_limit", "secrets") if name in security}
    if security.get("filters"):
        fields["filters"] = FilterSpec(**security["filters"])
    return {"runtime_mode": mode, **fields}
