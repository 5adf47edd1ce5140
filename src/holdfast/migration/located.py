"""Values of a YAML, JSON or TOML file together with the lines on which their keys stand.

PyYAML's own reader forgets the lines; its node tree has them. JSON is read as YAML, which is a
superset of it for every file that people write. Python's reader of TOML forgets them, too: they
are looked up in the text afterwards.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

from holdfast.vocabulary.errors import UsageError

_TOML_TABLE = re.compile(r"^\s*\[\[?\s*([^\[\]]+?)\s*\]")
_TOML_KEY = re.compile(r"""^\s*((?:[\w.-]+|"[^"]*"|'[^']*')+)\s*=""")


class LocatedValue:
    """A value, and the line of each of its keys or items."""

    def __init__(self, value: Any, line: int, lines: dict[Any, int]) -> None:
        self.value = value
        self.line = line
        self._lines = lines

    def line_of(self, key: Any) -> int:
        return self._lines.get(key, self.line)

    def items(self) -> Iterator[tuple[str, LocatedValue]]:
        """Return the keys of a mapping with their values; nothing for any other value."""
        if isinstance(self.value, dict):
            for key, inner in self.value.items():
                yield str(key), inner

    def get(self, key: str) -> LocatedValue | None:
        return self.value.get(key) if isinstance(self.value, dict) else None

    def plain(self) -> Any:
        """Return the value without lines."""
        if isinstance(self.value, dict):
            return {key: inner.plain() for key, inner in self.value.items()}
        if isinstance(self.value, list):
            return [inner.plain() for inner in self.value]
        return self.value


def read_located(text: str, name: str) -> LocatedValue:
    """Return the document of a YAML or JSON text; raise UsageError that names the line at fault."""
    import yaml

    try:
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark is not None else ""
        why = getattr(error, "problem", None) or str(error)
        raise UsageError(f"{name}{place}: {why}", "mend the file, or leave it out") from None
    if node is None:
        return LocatedValue(None, 1, {})
    return _located(node, yaml.SafeLoader(""), 0)


def _located(node: Any, loader: Any, depth: int) -> LocatedValue:
    import yaml

    line = node.start_mark.line + 1
    if depth > 60:
        raise UsageError(f"line {line}: nested too deeply", "leave this file out")
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        values: dict[Any, LocatedValue] = {}
        lines: dict[Any, int] = {}
        for key_node, value_node in node.value:
            # As written: YAML would make False of a service that is called `off`.
            key = str(key_node.value)
            lines[key] = key_node.start_mark.line + 1
            values[key] = _located(value_node, loader, depth + 1)
            values[key].line = lines[key]
        return LocatedValue(values, line, lines)
    if isinstance(node, yaml.SequenceNode):
        items = [_located(item, loader, depth + 1) for item in node.value]
        return LocatedValue(items, line, {place: item.line for place, item in enumerate(items)})
    try:
        value = loader.construct_object(node, deep=True)
    except yaml.YAMLError:
        value = node.value
    return LocatedValue(
        value if isinstance(value, (str, int, float, bool, type(None))) else node.value, line, {}
    )


def read_located_toml(text: str, name: str) -> LocatedValue:
    """Return the document of a TOML text; raise UsageError that says what is wrong with it."""
    try:
        toml = importlib.import_module("tomllib")
    except ImportError:
        raise UsageError(
            f"{name}: this Python reads no TOML", "use Python 3.11 or newer for this import"
        ) from None
    try:
        document = toml.loads(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", "mend the file, or leave it out") from None
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TOML_TABLE.match(line):
            table = _dotted(header[1])
            lines.setdefault(table, number)
        elif entry := _TOML_KEY.match(line):
            lines.setdefault(".".join(filter(None, (table, _dotted(entry[1])))), number)
    return _with_lines(document, "", 1, lines)


def _dotted(path: str) -> str:
    return re.sub(r"""["'\s]""", "", path)


def _with_lines(value: Any, path: str, line: int, lines: dict[str, int]) -> LocatedValue:
    line = lines.get(path, line)
    if isinstance(value, dict):
        inner = {
            str(key): _with_lines(item, f"{path}.{key}".strip("."), line, lines)
            for key, item in value.items()
        }
        return LocatedValue(inner, line, {key: item.line for key, item in inner.items()})
    if isinstance(value, list):
        return LocatedValue([_with_lines(item, path, line, lines) for item in value], line, {})
    return LocatedValue(value, line, {})
