"""The configuration as it was understood, value by value, each with the place it comes from.

Variables are replaced, short forms are written out, and what the top of the file gives to every
service is told at each service. Secrets are replaced by `[hidden]` here, so that no caller can
forget it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table, TableEntry
from holdfast.adapters.config.interpolation import expand
from holdfast.adapters.config.keys.root import ROOT
from holdfast.adapters.config.keys.services import (
    LOG,
    RESTART,
    SERVICE,
    SHARED,
    STOP,
    TARGET_COMMAND,
    Service,
)
from holdfast.adapters.config.kinds.blocks import Block, MapOf, SpecOf, Values, WordOrBlock
from holdfast.adapters.config.kinds.command_lines import Variables, variables_table
from holdfast.adapters.config.kinds.kind import Kind, Reading
from holdfast.adapters.config.loading import TARGET, read_project
from holdfast.adapters.config.sources import read_env_file, resolve_path
from holdfast.rules.secrets import values_of
from holdfast.secrets.redaction import (
    HIDDEN,
    Redactor,
    is_secret_name,
    redact_arguments,
    shown_environment,
)
from holdfast.system.patterns import pattern
from holdfast.vocabulary.configuration import ConfigValue
from holdfast.vocabulary.specs.settings import Configuration

_VARIABLE = pattern(r"(?<!\$)(?:\$\$)*\$\{([A-Za-z_][A-Za-z0-9_]*)")
_WORDS = {"true": True, "false": False}
_INTEGER = pattern(r"-?(?:0|[1-9]\d{0,14})")
_ALWAYS_THERE = {"restart": RESTART, "stop": STOP, "log": LOG}
"""Blocks of a service that have defaults even if they are not written."""
_COMMANDS = frozenset({"command", "args"})


def resolve_project(
    places_config: str | None,
    environ: Mapping[str, str],
    settings: Mapping[str, str],
    *,
    cwd: str,
    with_defaults: bool = False,
    is_owner: bool = False,
) -> tuple[Configuration, list[ConfigValue]]:
    """Return the configuration and its values; raises ConfigError with every problem.

    Only the owner is told the values of variables; others get those that are surely no secrets.
    """
    configuration, reading = read_project(
        places_config, environ, settings, cwd=cwd, with_places=True
    )
    secrets = values_of(configuration.services.values(), [reading.environ], configuration.settings)
    walk = _Walk(reading, Redactor(secrets), with_defaults=with_defaults, is_owner=is_owner)
    return configuration, list(walk.all())


class _Walk:
    """One walk through the values of a document, in written order."""

    def __init__(
        self, reading: Reading, redactor: Redactor, *, with_defaults: bool, is_owner: bool
    ) -> None:
        assert reading.root is not None
        self.reading = reading
        self.root: Values = reading.root
        self.redactor = redactor
        self.with_defaults = with_defaults
        self.is_owner = is_owner

    def all(self) -> Iterator[ConfigValue]:
        top = self.root.where
        for name, origin in self.reading.overridden.items():
            if name in ROOT.keys:
                value = self.typed(origin.text, name)
                yield ConfigValue(
                    path=[name], value=value, source=origin.source, given_by=origin.name
                )
        for name, node in top.items():
            if name in self.reading.overridden or name == "services":
                continue
            yield from self.node([name], node, ROOT.keys[name].kind)
        if self.with_defaults:
            given: set[tuple[str, ...]] = {(name,) for name in (*top, *self.reading.overridden)}
            yield from self.defaults([], ROOT, given)
        services = top.get("services")
        if isinstance(services, Table):
            for name, entry in services.entries.items():
                yield from self.service(name, entry.node)
        if self.reading.environ.get(TARGET_COMMAND, "").strip():
            yield ConfigValue(
                path=["services", TARGET, "command"],
                value=self.text(self.reading.environ[TARGET_COMMAND], "command"),
                source="environment",
                given_by=TARGET_COMMAND,
            )

    def service(self, name: str, node: Node) -> Iterator[ConfigValue]:
        path = ["services", name]
        table = _as_table(node, Service())
        if table is None:
            return
        own = {key: entry.node for key, entry in table.entries.items() if not _is_null(entry.node)}
        found: list[ConfigValue] = []
        for key, value in own.items():
            if key in SERVICE.keys:
                found += self.node([*path, key], value, SERVICE.keys[key].kind)
        found += self.inherited(path, own)
        found += self.of_env_files(path, own)
        if self.with_defaults:
            found += self.defaults(path, SERVICE, {tuple(value.path) for value in found})
        # The keys of one block stand together, in the order in which the block was first met.
        order = list(dict.fromkeys(value.path[2] for value in found))
        yield from sorted(found, key=lambda value: order.index(value.path[2]))

    def inherited(self, path: list[str], own: dict[str, Node]) -> Iterator[ConfigValue]:
        """What the top of the file gives to every service, where this one says nothing itself."""
        for key in SHARED:
            node = self.root.where.get(key)
            if node is None or key == "enabled":
                continue
            kind = SERVICE.keys[key].kind
            if key not in own:
                if key != "health_check":  # it completes probes, and makes none
                    yield from self.node([*path, key], node, kind)
                continue
            shared, mine = _as_table(node, kind), _as_table(own[key], kind)
            if shared is None or mine is None:
                continue
            rest = {name: e for name, e in shared.entries.items() if name not in mine.entries}
            yield from self.node([*path, key], Table(rest, shared.line, shared.column), kind)

    def of_env_files(self, path: list[str], own: dict[str, Node]) -> Iterator[ConfigValue]:
        """Variables from files, except those that `env` gives."""
        variables = [_as_table(node, Variables()) for node in (own.get("env"),) if node is not None]
        written = {name for table in variables if table is not None for name in table.entries}
        found: dict[str, tuple[str, str]] = {}
        for node in (self.root.where.get("env_file"), own.get("env_file")):
            for item in node.items if isinstance(node, ListNode) else [node]:
                if isinstance(item, Scalar) and not item.is_null:
                    found.update(self.variables_of(item))
        for name, (value, file) in found.items():
            if name not in written:
                yield ConfigValue(
                    path=[*path, "env", name],
                    value=self.variable(name, value),
                    source="file",
                    file=file,
                )

    def variables_of(self, item: Scalar) -> dict[str, tuple[str, str]]:
        reading = self.reading
        name = expand(item.text, reading.environ).removeprefix("-")
        file = resolve_path(name, reading.folder, reading.environ)
        try:
            variables, _ = read_env_file(file)
        except OSError:
            return {}
        return {name: (value, file) for name, value in variables.items()}

    def node(self, path: list[str], node: Node, kind: Kind) -> Iterator[ConfigValue]:
        if _is_null(node):
            if len(path) > 1 and path[-2] == "env" and path[-1] in self.reading.environ:
                value = self.variable(path[-1], self.reading.environ[path[-1]])
                yield ConfigValue(path=path, value=value, source="environment", given_by=path[-1])
            return
        if path[-1] == "environment" and not isinstance(node, Scalar):
            path, kind = [*path[:-1], "env"], Variables()
        table = _as_table(node, kind)
        if table is None:
            yield self.value(path, node)
            return
        block = _block(kind)
        for name, entry in table.entries.items():
            inner = block.keys[name].kind if block and name in block.keys else Kind()
            if isinstance(kind, MapOf):
                inner = kind.kind
            yield from self.node([*path, name], entry.node, inner)

    def value(self, path: list[str], node: Node) -> ConfigValue:
        return ConfigValue(
            path=path,
            value=self.plain(node, path),
            source="file",
            file=node.file or self.reading.file,
            line=node.line,
            variables=sorted(set(_variables_in(node))),
        )

    def plain(self, node: Node, path: list[str]) -> Any:
        name = path[-1]
        match node:
            case Scalar() if node.is_null:
                return None
            case Scalar():
                text = expand(node.text, self.reading.environ)
                if len(path) > 1 and path[-2] == "env":
                    return self.variable(name, text)
                return self.typed(text, name) if node.plain else self.text(text, name)
            case ListNode():
                items = [self.plain(item, path) for item in node.items]
                is_words = name in _COMMANDS and all(isinstance(item, str) for item in items)
                return redact_arguments(items) if is_words else items
            case Table():
                return {
                    key: self.plain(entry.node, [*path, key]) for key, entry in node.entries.items()
                }

    def typed(self, text: str, name: str) -> Any:
        """A number or a truth value as such; anything else as text."""
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) and not is_secret_name(name):
            return int(text)
        return self.text(text, name)

    def text(self, text: str, name: str) -> str:
        if is_secret_name(name) and text:
            return HIDDEN
        shown = self.redactor.redact(text.encode("utf-8", "surrogatepass"))
        return shown.decode("utf-8", "surrogatepass")

    def variable(self, name: str, value: str) -> str:
        if self.is_owner:
            return self.text(value, name)
        shown = shown_environment({name: value})[name]
        return HIDDEN if shown is None and value else shown or ""

    def defaults(
        self, path: list[str], block: Block, given: set[tuple[str, ...]]
    ) -> Iterator[ConfigValue]:
        """What leaving out a key means, for every key that is not among the given ones."""
        begun = {known[: len(path) + 1] for known in given}
        for name, key in block.keys.items():
            here = [*path, name]
            if key.meaning.startswith("The same as"):
                continue
            inner = _ALWAYS_THERE.get(name) if path else None
            if inner is not None:
                yield from self.defaults(here, inner, given)
            elif tuple(here) not in begun and (default := block.default(name)) is not None:
                yield ConfigValue(path=here, value=default, source="default")


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_null


def _block(kind: Kind) -> Block | None:
    match kind:
        case Block():
            return kind
        case SpecOf() | WordOrBlock():
            return kind.block
        case Service():
            return SERVICE
    return None


def _as_table(node: Node, kind: Kind) -> Table | None:
    """A mapping, or a short form of one written out; None for any other value."""
    if isinstance(node, Table):
        return node
    if isinstance(kind, Variables) and isinstance(node, ListNode):
        return variables_table(node)
    if not isinstance(node, Scalar) and not isinstance(kind, Service):
        return None
    match kind:
        case Service():
            word = "command"
        case WordOrBlock():
            word = kind.word_key
        case _:
            return None
    here = Scalar(word, True, node.line, node.column, node.file)
    return Table({word: TableEntry(here, node)}, node.line, node.column, node.file)


def _variables_in(node: Node) -> Iterator[str]:
    match node:
        case Scalar():
            yield from (found[1] for found in _VARIABLE.finditer(node.text))
        case ListNode():
            for item in node.items:
                yield from _variables_in(item)
        case Table():
            for entry in node.entries.values():
                yield from _variables_in(entry.node)
