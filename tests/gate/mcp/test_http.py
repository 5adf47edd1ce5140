"""Streamable HTTP at /mcp: a token, a Host, an Origin; both eras; the old transport by a switch."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from holdfast.gate.mcp.http import MOST_OF_TOKEN, MOST_SESSIONS, SPARE, SessionShares
from tests.gate.mcp.conftest import ERAS, McpHold, text_of
from tests.harness import kill_9, wait_for

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
TYPES = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def hold() -> Iterator[McpHold]:
    with McpHold({"legacy_sse": True}) as made:
        made.up()
        yield made


def post(hold: McpHold, body: Any = INITIALIZE, path: str = "/mcp", **headers: str) -> Any:
    address = urlsplit(hold.url)
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
    given = {**TYPES, **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        connection.request("POST", path, json.dumps(body), given)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse", "/mcp/messages/"])
def test_a_token_is_needed(hold: McpHold, path: str) -> None:
    """On every path, and a valid one: before the protocol is even looked at."""
    for headers in ({}, bearer("holdfast_00000000_nonsense"), bearer("x")):
        answer, data = post(hold, path=path, **headers)
        assert answer.status == 401, data
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_foreign_names_and_pages_are_refused(hold: McpHold) -> None:
    """Whatever token they show."""
    token = bearer(hold.token)
    assert post(hold, **token)[0].status == 200
    assert post(hold, **token, Host="evil.example")[0].status == 403
    assert post(hold, **token, Origin="http://evil.example")[0].status == 403


def test_a_session_belongs_to_its_token(hold: McpHold) -> None:
    """Another valid token does not find it."""
    answer, _ = post(hold, **bearer(hold.token))
    session = answer.headers["Mcp-Session-Id"]
    other = hold.ask("create_token", token_name="other", role="viewer")["text"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    known = {"Mcp_Session_Id": session, "Mcp_Protocol_Version": "2025-11-25"}
    assert post(hold, ping, **bearer(hold.token), **known)[0].status == 200
    assert post(hold, ping, **bearer(other), **known)[0].status == 404


@pytest.mark.parametrize("era", ERAS)
def test_tools_over_http(hold: McpHold, era: str) -> None:
    """With the rights of the token: a viewer looks and changes nothing."""
    viewer = hold.ask("create_token", token_name=f"eyes-{era}", role="viewer")["text"]

    async def story() -> None:
        async with httpx2.AsyncClient(headers=bearer(viewer)) as http_client:
            transport = streamable_http_client(hold.url, http_client=http_client)
            async with Client(transport, mode=era) as client:
                status = await client.call_tool("status", {})
                assert "web  running" in text_of(status)
                refused = await client.call_tool("control", {"action": "stop", "names": ["web"]})
                assert refused.is_error
                assert "a viewer may look" in text_of(refused)

    asyncio.run(asyncio.wait_for(story(), 60))
    assert hold.service("web")["status"] == "running"


def test_the_transport_before(hold: McpHold) -> None:
    """Server-sent events, where the configuration says so."""

    async def story() -> None:
        transport = sse_client(f"{hold.url}/sse", headers=bearer(hold.token))
        async with Client(transport, mode="legacy") as client:
            assert "web" in text_of(await client.call_tool("status", {}))

    asyncio.run(asyncio.wait_for(story(), 60))


def test_it_is_off_by_default_and_health_does_not_wait() -> None:
    """Neither the old transport nor a gate that loads the library delays anything."""
    with McpHold() as other:
        other.up()
        address = urlsplit(other.url)
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        answer, _ = post(other, path="/mcp/sse", **bearer(other.token))
        assert answer.status == 404


def test_one_token_leaves_sessions_to_the_others(hold: McpHold) -> None:
    """A viewer opens more sessions than its share: its oldest end, and everybody else opens one."""
    viewer = hold.ask("create_token", token_name="many", role="viewer")["text"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

    def opened(token: str) -> str:
        answer, data = post(hold, **bearer(token))
        assert answer.status == 200, data
        return str(answer.headers["mcp-session-id"])

    def status(token: str, session: str) -> int:
        return int(post(hold, ping, **bearer(token), Mcp_Session_Id=session)[0].status)

    first = opened(hold.token)
    mine = [opened(viewer) for _ in range(MOST_OF_TOKEN + 20)]
    assert status(hold.token, first) == 200
    assert status(hold.token, opened(hold.token)) == 200
    alive = [one for one in mine if status(viewer, one) == 200]
    assert alive == mine[20:]


def test_the_owner_of_most_sessions_gives_way() -> None:
    """When all sessions together are too many, the token with the most loses its longest unused."""
    shares = SessionShares()
    for number in range(MOST_SESSIONS - SPARE):
        shares.add(f"owner {number % 10}" if number > 50 else "many", b"%d" % number)
    assert shares.surplus("owner 1") is None
    shares.add("late", b"late")
    with shares.use("many", b"0"):
        pass
    assert shares.surplus("late") == ("owner 1", b"51")


def test_a_session_of_a_gate_that_died() -> None:
    """The next gate does not know it and says 404, upon which clients open another."""
    with McpHold() as other:
        other.up()
        answer, data = post(other, **bearer(other.token))
        session = str(answer.headers["mcp-session-id"])
        kill_9(other.gate_pid())
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

        def refused() -> Any:
            try:
                return post(other, ping, **bearer(other.token), Mcp_Session_Id=session)
            except OSError:
                return None

        answer, data = wait_for(refused, what="the next gate")
        assert answer.status == 404, (answer.status, data)
        again, _ = post(other, **bearer(other.token))
        assert again.status == 200
        assert again.headers["mcp-session-id"] != session
