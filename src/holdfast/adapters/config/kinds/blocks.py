"""Mappings with known keys: one row (`Key`) describes a key to the reader, the schema and the docs.

An unknown key is a problem that suggests the nearest known one. A key of a later version is
reported as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.adapters.config.document import Node, Scalar, Table, TableEntry
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import LABEL_RULE, Choice
from holdfast.system.patterns import pattern
from holdfast.vocabulary.names import closest


class Key(NamedTuple):
    """THE definition of a key: its name, how it is read, and what it means.

    A key with the name of a field of the block's spec fills that field. Its default is then the
    field's, and a changed value takes effect as the field says. Only a key that fills no field, or
    one of another spec, states a default of its own.
    """

    name: str
    kind: Kind
    meaning: str
    default: Any = None


def default_of(spec: type[msgspec.Struct], field: str) -> Any:
    """Return the default of a field of a spec; None if it has none, or an empty one."""
    at = spec.__struct_fields__.index(field) - len(spec.__struct_fields__)
    defaults = spec.__struct_defaults__
    default = defaults[at] if -at <= len(defaults) else None
    is_plain = isinstance(default, (bool, int, float, str, tuple))
    return default if is_plain and default not in ("", ()) else None


MOST_NEAREST = 5


class ForeignKey(NamedTuple):
    """A key of another program that people write from memory, and what to do about it."""

    advice: str
    instead: str = ""
    """The key that it stands for, where it is one: that is not said to be missing as well."""


class Values(dict[str, Any]):
    """The keys of a block that were written, with their values and places."""

    def __init__(self, path: str, node: Node) -> None:
        super().__init__()
        self.path = path
        self.node = node
        self.where: dict[str, Node] = {}
        self.refused: set[str] = set()
        self.instances: list[Values] | None = None
        """The values of each instance, for a service with `instances`."""
        self.source: Node = node

    def at(self, name: str) -> Node:
        return self.where.get(name, self.node)

    def path_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


class Block(Kind):
    """A mapping with these keys."""

    wanted = "a mapping"

    def __init__(
        self,
        keys: Iterable[Key],
        *,
        spec: type[msgspec.Struct] | None = None,
        later: Iterable[str] = (),
        synonyms: Mapping[str, str] | None = None,
        foreign: Mapping[str, ForeignKey] | None = None,
        definition: str = "",
        allows_extensions: bool = False,
    ) -> None:
        self.keys = {key.name: key for key in keys}
        self.spec = spec
        self.fields = frozenset(self.keys).intersection(spec.__struct_fields__ if spec else ())
        """Keys that fill a field of the spec."""
        self.later = frozenset(later)
        self.synonyms = dict(synonyms or {})
        self.foreign = dict(foreign or {})
        self.definition = definition
        self.allows_extensions = allows_extensions

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if not isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        return self.read_entries(node, node.entries, key, reading)

    def read_entries(
        self, node: Node, entries: Mapping[str, TableEntry], path: str, reading: Reading
    ) -> Values:
        values = Values(path, node)
        keys, where = self.keys, values.where
        for name, entry in entries.items():
            known = keys.get(name)
            if known is None:
                if not (self.allows_extensions and name.startswith("x-")):
                    meant = self.unknown(entry.key, path, reading)
                    # One mistake is one problem: what was meant is not missing as well.
                    values.refused.add(meant)
                continue
            given = entry.node
            if isinstance(given, Scalar) and given.is_null:
                continue
            value = known.kind.read(given, f"{path}.{name}" if path else name, reading)
            if value is None:
                values.refused.add(name)
                continue
            values[name] = value
            where[name] = given
        return values

    def fill(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the spec that these values fill."""
        return {name: value for name, value in values.items() if name in self.fields}

    def default(self, name: str) -> Any:
        """Return what leaving out a key means, as a user would write it; None if nothing."""
        key = self.keys[name]
        default = key.default
        is_from_spec = default is None and name in self.fields and not isinstance(key.kind, Block)
        if is_from_spec and self.spec is not None:
            default = default_of(self.spec, name)
        return default if default is None or isinstance(default, str) else key.kind.spell(default)

    def unknown(self, key: Scalar, path: str, reading: Reading) -> str:
        """Note the problem; return the key that was meant, or nothing."""
        name = key.text
        full = f"{path}.{name}" if path else name
        if name in self.later:
            reading.note(key, full, "this key is not supported by this version yet", "remove it")
            return ""
        if (foreign := self.foreign.get(name.lower())) is not None:
            reading.note(key, full, "unknown key", foreign.advice, name)
            return foreign.instead
        guess = self.synonyms.get(name.lower()) or closest(name.lower(), list(self.keys))
        suggestion = f'did you mean "{guess}"?' if guess else self._nearest(name)
        reading.note(key, full, "unknown key", suggestion, name)
        return guess or ""

    def _nearest(self, name: str) -> str:
        known = [key for key in self.keys if not key.startswith("$")]
        if len(known) <= MOST_NEAREST:
            return f"known keys: {', '.join(known)}"
        import difflib  # only for problems

        near = difflib.get_close_matches(name.lower(), known, MOST_NEAREST, 0.0)
        return f"the nearest of {len(known)} keys: {', '.join(near)}"

    def hint(self) -> str:
        return "write it as indented keys: " + ", ".join(list(self.keys)[:4]) + " …"

    def schema(self) -> Schema:
        if self.definition:
            return {"$ref": f"#/$defs/{self.definition}"}
        return self.full_schema()

    def full_schema(self) -> Schema:
        properties: Schema = {}
        for key in self.keys.values():
            properties[key.name] = {"description": key.meaning, **key.kind.schema()}
            default = self.default(key.name)
            if default is not None:
                properties[key.name]["default"] = default
        schema: Schema = {
            "type": ["object", "null"],
            "properties": properties,
            "additionalProperties": False,
        }
        if self.allows_extensions:
            schema["patternProperties"] = {"^x-": True}
        return schema


