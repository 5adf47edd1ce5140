"""An MCP server is a service: started when needed, asked by its protocol, stopped when idle."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError
from tests.gate.mcp.conftest import text_of
from tests.gate.mcp_servers.conftest import GatewayHold
from tests.harness import is_alive, kill_9, wait_for


def test_its_tools_are_listed_and_called(counter: GatewayHold) -> None:
    """Through the command line's door, and through an assistant's, beside Holdfast's own."""
    assert counter.server()["tools"] == 12
    answer = counter.call("counter__add", text="by hand")
    assert answer["outcome"] == "done"
    assert answer["result"]["content"] == [{"type": "text", "text": "added by hand"}]

    async def story(client: Any) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"status", "counter__add", "counter__read"} <= names
        done = await client.call_tool("counter__add", {"text": "by an assistant"})
        assert text_of(done) == "added by an assistant"

    counter.talk(story)
    assert counter.lines()[-2:] == ["by hand", "by an assistant"]


def test_a_person_uses_it_at_a_terminal(counter: GatewayHold) -> None:
    """`mcp servers`, `mcp tools`, `mcp call`, and `status` and `logs` as of any service."""
    assert "counter" in counter.cli("mcp", "servers").stdout
    found = counter.cli("mcp", "tools", "add", "line").stdout
    assert found.startswith("counter__add(text?: str")
    whole = counter.cli("mcp", "tools", "counter__add").stdout
    assert '"inputSchema"' in whole
    called = counter.cli("mcp", "call", "counter__add", '{"text": "typed"}')
    assert called.stdout == "added typed\n"
    assert counter.service("counter")["status"] == "running"
    counter.call("counter__noise", bytes=10)
    wait_for(lambda: "xxxxxxxxxx" in counter.cli("logs", "counter").stdout)
    wrong = counter.cli("mcp", "call", "counter__ad", expect=None)
    assert wrong.returncode == 3
    assert 'did you mean "counter__add"?' in wrong.stderr


def test_another_service_is_no_server(counter: GatewayHold) -> None:
    """What is about one MCP server says so of a service that is none."""
    counter.cli("run", "--name", "plain", "--", "sleep", "300")
    for command in ("approve_mcp_tools", "logout_mcp_server"):
        with pytest.raises(HoldfastError, match="plain is no MCP server"):
            counter.ask(command, service="plain")
    counter.cli("rm", "plain")


def test_wrong_arguments_are_not_sent(counter: GatewayHold) -> None:
    """What does not fit the schema is refused with the signature; what is clear is put right."""
    before = counter.lines()
    with pytest.raises(HoldfastError) as refused:
        counter.call("counter__add", text=5)
    assert "counter__add(text?: str" in refused.value.hint
    assert counter.lines() == before
    assert counter.text("counter__add", arguments={"text": "wrapped"}) == "added wrapped"


def test_its_environment_is_clean(counter: GatewayHold) -> None:
    """It gets what is declared, and of the caller's environment only what every program needs."""
    names = set(counter.text("counter__env").split())
    assert "LEDGER" in names
    assert not {"XDG_STATE_HOME", "HOLDFAST_HTTP", "PYTHONPATH"} & names


def test_much_on_standard_error_blocks_nothing(counter: GatewayHold) -> None:
    """A megabyte on standard error is recorded while the protocol goes on."""
    assert counter.text("counter__noise", bytes=1_000_000) == "done"
    assert counter.text("counter__add", text="after") == "added after"


def test_calls_are_on_record(counter: GatewayHold) -> None:
    """Each call is one record: the tool, what came of it, and no secret among the arguments."""
    since = counter.ask("audit", limit=1)["records"][-1]["seq"]
    counter.call("counter__add", text="password=hunter2hunter2")
    found = counter.ask("audit", since=since)["records"]
    (record,) = [one for one in found if one["command"] == "call_mcp_tool"]
    assert record["arguments"]["tool"] == "counter__add"
    assert record["result"]["outcome"] == "done"
    assert "hunter2" not in str(record)


def test_it_is_stopped_when_idle_and_started_by_a_call() -> None:
    """Its tools stay listed meanwhile."""
    with GatewayHold(counter={"idle_stop": "300ms"}) as hold:
        hold.up()
        hold.await_listing()
        wait_for(lambda: hold.service("counter")["status"] == "stopped")
        assert hold.server()["notes"] == ["idle"]
        assert hold.server()["tools"] == 12
        assert hold.text("counter__add", text="awake") == "added awake"
        assert hold.lines() == ["awake"]


def test_a_server_that_hangs_is_replaced() -> None:
    """It lives, but does not answer the protocol: three checks fail, and it is restarted."""
    with GatewayHold(counter={"check_interval": "200ms", "check_timeout": "300ms"}) as hold:
        hold.up()
        hold.await_listing()
        first = hold.text("counter__whoami")
        os.kill(int(first), signal.SIGSTOP)
        wait_for(lambda: hold.service("counter")["pid"] not in (None, int(first)), 60)
        assert hold.text("counter__whoami") != first


def test_a_broken_server_is_given_up_after_four_restarts() -> None:
    """After 1, 2, 4 and 8 seconds; then a call says so at once, and others are not affected."""
    with GatewayHold(broken={"env": {"BROKEN": "1"}}, counter={}) as hold:
        hold.up()
        hold.await_listing()
        began = time.monotonic()
        wait_for(lambda: hold.service("broken")["status"] == "backoff")
        assert hold.text("counter__add", text="fine") == "added fine"
        wait_for(lambda: hold.service("broken")["status"] == "failed", 60)
        assert time.monotonic() - began > 10
        events = hold.ask("events", limit=1000)["events"]
        delays = [
            event["data"]["delay"]
            for event in events
            if event["kind"] == "service:restart_scheduled" and event["service"] == "broken"
        ]
        assert [round(delay) for delay in delays[:3]] == [1, 2, 4]
        assert len(delays) == 4
        assert hold.server("broken")["state"] == "failed"


def test_the_session_of_an_assistant_has_its_own_instance() -> None:
    """With `scope: session`: another process for each, gone when the session is over."""
    with GatewayHold(counter={"scope": "session", "max_instances": 2}) as hold:
        hold.up()
        hold.await_listing()
        pids: list[str] = []

        async def story(client: Any) -> None:
            first = await client.call_tool("counter__whoami", {})
            second = await client.call_tool("counter__whoami", {})
            assert text_of(first) == text_of(second)
            pids.append(text_of(first))

        hold.talk(story)
        hold.talk(story)
        assert len(set(pids)) == 2
        assert hold.server()["instances"] == ["counter@1", "counter@2"]
        third = hold.ask("open_session", client="third")["token"]
        with pytest.raises(HoldfastError, match="2 sessions already"):
            hold.ask(
                "call_mcp_tool", tool="counter__whoami", caller={"token": third, "door": "mcp"}
            )
        for one in hold.ask("list_sessions")["sessions"]:
            hold.ask("close_session", session=one["session"])
        wait_for(lambda: hold.server()["instances"] == [])


def test_killed_while_idle_it_is_there_for_the_next_call() -> None:
    """A call that was not sent may always be sent."""
    with GatewayHold() as hold:
        hold.up()
        hold.await_listing()
        for number in range(3):
            pid = hold.service("counter")["pid"]
            kill_9(pid)
            wait_for(lambda pid=pid: not is_alive(pid))
            assert hold.text("counter__add", text=str(number)) == f"added {number}"
            wait_for(lambda: hold.service("counter")["status"] == "running")
        assert hold.lines() == ["0", "1", "2"]
