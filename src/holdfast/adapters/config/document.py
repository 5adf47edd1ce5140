"""A YAML or JSON text as a tree of nodes that remember their line and column.

Scalars stay text. The key that reads a scalar decides what «yes», «010» or «1:30» means. The tree
is built from parser events without recursion, so that nesting, aliases and size are bounded.
`parse_json` reads a JSON file several times faster, without places. The loader uses it first and
parses the file again with `parse` only when there is a problem to report.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.adapters.config.problems import Problem, make_excerpt
from holdfast.system.patterns import pattern

if TYPE_CHECKING:
    import yaml

LARGEST_FILE = 1024 * 1024
DEEPEST_NESTING = 32
MOST_NODES = 100_000
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_SURROGATES = pattern(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|[\s\S])")


class Scalar(msgspec.Struct, frozen=True):
    """A single value as it is written. `plain` means without quotes."""

    text: str
    plain: bool
    line: int
    column: int
    file: str = ""
    """The file, if it is another than the configuration itself."""

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in NULLS


class ListNode(msgspec.Struct, frozen=True):
    """A sequence."""

    items: list[Node]
    line: int
    column: int
    file: str = ""
    """The file, if it is another than the configuration itself."""


class Table(msgspec.Struct, frozen=True):
    """A mapping in written order. Each entry keeps the place of its key."""

    entries: dict[str, TableEntry]
    line: int
    column: int
    file: str = ""
    """The file, if it is another than the configuration itself."""


class TableEntry(msgspec.Struct, frozen=True):
    """One key of a mapping with its value."""

    key: Scalar
    node: Node


Node = Scalar | ListNode | Table


def find_node(node: Node, *path: str | int) -> Node:
    """Return the node at a path. A step that is missing, as in a short form, is skipped."""
    for step in path:
        match node:
            case Table() if isinstance(step, str) and step in node.entries:
                node = node.entries[step].node
            case ListNode() if isinstance(step, int) and step < len(node.items):
                node = node.items[step]
    return node


def parse(data: bytes, file: str, *, is_other: bool = False) -> tuple[Node | None, list[Problem]]:
    """Return the tree of a document and the problems of its form; no tree if it is unreadable.

    `is_other`: it is a further file of the configuration, and each node says so."""
    if len(data) > LARGEST_FILE:
        return None, [_whole_file(file, f"the file is larger than {LARGEST_FILE >> 20} MiB")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return None, [
            Problem(file, line, None, "", None, "the file is not UTF-8 text", "save it as UTF-8")
        ]
    if file.endswith(".json"):
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            hint = "check this line and the one above it: commas, quotes, brackets"
            return None, [_syntax(file, text, error.lineno, error.colno, error.msg, hint)]
        except RecursionError:
            return None, [_whole_file(file, "nested too deeply")]
        text = _SURROGATES.sub(_join_surrogates, text)
    return _Builder(file, text, file if is_other else "").build()


def _join_surrogates(found: re.Match[str]) -> str:
    if not found[1]:
        return found[0]
    return bytes.fromhex(found[1] + found[2]).decode("utf-16-be")


def _whole_file(file: str, message: str) -> Problem:
    return Problem(file, None, None, "", None, message, "make it simpler, or smaller")


def _syntax(file: str, text: str, line: int, column: int, message: str, suggestion: str) -> Problem:
    excerpt = make_excerpt(text, line, column)
    return Problem(file, line, column, "", None, message, suggestion, excerpt)


class _LimitExceeded(Exception):
    """The document is deeper or larger than allowed."""


class _OpenCollection:
    """A collection whose end has not been read yet."""

    __slots__ = ("anchor", "key", "merges", "node", "weight")

    def __init__(self, node: ListNode | Table, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.key: Scalar | None = None
        self.merges: list[Node] = []
        self.weight = 1


class _Builder:
    """Turns parser events into nodes."""

    def __init__(self, file: str, text: str, other: str = "") -> None:
        self.file = file
        self.other = other
        self.text = text
        self.problems: list[Problem] = []
        self.stack: list[_OpenCollection] = []
        self.anchors: dict[str, tuple[Node, int] | None] = {}
        self.root: Node | None = None
        self.documents = 0

    def build(self) -> tuple[Node | None, list[Problem]]:
        import yaml

        # The pure parser gives the same events, slowly, where libyaml is not built in.
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            stream = loader(self.text)
            while stream.check_event():
                self.take(stream.get_event())
        except yaml.reader.ReaderError as error:
            # libyaml counts bytes, the pure parser characters. Search for the character itself.
            character = chr(error.character)
            line = self.text.count("\n", 0, self.text.index(character)) + 1
            message = f"unprintable character #x{error.character:04x}"
            return None, [Problem(self.file, line, None, "", None, message, "remove it")]
        except yaml.MarkedYAMLError as error:
            return None, [*self.problems, self.yaml_problem(error)]
        except _LimitExceeded as error:
            return None, [*self.problems, _whole_file(self.file, str(error))]
        return self.root, self.problems

    def take(self, event: Any) -> None:
        match type(event).__name__:
            case "ScalarEvent":
                mark = event.start_mark
                is_plain = not event.style and event.tag != "tag:yaml.org,2002:str"
                self.check_tag(event)
                node = Scalar(event.value, is_plain, mark.line + 1, mark.column + 1, self.other)
                self.place(node, 1, event.anchor)
            case "MappingStartEvent" | "SequenceStartEvent":
                self.open(event)
            case "MappingEndEvent" | "SequenceEndEvent":
                self.close()
            case "AliasEvent":
                self.alias(event)
            case "DocumentStartEvent":
                self.documents += 1
                if self.documents > 1:
                    self.note(event.start_mark, "a second document (---)", "keep one per file")
                    raise _LimitExceeded("only one document is read")
            case _:
                pass

    def note(self, mark: yaml.Mark, message: str, suggestion: str, value: str = "") -> None:
        self.problems.append(
            Problem(
                self.file, mark.line + 1, mark.column + 1, "", value or None, message, suggestion
            )
        )

    def check_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag not in PLAIN_TAGS and event.tag != "!":
            self.note(event.start_mark, f"the tag {event.tag} is not understood", "leave it out")

    def open(self, event: Any) -> None:
        if len(self.stack) >= DEEPEST_NESTING:
            raise _LimitExceeded(f"nested deeper than {DEEPEST_NESTING} levels")
        self.check_tag(event)
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        is_table = type(event).__name__ == "MappingStartEvent"
        node: ListNode | Table = (
            Table({}, line, column, self.other)
            if is_table
            else ListNode([], line, column, self.other)
        )
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_OpenCollection(node, event.anchor))

    def close(self) -> None:
        done = self.stack.pop()
        if isinstance(done.node, Table):
            self.merge(done.node, done.merges)
        self.place(done.node, done.weight, done.anchor)

    def alias(self, event: Any) -> None:
        found = self.anchors.get(event.anchor, _UNDEFINED)
        if found is None or found is _UNDEFINED:
            what = "refers to itself" if found is None else "is not defined above"
            hint = "put quotes around a value that begins with *"
            self.note(event.start_mark, f"the alias *{event.anchor} {what}", hint)
            mark = event.start_mark
            self.place(Scalar("", True, mark.line + 1, mark.column + 1), 1, None)
            return
        node, weight = found
        self.place(node, weight, None)

    def place(self, node: Node, weight: int, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = (node, weight)
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        top.weight += weight
        if top.weight > MOST_NODES:
            raise _LimitExceeded(f"more than {MOST_NODES} values once its aliases are expanded")
        if isinstance(top.node, ListNode):
            top.node.items.append(node)
        elif top.key is None:
            top.key = self.key_of(node)
        else:
            key, top.key = top.key, None
            self.enter(top, key, node)

    def key_of(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        where = (self.file, node.line, node.column)
        message = "a key must be a single word, not a list or a mapping"
        hint = "put quotes around {…} or […]"
        self.problems.append(Problem(*where, "", None, message, hint))
        return Scalar("", False, node.line, node.column)

    def enter(self, top: _OpenCollection, key: Scalar, node: Node) -> None:
        assert isinstance(top.node, Table)
        if key.text == "<<" and key.plain:
            top.merges.append(node)
            return
        entries = top.node.entries
        first = entries.get(key.text)
        if first is not None:
            message = f'the key "{key.text}" is given twice; first in line {first.key.line}'
            path = ".".join([*(o.key.text for o in self.stack if o.key), key.text])
            where = (self.file, key.line, key.column)
            self.problems.append(Problem(*where, path, None, message, "keep one of them"))
            return
        entries[key.text] = TableEntry(key, node)

    def merge(self, table: Table, merges: list[Node]) -> None:
        for merged in merges:
            for source in merged.items if isinstance(merged, ListNode) else [merged]:
                if not isinstance(source, Table):
                    where = (self.file, source.line, source.column)
                    message = "only a mapping can be merged"
                    self.problems.append(Problem(*where, "<<", None, message, "write <<: *NAME"))
                    continue
                for name, entry in source.entries.items():
                    table.entries.setdefault(name, entry)

    def yaml_problem(self, error: yaml.MarkedYAMLError) -> Problem:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = error.problem or error.context or "not valid YAML"
        lines = self.text.splitlines()
        written = lines[line - 1] if line <= len(lines) else ""
        indent = written[: len(written) - len(written.lstrip())]
        suggestion = "check this line and the one above it: brackets, quotes, indentation"
        if "\t" in indent or (written[column - 1 : column] == "\t"):
            suggestion = "YAML does not allow tabs for indentation; use spaces"
        elif "mapping values are not allowed" in message:
            suggestion = "put quotes around a value that contains ': '"
        elif written[column - 1 : column] in {"@", "`", "%"} and "cannot start" in message:
            suggestion = f"put quotes around a value that begins with {written[column - 1]}"
        elif "undefined alias" in message or written[column - 1 : column] == "*":
            suggestion = "put quotes around a value that begins with *"
        elif error.context and "block mapping" in error.context:
            suggestion = "check the indentation of this line and of those above it"
        elif "unexpected end" in message or "end of stream" in message:
            suggestion = f"a quote or bracket is not closed{_tell_opening(error)}"
        return _syntax(self.file, self.text, line, column, message, suggestion)


_UNDEFINED: Any = object()


def _tell_opening(error: yaml.MarkedYAMLError) -> str:
    mark = error.context_mark
    return f"; it was opened in line {mark.line + 1}" if mark else ""


class _NotPlain(Exception):
    """The text holds something that only `parse` reads correctly."""


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, in written order."""

    __slots__ = ()


