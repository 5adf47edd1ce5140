"""Whoever loses the right to follow something stops reading at once, at every door."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import HoldfastError
from tests.gate.conftest import Gate, gate_of
from tests.gate.ws.client import Ws
from tests.harness import Hold, quick

NOISE = ["sh", "-c", "n=0; while :; do echo line $n; n=$((n+1)); sleep 0.02; done"]
CONFIG: dict[str, Any] = {
    "runtime_mode": "advanced",
    "services": {"web": quick(NOISE, start_seconds=0)},
}
DENIED = {"effect": "deny", "roles": ["agent"], "commands": ["open_output", "watch", "events"]}
Takes = Callable[[Hold, str], None]


def lock(hold: Hold, name: str) -> None:
    hold.ask("lockdown", reason="a drill")


def revoke(hold: Hold, name: str) -> None:
    hold.ask("revoke_token", token=name)


def deny(hold: Hold, name: str) -> None:
    hold.write({**CONFIG, "policies": [DENIED]})
    hold.ask("reload")


def expire(hold: Hold, name: str) -> None:
    """It does so by itself."""


WAYS: dict[str, Takes] = {"lockdown": lock, "revoked": revoke, "policy": deny, "expired": expire}


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Hold() as hold:
        hold.write(CONFIG)
        hold.up()
        with gate_of(hold) as made:
            yield made


@pytest.fixture
def again(gate: Gate) -> Iterator[Gate]:
    yield gate
    gate.hold.ask("unlock")
    gate.hold.write(CONFIG)
    gate.hold.ask("reload")


def agent(hold: Hold, way: str) -> tuple[str, str]:
    """The name and the text of a token that looks."""
    name = f"agent {time.monotonic_ns()}"
    more = {"expires_in": 2.0} if way == "expired" else {}
    return name, str(hold.ask("create_token", token_name=name, role="agent", **more)["text"])


@pytest.mark.parametrize("way", WAYS)
def test_a_websocket_stops_reading(again: Gate, way: str) -> None:
    """Its session is closed, and no line reaches it afterwards, though the service prints on."""
    hold = again.hold
    name, text = agent(hold, way)

    async def look() -> list[str]:
        async with await Ws.open(again, text) as ws:
            await ws.watch("web", tail=0)
            await ws.event("output")
            WAYS[way](hold, name)
            with suppress(ConnectionClosed):
                await ws.event("session:closed", 5.0)
            ws.kept.clear()
            with suppress(ConnectionClosed):
                hold.ask("wait", service="web", condition="silent:1", timeout=0.3)
                await ws.ask("ping")
            return [str(it["event"]) for it in ws.kept if isinstance(it, dict)]

    assert "output" not in asyncio.run(look())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("command", "fields"),
    [("watch", {"services": ["web"]}), ("events", {"follow": True, "limit": 0})],
)
def test_a_stream_ends(again: Gate, way: str, command: str, fields: dict[str, Any]) -> None:
    """With the refusal that a new request would get, also while nothing happens."""
    hold = again.hold
    name, text = agent(hold, way)
    connection = Connection(str(hold.runtime / "line.sock"))
    # One that goes on for ever ends as a connection that was lost.
    overdue = threading.Timer(10.0, connection.close)
    overdue.start()
    try:
        caller = {"token": text, "door": "rest"}
        stream = connection.stream(command, **fields, caller=caller)
        if command == "watch":
            next(stream)
        else:
            connection.ask("hello")
        WAYS[way](hold, name)
        with pytest.raises(HoldfastError) as caught:
            list(stream)
        assert caught.value.code in ("refused", "unauthorized")
    finally:
        overdue.cancel()
        connection.close()


@pytest.mark.parametrize("path", ["/api/events", "/api/services/web/logs"])
@pytest.mark.parametrize("way", WAYS)
def test_server_sent_events_end(again: Gate, way: str, path: str) -> None:
    """The stream over HTTP ends."""
    hold = again.hold
    name, text = agent(hold, way)
    connection = http.client.HTTPConnection("127.0.0.1", again.port, timeout=60)
    headers = {"Authorization": f"Bearer {text}", "Accept": "text/event-stream"}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.readline()
        WAYS[way](hold, name)
        deadline = time.monotonic() + 30
        while answer.readline():
            assert time.monotonic() < deadline, "it goes on"
    finally:
        connection.close()


def test_who_waits_for_a_line_is_not_told_it_later(again: Gate) -> None:
    """A wait that began before a lockdown ends with the refusal."""
    hold = again.hold
    _, text = agent(hold, "lockdown")
    connection = Connection(str(hold.runtime / "line.sock"))
    try:
        caller = {"token": text, "door": "rest"}
        asked = connection.send(
            "wait", service="web", condition="silent:3", timeout=1.0, caller=caller
        )
        hold.ask("lockdown", reason="a drill")
        with pytest.raises(HoldfastError, match="lockdown"):
            connection.answer(asked, 10)
    finally:
        connection.close()
