"""`/ws`: who may pass, commands, events by number, rooms and limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from holdfast.gate.ws import accounts, dispatcher, door, frames
from tests.gate.conftest import Gate
from tests.gate.ws.client import Ws
from tests.harness import Hold, kill_9, wait_for


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(story(), 60)

    asyncio.run(bounded())


def records(hold: Hold, **wanted: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in hold.cli("audit", "--json").stdout.splitlines()]
    return [it for it in found if all(it.get(key) == value for key, value in wanted.items())]


def test_commands_are_answered_by_id(gate: Gate, hold: Hold) -> None:
    """In whatever order; errors with code, message and hint; each audited once."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            assert ws.hello["role"] == "admin"
            assert ws.hello["room"] == f"user:{ws.hello['actor']}"
            answer = await ws.ask("command:execute", {"command": "status"})
            assert answer["event"] == "command:result"
            assert answer["data"]["result"]["services"]["web"]["status"] == "running"
            answer = await ws.ask("command:execute", {"command": "stop", "services": ["web"]})
            assert answer["data"]["result"]["services"]["web"]["outcome"] == "stopped"
            for data, code in (
                ({"command": "stop", "services": ["nobody"]}, "unknown_service"),
                ({"command": "nonsense"}, "usage"),
                ({"command": "watch"}, "usage"),
                ({}, "usage"),
                ("status", "usage"),
            ):
                answer = await ws.ask("command:execute", data)
                assert answer["event"] == "error", data
                message = answer["data"]
                assert (message["type"], message["data"]["code"]) == ("error", code)
                assert message["timestamp"] > 1e12

    run(story)
    assert len(records(hold, door="websocket", command="stop", outcome="ok")) == 1


def test_a_command_can_be_followed_and_cancelled(gate: Gate) -> None:
    """Items come with the id of the request, until it is cancelled."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            follow = {"command": "events", "since": 0, "follow": True}
            await ws.send("command:execute", follow, id="all")
            item = await ws.event("command:item")
            assert (item["id"], item["data"]["item"]["seq"]) == ("all", 1)
            answer = await ws.ask("command:cancel", {"target": "all"})
            assert answer["data"]["found"]

    run(story)


@pytest.mark.parametrize("way", ["frame", "text", "header", "cookie", "subprotocol", "two"])
def test_ways_to_show_a_token(lasting_gate: Gate, way: str) -> None:
    """In the first frame, or with the request; a browser is answered without the secret."""
    gate = lasting_gate
    ways: dict[str, dict[str, Any]] = {
        "header": {"additional_headers": {"Authorization": f"Bearer {gate.token}"}},
        "cookie": {
            "additional_headers": {
                "Cookie": f"holdfast_{gate.port}={gate.token}",
                "Origin": f"http://127.0.0.1:{gate.port}",
            }
        },
        "subprotocol": {"subprotocols": [Subprotocol(f"holdfast.token.{gate.token}")]},
        "two": {
            "subprotocols": [Subprotocol("holdfast"), Subprotocol(f"holdfast.token.{gate.token}")]
        },
    }
    options = ways.get(way, {})

    async def story() -> None:
        async with await Ws.open(gate, token=None, **options) as ws:
            if way == "frame":
                await ws.send("auth", {"token": gate.token}, id=7)
            elif way == "text":
                await ws.send("auth", gate.token, id=7)
            answer = await ws.event("auth:ok")
            assert answer["data"]["actor"] == "token first admin"
            assert answer.get("id") == (None if options else 7)
            if way == "two":
                assert ws.socket.subprotocol == "holdfast"

    run(story)


@pytest.mark.parametrize(
    "first",
    [
        '{"event": "auth", "data": {"token": "wrong"}}',
        '{"event": "auth", "data": "holdfast_00000000_wrong"}',
        '{"event": "auth"}',
        '{"event": "command:execute", "data": {"command": "status"}}',
        '{"event": "session:create", "data": {"service": "web"}}',
        "nonsense",
        b"\x10\x00\x00\x00\x01ls\n",
    ],
)
def test_nobody_passes_without_a_token(gate: Gate, hold: Hold, first: str | bytes) -> None:
    """Whatever comes first: an error frame, then the end; on record once."""

    async def story() -> None:
        ws = await Ws.open(gate, token=None)
        await ws.socket.send(first)
        assert await ws.closed() == 4401
        assert [it["event"] for it in ws.kept if isinstance(it, dict)] == ["error"]

    run(story)
    assert len(records(hold, door="websocket", decision="refused")) == 1


def test_who_says_nothing_is_sent_away(gate: Gate, hold: Hold) -> None:
    """After five seconds, with an error frame; on record once."""

    async def story() -> None:
        ws = await Ws.open(gate, token=None)
        assert await ws.closed() == 4401
        assert "within 5 s" in ws.kept[0]["data"]["data"]["message"]  # type: ignore[call-overload]

    run(story)
    assert len(records(hold, door="websocket", decision="refused")) == 1


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_pages_of_other_sites_are_refused(gate: Gate, origin: str) -> None:
    """Even with a good cookie: before the handshake is done."""
    cookie = {"Cookie": f"holdfast_{gate.port}={gate.token}"}

    async def story() -> None:
        headers = {**cookie, "Origin": origin}
        with pytest.raises(InvalidStatus) as refused:
            await Ws.open(gate, token=None, additional_headers=headers)
        assert refused.value.response.status_code == 403
        headers = {**cookie, "Origin": f"http://127.0.0.1:{gate.port}"}
        async with await Ws.open(gate, token=None, additional_headers=headers) as ws:
            await ws.event("auth:ok")

    run(story)


def test_a_rebound_name_is_refused(gate: Gate) -> None:
    """A name of somebody else's that suddenly means this machine."""

    async def story() -> None:
        cookie = {"Cookie": f"holdfast_{gate.port}={gate.token}"}
        with pytest.raises(InvalidStatus) as refused:
            await connect(
                f"ws://evil.example:{gate.port}/ws",
                host="127.0.0.1",
                port=gate.port,
                additional_headers=cookie,
            )
        assert refused.value.response.status_code == 403

    run(story)