_decode = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number, parse_constant=_Number
).decode


def parse_json(data: bytes) -> Node | None:
    """Return the tree; None if this is not plain JSON, too large or deep, or repeats a key."""
    if len(data) > LARGEST_FILE or b"\x7f" in data or b"\\u" in data:
        return None
    try:
        return _JsonBuilder().node(_decode(data.decode("ascii")), 0)
    except (ValueError, RecursionError, _NotPlain):
        return None


class _JsonBuilder:
    """Turns decoded JSON into nodes without places."""

    def __init__(self) -> None:
        self._count = 0
        self._keys: dict[str, Scalar] = {}

    def node(self, value: Any, depth: int) -> Node:
        self._count += 1
        kind = type(value)
        if kind is str:
            return Scalar(value, False, 0, 0)
        if kind is _Pairs:
            return self._table(value, depth)
        if kind is list:
            self._check(depth)
            return ListNode([self.node(item, depth + 1) for item in value], 0, 0)
        if kind is _Number:
            return Scalar(str(value), True, 0, 0)
        return Scalar({None: "null", True: "true", False: "false"}[value], True, 0, 0)

    def _table(self, pairs: _Pairs, depth: int) -> Table:
        self._check(depth)
        self._count += len(pairs)
        inner, node = depth + 1, self.node
        entries = {key: TableEntry(self._key(key), node(item, inner)) for key, item in pairs}
        if len(entries) < len(pairs):
            raise _NotPlain
        return Table(entries, 0, 0)

    def _key(self, text: str) -> Scalar:
        """Return one node for all equal keys: without a line they are the same."""
        key = self._keys.get(text)
        if key is None:
            key = self._keys[text] = Scalar(text, False, 0, 0)
        return key

    def _check(self, depth: int) -> None:
        if depth >= DEEPEST_NESTING or self._count > MOST_NODES:
            raise _NotPlain
