"""What services need of each other, and the names that several share: depends_on, tags, groups.

A condition is written as its name, or as a mapping with what it needs beyond the name. The
spellings of compose files are understood. Unknown names, services that wait for each other and
conditions that can never be met are problems with their place.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table, TableEntry, find_node
from holdfast.adapters.config.kinds.blocks import MapOf, Values
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    SearchPattern,
)
from holdfast.rules.admission.ordering import cycles
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.specs.services import Dependency, NeedCondition, ServiceSpec

CONDITIONS: tuple[NeedCondition, ...] = ("started", "ready", "healthy", "completed", "log")
_CONDITION = Choice(
    *CONDITIONS,
    aliases={
        "service_started": "started",
        "service_ready": "ready",
        "service_healthy": "healthy",
        "service_completed_successfully": "completed",
        "completed_successfully": "completed",
        "service_completed": "completed",
        "process_started": "started",
        "process_healthy": "healthy",
        "process_completed_successfully": "completed",
        "process_log_ready": "log",
    },
)
_KEYS = ("condition", "pattern", "raw", "restart")


class DependencyEntry(NamedTuple):
    """A dependency as written, with its place."""

    service: str
    node: Node
    condition: NeedCondition = "started"
    pattern: str | None = None
    raw: bool = False
    restart: bool = False

    def as_dependency(self) -> Dependency:
        return Dependency(
            service=self.service,
            condition=self.condition,
            pattern=self.pattern,
            raw=self.raw,
            restart=self.restart,
        )


class DependencyList(Kind):
    """Names of services, or a mapping from names to conditions."""

    wanted = "a list of services"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[DependencyEntry, ...] | None:
        match node:
            case Scalar():
                names: list[Node] = [node]
            case ListNode():
                names = list(node.items)
            case Table():
                edges = [
                    self.read_edge(entry, f"{key}.{name}", reading)
                    for name, entry in node.entries.items()
                ]
                return tuple(edge for edge in edges if edge is not None)
        found: list[DependencyEntry] = []
        for item in names:
            if not isinstance(item, Scalar):
                reading.note(item, key, "this is not the name of a service", "write - db")
                continue
            text = reading.expand(item, key)
            if text:
                found.append(DependencyEntry(text, item))
        return tuple({needed.service: needed for needed in found}.values())

    def read_edge(self, entry: TableEntry, key: str, reading: Reading) -> DependencyEntry | None:
        node: Node = entry.node
        if isinstance(node, Scalar) and node.is_null:
            return DependencyEntry(entry.key.text, entry.key)
        if isinstance(node, Table):
            return self.read_full_edge(entry.key, node, key, reading)
        condition = _CONDITION.read(node, key, reading)
        if condition is None:
            return None
        return self.check_pattern(
            DependencyEntry(entry.key.text, entry.key, condition), key, reading
        )

    def read_full_edge(
        self, name: Scalar, table: Table, key: str, reading: Reading
    ) -> DependencyEntry | None:
        given: dict[str, Node] = {}
        for word, entry in table.entries.items():
            if word not in _KEYS:
                guess = closest(word, list(_KEYS))
                known = f'did you mean "{guess}"?' if guess else f"known keys: {', '.join(_KEYS)}"
                reading.note(entry.key, f"{key}.{word}", "unknown key", known, word)
            elif not (isinstance(entry.node, Scalar) and entry.node.is_null):
                given[word] = entry.node
        needed = DependencyEntry(name.text, name)
        if "condition" in given:
            condition = _CONDITION.read(given["condition"], f"{key}.condition", reading)
            if condition is None:
                return None
            needed = needed._replace(condition=condition)
        if "restart" in given:
            restart = Boolean().read(given["restart"], f"{key}.restart", reading)
            needed = needed._replace(restart=bool(restart))
        if "pattern" in given:
            if needed.condition != "log" and "condition" in given:
                message = f"a pattern is for the condition log, not for {needed.condition}"
                reading.note(given["pattern"], f"{key}.pattern", message, "remove one of them")
                return None
            pattern = SearchPattern().read(given["pattern"], f"{key}.pattern", reading)
            if pattern is None:
                return None
            needed = needed._replace(condition="log", pattern=pattern)
        if "raw" in given:
            is_raw = Boolean().read(given["raw"], f"{key}.raw", reading)
            needed = needed._replace(raw=bool(is_raw))
        return self.check_pattern(needed, key, reading)

    def check_pattern(
        self, needed: DependencyEntry, key: str, reading: Reading
    ) -> DependencyEntry | None:
        if needed.condition == "log" and needed.pattern is None:
            message = "the condition log needs a pattern"
            hint = "write {condition: log, pattern: 'ready to accept'}"
            reading.note(needed.node, key, message, hint)
            return None
        return needed

    def schema(self) -> Schema:
        condition = _CONDITION.schema()
        full = {
            "type": "object",
            "properties": {
                "condition": {"description": "What it has to reach.", **condition},
                "pattern": {
                    "description": "For log: a regular expression that a line of it matches.",
                    **SearchPattern().schema(),
                },
                "raw": {
                    "description": "Match the bytes, not the line without control sequences.",
                    "default": False,
                    **Boolean().schema(),
                },
                "restart": {
                    "description": "Restart this service when that one got a new run.",
                    "default": False,
                    **Boolean().schema(),
                },
            },
            "additionalProperties": False,
        }
        names = {"type": "array", "items": {"type": "string"}}
        table = {
            "type": "object",
            "additionalProperties": {"anyOf": [condition, full, {"type": "null"}]},
        }
        return {"anyOf": [names, {"type": "string"}, table]}


class Groups(MapOf):
    """Groups of services by name."""

    wanted = "a mapping of groups"

    def hint(self) -> str:
        return "write each group as an indented name with a list: backend: [db, api]"


def dependencies_of(values: Values) -> tuple[DependencyEntry, ...]:
    needs: tuple[DependencyEntry, ...] = values.get("depends_on", ())
    return needs


def check_dependencies(
    reading: Reading, services: dict[str, Values], built: dict[str, ServiceSpec]
) -> None:
    needs: dict[str, list[str]] = {}
    for name, values in services.items():
        path = values.path_of("depends_on")
        needs[name] = []
        for needed in dependencies_of(values):
            other = needed.service
            if other in services or other in built:
                needs[name].append(other if other in services else other.partition("@")[0])
                _check_condition(reading, needed, path, built)
                continue
            guess = closest(other, [n for n in services if n != name])
            hint = f'did you mean "{guess}"?' if guess else f"known: {', '.join(services)}"
            reading.note(needed.node, path, f'there is no service "{other}"', hint, other)
    for cycle in cycles(needs):
        values = services[cycle[0]]
        place = next(
            n.node for n in dependencies_of(values) if n.service.partition("@")[0] == cycle[1]
        )
        message = f"services wait for each other: {' → '.join(cycle)}"
        reading.note(
            place, values.path_of("depends_on"), message, "remove one of these dependencies"
        )


def _check_condition(
    reading: Reading, needed: DependencyEntry, path: str, built: dict[str, ServiceSpec]
) -> None:
    name = needed.service
    spec = built.get(name) or built.get(f"{name}@1")
    if spec is None:
        return
    if needed.condition == "healthy" and not (spec.probes or spec.notify):
        message = f"{name} has no health check, so nobody can tell when it is healthy"
        hint = "give it a health_check, or write condition: ready"
        reading.note(needed.node, path, message, hint)
    if needed.condition == "completed" and spec.restart_policy == "always":
        message = f"{name} is started again whenever it ends (restart_policy: always)"
        hint = f"write restart_policy: on_failure for {name}"
        reading.note(needed.node, path, message, hint)


def check_groups(
    reading: Reading, values: Values, services: dict[str, Values], built: dict[str, ServiceSpec]
) -> dict[str, tuple[str, ...]]:
    """Return the groups, and check that their members exist."""
    groups: dict[str, tuple[str, ...]] = values.get("groups", {})
    place = values.at("groups")
    for name, members in groups.items():
        path = f"{values.path_of('groups')}.{name}"
        if name in services:
            assert isinstance(place, Table)
            message = f'a service is called "{name}", too'
            reading.note(place.entries[name].key, path, message, "give the group another name")
        for number, member in enumerate(members):
            if member in services or member in built:
                continue
            guess = closest(member, list(services))
            hint = f'did you mean "{guess}"?' if guess else f"known: {', '.join(services)}"
            node = find_node(place, name, number)
            reading.note(node, path, f'there is no service "{member}"', hint, member)
    return groups
