"""The keys `alerts` and `audit`: where alerts and the head of the audit are sent.

Addresses and headers are never repeated in a problem, because they may hold secrets.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from holdfast.adapters.config.document import ListNode, Node
from holdfast.adapters.config.kinds.addresses import Headers, SecretUrl
from holdfast.adapters.config.kinds.blocks import Block, Key, Values
from holdfast.adapters.config.kinds.command_lines import CommandLine, split_words
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import Boolean, Choice, Duration, ListOf, Text
from holdfast.adapters.config.sources import resolve_path
from holdfast.secrets.redaction import shown_address
from holdfast.vocabulary.addresses import is_loopback
from holdfast.vocabulary.alerts import SEVERITIES, AlertCause, TargetSpec
from holdfast.vocabulary.specs.audit import AnchorSpec

CHANNELS = ("webhook", "command", "desktop")
TARGET = Block(
    [
        Key("name", Text(), "What `holdfast alerts --targets` calls it."),
        Key("webhook", SecretUrl(), "An address that gets each alert by POST."),
        Key("headers", Headers(), "Sent with it."),
        Key(
            "format",
            Choice("json", "text", aliases={"slack": "text"}),
            'All fields, or {"text": …} as chat programs take it.',
        ),
        Key("command", CommandLine(), "A command to run; the alert is in its environment."),
        Key("desktop", Boolean(), "Show it on this desktop."),
        Key("timeout", Duration("s", is_zero_allowed=False), "The longest attempt."),
        Key("severity", Choice(*SEVERITIES), "The least severe that is told."),
        Key(
            "causes",
            ListOf(Choice(*(cause.value for cause in AlertCause))),
            "Only these causes; all by default.",
        ),
        Key("services", ListOf(Text()), "Only of these services."),
        Key("tags", ListOf(Text()), "Only of services with one of these tags."),
        Key("cleared", Boolean(), "Tell the end of an alert, too."),
        Key("cooldown", Duration("s"), "Be silent about the same for so long."),
        Key("repeat", Duration("s"), "Tell what is still open again after this; 0: never."),
    ],
    spec=TargetSpec,
    definition="alert_target",
    synonyms={"url": "webhook", "exec": "command", "min_severity": "severity", "cause": "causes"},
)


class AlertTargets(Kind):
    """A list of targets. A single target stands for a list of one."""

    wanted = "a list of targets"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[TargetSpec, ...] | None:
        items: Sequence[Node] = node.items if isinstance(node, ListNode) else [node]
        names: set[str] = set()
        found = []
        for number, item in enumerate(items):
            values = TARGET.read(item, f"{key}[{number}]", reading)
            target = None if values is None else _build_target(values, names, reading)
            if target is not None:
                found.append(target)
        return tuple(found)

    def hint(self) -> str:
        return "write - webhook: https://…, - command: … or - desktop: true"

    def schema(self) -> Schema:
        one = TARGET.schema()
        return {"anyOf": [{"type": "array", "items": one}, one]}


def _build_target(values: Values, names: set[str], reading: Reading) -> TargetSpec | None:
    given: dict[str, Any] = dict(values)
    channels = [channel for channel in CHANNELS if given.get(channel)]
    if len(channels) != 1:
        if not values.refused & set(CHANNELS):
            message = "a target has one of webhook, command and desktop"
            hint = "keep one; write each in its own item" if channels else "add one of them"
            reading.note(values.node, values.path, message, hint)
        return None
    if "headers" in given and channels != ["webhook"]:
        where = (values.at("headers"), values.path_of("headers"))
        reading.note(*where, "only a webhook has them", "remove them")
    if "command" in given:
        path = values.path_of("command")
        words = split_words(given["command"], path, reading, is_command=True)
        if words is None:
            return None
        given["command"] = tuple(words)
    name = given.pop("name", "") or _make_name(given, channels[0], names)
    if name in names:
        message = f'another target is called "{name}"'
        reading.note(values.at("name"), values.path_of("name"), message, "give it another name")
    names.add(name)
    return TargetSpec(name=name, **given)


def _make_name(given: dict[str, Any], channel: str, names: set[str]) -> str:
    """Return a name that tells targets apart and holds no secret."""
    match channel:
        case "webhook":
            name = shown_address(given["webhook"]).partition("://")[2]
        case "command":
            name = os.path.basename(given["command"][0])
        case _:
            name = channel
    number = 2
    chosen = name
    while chosen in names:
        chosen, number = f"{name} {number}", number + 1
    return chosen


SHORTEST_ANCHOR_SECONDS = 1.0
ANCHOR = Block(
    [
        Key("file", Text(), "A file that each head is appended to, relative to this file."),
        Key("syslog", Boolean(), "Tell the system's log."),
        Key("url", SecretUrl(), "An https address that gets each head by POST."),
        Key(
            "every",
            Duration("s", is_zero_allowed=False),
            "The least time between two heads.",
            "1m",
        ),
    ],
    spec=AnchorSpec,
    definition="audit_anchor",
    synonyms={"path": "file", "webhook": "url", "interval": "every"},
)
AUDIT = Block(
    [Key("anchor", ANCHOR, "Where the newest number and hash of the audit are written, too.")],
    definition="audit",
)


def build_anchor(reading: Reading, values: Values) -> AnchorSpec:
    """Build the anchor of the audit, and check that it has a safe place."""
    block: Values | None = (values.get("audit") or {}).get("anchor")
    if block is None or block.refused:
        return AnchorSpec()
    given = dict(block)
    if given.get("file"):
        path = resolve_path(given["file"], reading.folder, reading.environ)
        given["file"] = os.path.normpath(path)
    url = given.get("url") or ""
    if url.lower().startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        message = "everybody on the way can change what is sent by http"
        reading.note(block.at("url"), block.path_of("url"), message, "write https://…")
    if given.get("every", SHORTEST_ANCHOR_SECONDS) < SHORTEST_ANCHOR_SECONDS:
        reading.note(block.at("every"), block.path_of("every"), "at least 1s", "write every: 1m")
    spec = AnchorSpec(**given)
    if spec.is_empty:
        hint = "write file: …, syslog: true or url: https://…"
        reading.note(block.node, block.path, "an anchor needs a place", hint)
    return spec
