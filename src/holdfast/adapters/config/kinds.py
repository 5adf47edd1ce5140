"""What a value may be: each kind reads a node of the document and describes itself as JSON Schema.

A kind that cannot read a node notes a problem that says what was found and what is wanted, and
gives None. Nothing here knows a key by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.adapters.config.document import Listing, Node, Scalar, Table
from holdfast.adapters.config.interpolation import InterpolationError, expand, indexed
from holdfast.adapters.config.problems import Problem, shown_value
from holdfast.rules.ports import compact
from holdfast.system.patterns import pattern
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.quantities import (
    format_size,
    parse_duration,
    parse_signal,
    parse_size,
    signal_name,
)

Schema = dict[str, Any]
INTERPOLATED: Schema = {"$ref": "#/$defs/interpolated"}
_INTEGER = pattern(r"[+-]?(?:0|[1-9]\d*)")
_NUMBER = pattern(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
LARGEST_COUNT = 2**53
"""Beyond it not every program that reads our JSON is exact."""
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})


class Reading:
    """One pass over a document: its environment, and the problems found so far."""

    def __init__(
        self,
        file: str,
        folder: str,
        environ: Mapping[str, str],
        sources: dict[str, str] | None = None,
    ) -> None:
        self.file = file
        self.folder = folder
        self.environ = environ
        self.problems: list[Problem] = []
        self.sources: dict[str, str] = {} if sources is None else sources
        """The files that were read, each with a digest of what it held."""
        self.converted: dict[tuple[ScalarKind, str], Any] = {}
        """What texts without variables mean: large files say the same again and again."""
        self.index: int | None = None
        """The instance that is read, of a service that has several."""

    def written(self, node: Scalar) -> str:
        """The text of a scalar, for this instance."""
        text = compact(node.text)
        return text if self.index is None else indexed(text, self.index)

    def note(
        self, node: Node, key: str, message: str, suggestion: str = "", value: str | None = None
    ) -> None:
        where = (self.file, node.line, node.column)
        self.problems.append(Problem(*where, key, value, message, suggestion))

    def expanded(self, node: Scalar, key: str) -> str | None:
        """The text of a scalar with its variables replaced."""
        if is_literal(node.text):
            return node.text
        try:
            text = expand(self.written(node), self.environ)
        except InterpolationError as error:
            self.note(node, key, str(error), error.suggestion)
            return None
        if "\0" in text:
            self.note(node, key, "contains a NUL character", "remove it")
            return None
        return text


def is_literal(text: str) -> bool:
    """Whether there is nothing in it to replace, or to refuse in any text."""
    return "$" not in text and "{{" not in text and "\0" not in text


class Kind:
    """One kind of value."""

    wanted = "a value"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        raise NotImplementedError

    def schema(self) -> Schema:
        raise NotImplementedError

    def refuse(self, node: Node, key: str, reading: Reading) -> None:
        reading.note(node, key, f"this is {described(node)}, not {self.wanted}", f"{self.hint()}")

    def hint(self) -> str:
        return f"write {self.wanted}"


def described(node: Node) -> str:
    match node:
        case Scalar():
            return "empty" if node.is_null else shown_value(node.text)
        case Listing():
            return "a list"
        case Table():
            return "a mapping"


class ScalarKind(Kind):
    """A kind written as a single value; `convert` raises ValueError «what; what to write»."""

    is_secret = False

    def convert(self, text: str) -> Any:
        raise NotImplementedError

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar):
            return self.refuse(node, key, reading)
        known = (self, node.text)
        if known in reading.converted:
            return reading.converted[known]
        text = reading.expanded(node, key)
        if text is None:
            return None
        try:
            value = self.convert(text)
            if is_literal(node.text):
                reading.converted[known] = value
            return value
        except ValueError as error:
            # What a variable held may be a secret: the report repeats what was written.
            shown = str(error).replace(f'"{text}"', shown_value(node.text))
            message, _, suggestion = shown.partition("; ")
            repeated = None if self.is_secret else node.text[:200]
            reading.note(node, key, message, suggestion, repeated)
            return None


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
    """A whole number in a range; `words` stand for numbers."""

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

    def hint(self) -> str:
        return "write 16MB or 1GiB"

    def schema(self) -> Schema:
        return {"$ref": "#/$defs/size"}


class Choice(ScalarKind):
    """One of a few words; `-` and upper case are forgiven, `aliases` are other names."""

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
        # Without quotes, `no` and `off` are no words to an editor.
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
    """A list; a single value stands for a list of one."""

    def __init__(self, item: Kind) -> None:
        self.item = item
        self.wanted = f"a list of {item.wanted.removeprefix('a ')}"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[Any, ...] | None:
        if isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        items: Sequence[Node] = node.items if isinstance(node, Listing) else [node]
        values = [self.item.read(item, f"{key}[{n}]", reading) for n, item in enumerate(items)]
        return tuple(value for value in values if value is not None)

    def schema(self) -> Schema:
        item = self.item.schema()
        return {"anyOf": [{"type": "array", "items": item}, item]}


def quoted(form: re.Pattern[str]) -> Schema:
    """Of a number that is written as a text."""
    return {"type": "string", "pattern": f"^(?:{form.pattern})$"}


def in_range(value: float, text: str, low: float, high: float) -> float:
    if value < low:
        raise ValueError(f'"{text}" is too small; write a number of {low} or more')
    if value > high:
        raise ValueError(f'"{text}" is too large; write a number of {high} or less')
    return value
