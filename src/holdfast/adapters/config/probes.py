"""From what was read about health to the probes of a service, with all defaults.

A block at the top gives defaults; it is a probe itself only if it says what to ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.adapters.config.blocks import Values
from holdfast.adapters.config.health_keys import SERVICE_KEYS, texts
from holdfast.adapters.config.service_kinds import words_of
from holdfast.rules.ports import SINGLE
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    HttpTarget,
    LogTarget,
    NotifySpec,
    NotifyTarget,
    ProbeSpec,
    Role,
    Target,
    TcpTarget,
)

if TYPE_CHECKING:
    from holdfast.adapters.config.services import ServiceBuilder

_TARGETS = ("http", "url", "tcp", "exec", "command", "log", "notify")
_TIMING = ("interval", "timeout", "retries", "initial_delay", "success_threshold", "action")
_HTTP = ("status", "body", "headers", "verify", "follow")
_TOLD = (LogTarget, NotifyTarget)


_KEYS = frozenset(key.name for key in SERVICE_KEYS)


def probes_of(
    builder: ServiceBuilder, values: Values
) -> tuple[tuple[ProbeSpec, ...], NotifySpec | None]:
    """The probes of a service in the order of their roles, and how it may speak itself."""
    if _KEYS.isdisjoint(values) and "health_check" not in builder.defaults:
        return (), None
    return ProbeBuilder(builder, values).build()


class ProbeBuilder:
    """The probes of one service."""

    def __init__(self, builder: ServiceBuilder, values: Values) -> None:
        self.builder = builder
        self.reading = builder.reading
        self.values = values
        shared = builder.defaults.get("health_check", {})
        self.shared = self.settled(shared)
        self.check = self.health_check()

    def build(self) -> tuple[tuple[ProbeSpec, ...], NotifySpec | None]:
        probes: list[ProbeSpec] = []
        for role in ("startup", "readiness", "liveness"):
            probes += self.own(role)
        probes += self.from_health_check(probes)
        notify = self.notify(probes)
        return tuple(sorted(probes, key=lambda probe: _ORDER[probe.roles[0]])), notify

    def health_check(self) -> dict[str, Any]:
        """What `health_check` and its older names say."""
        values, block = self.values, self.values.get("health_check", {})
        own = self.settled(block)
        for outer, inner in (("health_check_url", "http"), ("health_check_interval", "interval")):
            found = self.builder.one_of(values, outer, _placed(block, own), inner)
            if found is not None:
                own[inner] = found
        found = self.builder.one_of(values, "consecutive_failures", _placed(block, own), "retries")
        if found is not None:
            own["retries"] = found
        return own

    def settled(self, block: Mapping[str, Any]) -> dict[str, Any]:
        """One name for each quantity."""
        own = dict(block)
        for alias, name in (
            ("url", "http"),
            ("command", "exec"),
            ("consecutive_failures", "retries"),
        ):
            if alias in own:
                if isinstance(block, Values):
                    self.builder.one_of(block, alias, block, name)
                own.setdefault(name, own[alias])
                del own[alias]
        return own

    def own(self, role: Role) -> list[ProbeSpec]:
        """The probe of a block of its own."""
        block: Values | None = self.values.get(role)
        if block is None:
            return []
        given = self.settled(block)
        if role == "readiness" and given.get("action") == "restart":
            message = "a service that is not ready is not restarted"
            self.note(block, "action", message, "write it under liveness")
        target = self.target(block, given)
        if target is None:
            return []
        # What `health_check` says without asking anything itself is meant for the others.
        defaults = self.shared if _asked(self.check) else {**self.shared, **self.check}
        return [self.probe((role,), target, {**_only(_TIMING, defaults), **given})]

    def from_health_check(self, others: list[ProbeSpec]) -> list[ProbeSpec]:
        given = {**_only(_TIMING, self.shared), **self.check}
        if not _asked(self.check):
            given = {**self.shared, **self.check}
        elif "http" in self.check:
            given = {**_only((*_TIMING, *_HTTP), self.shared), **self.check}
        if not _asked(given):
            return []
        block = self.values.get("health_check") or self.builder.defaults.get("health_check", {})
        target = self.target(block, given)
        if target is None:
            return []
        has_readiness = any("readiness" in probe.roles for probe in others)
        speaks = isinstance(self.values.get("notify"), Values)
        if has_readiness or (speaks and not isinstance(target, NotifyTarget)):
            return [self.probe(("liveness",), target, given)]
        if isinstance(target, _TOLD):
            # Once in the run for the one, again and again for the other.
            return [self.probe((role,), target, given) for role in ("readiness", "liveness")]
        return [self.probe(("readiness", "liveness"), target, given)]

    def notify(self, probes: list[ProbeSpec]) -> NotifySpec | None:
        """How it may speak, and the probes that follow from it."""
        block = self.values.get("notify")
        told = [probe for probe in probes if probe.kind == "notify"]
        watchdog = next((p.interval for p in told if "liveness" in p.roles), None)
        if not isinstance(block, Values):
            return NotifySpec(watchdog=watchdog) if told else None
        timing = _only(_TIMING, {**self.shared, **({} if _asked(self.check) else self.check)})
        is_awaited = any("liveness" not in probe.roles for probe in told)
        if not is_awaited and "readiness" not in self.values:
            probes.append(self.probe(("readiness",), NotifyTarget(), timing))
        wanted = block.get("watchdog")
        if wanted is not None and watchdog is None:
            watchdog = wanted
            given = {**timing, "interval": wanted, "retries": 1}
            probes.append(self.probe(("liveness",), NotifyTarget(), given))
        return NotifySpec(fd=block.get("fd"), watchdog=watchdog)

    def probe(self, roles: tuple[Role, ...], target: Target, given: dict[str, Any]) -> ProbeSpec:
        fields = _only(_TIMING, given)
        if isinstance(target, _TOLD) and roles != ("liveness",):
            fields["success_threshold"] = 1
        if isinstance(target, NotifyTarget) and roles == ("liveness",):
            fields.setdefault("retries", 1)
            fields["success_threshold"] = 1
        return ProbeSpec(roles=roles, target=target, **fields)

    def target(self, block: Mapping[str, Any], given: dict[str, Any]) -> Target | None:
        """What is asked; a problem if it is nothing, or more than one thing."""
        kinds = _asked(given)
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
                fields = _only(_HTTP, given)
                method = str(given.get("method", "get")).upper()
                return HttpTarget(url=given["http"], method=method, **fields)
            case "tcp":
                host, port, lease = given["tcp"]
                return TcpTarget(host=host, port=port, lease=lease)
            case "exec":
                return self.command(block, given)
            case "log":
                return LogTarget(pattern=given["log"])
            case _:
                return NotifyTarget()

    def check_options(self, block: Mapping[str, Any], given: dict[str, Any], kind: str) -> None:
        """An option of another kind would do nothing."""
        strange = [name for name in ("method", *_HTTP) if kind != "http" and name in given]
        strange += ["shell"] if kind != "exec" and "shell" in given else []
        if isinstance(block, Values):
            for name in (name for name in strange if name in block):
                owner = "exec" if name == "shell" else "http"
                self.note(block, name, f"{name} is for {owner}, not for {kind}", "remove it")

    def command(self, block: Mapping[str, Any], given: dict[str, Any]) -> ExecTarget | None:
        path = block.path_of("exec") if isinstance(block, Values) else "exec"
        if given.get("shell"):
            words: Any = self.builder.shell_words(given["exec"], path)
        else:
            words = words_of(given["exec"], path, self.reading, is_command=True)
        return ExecTarget(argv=tuple(words)) if words else None

    def note(self, block: Values, key: str, message: str, hint: str) -> None:
        node = block.at(key) if key else block.node
        self.reading.note(node, block.path_of(key) if key else block.path, message, hint)


def texts_of(probe: ProbeSpec) -> tuple[str, ...]:
    """Where a probe may name ports of the service."""
    match probe.target:
        case HttpTarget(url=url):
            return (url,)
        case ExecTarget(argv=argv):
            return argv
        case TcpTarget(lease=str() as lease):
            return ("{{port}}" if lease == SINGLE else f"{{{{ports.{lease}}}}}",)
        case _:
            return ()


_ORDER = {"startup": 0, "readiness": 1, "liveness": 2}


def _asked(fields: Mapping[str, Any]) -> list[str]:
    return texts(fields, "http", "tcp", "exec", "log", "notify")


def _only(names: tuple[str, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _placed(block: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """These fields, with the places of the block that they come from."""
    if not isinstance(block, Values):
        return fields
    placed = Values(block.path, block.node)
    placed.update(fields)
    placed.where.update(block.where)
    return placed
