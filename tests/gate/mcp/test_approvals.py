"""A policy that wants confirmation: the person at the client is asked, and nobody else approves."""

from __future__ import annotations

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
    assert "waiting for approval" in person.asked[0]
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
        hold.ask("approve", approval=pending["approval"])
        wait_for(lambda: hold.service("web")["pid"] not in (before, None))

    hold.talk(story)
