"""A policy that wants confirmation: the person at the client is asked, and nobody else approves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_types import ElicitResult

from tests.gate.mcp.conftest import ERAS, McpHold, quick, text_of
from tests.harness import wait_for

RESTART = {"action": "restart", "names": ["web"], "wait_s": 2}


@pytest.fixture(scope="module")
def hold() -> Iterator[McpHold]:
    with McpHold() as made:
        made.write(
            {
                "http_port": 0,
                "runtime_mode": "advanced",
                "policies": [{"effect": "confirm", "roles": ["agent"], "commands": ["restart"]}],
                "services": {"web": quick(["sleep", "1000"])},
            }
        )
        made.up()
        yield made


class Person:
    """Answers what the client is asked."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        content = {"confirm": True} if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)  # type: ignore[arg-type]


@pytest.mark.parametrize("era", ERAS)
def test_who_says_yes_approves(hold: McpHold, era: str) -> None:
    """It is done once, and the audit says who approved."""
    person, before = Person("accept"), hold.service("web")["pid"]

    async def story(client: Any) -> None:
        done = await client.call_tool("control", RESTART)
        assert "restarted" in text_of(done), text_of(done)

    hold.talk(story, era=era, elicitation_callback=person)
    assert len(person.asked) == 1
    assert re.search("waiting for approval: .*mcp.* wants restart of web", person.asked[0])
    assert hold.service("web")["pid"] != before
    records = hold.ask("audit", about="approve")["records"]
    assert records[-1]["role"] == "owner"


@pytest.mark.parametrize("era", ERAS)
def test_who_says_no_rejects(hold: McpHold, era: str) -> None:
    """Nothing is done, and the model is told."""
    person, before = Person("decline"), hold.service("web")["pid"]

    async def story(client: Any) -> None:
        refused = await client.call_tool("control", RESTART)
        assert refused.is_error
        assert "reject" in text_of(refused), text_of(refused)

    hold.talk(story, era=era, elicitation_callback=person)
    assert hold.service("web")["pid"] == before


def test_a_client_that_cannot_ask_is_told_whom_to_ask(hold: McpHold) -> None:
    """The request waits on; somebody approves it elsewhere."""

    before = hold.service("web")["pid"]

    async def story(client: Any) -> None:
        waiting = await client.call_tool("control", RESTART)
        assert "holdfast approve approval-" in text_of(waiting), text_of(waiting)
        (pending,) = hold.ask("approvals")["waiting"]
        names = [pending["approval"]]
        told = text_of(await client.call_tool("status", {"names": names}))
        assert f"{names[0]}: restart is waiting for" in told
        again = text_of(await client.call_tool("control", RESTART))
        assert names[0] in again, "the same call joins the request"
        assert len(hold.ask("approvals")["waiting"]) == 1
        hold.ask("approve", approval=names[0])
        await asyncio.to_thread(
            wait_for, lambda: hold.ask("approvals")["over"][0].get("outcome") is not None
        )
        assert hold.service("web")["pid"] not in (before, None)
        told = text_of(await client.call_tool("status", {"names": [*names, "web"]}))
        assert f"{names[0]}: restart is approved by uid " in told
        assert ": done\n" in told
        assert "web  " in told

        async def other(second: Any) -> None:
            unknown = await second.call_tool("status", {"names": names})
            assert "you asked for no approval" in text_of(unknown)

        await asyncio.to_thread(hold.talk, other)

    hold.talk(story)


@pytest.mark.parametrize("era", ERAS)
def test_a_call_that_is_cancelled_is_withdrawn(hold: McpHold, era: str) -> None:
    """Nobody can approve it any more."""

    async def story(client: Any) -> None:
        given = {**RESTART, "wait_s": 40}
        calling = asyncio.ensure_future(client.call_tool("control", given))
        found = await asyncio.to_thread(wait_for, lambda: hold.ask("approvals")["waiting"])
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await asyncio.to_thread(wait_for, lambda: not hold.ask("approvals")["waiting"])
        over = hold.ask("approvals")["over"][0]
        assert (over["approval"], over["state"]) == (found[0]["approval"], "withdrawn")

    hold.talk(story, era=era)