def test_a_viewer_looks_and_does_not_type(gate: Gate, hold: Hold) -> None:
    """Output, yes; input, the keyboard and commands, no; each refusal on record once."""
    viewer = hold.cli("token", "create", "eyes", "--role", "viewer").stdout.strip()

    async def story() -> None:
        async with await Ws.open(gate, viewer) as ws:
            assert ws.hello["role"] == "viewer"
            session = (await ws.watch("web"))["sessionId"]
            assert b"hello" in (await ws.output_until(b"hello\n"))[0]
            answer = await ws.ask("terminal:input", {"sessionId": session, "data": "x\n"})
            assert answer["event"] == "error"
            assert answer["data"]["data"]["code"] == "refused"
            assert answer["data"]["sessionId"] == session
            answer = await ws.ask("terminal:take", {"sessionId": session})
            assert answer["data"]["data"]["code"] == "refused"
            answer = await ws.ask("command:execute", {"command": "stop", "services": ["web"]})
            assert answer["data"]["data"]["code"] == "refused"
            # Who may not type does not have the keyboard either.
            async with await Ws.open(gate) as other:
                assert not (await other.watch("web"))["keyboard"]

    run(story)
    refused = records(hold, door="websocket", decision="refused", actor="token eyes")
    assert [it["command"] for it in refused] == ["send_input", "send_input", "stop"]
    granted = records(hold, door="websocket", decision="allowed", actor="token eyes")
    assert [it["command"] for it in granted] == ["open_output"]


def test_a_token_limited_to_a_service(hold: Hold) -> None:
    """Neither output nor events of another one."""
    hold.services(
        web={"command": ["sh", "-c", "echo hello; exec sleep 1000"]},
        db={"command": ["sh", "-c", "echo secret; exec sleep 1000"]},
    )
    hold.up()
    token = hold.cli("token", "create", "some", "--role", "viewer", "--service", "web")
    gate = Gate(hold)

    async def story() -> None:
        async with await Ws.open(gate, token.stdout.strip()) as ws:
            await ws.watch("web")
            await ws.output_until(b"hello\n")
            answer = await ws.ask("session:create", {"service": "db"})
            assert answer["data"]["data"]["code"] == "refused"
            answer = await ws.ask("subscribe", {"since": 0})
            hold.cli("restart", "db")
            hold.cli("restart", "web")
            for _ in range(6):
                event = await ws.event("event")
                assert event["data"]["service"] == "web"

    try:
        run(story)
    finally:
        gate.close()


