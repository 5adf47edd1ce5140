"""A line outlives the supervisor and the gate; what was asked is done once."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.client.channel import Caller
from holdfast.client.connection import Connection
from holdfast.gate.mcp.call import ToolCall
from tests.gate.mcp.conftest import ERAS, McpHold, quick, text_of
from tests.harness import PYTHON, kill_9, wait_for

FLOOD = "import sys; sys.stdout.write(('y' * 99 + '\\n') * 1_000_000); print('the end')"


@pytest.fixture
def hold() -> Iterator[McpHold]:
    with McpHold({"run": True}) as made:
        made.make_repository()
        made.up()
        yield made


@pytest.mark.parametrize("era", ERAS)
def test_the_next_call_answers(hold: McpHold, era: str) -> None:
    """After a kill of the supervisor, of the gate, and of both; cursors stay valid, too."""

    async def story(client: Any) -> None:
        logs = text_of(await client.call_tool("logs", {"name": "web"}))
        cursor = logs.rsplit(" ", 1)[1]
        for victims in (("supervisor",), ("gate",), ("supervisor", "gate")):
            pids = {"supervisor": hold.supervisor_pid, "gate": hold.gate_pid()}
            for name in victims:
                kill_9(pids[name])
            status = await client.call_tool("status", {})
            assert "web  running" in text_of(status), victims
            read_on = await client.call_tool("logs", {"name": "web", "cursor": cursor})
            assert text_of(read_on).startswith("-- 0 lines"), victims
        commit = {"op": "commit", "message": "once"}
        (hold.project / "a.txt").write_text("changed\n")
        kill_9(hold.gate_pid())
        done = await client.call_tool("git_change", {**commit, "paths": ["a.txt"]})
        assert not done.is_error, text_of(done)
        log = text_of(await client.call_tool("git", {"op": "log"}))
        assert log.count("once") == 1

    hold.talk(story, era=era)


def test_a_hundred_megabytes_are_bounded(hold: McpHold) -> None:
    """Read from either end in little time and few bytes."""

    async def story(client: Any) -> None:
        run = {"argv": [PYTHON, "-I", "-S", "-c", FLOOD], "name": "flood", "timeout_s": 50}
        done = text_of(await client.call_tool("run", run))
        assert len(done.encode()) < 9_000
        tail = text_of(await client.call_tool("logs", {"name": "flood", "tail": 2000}))
        assert "the end" in tail
        assert len(tail.encode()) < 9_000
        cursor = "P0"
        for _ in range(3):
            given = {"name": "flood", "cursor": cursor, "max_bytes": 64_000, "tail": 2000}
            shown = text_of(await client.call_tool("logs", given))
            assert len(shown.encode()) <= 64_000
            last, cursor = cursor, shown.rsplit(" ", 1)[1]
            assert cursor != last

    hold.talk(story)


def test_a_session_is_held_and_ends(hold: McpHold) -> None:
    """While somebody speaks; what it started is told with its call, and outlives the goodbye."""
    before = {one["session"] for one in hold.ask("list_sessions")["sessions"]}

    def sessions() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = hold.ask("list_sessions")["sessions"]
        return [one for one in found if one["session"] not in before]

    async def looks(client: Any) -> None:
        await client.call_tool("status", {})
        (mine,) = sessions()
        assert mine["held"] is True
        kill_9(hold.supervisor_pid)
        await client.call_tool("status", {})
        wait_for(lambda: sessions()[0]["held"], what="held again")

    hold.talk(looks)
    wait_for(lambda: not sessions(), what="a session that owns nothing ends at once")

    async def runs(client: Any) -> None:
        await client.call_tool("run", {"argv": ["sleep", "300"], "name": "nap", "timeout_s": 0.1})

    hold.talk(runs)
    assert wait_for(sessions)[0]["owns"] == ["nap"]
    owner = hold.service("nap")["owner"]
    assert owner["call"].startswith("run argv=")


def test_a_link_that_ends_answers_for_nobody(hold: McpHold) -> None:
    """What was asked is asked again, here in another session; the client is told of neither."""

    async def story(client: Any) -> None:
        given = {"names": ["web"], "until": "exit", "timeout_s": 3}
        waiting = asyncio.ensure_future(client.call_tool("wait", given))
        await asyncio.sleep(0.5)
        (mine,) = hold.ask("list_sessions")["sessions"]
        hold.ask("close_session", session=mine["session"])
        assert "NOT met" in text_of(await waiting)

    hold.talk(story)


def test_a_call_that_is_repeated_takes_no_longer_for_that() -> None:
    """Clients give up after a minute; what was waited before counts."""
    client: Any = SimpleNamespace(caller=Caller("token", "mcp"))
    assert ToolCall(client, "wait", None).remaining(50) == 50
    assert ToolCall(client, "wait", None, began=time.monotonic()).remaining(50) == 50
    repeated = ToolCall(client, "wait", None, began=time.monotonic() - 40)
    assert 9 < repeated.remaining(50) <= 10
    assert repeated.remaining(25) == 0
    for odd in ("x", True, -1.0, 1e300, float("nan")):
        assert ToolCall(client, "wait", None, began=odd).remaining(50) == 50


def test_an_old_connection_does_not_end_the_session_of_a_new_one(hold: McpHold) -> None:
    """A relay that connected again has left one behind, which may be noticed only later."""
    token = hold.ask("open_session", client="x")["token"]
    hold.gate_pid()

    def joined() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(str(hold.runtime / "mcp.sock"))
        sock.sendall(json.dumps({"token": token}).encode() + b"\n")
        assert json.loads(sock.makefile().readline())["ok"] is True
        return sock

    with joined() as old, joined() as new:
        old.close()
        new.settimeout(1)
        with pytest.raises(TimeoutError):
            new.recv(100)
        assert len(hold.ask("list_sessions")["sessions"]) == 1
    wait_for(lambda: not hold.ask("list_sessions")["sessions"], what="the last one ends it")
    token = hold.ask("open_session", client="x")["token"]
    caller = {"token": token, "door": "mcp"}
    with joined() as old:
        # The next connection of the relay has just been greeted, by this gate or the next one.
        next_gate = Connection(str(hold.runtime / "line.sock"))
        held = next_gate.stream("hold_session", caller=caller)
        assert next(held)["hold"]
        old.close()
        wait_for(lambda: left(hold), what="the old one to leave")
        assert hold.ask("renew_session", caller=caller)["session"]["held"]
        next_gate.close()


def left(hold: McpHold) -> bool:
    """Whether a session was left without being closed."""
    records = hold.ask("audit", about="close_session")["records"]
    return bool(records) and records[-1].get("result", {}).get("goes_on") is True


def test_the_audit_has_each_command_as_itself(hold: McpHold) -> None:
    """With the door, the client and the role; a tool is no command."""

    async def story(client: Any) -> None:
        await client.call_tool("control", {"action": "restart", "names": ["web"]})

    hold.talk(story)
    records = hold.ask("audit", about="restart")["records"]
    assert records[-1]["door"] == "mcp"
    assert records[-1]["role"] == "agent"


def refused(hold: McpHold) -> str:
    """What a call of an assistant is told that cannot come in."""

    async def story(client: Any) -> str:
        told = await client.call_tool("status", {})
        assert told.is_error
        return text_of(told)

    return str(hold.talk(story))


@pytest.mark.parametrize("era", ERAS)
def test_an_assistant_may_come_first(hold: McpHold, era: str) -> None:
    """Where nothing runs it has its tools at once, as configured; a call is told what to do, and
    the next one answers when Holdfast runs."""
    hold.cli("down", "--now")

    async def story(client: Any) -> None:
        began = time.monotonic()
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert time.monotonic() - began < 10
        assert "run" in tools
        assert "send" not in tools
        assert (await client.list_resources()).resources == []
        assert "holdfast up" in text_of(await client.call_tool("status", {}))
        await asyncio.to_thread(hold.up)
        assert "web  running" in text_of(await client.call_tool("status", {}))

    hold.talk(story, era=era)


def test_a_reload_tells_of_other_tools(hold: McpHold) -> None:
    """The client lists them anew, and can use them."""
    told = asyncio.Event()

    async def on_message(message: Any) -> None:
        if "ToolListChanged" in type(getattr(message, "root", message)).__name__:
            told.set()

    async def story(client: Any) -> None:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert "send" not in tools
        await client.call_tool("status", {})
        written = json.loads((hold.project / "holdfast.json").read_text())
        hold.write({**written, "mcp": {"run": True, "send": True}})
        await asyncio.to_thread(hold.cli, "reload")
        await asyncio.wait_for(told.wait(), 50)
        assert "send" in {tool.name for tool in (await client.list_tools()).tools}

    hold.talk(story, message_handler=on_message)


def test_a_mere_run_lets_assistants_in() -> None:
    """Without a configuration: the first assistant opens the gate, and sees what runs."""
    with McpHold() as hold:
        (hold.project / "holdfast.json").unlink()
        hold.environ["HOLDFAST_HTTP_PORT"] = "0"
        hold.cli("run", "--name", "nap", "--", "sleep", "1000")

        async def story(client: Any) -> None:
            assert re.search("^nap +running", text_of(await client.call_tool("status", {})))

        hold.talk(story)
        kill_9(hold.supervisor_pid)
        hold.talk(story)


def test_the_door_is_shut() -> None:
    """Where the configuration lets no assistant in, that is said soon, and what to change."""
    with McpHold({"enabled": False}) as hold:
        hold.up()
        assert "mcp: {enabled: false}" in refused(hold)


def test_it_may_start_holdfast(hold: McpHold) -> None:
    """With --start, as `holdfast up -d` would, and without a word on its line."""
    hold.cli("down", "--now")

    async def story(client: Any) -> None:
        waited = await client.call_tool("wait", {"names": ["web"]})
        assert "web: met" in text_of(waited)

    hold.talk(story, "--start")


def test_programs_can_be_listed() -> None:
    """Only what begins so is run; another environment is refused then."""
    with McpHold({"run": ["echo hi", "true"]}, web=quick(["sleep", "1000"])) as hold:
        hold.up()

        async def story(client: Any) -> None:
            assert "hi you" in text_of(
                await client.call_tool("run", {"argv": ["echo", "hi", "you"]})
            )
            refused = await client.call_tool("run", {"argv": ["echo", "bye"]})
            assert "allows only echo hi, true" in text_of(refused)
            other = {"argv": ["true"], "env": {"LD_PRELOAD": "x.so"}}
            assert (await client.call_tool("run", other)).is_error

        hold.talk(story)
