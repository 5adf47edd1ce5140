"""The keys of readiness and health, and what they make: probes, and how a service may speak.

One block for every probe; `health_check` is liveness, and readiness where nothing else is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.adapters.config.blocks import Block, Key, Values
from holdfast.adapters.config.document import Entry, Node, Scalar, Table
from holdfast.adapters.config.kinds import (
    INTERPOLATED,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    ListOf,
    Reading,
    ScalarKind,
    Schema,
    quoted,
)
from holdfast.adapters.config.service_kinds import CommandLine, Headers, Url
from holdfast.adapters.search.matching import check_expression
from holdfast.rules.ports import PLACEHOLDER, names_in
from holdfast.system.patterns import pattern
from holdfast.vocabulary.errors import UsageError

_STATUS = pattern(r"([1-5])xx|([1-5]\d\d)(?:\s*-\s*([1-5]\d\d))?", re.IGNORECASE)
_ADDRESS = pattern(r"(?:(?P<host>[^\s:\[\]]+|\[[0-9a-fA-F:.]+\]):)?(?P<port>\d{1,5})")


class Address(ScalarKind):
    """Where to connect: a port of this machine, or host and port."""

    wanted = "a port or host:port"

    def convert(self, text: str) -> tuple[str, int, str | None]:
        leased = names_in(text)
        found = _ADDRESS.fullmatch(PLACEHOLDER.sub("1", text.strip()))
        if not found or not 0 < int(found["port"]) < 65536:
            raise ValueError(f'"{text}" is not a port; write 5432 or db.local:5432')
        host = (found["host"] or "localhost").strip("[]")
        return (host, 0, leased[0]) if leased else (host, int(found["port"]), None)

    def schema(self) -> Schema:
        port = {"type": "integer", "minimum": 1, "maximum": 65535}
        text = {"type": "string", "pattern": r"^(\S+:)?(\d+|\{\{.*\}\})$"}
        return {"anyOf": [port, text, INTERPOLATED]}


class ProbeUrl(Url):
    """An address of HTTP that can be asked."""

    def convert(self, text: str) -> str:
        from holdfast.adapters.http_client import HttpError, address_of

        url: str = super().convert(text)
        try:
            address_of(PLACEHOLDER.sub("1", url))
        except HttpError:
            raise ValueError(f'"{text}" is not a URL; write http://localhost:8000/health') from None
        return url


class Expression(ScalarKind):
    """A regular expression."""

    wanted = "a regular expression"

    def convert(self, text: str) -> str:
        try:
            check_expression(text)
        except UsageError as error:
            raise ValueError(f"{error.message}; write one as Python understands it") from None
        return text

    def schema(self) -> Schema:
        return {"type": ["string", "number", "boolean"]}


class StatusRange(ScalarKind):
    """A status of HTTP, or several: 200, 2xx, 200-204."""

    wanted = "a status"

    def convert(self, text: str) -> tuple[int, int]:
        found = _STATUS.fullmatch(text.strip())
        if not found:
            raise ValueError(f'"{text}" is not a status; write 200, 2xx or 200-204')
        hundred, low, high = found.groups()
        if hundred:
            return int(hundred) * 100, int(hundred) * 100 + 99
        return int(low), int(high or low)

    def schema(self) -> Schema:
        number = {"type": "integer", "minimum": 100, "maximum": 599}
        return {"anyOf": [number, quoted(_STATUS), INTERPOLATED]}


class ProbeKind(Kind):
    """A probe, as a mapping; an address alone is `http`, and `notify` stands for itself."""

    wanted = "a probe"

    def __init__(self, block: Block) -> None:
        self.block = block

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if not isinstance(node, Scalar):
            return self.block.read(node, key, reading)
        name = "notify" if node.text.strip() == "notify" else "http"
        value = Scalar("true", False, node.line, node.column) if name == "notify" else node
        here = Scalar(name, True, node.line, node.column)
        return self.block.read_entries(node, {name: Entry(here, value)}, key, reading)

    def schema(self) -> Schema:
        text = {"type": "string", "pattern": "^https?://|^notify$"}
        return {"anyOf": [self.block.schema(), text, INTERPOLATED]}


class NotifyKind(Kind):
    """Whether a service says itself how it is; as a mapping, with which means."""

    wanted = "true, false or a mapping"

    def __init__(self, block: Block) -> None:
        self.block = block
        self.word = Boolean()

    def read(self, node: Node, key: str, reading: Reading) -> Values | bool | None:
        if isinstance(node, Table):
            return self.block.read(node, key, reading)
        said: bool | None = self.word.read(node, key, reading)
        return Values(key, node) if said else said

    def schema(self) -> Schema:
        return {"anyOf": [self.word.schema(), self.block.schema()]}


_PERIOD = Duration("s", is_zero_allowed=False)
HEALTH_CHECK = Block(
    [
        Key("http", ProbeUrl(), "An address that answers with a success."),
        Key("url", ProbeUrl(), "The same as http."),
        Key("tcp", Address(), "A port, or host:port, that takes a connection."),
        Key("exec", CommandLine(), "A command that ends with exit code 0."),
        Key("command", CommandLine(), "The same as exec."),
        Key("log", Expression(), "A regular expression for a line that the service prints."),
        Key("notify", Boolean(), "What the service says itself: READY=1, WATCHDOG=1."),
        Key("interval", _PERIOD, "Time between two checks.", "30s"),
        Key("timeout", _PERIOD, "The longest wait for an answer.", "10s"),
        Key("retries", Integer(1, 1000), "Failed checks in a row that count.", 3),
        Key("consecutive_failures", Integer(1, 1000), "The same as retries."),
        Key("initial_delay", Duration("s"), "Wait before the first check.", "0s"),
        Key("success_threshold", Integer(1, 1000), "Passed checks in a row that count.", 1),
        Key("action", Choice("restart", "report"), "What a failure leads to.", "restart"),
        Key("method", Choice("get", "head"), "How an address is asked.", "get"),
        Key("status", ListOf(StatusRange()), "Which answers are a success.", ["200-399"]),
        Key("body", Expression(), "A regular expression that must be found in the answer."),
        Key("headers", Headers(), "Headers that are sent along."),
        Key("verify", Boolean(), "Ask for a valid certificate; not on loopback by default."),
        Key("follow", Boolean(), "Follow redirects, instead of taking them as the answer.", False),
        Key("shell", Boolean(), "Run the command with /bin/sh -c.", False),
    ],
    definition="health_check",
    synonyms={
        "endpoint": "http",
        "test": "exec",
        "port": "tcp",
        "start_period": "initial_delay",
        "initial_delay_seconds": "initial_delay",
        "period": "interval",
        "period_seconds": "interval",
        "failure_threshold": "retries",
        "pattern": "log",
        "regex": "log",
    },
)
NOTIFY = Block(
    [
        Key("fd", Integer(3, 255), "It writes a newline there when it is ready, as with s6."),
        Key("watchdog", _PERIOD, "How often it has to say WATCHDOG=1."),
    ],
    definition="notify",
)
PROBE = ProbeKind(HEALTH_CHECK)
SERVICE_KEYS = [
    Key("health_check", PROBE, "How its health is asked."),
    Key("health_check_url", ProbeUrl(), "The same as health_check.http."),
    Key("health_check_interval", _PERIOD, "The same as health_check.interval.", "30s"),
    Key("consecutive_failures", Integer(1, 1000), "The same as health_check.retries.", 3),
    Key("startup", PROBE, "When it has started up; nothing else is asked before."),
    Key("readiness", PROBE, "Whether it can do its work; a failure restarts nothing."),
    Key("liveness", PROBE, "Whether it still works; a failure restarts it."),
    Key("notify", NotifyKind(NOTIFY), "It says itself that it is ready (sd_notify).", False),
]


def texts(fields: Mapping[str, Any], *names: str) -> list[str]:
    """Those of these keys that were written."""
    return [name for name in names if fields.get(name) not in (None, False)]