def test_a_revoked_token_ends_its_connections(hold: Hold) -> None:
    """Soon, and nobody else's."""
    token = hold.cli("token", "create", "soon gone", "--role", "viewer").stdout.strip()
    code = "import holdfast.gate.ws.accounts as r; r.RECHECK_SECONDS = 0.2; "
    gate = Gate(hold, before=code)

    async def story() -> None:
        ws = await Ws.open(gate, token)
        await ws.watch("web")
        await ws.output_until(b"hello\n")
        other = await Ws.open(gate)
        await asyncio.to_thread(hold.cli, "token", "revoke", "soon gone")
        assert await ws.closed() == 4401
        assert (await other.ask("ping"))["event"] == "pong"
        await other.socket.close()

    try:
        run(story)
    finally:
        gate.close()


def test_events_by_number_without_gap_or_duplicate(gate: Gate, hold: Hold) -> None:
    """Over a reconnect with the last number, and over a kill of the supervisor meanwhile."""
    seen: list[int] = []
    pid = hold.service("web")["pid"]

    async def story() -> None:
        ws = await Ws.open(gate)
        answer = await ws.ask("subscribe", {"since": 1_000_000})
        assert answer["data"]["since"] == 0, "of a history that was lost: all is news"
        for _ in range(3):
            frame = await ws.event("event")
            assert frame["seq"] == frame["data"]["seq"]
            seen.append(frame["seq"])
        await ws.socket.close()
        await asyncio.to_thread(hold.cli, "signal", "web", "CONT")
        async with await Ws.open(gate) as ws:
            await ws.ask("subscribe", {"since": seen[-1]})
            kill_9(hold.supervisor_pid)
            await asyncio.to_thread(hold.cli, "signal", "web", "CONT")
            while True:
                frame = await ws.event("event")
                seen.append(frame["seq"])
                if frame["data"]["kind"] == "supervisor:started":
                    break
            await asyncio.to_thread(hold.cli, "signal", "web", "CONT")
            last = hold.ask("events", limit=1)["last"]
            while seen[-1] < last:
                seen.append((await ws.event("event"))["seq"])

    run(story)
    assert seen == [event["seq"] for event in hold.ask("events", since=0, limit=1000)["events"]]
    assert hold.service("web")["pid"] == pid


def test_a_subscription_is_paced_and_ended(gate: Gate, hold: Hold) -> None:
    """Beyond `bufferSize` nothing comes before it is acknowledged."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            answer = await ws.ask("subscribe", {"since": 0, "bufferSize": 1, "flushInterval": 5})
            number, size = answer["data"]["subscription"], answer["data"]["bufferSize"]
            assert (size, answer["data"]["flushInterval"]) == (4096, 5.0)
            for _ in range(60):
                hold.ask("signal", services=["web"], signal="CONT")
            await ws.ask("ping")
            await asyncio.sleep(0.3)
            await ws.ask("ping")
            first = [it for it in ws.kept if isinstance(it, dict) and it["event"] == "event"]
            sizes = [len(json.dumps(it, separators=(",", ":"))) for it in first]
            assert sum(sizes[:-1]) <= size, sizes
            await ws.send("ack", {"subscription": number, "bytes": sum(sizes)})
            ws.kept.clear()
            assert (await ws.event("event"))["seq"] == len(first) + 1
            answer = await ws.ask("unsubscribe", {"subscription": number})
            assert answer["event"] == "unsubscribed"
            answer = await ws.ask("unsubscribe", {"subscription": number})
            assert answer["event"] == "error"

    run(story)


def test_a_room_hears_of_alerts(gate: Gate, hold: Hold) -> None:
    """Every connection of the same actor, without asking."""

    async def story() -> None:
        def looked() -> int:
            return int(hold.ask("metrics")["supervisor"]["commands"].get("events", 0))

        before = looked()
        one, other = await Ws.open(gate), await Ws.open(gate)
        # The room asks for the number of the newest event, and follows from there on.
        await asyncio.to_thread(wait_for, lambda: looked() >= before + 2)
        hold.write(
            {
                "services": {
                    "web": ["sleep", "1000"],
                    "bad": {"command": ["false"], "start_retries": 0},
                }
            }
        )
        await asyncio.to_thread(hold.cli, "up", "-d", expect=None)
        frames = [await ws.event("alert:raised") for ws in (one, other)]
        assert frames[0] == frames[1]
        assert frames[0]["room"] == "user:token first admin"
        assert frames[0]["data"]["service"] == "bad"
        for ws in (one, other):
            await ws.socket.close()

    run(story)


def test_limits(gate: Gate) -> None:
    """Of sessions and requests; a frame that is too large ends the connection."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            for _ in range(64):
                await ws.watch("web", tail=0)
            answer = await ws.ask("session:create", {"service": "web"})
            assert answer["data"]["data"]["code"] == "too_many_requests"
            session = next(it for it in ws.kept if isinstance(it, dict))
            named = {"sessionId": session["data"]["sessionId"]}
            assert (await ws.ask("session:close", named))["event"] == "session:closed"
            await ws.watch("web", tail=0)
            waiting = {"command": "wait", "service": "web", "condition": "exited"}
            for number in range(40):
                await ws.send("command:execute", waiting, id=f"w{number}")
            refused = await ws.event("error")
            assert refused["data"]["data"]["code"] == "too_many_requests"
            await ws.socket.send("x" * (1024 * 1024 + 1))
            assert await ws.closed() == 1009

    run(story)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "[]",
        "1",
        '{"event": 1}',
        '{"event": "nonsense"}',
        '{"event": "session:create", "data": {"service": "web", "cursor": "nonsense"}}',
        '{"event": "session:create", "data": {"service": "web", "offset": -1}}',
        '{"event": "session:create", "data": {"service": "web", "colour": 1}}',
        '{"event": "session:close", "data": {"sessionId": "session-none"}}',
        '{"event": "terminal:input", "data": {"sessionId": "x", "data": 1}}',
        '{"event": "terminal:resize", "data": {"sessionId": "x", "cols": "many", "rows": 1}}',
        '{"event": "ack"}',
        '{"event": "auth", "data": {"token": "again"}}',
        b"",
        b"\x10\x00\x00\x00\x09x",
        b"\x01\x00\x00\x00\x01x",
    ],
)
def test_what_cannot_be_understood_is_said(lasting_gate: Gate, frame: str | bytes) -> None:
    """And the connection goes on."""

    async def story() -> None:
        async with await Ws.open(lasting_gate) as ws:
            await ws.socket.send(frame)
            error = (await ws.event("error"))["data"]["data"]
            assert error["code"] == "usage"
            assert error["message"]
            assert (await ws.ask("ping"))["event"] == "pong"

    run(story)