class SpecOf(Kind):
    """A block that is read as its spec. Every field of the spec has a default."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.wanted = block.wanted

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        values = self.block.read(node, key, reading)
        return None if values is None or values.refused else self.build(values)

    def build(self, values: Values) -> Any:
        assert self.block.spec is not None
        return self.block.spec(**values)

    def schema(self) -> Schema:
        return self.block.schema()


def agreed_value(
    reading: Reading, values: Values, outer: str, block: dict[str, Any], inner: str
) -> Any:
    """Return a quantity that has two names. Both may be written if they agree."""
    one, other = values.get(outer), block.get(inner)
    if one is not None and other is not None and one != other and isinstance(block, Values):
        message = f"contradicts {block.path_of(inner)}"
        reading.note(values.at(outer), values.path_of(outer), message, "keep one of them")
    return other if one is None else one


class WordOrBlock(Kind):
    """A block, or one word that stands for a block with only that key."""

    def __init__(self, word_key: str, block: Block) -> None:
        self.block = block
        self.word_key = word_key
        kind = block.keys[word_key].kind
        assert isinstance(kind, Choice)
        self.word: Choice = kind
        self.wanted = f"{kind.wanted} or a mapping"

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if not isinstance(node, Scalar):
            return self.block.read(node, key, reading)
        word = self.word.read(node, key, reading)
        if word is None:
            return None
        values = Values(key, node)
        values[self.word_key] = word
        values.where[self.word_key] = node
        return values

    def schema(self) -> Schema:
        return {"anyOf": [self.word.schema(), self.block.schema()]}


class MapOf(Kind):
    """A mapping from names to one kind of value."""

    wanted = "a mapping"

    def __init__(self, kind: Kind, name_pattern: str) -> None:
        self.kind = kind
        self.names = pattern(name_pattern)

    def read(self, node: Node, key: str, reading: Reading) -> dict[str, Any] | None:
        if not isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        found: dict[str, Any] = {}
        for name, entry in node.entries.items():
            # Values below a bad name are read, too, so that all problems are reported at once.
            self.check_name(entry.key, key, reading)
            value = self.kind.read(entry.node, f"{key}.{name}", reading)
            if isinstance(value, Values):
                value.node = entry.key
            if value is not None:
                found[name] = value
        return found

    def check_name(self, key: Scalar, path: str, reading: Reading) -> None:
        name = key.text
        if not self.names.fullmatch(name):
            reading.note(key, f"{path}.{name}", *self.wrong_name(name), name)

    def wrong_name(self, name: str) -> tuple[str, str]:
        """Return the problem with a bad name, and the remedy."""
        return f'"{name}" is not a name', LABEL_RULE

    def schema(self) -> Schema:
        return {
            "type": ["object", "null"],
            "patternProperties": {f"^{self.names.pattern}$": self.kind.schema()},
            "additionalProperties": False,
        }
