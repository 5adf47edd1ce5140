"""The key `mcp`: the assistants' door."""

from __future__ import annotations

from typing import Any

from holdfast.adapters.config.blocks import Block, Key, Values
from holdfast.adapters.config.document import Listing, Node, Table
from holdfast.adapters.config.kinds import Boolean, Choice, Kind, ListOf, Reading, Schema, Text
from holdfast.adapters.config.service_kinds import words_of
from holdfast.vocabulary.names import TOOLSETS
from holdfast.vocabulary.specs.mcp import McpSpec


class Programs(Kind):
    """True, false, or the beginnings of the command lines that may be run."""

    wanted = "true, false, or a list of commands"

    def read(self, node: Node, key: str, reading: Reading) -> dict[str, Any] | None:
        if not isinstance(node, Listing):
            is_on = Boolean().read(node, key, reading)
            return None if is_on is None else {"run": is_on}
        programs: list[tuple[str, ...]] = []
        for number, one in enumerate(node.items):
            if isinstance(one, Table):
                self.refuse(one, f"{key}[{number}]", reading)
            elif words := words_of(one, f"{key}[{number}]", reading, is_command=True):
                programs.append(tuple(words))
        return {"run": True, "programs": tuple(programs)}

    def schema(self) -> Schema:
        return {"anyOf": [*Boolean().schema()["anyOf"], ListOf(Text()).schema()]}


MCP_BLOCK = Block(
    [
        Key("enabled", Boolean(), "Let assistants connect; by default as HTTP is."),
        Key("read_only", Boolean(), "Offer only tools that look.", False),
        Key("toolsets", ListOf(Choice(*TOOLSETS)), "Which tools are offered.", list(TOOLSETS)),
        Key("run", Programs(), "Let assistants run programs: all, none, or these.", False),
        Key("send", Boolean(), "Let assistants type into services.", False),
        Key("supervised", Boolean(), "Let agents that Holdfast runs change things.", False),
        Key("legacy_sse", Boolean(), "Serve the old HTTP transport at /mcp/sse as well.", False),
    ],
    definition="mcp",
)
MCP = Key("mcp", MCP_BLOCK, "The door of AI assistants.")


def mcp_of(values: Values) -> McpSpec:
    found: Values | None = values.get("mcp")
    if not found:
        return McpSpec()
    fields = {name: value for name, value in found.items() if name != "run"}
    return McpSpec(**fields, **found.get("run", {}))
