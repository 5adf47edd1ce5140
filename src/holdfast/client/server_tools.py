"""Which tools of other MCP servers are listed beside Holdfast's own: all, or three to find them.

The gate and the relay both list tools, and must list the same. The relay reads what is offered
from a file that the supervisor writes, so that it can answer before anything else runs. Standard
library only.
"""

from __future__ import annotations

import os

from holdfast.system.lean_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Definition = dict[str, Any]

TOOLSET = "servers"
DEFAULT_BUDGET = 8000
_OFFERED = os.path.join("mcp_servers", "_offered.json")
_TOOL = {"type": "string", "description": "SERVER__TOOL, as find_tools tells it"}
_CALL = {
    "type": "object",
    "properties": {
        "tool": _TOOL,
        "arguments": {"type": "object", "description": "as the tool's signature says"},
    },
    "required": ["tool"],
}
FIND: Definition = {
    "name": "find_tools",
    "description": "Find tools of other MCP servers by what they do: verb, object and service, "
    "as «create github issue». Tells a signature each; schema tells all of the first.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "schema": {"type": "boolean"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}
READ: Definition = {
    "name": "call_read_tool",
    "description": "Call a found tool that only reads.",
    "inputSchema": _CALL,
    "annotations": {"readOnlyHint": True, "openWorldHint": True},
}
CALL: Definition = {
    "name": "call_tool",
    "description": "Call a found tool that may change something.",
    "inputSchema": _CALL,
    "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
}
ENVELOPES = (FIND, READ, CALL)
ENVELOPE_NAMES = frozenset(str(one["name"]) for one in ENVELOPES)


def listed(
    told: Mapping[str, Any], own: Sequence[Definition], offer: Mapping[str, Any]
) -> list[Definition]:
    """Return the definitions that are listed beside our own.

    `told` has the `tools` with their definitions, and how many `tokens` these take; `offer` is
    what the configuration says of assistants.
    """
    tools: list[dict[str, Any]] = list(told.get("tools") or ())
    if offer.get("read_only"):
        tools = [tool for tool in tools if tool["only_reads"]]
    if not tools or TOOLSET not in (offer.get("toolsets") or ()):
        return []
    how, budget = offer.get("tools") or "auto", offer.get("tools_budget", DEFAULT_BUDGET)
    own_tokens = sum(len(dumps(one)) for one in own) // 4
    fits = own_tokens + int(told.get("tokens") or 0) <= budget
    if how == "list" or (how == "auto" and fits):
        return [tool["definition"] for tool in tools]
    envelopes = [FIND, READ] if offer.get("read_only") else [*ENVELOPES]
    return [*envelopes, *(tool["definition"] for tool in tools if tool["is_always_listed"])]


def read_offered(state: str) -> dict[str, Any]:
    """Return what the supervisor of this state folder last offered; empty if it never did."""
    try:
        with open(os.path.join(state, _OFFERED), "rb") as file:
            told = loads(file.read())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
