"""Each server alone, under its own names: over HTTP, and over a line."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.gate.mcp.conftest import ERAS, text_of
from tests.gate.mcp_servers.conftest import GatewayHold
from tests.harness import kill_9


@pytest.mark.parametrize("era", ERAS)
def test_a_line_to_one_server(counter: GatewayHold, era: str) -> None:
    """Its tools have its own names, nothing is beside them, and the line outlives the gate."""

    async def story(client: Any) -> None:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"add", "read", "whoami"} <= tools
        assert not tools & {"status", "control", "find_tools", "counter__add"}
        assert text_of(await client.call_tool("add", {"text": f"bridged {era}"})).startswith(
            "added"
        )
        pid = text_of(await client.call_tool("whoami", {}))
        await asyncio.to_thread(kill_9, counter.gate_pid())
        assert text_of(await client.call_tool("whoami", {})) == pid
        with pytest.raises(Exception, match='counter offers no tool "status"'):
            await client.call_tool("status", {})

    counter.talk(story, "--server", "counter", era=era)
    assert counter.lines().count(f"bridged {era}") == 1


def post(hold: GatewayHold, path: str, method: str, **params: Any) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = urllib.request.Request(
        hold.url.removesuffix("/mcp") + path,
        json.dumps(message).encode(),
        {
            "authorization": f"Bearer {hold.token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    data = [line[5:] for line in text.split("\n") if line.startswith("data:") and line[5:].strip()]
    told: dict[str, Any] = json.loads(data[-1] if data else text)
    return told


def test_http_for_one_server(counter: GatewayHold) -> None:
    """A server that speaks over its standard input has an address; an unknown one has none."""
    info = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    told = post(counter, "/mcp/counter", "initialize", **hello)
    assert told["result"]["serverInfo"]["name"] == "holdfast"
    with pytest.raises(HTTPError) as unknown:
        post(counter, "/mcp/nothing", "initialize", **hello)
    assert unknown.value.code == 404

    async def story() -> None:
        import httpx2
        from mcp.client import Client
        from mcp.client.streamable_http import streamable_http_client

        headers = {"authorization": f"Bearer {counter.token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            line = streamable_http_client(counter.url + "/counter", http_client=http)
            async with Client(line, mode="legacy") as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert "add" in names
                assert "control" not in names
                done = await client.call_tool("add", {"text": "over http"})
                assert text_of(done) == "added over http"

    asyncio.run(asyncio.wait_for(story(), 60))
    assert "over http" in counter.lines()


def test_an_unknown_server_is_refused_on_a_line(counter: GatewayHold) -> None:
    """The client is told which there are."""

    async def story(client: Any) -> None:
        with pytest.raises(Exception, match='no MCP server "nothing"'):
            await client.list_tools()

    counter.talk(story, "--server", "nothing")
