"""Sessions of commands over `/ws`: what a client has run, and what it is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.gate.conftest import Gate
from tests.gate.ws.client import Ws, content
from tests.harness import Hold, is_alive, wait_for


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(story(), 120)

    asyncio.run(bounded())


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Hold() as hold:
        hold.write(
            {
                "commands": {"allowed_types": ["binary", "shell"]},
                "services": {
                    "web": {"command": ["sleep", "1000"], "start_seconds": 0},
                    "never": {"command": ["sleep", "1000"], "autostart": False},
                },
            }
        )
        hold.up()
        made = Gate(hold)
        yield made
        made.close()


async def messages_until_end(ws: Ws, session: str) -> list[dict[str, Any]]:
    """Everything of a session up to the end of its command."""
    found = []
    while True:
        frame = await ws.frame(
            lambda it: isinstance(it, dict) and it["event"] in ("output", "status", "error")
        )
        message = frame["data"]
        assert message["sessionId"] == session, frame
        found.append(message)
        if message["type"] == "error" or message["data"].get("state") in ("completed", "failed"):
            return found


def test_a_session_is_created_with_a_command(gate: Gate) -> None:
    """Its output streams to the `sessionId`, then its end comes with the exit code."""
    asked = {"command": "sh", "args": ["-c", "echo out $A; pwd; echo err >&2; exit 3"]}

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            answer = await ws.ask("session:create", {**asked, "env": {"A": "1"}})
            assert answer["event"] == "session:created"
            session = answer["data"]["sessionId"]
            assert session.startswith("session-")
            found = await messages_until_end(ws, session)
        assert found[0]["data"] == {"state": "running"}
        told = {"stdout": b"", "stderr": b""}
        for one in found:
            if one["type"] == "output":
                told[one["data"]["stream"]] += content(one)
            assert isinstance(one["timestamp"], int)
        assert told["stdout"].startswith(b"out 1\n")
        assert told["stderr"] == b"err\n"
        assert found[-1]["data"]["state"] == "failed"
        assert found[-1]["data"]["exitCode"] == 3

    run(story)


def test_commands_follow_each_other_in_one_session(gate: Gate) -> None:
    """`session:create`, then `command:execute` with its id; one at a time."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            session = (await ws.ask("session:create", {}))["data"]["sessionId"]
            for word in ("one", "two"):
                wanted = {"sessionId": session, "command": f"echo {word}"}
                answer = await ws.ask("command:execute", wanted)
                assert answer["event"] == "command:result", answer
                assert answer["data"]["result"]["outcome"] == "done"
                found = await messages_until_end(ws, session)
                assert content(found[1]) == f"{word}\n".encode()
                assert found[-1]["data"] == {"state": "completed", "exitCode": 0}
            await ws.send(
                "command:execute", {"sessionId": session, "command": "sleep 1000"}, id="x"
            )
            await ws.event("status")
            answer = await ws.ask("command:execute", {"sessionId": session, "command": "true"})
            assert answer["data"]["data"]["code"] == "refused"
            strange = await ws.ask("command:execute", {"sessionId": "no", "command": "true"})
            assert strange["data"]["data"]["code"] == "usage"

    run(story)


def test_who_closes_or_leaves_ends_the_command(gate: Gate) -> None:
    """With its whole tree."""
    pids = gate.hold.project / "pids"

    def is_gone() -> bool:
        return not any(is_alive(int(word)) for word in pids.read_text().split())

    asked = {"command": "sh", "args": ["-c", f"setsid sleep 300 & echo $! $$ > {pids}; wait"]}

    async def begin(ws: Ws) -> str:
        pids.unlink(missing_ok=True)
        session: str = (await ws.ask("session:create", asked))["data"]["sessionId"]
        await asyncio.to_thread(wait_for, lambda: pids.exists() and pids.read_text().strip())
        return session

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            session = await begin(ws)
            answer = await ws.ask("session:close", {"sessionId": session})
            assert answer["event"] == "session:closed"
            await asyncio.to_thread(wait_for, is_gone)
            await begin(ws)
        await asyncio.to_thread(wait_for, is_gone)

    run(story)


def test_the_settings_and_the_role_decide(gate: Gate) -> None:
    """A viewer runs nothing; a type that is not allowed is refused, with the setting."""
    viewer = gate.hold.ask("create_token", token_name="eyes", role="viewer")["text"]

    async def story() -> None:
        async with await Ws.open(gate, viewer) as ws:
            session = (await ws.ask("session:create", {"command": "true"}))["data"]["sessionId"]
            (error,) = await messages_until_end(ws, session)
            assert error["data"]["code"] == "refused"
        async with await Ws.open(gate) as ws:
            wanted = {"command": "true", "colour": 1}
            assert (await ws.ask("session:create", wanted))["data"]["data"]["code"] == "usage"

    run(story)


def test_metrics_and_states_in_the_words_of_other_programs(gate: Gate) -> None:
    """The fields of usage beside ours; a service that was never started is not told as running."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            created = await ws.watch("web", metrics=1)
            while True:
                data = (await ws.event("metrics"))["data"]["data"]
                if data.get("cpu") is not None:
                    break
            assert data["memory"] == data["memory_bytes"]
            names = {"bytesRead", "bytesWritten", "userTime", "systemTime", "startTime", "custom"}
            assert names <= data.keys()
            await ws.ask("session:close", {"sessionId": created["sessionId"]})
            never = await ws.watch("never")
            assert never["status"] == "pending"
            assert (await ws.ask("ping"))["event"] == "pong"
            about = [
                one
                for one in ws.kept
                if isinstance(one, dict) and one["data"].get("sessionId") == never["sessionId"]
            ]
            assert [one for one in about if one["event"] == "status"] == []
            gate.hold.ask("start", services=["never"])
            states = []
            while "running" not in states:
                message = (await ws.event("status"))["data"]
                if message["sessionId"] == never["sessionId"]:
                    states.append(message["data"]["status"])

    run(story)