def test_the_reference_is_complete() -> None:
    """Every event and field of a client, every close code, every limit."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "websocket.md").read_text()
    fields = {
        field.encode_name
        for kind in (frames.CreateSession, frames.Subscribe, frames.TakeKeyboard, frames.Ack)
        for field in msgspec.structs.fields(kind)
    }
    codes = (door.UNAUTHORIZED, door.TOO_MANY, door.NO_SUPERVISOR)
    limits = (
        dispatcher.MOST_SESSIONS,
        dispatcher.MOST_SUBSCRIPTIONS,
        dispatcher.MOST_REQUESTS,
        accounts.MOST_CONNECTIONS,
    )
    for word in (*dispatcher.EVENTS, *fields, *codes, *limits):
        assert re.search(rf"\b{word}\b", page), word


async def received(ws: Ws) -> AsyncIterator[str | bytes]:
    """Everything that comes before the end, however the connection ends."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            yield await ws.socket.recv()


def test_a_gate_that_is_replaced_answers_first(gate: Gate) -> None:
    """What was asked is answered, what takes long is not waited for, and whoever is silent is told
    to come again: all are closed with 1012, by the gate and not by its end."""

    async def story() -> None:
        async with await Ws.open(gate) as ws, await Ws.open(gate, None) as stranger:
            waiting = {"command": "wait", "service": "web", "condition": "log:never"}
            await ws.send("command:execute", {**waiting, "timeout": 0.5}, id="short")
            await ws.send("command:execute", {**waiting, "timeout": 60}, id="long")
            for number in range(20):
                await ws.send("command:execute", {"command": "status"}, id=number)
            await ws.ask("ping")
            gate.process.terminate()
            seen = {frame.get("id") for frame in ws.kept if isinstance(frame, dict)}
            seen |= {json.loads(text).get("id") async for text in received(ws)}
            assert ws.socket.close_code == 1012
            assert seen >= {"short", *range(20)}
            assert "long" not in seen
            with pytest.raises(ConnectionClosed):
                await stranger.socket.recv()
            assert stranger.socket.close_code == 1012
        assert await asyncio.to_thread(gate.process.wait, 30) is not None

    try:
        run(story)
    finally:
        gate.kill()
        gate.replace()
