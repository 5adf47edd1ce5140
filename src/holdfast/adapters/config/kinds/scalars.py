"""Kinds that are written as a single value, or as a list of such values.

Each converts a text to a value and describes itself as JSON Schema. Nothing here knows a key by
name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.adapters.config.document import ListNode, Node, Table
from holdfast.adapters.config.kinds.kind import (
    INTERPOLATED,
    Kind,
    Reading,
    ScalarKind,
    Schema,
)
from holdfast.adapters.search.matcher import check_expression
from holdfast.system.patterns import pattern
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.quantities import (
    SIZES,
    format_duration,
    format_size,
    parse_duration,
    parse_signal,
    parse_size,
    signal_name,
)

_INTEGER = pattern(r"[+-]?(?:0|[1-9]\d*)")
_NUMBER = pattern(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
LARGEST_COUNT = 2**53
"""Larger integers are not exact in every program that reads our JSON."""
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})


class Text(ScalarKind):
    """Any text; a number or a «yes» stays as it was written."""

    wanted = "text"

    def __init__(self, form: str = "", wanted: str = "") -> None:
        self.pattern = pattern(form) if form else None
        self.wanted = wanted or self.wanted

    def convert(self, text: str) -> str:
        if self.pattern and not self.pattern.fullmatch(text):
            raise ValueError(f'"{text}" is not {self.wanted}')
        return text

    def schema(self) -> Schema:
        return {"type": ["string", "number", "boolean"]}


class Boolean(ScalarKind):
    """True or false."""

    wanted = "true or false"

    def convert(self, text: str) -> bool:
        word = text.lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise ValueError(f'"{text}" is neither true nor false; write true or false')

    def schema(self) -> Schema:
        words = {"enum": sorted(_TRUE | _FALSE)}
        return {"anyOf": [{"type": "boolean"}, words, INTERPOLATED]}


class Integer(ScalarKind):
    """A whole number in a range. `words` stand for numbers."""

    def __init__(
        self,
        low: int = 0,
        high: int = LARGEST_COUNT,
        words: Mapping[str, int] | None = None,
    ) -> None:
        self.low = low
        self.high = high
        self.words = dict(words or {})
        self.wanted = "a whole number" + "".join(f' or "{word}"' for word in self.words)

    def convert(self, text: str) -> int:
        if text.lower() in self.words:
            return self.words[text.lower()]
        if not _INTEGER.fullmatch(text):
            raise ValueError(f'"{text}" is not {self.wanted}; {self.hint()}')
        return int(in_range(float(text), text, self.low, self.high))

    def hint(self) -> str:
        words = "".join(f" or {word}" for word in self.words)
        if self.high == LARGEST_COUNT:
            return f"write a number of {self.low} or more{words}"
        return f"write a number from {self.low} to {self.high}{words}"

    def schema(self) -> Schema:
        number: Schema = {"type": "integer", "minimum": self.low, "maximum": self.high}
        words = [{"enum": list(self.words)}] if self.words else []
        return {"anyOf": [number, *words, quoted(_INTEGER), INTERPOLATED]}


class Number(ScalarKind):
    """A number in a range."""

    wanted = "a number"

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high

    def convert(self, text: str) -> float:
        if not _NUMBER.fullmatch(text):
            raise ValueError(f'"{text}" is not a number; write a number like 2.0')
        return in_range(float(text), text, self.low, self.high)

    def schema(self) -> Schema:
        number = {"type": "number", "minimum": self.low, "maximum": self.high}
        return {"anyOf": [number, quoted(_NUMBER), INTERPOLATED]}


class Fraction(ScalarKind):
    """A part of one, as 0.1 or 10%."""

    wanted = "a fraction"

    def convert(self, text: str) -> float:
        number = text.removesuffix("%").strip()
        if not _NUMBER.fullmatch(number):
            raise ValueError(f'"{text}" is not a fraction; write 0.1 or 10%')
        value = float(number) / (100 if text.endswith("%") else 1)
        if not 0 <= value <= 1:
            raise ValueError(f'"{text}" is not between 0 and 1; write 0.1 or 10%')
        return value

    def spell(self, value: float) -> str:
        return f"{value * 100:g}%"

    def schema(self) -> Schema:
        text = {"type": "string", "pattern": r"^\d+(\.\d+)?\s*%$"}
        return {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, text, INTERPOLATED]}


class Duration(ScalarKind):
    """Seconds, from «5s», «200ms», or a bare number in `unit`."""

    wanted = "a duration"

    def __init__(self, unit: str, *, is_zero_allowed: bool = True) -> None:
        self.unit = unit
        self.is_zero_allowed = is_zero_allowed

    def convert(self, text: str) -> float:
        seconds = parse_duration(text, self.unit)
        if not seconds and not self.is_zero_allowed:
            raise ValueError(f'"{text}" is too short; write a duration above 0, like 10s')
        return seconds

    def spell(self, value: float) -> str:
        # People write 60s and 90s, but 10m rather than 600s.
        return f"{value:g}s" if 1 <= value < 120 else format_duration(value)

    def hint(self) -> str:
        return "write 5s, 200ms or 1h30m"

    def schema(self) -> Schema:
        return {"$ref": f"#/$defs/duration_{self.unit}"}


class Size(ScalarKind):
    """Bytes, from «16MB» or «1GiB»."""

    wanted = "a size"

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    def convert(self, text: str) -> int:
        size = parse_size(text)
        if not self.low <= size <= self.high:
            what = ("small", f"{format_size(self.low)} or more")
            if size > self.high:
                what = ("large", f"{format_size(self.high)} or less")
            raise ValueError(f'"{text}" is too {what[0]}; write {what[1]}')
        return size

    def spell(self, value: int) -> str:
        units = {unit: SIZES[unit.lower()] for unit in ("GiB", "GB", "MiB", "MB", "KiB", "kB", "B")}
        count, unit = min((value // size, unit) for unit, size in units.items() if not value % size)
        return f"{count}{unit}"

    def hint(self) -> str:
        return "write 16MB or 1GiB"

    def schema(self) -> Schema:
        return {"$ref": "#/$defs/size"}


class Choice(ScalarKind):
    """One of a few words. `-` and upper case are accepted, and `aliases` are other names."""

    def __init__(
        self, *words: str, aliases: Mapping[str, str] | None = None, instead: str = ""
    ) -> None:
        self.words = words
        self.instead = instead
        self.aliases = dict(aliases or {})
        self.wanted = "one of " + ", ".join(words)

    def convert(self, text: str) -> str:
        word = text.strip().lower().replace("-", "_")
        word = self.aliases.get(word, word)
        if word in self.words:
            return word
        guess = closest(word, [*self.words, *self.aliases])
        suggestion = f'did you mean "{self.aliases.get(guess, guess)}"? ' if guess else ""
        raise ValueError(f'"{text}" is not known; {suggestion}{self.hint()}')

    def hint(self) -> str:
        return self.instead or f"write {self.wanted}"

    def schema(self) -> Schema:
        words: list[str | bool] = [*self.words, *self.aliases]
        words += [word.replace("_", "-") for word in [*self.words, *self.aliases] if "_" in word]
        # An editor reads `no` and `off` without quotes as booleans.
        words += [
            value for value, spelled in ((True, _TRUE), (False, _FALSE)) if spelled & {*words}
        ]
        return {"anyOf": [{"enum": words}, INTERPOLATED]}


class SignalName(ScalarKind):
    """A signal, kept by its name."""

    wanted = "a signal"

    def convert(self, text: str) -> str:
        return signal_name(parse_signal(text))

    def schema(self) -> Schema:
        return {"type": ["string", "integer"], "examples": ["SIGTERM", "INT", 15]}


class Octal(ScalarKind):
    """File permission bits, always read as octal."""

    wanted = "an octal number"

    def convert(self, text: str) -> int:
        digits = text.lower().removeprefix("0o")
        if not re.fullmatch("[0-7]{1,4}", digits) or int(digits, 8) > 0o777:
            raise ValueError(f'"{text}" is not an octal number up to 0777; write "022"')
        return int(digits, 8)

    def schema(self) -> Schema:
        text = {"type": "string", "pattern": "^(0[oO])?[0-7]{1,4}$", "examples": ["022"]}
        return {"anyOf": [text, {"type": "integer", "minimum": 0}, INTERPOLATED]}


class ListOf(Kind):
    """A list. A single value stands for a list of one."""

    def __init__(self, item: Kind) -> None:
        self.item = item
        self.wanted = f"a list of {item.wanted.removeprefix('a ')}"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[Any, ...] | None:
        if isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        items: Sequence[Node] = node.items if isinstance(node, ListNode) else [node]
        values = [self.item.read(item, f"{key}[{n}]", reading) for n, item in enumerate(items)]
        return tuple(value for value in values if value is not None)

    def spell(self, value: Sequence[Any]) -> list[Any]:
        return [self.item.spell(item) for item in value]

    def schema(self) -> Schema:
        item = self.item.schema()
        return {"anyOf": [{"type": "array", "items": item}, item]}


def quoted(form: re.Pattern[str]) -> Schema:
    """Return the schema of a number that is written as a text."""
    return {"type": "string", "pattern": f"^(?:{form.pattern})$"}


def in_range(value: float, text: str, low: float, high: float) -> float:
    span = f"from {low} to {high}" if high != LARGEST_COUNT else f"of {low} or more"
    if value < low:
        raise ValueError(f'"{text}" is too small; write a number {span}')
    if value > high:
        raise ValueError(f'"{text}" is too large; write a number from {low} to {high}')
    return value


LABEL_RULE = "use lower-case letters, digits, '.', '_' and '-'"
LABEL = r"[a-z0-9][a-z0-9._-]{0,62}"


class Label(ScalarKind):
    """A tag or the name of a group."""

    wanted = "a name"

    def convert(self, text: str) -> str:
        if not re.fullmatch(LABEL, text):
            raise ValueError(f'"{text}" is not a name; {LABEL_RULE}')
        return text

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{LABEL}$"}


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
    """A duration with a least value, because shorter intervals would cost too much."""

    def __init__(self, least: float) -> None:
        super().__init__("s")
        self.least = least

    def convert(self, text: str) -> float:
        seconds = super().convert(text)
        if seconds < self.least:
            raise ValueError(f'"{text}" is too short; write at least {self.least:g}s')
        return seconds


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


class SearchPattern(Expression):
    """A regular expression that lines are searched with. It is not empty."""

    def convert(self, text: str) -> str:
        if not text:
            raise ValueError("this pattern matches every line; write part of the line you wait for")
        return super().convert(text)

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}
