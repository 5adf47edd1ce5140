"""What a run gets from the host: memory, processors, kernel limits, user and ports.

It also reads when the host is too busy for another start, and checks that every `{{ port }}` in a
command is a port of the service.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table, TableEntry
from holdfast.adapters.config.kinds.blocks import Block, Key, MapOf, Values
from holdfast.adapters.config.kinds.kind import INTERPOLATED, Kind, Reading, ScalarKind, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Integer,
    Percent,
    Size,
)
from holdfast.rules.ports import AUTO, SINGLE, names_in, references_in, variable
from holdfast.system.patterns import pattern
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.quantities import LONGEST_NUMBER, parse_duration, parse_size
from holdfast.vocabulary.specs.resources import HostLimits, MemoryLimit
from holdfast.vocabulary.specs.services import UNLIMITED, ServiceSpec

SMALLEST_MEMORY = 1024 * 1024
MOST_CORES = 10_000
MEMORY_LIMIT = Block(
    [
        Key("size", Size(SMALLEST_MEMORY, 2**62), "How much its whole tree may use."),
        Key(
            "action",
            Choice("kill", "warn", "restart", "stop"),
            "What happens beyond that: killed, only reported, restarted or stopped in order.",
        ),
    ],
    spec=MemoryLimit,
    definition="memory_limit",
    synonyms={"limit": "size", "max": "size", "on_exceed": "action"},
)


class MemoryBlock(Kind):
    """A size, or a block with size and action."""

    wanted = "a size or a mapping of size and action"

    def read(self, node: Node, key: str, reading: Reading) -> MemoryLimit | None:
        if isinstance(node, Scalar):
            size = MEMORY_LIMIT.keys["size"].kind.read(node, key, reading)
            return None if size is None else MemoryLimit(size=size)
        values = MEMORY_LIMIT.read(node, key, reading)
        if values is None or "size" in values.refused:
            return None
        if "size" not in values:
            reading.note(node, key, "it has no size", "add size: 512MB")
            return None
        return MemoryLimit(**values)

    def hint(self) -> str:
        return "write 512MB, or {size: 512MB, action: restart}"

    def schema(self) -> Schema:
        return {"anyOf": [MEMORY_LIMIT.keys["size"].kind.schema(), MEMORY_LIMIT.schema()]}


HOST_LIMITS = Block(
    [
        Key("max_processes", Integer(1), "Services that run at the same time."),
        Key("max_cpu", Percent(100), "Percent of all processors in use, over ten seconds."),
        Key("max_memory", Percent(100), "Percent of the host's memory in use."),
        Key("queue_when_busy", Boolean(), "A start then waits, instead of failing."),
    ],
    spec=HostLimits,
    definition="limits",
)


COUNTED_LIMITS = frozenset({"nofile", "nproc", "sigpending", "nice", "rtprio", "npts"})
SIZED_LIMITS = frozenset(
    {"as", "core", "data", "fsize", "memlock", "msgqueue", "rss", "stack", "sbsize", "swap"}
)
TIMED_LIMITS = frozenset({"cpu"})
LIMIT_NAMES = tuple(sorted(COUNTED_LIMITS | SIZED_LIMITS | TIMED_LIMITS))
LARGEST_LIMIT = 2**63 - 1
LARGEST_ID = 2**32 - 1


class ResourceLimits(Kind):
    """Limits of the kernel by name: one value, or a soft and a hard one."""

    wanted = "a mapping of limits"

    def read(self, node: Node, key: str, reading: Reading) -> dict[str, tuple[int, int]] | None:
        if not isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        limits: dict[str, tuple[int, int]] = {}
        for written, entry in node.entries.items():
            name = written.lower().removeprefix("rlimit_")
            if name not in LIMIT_NAMES:
                guess = closest(name, list(LIMIT_NAMES))
                known = f"known limits: {', '.join(LIMIT_NAMES)}"
                hint = f'did you mean "{guess}"?' if guess else known
                reading.note(entry.key, f"{key}.{written}", "unknown limit", hint, written)
                continue
            pair = self.read_pair(name, entry.node, f"{key}.{written}", reading)
            if pair is not None:
                limits[name] = pair
        return limits

    def read_pair(
        self, name: str, node: Node, key: str, reading: Reading
    ) -> tuple[int, int] | None:
        match node:
            case Scalar():
                value = self.read_value(name, node, key, reading)
                return None if value is None else (value, value)
            case ListNode(items=[soft, hard]):
                pass
            case Table(
                entries={"soft": TableEntry(node=soft), "hard": TableEntry(node=hard), **rest}
            ) if not rest:
                pass
            case _:
                hint = "write a number, {soft: …, hard: …} or [soft, hard]"
                reading.note(node, key, "this is not a limit", hint)
                return None
        low = self.read_value(name, soft, key, reading)
        high = self.read_value(name, hard, key, reading)
        if low is None or high is None:
            return None
        if high != UNLIMITED and (low == UNLIMITED or low > high):
            message = "the soft limit is above the hard one"
            reading.note(node, key, message, "raise hard or lower soft")
            return None
        return low, high

    def read_value(self, name: str, node: Node, key: str, reading: Reading) -> int | None:
        return LimitValue(name).read(node, key, reading)  # type: ignore[no-any-return]

    def hint(self) -> str:
        return "write rlimits: {nofile: 4096}"

    def schema(self) -> Schema:
        value = {"type": ["integer", "string"]}
        pair = {"type": "array", "items": value, "minItems": 2, "maxItems": 2}
        table = {
            "type": "object",
            "properties": {"soft": value, "hard": value},
            "required": ["soft", "hard"],
            "additionalProperties": False,
        }
        limit = {"anyOf": [value, pair, table]}
        return {
            "type": "object",
            "properties": dict.fromkeys(LIMIT_NAMES, limit),
            "additionalProperties": False,
        }


class LimitValue(ScalarKind):
    """One side of a limit: a count, a size, seconds, or unlimited."""

    wanted = "a limit"

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, text: str) -> int:
        word = text.strip().lower()
        if word in ("unlimited", "infinity", "-1"):
            return UNLIMITED
        if self.name in SIZED_LIMITS:
            value = parse_size(text)
        elif self.name in TIMED_LIMITS:
            value = int(parse_duration(text, "s"))
        elif word.isdecimal() and len(word) < LONGEST_NUMBER:
            value = int(word)
        else:
            raise ValueError(f'"{text}" is not a limit; write a number or unlimited')
        if value > LARGEST_LIMIT:
            raise ValueError(f'"{text}" is too large; write unlimited')
        return value

    def schema(self) -> Schema:
        return {"type": ["integer", "string"]}


class UserName(ScalarKind):
    """A user, and a group after a colon, each by name or number.

    Holdfast must be allowed to run as this user. The number of an unknown user needs a group,
    because the machine cannot tell it.
    """

    wanted = "a user"

    def convert(self, text: str) -> str:
        user, colon, group = text.partition(":")
        number = _parse_id(user)
        uid = _find_user(user, number)
        if uid is None and number is not None and group:
            uid = number
        if uid is None:
            raise ValueError(
                f'"{text}" is not a user of this machine; {_suggest_user(user, number)}'
            )
        if colon and not _is_group(group):
            raise ValueError(f'"{group}" is not a group of this machine; write its number')
        if os.geteuid() not in (0, uid):
            raise ValueError(
                f'"{text}" is another user, and only root can start services as another; '
                "leave `user` out, or run Holdfast as root"
            )
        return text

    def schema(self) -> Schema:
        return {"type": ["string", "integer"]}


def _parse_id(text: str) -> int | None:
    """Return the number of a user or group; None if the text is none."""
    number = int(text) if text.isdecimal() and len(text) < LONGEST_NUMBER else -1
    return number if 0 <= number < LARGEST_ID else None


def _find_user(name: str, number: int | None) -> int | None:
    import pwd

    try:
        return (pwd.getpwnam(name) if number is None else pwd.getpwuid(number)).pw_uid
    except KeyError:
        return None


def _suggest_user(name: str, number: int | None) -> str:
    import pwd

    if number is not None:
        return f"with a group it can be one: write {name}:GROUP"
    guess = closest(name, [known.pw_name for known in pwd.getpwall()])
    return f'did you mean "{guess}"?' if guess else "name a user that `id NAME` knows"


def _is_group(name: str) -> bool:
    import grp

    try:
        return _parse_id(name) is not None or bool(grp.getgrnam(name))
    except KeyError:
        return False


_NAME = r"[a-z0-9][a-z0-9_-]{0,31}"
_RANGE = pattern(r"(\d{1,5})\s*-\s*(\d{1,5})")
PORT = Integer(1, 65535, words={"auto": AUTO})


class PortNames(MapOf):
    """Ports by name."""

    wanted = "a mapping of ports"

    def __init__(self) -> None:
        super().__init__(PORT, _NAME)

    def wrong_name(self, name: str) -> tuple[str, str]:
        return f'"{name}" cannot name a port', "write for example api: auto"


class PortRange(ScalarKind):
    """The range that ports are leased from."""

    wanted = "a range of ports"

    def convert(self, text: str) -> tuple[int, int]:
        found = _RANGE.fullmatch(text.strip())
        low, high = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 0 < low <= high < 65536:
            raise ValueError(f'"{text}" is not a range of ports; write 8082-9081')
        return low, high

    def spell(self, value: tuple[int, int]) -> str:
        return f"{value[0]}-{value[1]}"

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string", "pattern": r"^\d+\s*-\s*\d+$"}, INTERPOLATED]}


def collect_ports(reading: Reading, values: Values) -> dict[str, int]:
    """Return all ports of a service by name. The port of `port` has the name `port`."""
    if "port" not in values and "ports" not in values:
        return {}
    named: dict[str, int] = values.get("ports") or {}
    if "port" in values and SINGLE in named:
        message = "this port is named by `port` already"
        reading.note(values.at("ports"), values.path_of("ports"), message, "keep one of them")
    ports = {**({SINGLE: values["port"]} if "port" in values else {}), **named}
    for one in [port for port in ports.values() if port != AUTO]:
        if list(ports.values()).count(one) > 1:
            message = f"the port {one} stands here twice"
            reading.note(values.at("ports"), values.path_of("ports"), message, "change one")
            break
    if len({variable(name) for name in ports}) < len(ports):
        message = "two of these names are the same variable"
        reading.note(values.at("ports"), values.path_of("ports"), message, "change one")
    return ports


def check_placeholders(
    reading: Reading, values: Values, ports: dict[str, int], texts: Iterable[str]
) -> None:
    """Check that every port that the texts name is a port of the service."""
    for name in dict.fromkeys(name for text in texts for name in names_in(text)):
        if name not in ports:
            wanted = "port" if name == SINGLE else f"ports.{name}"
            key, hint = ("port: auto", "") if name == SINGLE else (f"ports: {{{name}: auto}}", "")
            message = f"{{{{ {wanted} }}}} is used, but the service has no such port{hint}"
            reading.note(values.node, values.path, message, f"write {key}")


def check_references(
    reading: Reading, services: Mapping[str, Values], specs: Mapping[str, ServiceSpec]
) -> None:
    """Check that every port of another service that a service asks for exists."""
    for spec in specs.values():
        values = services.get(spec.template or spec.name)
        if values is None:
            continue
        for name, port in references_in((*spec.argv, *spec.env.values())):
            shown = f"services.{name}.{'port' if port == SINGLE else f'ports.{port}'}"
            if name not in specs:
                guess = closest(name, list(specs))
                hint = f'did you mean "{guess}"?' if guess else f"known: {', '.join(specs)}"
                message = f'{{{{ {shown} }}}}: there is no service "{name}"'
                reading.note(values.node, values.path, message, hint)
            elif port not in specs[name].ports:
                key = "port: auto" if port == SINGLE else f"ports: {{{port}: auto}}"
                message = f"{{{{ {shown} }}}}: {name} has no such port"
                reading.note(values.node, values.path, message, f"write {key} for {name}")
