"""The `alerts:` of a configuration: where alerts are delivered to.

Addresses and headers are never repeated in a problem: they may hold secrets.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from holdfast.adapters.config.blocks import Block, Key, Values
from holdfast.adapters.config.document import Listing, Node
from holdfast.adapters.config.kinds import (
    Boolean,
    Choice,
    Duration,
    Kind,
    ListOf,
    Reading,
    Schema,
    Text,
)
from holdfast.adapters.config.service_kinds import CommandLine, Headers, Url, words_of
from holdfast.secrets.redaction import shown_address
from holdfast.vocabulary.alerts import SEVERITIES, AlertCause, TargetSpec

WAYS = ("webhook", "command", "desktop")


class SecretUrl(Url):
    """An address that a problem does not repeat."""

    is_secret = True

    def convert(self, text: str) -> str:
        try:
            return super().convert(text)
        except ValueError:
            raise ValueError("this is not a URL; write https://example.com/hook") from None


TARGET = Block(
    [
        Key("name", Text(), "What `holdfast alerts --targets` calls it."),
        Key("webhook", SecretUrl(), "An address that gets each alert by POST."),
        Key("headers", Headers(), "Sent with it."),
        Key(
            "format",
            Choice("json", "text", aliases={"slack": "text"}),
            'All fields, or {"text": …} as chat programs take it.',
            "json",
        ),
        Key("command", CommandLine(), "A command to run; the alert is in its environment."),
        Key("desktop", Boolean(), "Show it on this desktop.", False),
        Key("timeout", Duration("s", is_zero_allowed=False), "The longest attempt.", "10s"),
        Key("severity", Choice(*SEVERITIES), "The least severe that is told.", "warning"),
        Key(
            "causes",
            ListOf(Choice(*(cause.value for cause in AlertCause))),
            "Only these causes; all by default.",
        ),
        Key("services", ListOf(Text()), "Only of these services."),
        Key("tags", ListOf(Text()), "Only of services with one of these tags."),
        Key("cleared", Boolean(), "Tell the end of an alert, too.", True),
        Key("cooldown", Duration("s"), "Be silent about the same for so long.", "0s"),
        Key("repeat", Duration("s"), "Tell what is still open again after this; 0: never.", "0s"),
    ],
    definition="alert_target",
    synonyms={"url": "webhook", "exec": "command", "min_severity": "severity", "cause": "causes"},
)


class Targets(Kind):
    """A list of targets; one alone stands for a list of one."""

    wanted = "a list of targets"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[TargetSpec, ...] | None:
        items: Sequence[Node] = node.items if isinstance(node, Listing) else [node]
        names: set[str] = set()
        found = []
        for number, item in enumerate(items):
            values = TARGET.read(item, f"{key}[{number}]", reading)
            target = None if values is None else _target(values, names, reading)
            if target is not None:
                found.append(target)
        return tuple(found)

    def hint(self) -> str:
        return "write - webhook: https://…, - command: … or - desktop: true"

    def schema(self) -> Schema:
        one = TARGET.schema()
        return {"anyOf": [{"type": "array", "items": one}, one]}


def _target(values: Values, names: set[str], reading: Reading) -> TargetSpec | None:
    given: dict[str, Any] = dict(values)
    ways = [way for way in WAYS if given.get(way)]
    if len(ways) != 1:
        if not values.refused & set(WAYS):
            message = "a target has one of webhook, command and desktop"
            hint = "keep one; write each in its own item" if ways else "add one of them"
            reading.note(values.node, values.path, message, hint)
        return None
    if "headers" in given and ways != ["webhook"]:
        where = (values.at("headers"), values.path_of("headers"))
        reading.note(*where, "only a webhook has them", "remove them")
    if "command" in given:
        path = values.path_of("command")
        words = words_of(given["command"], path, reading, is_command=True)
        if words is None:
            return None
        given["command"] = tuple(words)
    name = given.pop("name", "") or _default_name(given, ways[0], names)
    if name in names:
        message = f'another target is called "{name}"'
        reading.note(values.at("name"), values.path_of("name"), message, "give it another name")
    names.add(name)
    return TargetSpec(name=name, **given)


def _default_name(given: dict[str, Any], way: str, names: set[str]) -> str:
    """Says enough to tell targets apart, and no secret."""
    match way:
        case "webhook":
            name = shown_address(given["webhook"]).partition("://")[2]
        case "command":
            name = os.path.basename(given["command"][0])
        case _:
            name = way
    number = 2
    chosen = name
    while chosen in names:
        chosen, number = f"{name} {number}", number + 1
    return chosen


ALERTS = Key("alerts", Targets(), "Where alerts are told: webhooks, commands, this desktop.")
LOG_FORMAT = Key(
    "log_format", Choice("human", "json"), "How Holdfast's own log is written.", "human"
)
