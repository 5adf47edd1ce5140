"""The keys about resources: what a run may use, and when the host is too busy for another."""

from __future__ import annotations

from typing import Any

from holdfast.adapters.config.blocks import Block, Key, Values
from holdfast.adapters.config.document import Node, Scalar
from holdfast.adapters.config.kinds import (
    INTERPOLATED,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    Reading,
    ScalarKind,
    Schema,
    Size,
)
from holdfast.system.patterns import pattern
from holdfast.vocabulary.specs.resources import HostLimits, MemoryLimit

SMALLEST_MEMORY = 1024 * 1024
MOST_CORES = 10_000
_PERCENT = pattern(r"(\d+(?:\.\d*)?|\.\d+)\s*%?")


class Percent(ScalarKind):
    """A percentage, with or without its sign."""

    wanted = "a percentage"

    def __init__(self, high: float) -> None:
        self.high = high

    def convert(self, text: str) -> float:
        found = _PERCENT.fullmatch(text.strip())
        if found is None:
            raise ValueError(f'"{text}" is not a percentage; {self.hint()}')
        value = float(found[1])
        if not 0 < value <= self.high:
            most = f"at most {self.high:.0f}%"
            raise ValueError(f'"{text}" is out of range; write more than 0% and {most}')
        return value

    def hint(self) -> str:
        return "write 80%" if self.high <= 100 else "write 150%: one core and a half"

    def schema(self) -> Schema:
        text = {"type": "string", "pattern": r"^(\d+(\.\d*)?|\.\d+)\s*%?$"}
        number: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": self.high}
        return {"anyOf": [number, text, INTERPOLATED]}


class Interval(Duration):
    """A duration that is not too short to be worth its cost."""

    def __init__(self, least: float) -> None:
        super().__init__("s")
        self.least = least

    def convert(self, text: str) -> float:
        seconds = super().convert(text)
        if seconds < self.least:
            raise ValueError(f'"{text}" is too short; write at least {self.least:g}s')
        return seconds


MEMORY_LIMIT = Block(
    [
        Key("size", Size(SMALLEST_MEMORY, 2**62), "How much its whole tree may use."),
        Key(
            "action",
            Choice("kill", "warn", "restart", "stop"),
            "What happens beyond that: killed, only reported, restarted or stopped in order.",
            "kill",
        ),
    ],
    definition="memory_limit",
    synonyms={"limit": "size", "max": "size", "on_exceed": "action"},
)


class Memory(Kind):
    """A size, or a block of size and action."""

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


LIMITS = Block(
    [
        Key("max_processes", Integer(1), "Services that run at the same time."),
        Key("max_cpu", Percent(100), "Percent of all processors in use, over ten seconds."),
        Key("max_memory", Percent(100), "Percent of the host's memory in use."),
        Key("queue_when_busy", Boolean(), "A start then waits, instead of failing.", False),
    ],
    definition="limits",
)
SERVICE_KEYS = (
    Key("memory_limit", Memory(), "Memory that its whole tree may use."),
    Key("cpu_limit", Percent(MOST_CORES * 100), "Percent of one core that its whole tree may use."),
    Key("process_limit", Integer(1), "Processes and threads that its tree may have."),
    Key("timeout", Duration("s", is_zero_allowed=False), "The longest that a run may take."),
)
GLOBAL_KEYS = (
    Key("limits", LIMITS, "When nothing more is started."),
    Key(
        "monitoring_interval",
        Interval(1.0),
        "Time between two looks at what services use; at least 1s.",
        "5s",
    ),
)
COPIED = tuple(key.name for key in SERVICE_KEYS)


def settings_of(values: Values) -> dict[str, Any]:
    """What the settings say about resources."""
    return {
        "limits": HostLimits(**values.get("limits", {})),
        "monitoring_interval": values.get("monitoring_interval", 5.0),
    }
