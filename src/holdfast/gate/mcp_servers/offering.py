"""The tools of other MCP servers as assistants see and call them, beside Holdfast's own.

All are listed while they fit a budget of tokens; else an assistant gets three tools to find and
call them, and those that the configuration lists always. What a client may see and call is the
supervisor's to say, each time. Light: imports nothing of the protocol's library.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.client.connection import Unreachable
from holdfast.client.server_tools import ENVELOPE_NAMES, FIND, READ, TOOLSET, listed
from holdfast.gate.mcp.answers import Answer, rewrite_hint
from holdfast.gate.mcp.call import McpClient, ToolCall
from holdfast.gate.mcp_servers.gateway import Gateway
from holdfast.gate.mcp_servers.links import Message
from holdfast.gate.mcp_servers.results import KeptResults
from holdfast.gate.mcp_servers.upstream import Asker, Progress
from holdfast.vocabulary.errors import HoldfastError, UsageError
from holdfast.vocabulary.mcp_servers import AMONG_TOOLS

MOST_FOUND = 30
_MOST_CLIENTS = 200
_log = logging.getLogger(__name__)


class ServerTools:
    """What of other servers this gate offers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.kept = KeptResults()
        self._last: dict[str, dict[str, Any]] = {}
        """By token: what was told last, for the moments in which no supervisor answers."""

    @staticmethod
    def is_ours(name: str) -> bool:
        """Return whether a name is that of a tool of other servers, or of one that finds them."""
        return name in ENVELOPE_NAMES or AMONG_TOOLS in name

    async def listing(self, client: McpClient, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the definitions that are listed beside our own."""
        if TOOLSET not in client.offer.toolsets:
            return []
        return listed(await self._tools_of(client), own, client.offer.offer())

    async def of_server(self, client: McpClient) -> list[dict[str, Any]]:
        """Return the definitions of the one server that a client speaks with, by its own names."""
        if TOOLSET not in client.offer.toolsets:
            return []
        tools = (await self._tools_of(client))["tools"]
        return [
            {**tool["definition"], "name": tool["tool"]}
            for tool in tools
            if tool["server"] == client.server
            and (tool["only_reads"] or not client.offer.read_only)
        ]

    async def public_name(self, client: McpClient, name: str) -> str | None:
        """Return by what name all clients know a tool of this client's one server."""
        if client.caller.token not in self._last:
            await self._tools_of(client)
        tools = self._last.get(client.caller.token, {"tools": []})["tools"]
        for tool in tools:
            if (tool["server"], tool["tool"]) == (client.server, name):
                return str(tool["name"])
        return None

    async def _tools_of(self, client: McpClient) -> dict[str, Any]:
        token = client.caller.token
        try:
            told = await client.ask("mcp_tools", schema=True)
        except Unreachable:
            return self._last.get(token, {"tools": [], "tokens": 0})
        except HoldfastError as error:
            _log.info("tools of other servers are not listed: %s", error.message)
            return {"tools": [], "tokens": 0}
        if len(self._last) >= _MOST_CLIENTS:
            del self._last[next(iter(self._last))]
        self._last[token] = told
        return told

    async def call(
        self,
        call: ToolCall,
        name: str,
        arguments: Mapping[str, Any],
        ask: Asker | None = None,
        progress: Progress | None = None,
    ) -> Message | Answer:
        """Return the server's answer as it gave it, or an answer of our own."""
        given = dict(arguments)
        if name == FIND["name"]:
            return await self._find(call, given)
        if name in ENVELOPE_NAMES:
            tool, inner = _unwrapped(given)
            command = "read_mcp_tool" if name == READ["name"] else "call_mcp_tool"
        else:
            tool, inner = name, given
            command = "read_mcp_tool" if self._only_reads(call.client, name) else "call_mcp_tool"
        return await self._ask(call, command, tool, inner, ask, progress)

    def _only_reads(self, client: McpClient, name: str) -> bool:
        if client.offer.read_only:
            return True
        told = self._last.get(client.caller.token)
        tools = told["tools"] if told is not None else ()
        return any(tool["name"] == name and tool["only_reads"] for tool in tools)

    async def _ask(
        self,
        call: ToolCall,
        command: str,
        tool: str,
        arguments: dict[str, Any],
        ask: Asker | None,
        progress: Progress | None,
    ) -> Message | Answer:
        """Have it called. The result comes straight from the server; the supervisor's answer says
        that the call is over, and comes later."""
        asked = call.key
        waiting = self._gateway.expect(asked, ask, progress)
        fields = {"tool": tool, "arguments": arguments, "call": asked, "keep": True}
        asking = asyncio.ensure_future(call.ask(command, **fields))
        try:
            await asyncio.wait([waiting.answer, asking], return_when=asyncio.FIRST_COMPLETED)
            if waiting.answer.done():
                return waiting.answer.result()
            asking.result()  # raises what became of it
            return Answer(
                f"{tool} was done, but its answer was lost when a part of Holdfast was replaced",
                is_error=True,
            )
        except asyncio.CancelledError:
            self._gateway.cancel(asked, "the client cancelled it")
            raise
        finally:
            self._gateway.leave(asked)
            if not asking.done():
                self._gateway.finish(asking)

    async def _find(self, call: ToolCall, given: dict[str, Any]) -> Answer:
        for name in given:
            if name not in ("query", "limit", "schema"):
                raise UsageError(f'find_tools has no argument "{name}"', "query, limit, schema")
        query = given.get("query")
        if not isinstance(query, str) or not query.strip():
            raise UsageError("find_tools needs a query", "verb, object and service")
        limit = given.get("limit")
        limit = limit if isinstance(limit, int) and not isinstance(limit, bool) else 10
        has_schema = given.get("schema") is True
        told = await call.ask(
            "mcp_tools", query=query, limit=min(max(limit, 1), MOST_FOUND), schema=has_schema
        )
        tools = told["tools"]
        if call.client.offer.read_only:
            tools = [tool for tool in tools if tool["only_reads"]]
        if not tools:
            return Answer(f"nothing matches; {told['total']} tools are there: try other words")
        if has_schema:
            definition = tools[0]["definition"]
            return Answer(msgspec.json.encode(definition).decode())
        lines = [f"{tool['signature']}{_mark(tool)}" for tool in tools]
        return Answer("\n".join([*lines, f"-- {len(tools)} of {told['total']} tools"]))


def _mark(tool: Mapping[str, Any]) -> str:
    return " [call_read_tool]" if tool["only_reads"] else ""


def _unwrapped(given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments that an envelope holds, however a model has made it."""
    tool: Any = given.pop("tool", None)
    arguments: Any = given.pop("arguments", None)
    if tool is None and "name" in given:
        tool = given.pop("name")
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            raise UsageError("arguments are an object", 'for example {"path": "a"}') from None
    if isinstance(tool, dict):
        inner = dict(tool)
        if arguments is None:
            arguments = inner.get("arguments", inner.get("args"))
        tool = inner.get("tool", inner.get("name"))
    if isinstance(arguments, dict) and tool is None and isinstance(arguments.get("tool"), str):
        arguments = dict(arguments)
        tool = arguments.pop("tool")
        arguments = arguments.get("arguments", arguments)
    if arguments is None or arguments == "":
        # Arguments beside the name instead of below it.
        arguments = given
    if not isinstance(arguments, dict):
        raise UsageError("arguments are an object", 'for example {"path": "a"}')
    if not isinstance(tool, str) or not tool.strip():
        raise UsageError("which tool?", "`tool` is its name, as find_tools tells it")
    return tool.strip(), arguments


def failure(error: HoldfastError) -> Answer:
    """Return an error of a call as a model can act on it, with the server's last lines."""
    lines = [error.message, rewrite_hint(error.hint)]
    last = error.details.get("last_lines")
    if isinstance(last, list) and last:
        lines += ["It printed last:", *map(str, last)]
    return Answer("\n".join(filter(None, lines)), is_error=True)


def normalised(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result as every revision of the protocol takes it; what it does not know becomes
    text that says so. A result must not become an error after its tool was called."""
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    fixed: dict[str, Any] = {
        **result,
        "content": [_part(part) for part in parts],
        "resultType": "complete",
    }
    if fixed.get("isError") is None:
        fixed.pop("isError", None)
    structured = fixed.get("structuredContent")
    if structured is not None and not isinstance(structured, dict):
        fixed["structuredContent"] = {"result": structured}
    if structured is None:
        fixed.pop("structuredContent", None)
    return fixed


_KNOWN = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri", "name"),
}


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, dict):
        needed = _KNOWN.get(str(part.get("type")))
        if needed is not None and all(name in part for name in needed):
            return part
    text = msgspec.json.encode(part).decode()
    return {"type": "text", "text": f"content of a kind that is not known here: {text[:4000]}"}
