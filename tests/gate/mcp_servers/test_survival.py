"""Kill -9 under a call: the server goes on, nothing is done twice, and no outcome is guessed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError, OutcomeUnknown
from tests.gate.mcp.conftest import text_of
from tests.gate.mcp_servers.conftest import GatewayHold
from tests.harness import kill_9, wait_for

ROUNDS = 6
"""Of kills of each process; the benchmark does hundreds."""


@pytest.fixture(scope="module")
def hold() -> Iterator[GatewayHold]:
    with GatewayHold(counter={"call_timeout": "12s"}) as made:
        made.up()
        made.await_listing()
        yield made


def kill_gate(hold: GatewayHold) -> None:
    kill_9(hold.gate_pid())


def kill_supervisor(hold: GatewayHold) -> None:
    kill_9(hold.supervisor_pid)


def kill_keeper(hold: GatewayHold) -> None:
    kill_9(hold.status()["supervisor"]["keeper_pid"])


@pytest.mark.parametrize("kill", [kill_gate, kill_supervisor, kill_keeper])
def test_a_call_outlives_the_death_of_a_part(
    hold: GatewayHold, kill: Callable[[GatewayHold], None]
) -> None:
    """The server keeps its process and its handshake; the call is answered or said to be unknown,
    a call that only reads is answered, and what was done was done once."""
    ledger = len(hold.lines())
    texts: dict[str, str] = {}

    async def story(client: Any) -> None:
        tools = (await client.list_tools()).tools
        pid = text_of(await client.call_tool("counter__whoami", {}))
        for number in range(ROUNDS):
            name = f"{kill.__name__} {number}"
            given = {"text": name, "seconds": 0.5}
            adding = asyncio.ensure_future(client.call_tool("counter__add", given))
            reading = asyncio.ensure_future(client.call_tool("counter__read", {"seconds": 0.5}))
            await asyncio.sleep(0.25)
            await asyncio.to_thread(kill, hold)
            done, read = await adding, await reading
            texts[name] = text_of(done)
            assert text_of(read) == "read"
            assert text_of(await client.call_tool("counter__whoami", {})) == pid
            listed = (await client.list_tools()).tools
            assert [tool.model_dump() for tool in listed] == [t.model_dump() for t in tools]

    hold.talk(story)
    added = [line for line in hold.lines()[ledger:] if line != "read"]
    assert len(added) == len(set(added)), "something was done twice"
    for name, text in texts.items():
        assert text == f"added {name}" or "unknown" in text or "lost" in text, text
        if text == f"added {name}":
            assert name in added
    assert hold.handshakes() == 1


def test_a_server_that_dies_under_a_call_that_changes(hold: GatewayHold) -> None:
    """Nobody knows whether it was done, and it is said so, with exit code and last lines."""
    with pytest.raises(OutcomeUnknown, match=r"during the call \(exit 3\)") as unknown:
        hold.call("counter__die", code=3)
    assert unknown.value.details["last_lines"][-1] == "about to end"
    assert hold.lines().count("died") == 1
    assert hold.text("counter__add", text="on") == "added on"

    async def story(client: Any) -> None:
        died = await client.call_tool("counter__die", {"code": 4})
        assert died.is_error
        assert "(exit 4); whether it was done is unknown" in text_of(died)
        assert "about to end" in text_of(died)

    hold.talk(story)


def test_a_server_that_dies_under_a_call_that_only_reads(hold: GatewayHold) -> None:
    """The call is repeated once, when the server is there again."""
    marker = hold.project / "marker"
    assert hold.text("counter__die_once", marker=str(marker)) == "alive again"


def test_a_call_that_takes_too_long(hold: GatewayHold) -> None:
    """Is cancelled, and its outcome is unknown."""
    with pytest.raises(HoldfastError, match="did not answer within") as late:
        hold.call("counter__add", text="late", seconds=60)
    assert late.value.code == "unknown_outcome"


def test_tools_stay_listed_while_a_server_cannot_be_started() -> None:
    """What was approved is listed from the disk, and a call says why it cannot be made."""
    with GatewayHold() as hold:
        hold.up()
        hold.await_listing()
        before = hold.ask("mcp_tools")["tools"]
        hold.cli("down")
        hold.declare(counter={"env": {"BROKEN": "1"}, "call_timeout": "2s"})
        hold.up()
        assert hold.ask("mcp_tools")["tools"] == before
        wait_for(lambda: hold.ask("mcp_servers")["gate"])
        with pytest.raises(HoldfastError, match="counter could not be asked in time"):
            hold.call("counter__add", text="never")
        assert hold.lines() == []
