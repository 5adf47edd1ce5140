"""A service with `instances: N`: one block in the file, read once for each instance.

Owns `{{ index }}`, and the small document from which one more instance is made later, when
the file may have changed: `scale` adds instances that are like their siblings.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.adapters.config.blocks import ServiceOrCommand, Values
from holdfast.adapters.config.document import Listing, Node, Scalar, Table
from holdfast.adapters.config.kinds import Integer, Kind, Reading, Schema
from holdfast.vocabulary.specs.services import MOST_INSTANCES

COUNT = Integer(0, MOST_INSTANCES)


class InstancedService(Kind):
    """A service; one with `instances` is read once for each of them."""

    wanted = "a service"

    def __init__(self, service: ServiceOrCommand) -> None:
        self.service = service

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        entry = node.entries.get("instances") if isinstance(node, Table) else None
        if entry is None or (isinstance(entry.node, Scalar) and entry.node.is_null):
            return self.service.read(node, key, reading)
        count = COUNT.read(entry.node, f"{key}.instances", reading)
        first: Values | None = None
        every: list[Values] = []
        # Once at least, so that what is wrong in it is told.
        for index in range(1, max(count or 0, 1) + 1):
            reading.index = index
            try:
                values = self.service.read(node, key, reading)
            finally:
                reading.index = None
            if values is None:
                return None
            first = first or values
            every.append(values)
        assert first is not None
        first.instances = every[: count or 0]
        first.source = node
        return first

    def schema(self) -> Schema:
        return self.service.schema()


def document_of(root: dict[str, Node], name: str, service: Node) -> str:
    """A configuration with only this service, and what is common to all services."""
    shared = {key: _plain(node) for key, node in root.items()}
    return json.dumps({**shared, "services": {name: _plain(service)}}, ensure_ascii=True)


def with_count(document: str, name: str, count: int) -> str:
    """The same document with another number of instances."""
    content = json.loads(document)
    content["services"][name]["instances"] = count
    return json.dumps(content, ensure_ascii=True)


def _plain(node: Node) -> Any:
    match node:
        case Scalar():
            return None if node.is_null else node.text
        case Listing():
            return [_plain(item) for item in node.items]
        case Table():
            return {key: _plain(entry.node) for key, entry in node.entries.items()}
