"""The keys of readiness and health, and how probes are built from them.

Every probe is written as the same block. `health_check` is a liveness probe, and also a readiness
probe where no other says when a service is ready. A `health_check` at the top of the file gives
defaults; it is a probe itself only if it says what to ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.adapters.config.document import Node, Scalar, Table, TableEntry
from holdfast.adapters.config.kinds.addresses import Headers, Url
from holdfast.adapters.config.kinds.blocks import Block, Key, Values, agreed_value, default_of
from holdfast.adapters.config.kinds.command_lines import CommandLine, shell_words, split_words
from holdfast.adapters.config.kinds.kind import INTERPOLATED, Kind, Reading, ScalarKind, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Duration,
    Expression,
    Integer,
    ListOf,
    quoted,
)
from holdfast.rules.ports import PLACEHOLDER, SINGLE, names_in
from holdfast.system.patterns import pattern
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    HttpTarget,
    LogTarget,
    NotifySpec,
    NotifyTarget,
    ProbeSpec,
    ProcessTarget,
    Role,
    Target,
    TcpTarget,
)

_STATUS = pattern(r"([1-5])xx|([1-5]\d\d)(?:\s*-\s*([1-5]\d\d))?", re.IGNORECASE)
_ADDRESS = pattern(r"(?:(?P<host>[^\s:\[\]]+|\[[0-9a-fA-F:.]+\]):)?(?P<port>\d{1,5})")


class ProbeAddress(ScalarKind):
    """A port of this machine, or host and port."""

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
    """An address of HTTP that a probe can ask."""

    def convert(self, text: str) -> str:
        from holdfast.adapters.http_client import HttpError, address_of

        url: str = super().convert(text)
        try:
            address_of(PLACEHOLDER.sub("1", url))
        except HttpError:
            raise ValueError(f'"{text}" is not a URL; write http://localhost:8000/health') from None
        return url


class StatusRange(ScalarKind):
    """A status of HTTP or a range of them: 200, 2xx, 200-204."""

    wanted = "a status"

    def convert(self, text: str) -> tuple[int, int]:
        found = _STATUS.fullmatch(text.strip())
        if not found:
            raise ValueError(f'"{text}" is not a status; write 200, 2xx or 200-204')
        hundred, low, high = found.groups()
        if hundred:
            return int(hundred) * 100, int(hundred) * 100 + 99
        return int(low), int(high or low)

    def spell(self, value: tuple[int, int]) -> str:
        return f"{value[0]}-{value[1]}"

    def schema(self) -> Schema:
        number = {"type": "integer", "minimum": 100, "maximum": 599}
        return {"anyOf": [number, quoted(_STATUS), INTERPOLATED]}


class Probe(Kind):
    """A probe as a mapping. An address alone means `http`, and the word `notify` means `notify`."""

    wanted = "a probe"

    def __init__(self, block: Block) -> None:
        self.block = block

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if not isinstance(node, Scalar):
            return self.block.read(node, key, reading)
        name = "notify" if node.text.strip() == "notify" else "http"
        value = Scalar("true", False, node.line, node.column) if name == "notify" else node
        here = Scalar(name, True, node.line, node.column)
        return self.block.read_entries(node, {name: TableEntry(here, value)}, key, reading)

    def schema(self) -> Schema:
        text = {"type": "string", "pattern": "^https?://|^notify$"}
        return {"anyOf": [self.block.schema(), text, INTERPOLATED]}


class Notify(Kind):
    """Whether a service reports its own state. A mapping says by which means."""

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


PERIOD = Duration("s", is_zero_allowed=False)
HEALTH_CHECK = Block(
    [
        Key("http", ProbeUrl(), "An address that answers with a success."),
        Key("url", ProbeUrl(), "The same as http."),
        Key("tcp", ProbeAddress(), "A port, or host:port, that takes a connection."),
        Key("exec", CommandLine(), "A command that ends with exit code 0."),
        Key("command", CommandLine(), "The same as exec."),
        Key("log", Expression(), "A regular expression for a line that the service prints."),
        Key(
            "raw",
            Boolean(),
            "For log: match the bytes, not the line without control sequences.",
            default_of(LogTarget, "raw"),
        ),
        Key("notify", Boolean(), "What the service says itself: READY=1, WATCHDOG=1."),
        Key("interval", PERIOD, "Time between two checks."),
        Key("timeout", PERIOD, "The longest wait for an answer."),
        Key("retries", Integer(1, 1000), "Failed checks in a row that count."),
        Key("consecutive_failures", Integer(1, 1000), "The same as retries."),
        Key("initial_delay", Duration("s"), "Wait before the first check."),
        Key("success_threshold", Integer(1, 1000), "Passed checks in a row that count."),
        Key("action", Choice("restart", "report"), "What a failure leads to."),
        Key(
            "method",
            Choice("get", "head"),
            "How an address is asked.",
            default_of(HttpTarget, "method").lower(),
        ),
        Key(
            "status",
            ListOf(StatusRange()),
            "Which answers are a success.",
            default_of(HttpTarget, "status"),
        ),
        Key("body", Expression(), "A regular expression that must be found in the answer."),
        Key("headers", Headers(), "Headers that are sent along."),
        Key("verify", Boolean(), "Ask for a valid certificate; not on loopback by default."),
        Key(
            "follow",
            Boolean(),
            "Follow redirects, instead of taking them as the answer.",
            default_of(HttpTarget, "follow"),
        ),
        Key("shell", Boolean(), "Run the command with /bin/sh -c.", False),
    ],
    spec=ProbeSpec,
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
        Key("watchdog", PERIOD, "How often it has to say WATCHDOG=1."),
    ],
    spec=NotifySpec,
    definition="notify",
)
PROBE = Probe(HEALTH_CHECK)
_TARGETS = ("http", "url", "tcp", "exec", "command", "log", "notify")
_HTTP = ("status", "body", "headers", "verify", "follow")
_REPORTED = (LogTarget, NotifyTarget)
_ORDER = {"startup": 0, "readiness": 1, "liveness": 2}
_KEYS = frozenset(
    (
        *("health_check", "health_check_url", "health_check_interval", "consecutive_failures"),
        *("startup", "readiness", "liveness", "notify"),
    )
)


def build_probes(
    reading: Reading, shared: Values, values: Values
) -> tuple[tuple[ProbeSpec, ...], NotifySpec | None]:
    """Return the probes of a service in the order of their roles, and how it reports its state."""
    if _KEYS.isdisjoint(values) and "health_check" not in shared:
        return (), None
    return ProbeBuilder(reading, shared, values).build()


class ProbeBuilder:
    """Builds the probes of one service."""

    def __init__(self, reading: Reading, shared: Values, values: Values) -> None:
        self.reading = reading
        self.values = values
        self.shared_block = shared.get("health_check", {})
        self.shared = self.unify_names(self.shared_block)
        self.check = self.merge_older_names()

    def build(self) -> tuple[tuple[ProbeSpec, ...], NotifySpec | None]:
        probes: list[ProbeSpec] = []
        for role in ("startup", "readiness", "liveness"):
            probes += self.build_role(role)
        probes += self.build_health_check(probes)
        notify = self.build_notify(probes)
        return tuple(sorted(probes, key=lambda probe: _ORDER[probe.roles[0]])), notify

    def merge_older_names(self) -> dict[str, Any]:
        """Return the keys of `health_check`, with those of its older names."""
        values, block = self.values, self.values.get("health_check", {})
        own = self.unify_names(block)
        for outer, inner in (("health_check_url", "http"), ("health_check_interval", "interval")):
            found = agreed_value(self.reading, values, outer, _with_places(block, own), inner)
            if found is not None:
                own[inner] = found
        found = agreed_value(
            self.reading, values, "consecutive_failures", _with_places(block, own), "retries"
        )
        if found is not None:
            own["retries"] = found
        return own

    def unify_names(self, block: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys with one name for each quantity."""
        own = dict(block)
        for alias, name in (
            ("url", "http"),
            ("command", "exec"),
            ("consecutive_failures", "retries"),
        ):
            if alias in own:
                if isinstance(block, Values):
                    agreed_value(self.reading, block, alias, block, name)
                own.setdefault(name, own[alias])
                del own[alias]
        return own

    def build_role(self, role: Role) -> list[ProbeSpec]:
        """Build the probe of a role that has a block of its own."""
        block: Values | None = self.values.get(role)
        if block is None:
            return []
        given = self.unify_names(block)
        if role == "readiness" and given.get("action") == "restart":
            message = "a service that is not ready is not restarted"
            self.note(block, "action", message, "write it under liveness")
        target = self.build_target(block, given)
        if target is None:
            return []
        # A `health_check` that asks nothing itself gives defaults to the other probes.
        defaults = self.shared if _questions_of(self.check) else {**self.shared, **self.check}
        return [self.build_probe((role,), target, {**HEALTH_CHECK.fill(defaults), **given})]

    def build_health_check(self, others: list[ProbeSpec]) -> list[ProbeSpec]:
        """Build the probes of `health_check`: liveness, and readiness where no other is."""
        given = {**HEALTH_CHECK.fill(self.shared), **self.check}
        if not _questions_of(self.check):
            given = {**self.shared, **self.check}
        elif "http" in self.check:
            given = {**HEALTH_CHECK.fill(self.shared), **_select(_HTTP, self.shared), **self.check}
        if not _questions_of(given):
            if (
                "health_check_interval" in self.values
                and not others
                and "notify" not in self.values
            ):
                return [self.build_probe(("liveness",), ProcessTarget(), given)]
            return []
        block = self.values.get("health_check") or self.shared_block
        target = self.build_target(block, given)
        if target is None:
            return []
        has_readiness = any("readiness" in probe.roles for probe in others)
        reports_itself = isinstance(self.values.get("notify"), Values)
        if has_readiness or (reports_itself and not isinstance(target, NotifyTarget)):
            return [self.build_probe(("liveness",), target, given)]
        if isinstance(target, _REPORTED):
            # Readiness is reported once in a run, liveness again and again.
            return [self.build_probe((role,), target, given) for role in ("readiness", "liveness")]
        return [self.build_probe(("readiness", "liveness"), target, given)]

    def build_notify(self, probes: list[ProbeSpec]) -> NotifySpec | None:
        """Return how the service reports its state, and add the probes that follow from it."""
        block = self.values.get("notify")
        reported = [probe for probe in probes if probe.kind == "notify"]
        watchdog = next((p.interval for p in reported if "liveness" in p.roles), None)
        if not isinstance(block, Values):
            return NotifySpec(watchdog=watchdog) if reported else None
        timing = HEALTH_CHECK.fill(
            {**self.shared, **({} if _questions_of(self.check) else self.check)}
        )
        is_awaited = any("liveness" not in probe.roles for probe in reported)
        if not is_awaited and "readiness" not in self.values:
            probes.append(self.build_probe(("readiness",), NotifyTarget(), timing))
        wanted = block.get("watchdog")
        if wanted is not None and watchdog is None:
            watchdog = wanted
            given = {**timing, "interval": wanted, "retries": 1}
            probes.append(self.build_probe(("liveness",), NotifyTarget(), given))
        return NotifySpec(fd=block.get("fd"), watchdog=watchdog)

    def build_probe(
        self, roles: tuple[Role, ...], target: Target, given: dict[str, Any]
    ) -> ProbeSpec:
        fields = HEALTH_CHECK.fill(given)
        if isinstance(target, _REPORTED) and roles != ("liveness",):
            fields["success_threshold"] = 1
        if isinstance(target, NotifyTarget) and roles == ("liveness",):
            fields.setdefault("retries", 1)
            fields["success_threshold"] = 1
        return ProbeSpec(roles=roles, target=target, **fields)

    def build_target(self, block: Mapping[str, Any], given: dict[str, Any]) -> Target | None:
        """Return what the probe asks. It is a problem if it asks nothing or more than one thing."""
        kinds = _questions_of(given)
        if len(kinds) != 1:
            if isinstance(block, Values) and not set(block.refused) & set(_TARGETS):
                message = "this probe asks nothing"
                if kinds:
                    message = f"a probe asks one thing, not {' and '.join(kinds)}"
                self.note(block, "", message, "write one of http, tcp, exec, log, notify")
            return None
        self.check_options(block, given, kinds[0])
        match kinds[0]:
            case "http":
                fields = _select(_HTTP, given)
                if "method" in given:
                    fields["method"] = given["method"].upper()
                return HttpTarget(url=given["http"], **fields)
            case "tcp":
                host, port, lease = given["tcp"]
                return TcpTarget(host=host, port=port, lease=lease)
            case "exec":
                return self.build_command(block, given)
            case "log":
                return LogTarget(pattern=given["log"], raw=given.get("raw", False))
            case _:
                return NotifyTarget()

    def check_options(self, block: Mapping[str, Any], given: dict[str, Any], kind: str) -> None:
        """Report options of another kind of probe, which would do nothing."""
        unfit = [name for name in ("method", *_HTTP) if kind != "http" and name in given]
        owners = {"shell": "exec", "raw": "log"}
        unfit += [name for name, owner in owners.items() if kind != owner and name in given]
        if isinstance(block, Values):
            for name in (name for name in unfit if name in block):
                owner = owners.get(name, "http")
                self.note(block, name, f"{name} is for {owner}, not for {kind}", "remove it")

    def build_command(self, block: Mapping[str, Any], given: dict[str, Any]) -> ExecTarget | None:
        path = block.path_of("exec") if isinstance(block, Values) else "exec"
        if given.get("shell"):
            words: Any = shell_words(given["exec"], path, self.reading)
        else:
            words = split_words(given["exec"], path, self.reading, is_command=True)
        return ExecTarget(argv=tuple(words)) if words else None

    def note(self, block: Values, key: str, message: str, hint: str) -> None:
        node = block.at(key) if key else block.node
        self.reading.note(node, block.path_of(key) if key else block.path, message, hint)


def probe_texts(probe: ProbeSpec) -> tuple[str, ...]:
    """Return the texts of a probe that may name ports of the service."""
    match probe.target:
        case HttpTarget(url=url):
            return (url,)
        case ExecTarget(argv=argv):
            return argv
        case TcpTarget(lease=str() as lease):
            return ("{{port}}" if lease == SINGLE else f"{{{{ports.{lease}}}}}",)
        case _:
            return ()


def _questions_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the questions among these keys."""
    kinds = ("http", "tcp", "exec", "log", "notify")
    return [kind for kind in kinds if fields.get(kind) not in (None, False)]


def _select(names: tuple[str, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _with_places(block: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Return these fields with the places of their block."""
    if not isinstance(block, Values):
        return fields
    placed = Values(block.path, block.node)
    placed.update(fields)
    placed.where.update(block.where)
    return placed
