"""Resources, prompts, completion and subscriptions, in both eras."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from holdfast.gate.mcp import answers, resources
from tests.gate.mcp.conftest import ERAS, McpHold, quick
from tests.harness import kill_9

TICKS = ["sh", "-c", "while :; do echo tick; sleep 0.1; done"]


@pytest.fixture(scope="module")
def hold() -> Iterator[McpHold]:
    with McpHold(
        None, web=quick(["sh", "-c", "echo hello; exec sleep 1000"]), clock=quick(TICKS)
    ) as made:
        made.up()
        yield made


@pytest.mark.parametrize("era", ERAS)
def test_resources(hold: McpHold, era: str) -> None:
    """Services, logs, runs and events by their addresses; what is not there is said to be."""

    async def story(client: Any) -> None:
        listed = {str(one.uri) for one in (await client.list_resources()).resources}
        assert {"holdfast://services", "holdfast://events"} <= listed
        assert "holdfast://services/web/log" in listed
        templates = (await client.list_resource_templates()).resource_templates
        assert len(templates) == 4

        async def read(place: str) -> str:
            found = await client.read_resource(f"holdfast://{place}")
            return str(found.contents[0].text)

        assert {one["name"] for one in json.loads(await read("services"))} == {"web", "clock"}
        assert json.loads(await read("services/web"))[0]["state"] == "running"
        assert await read("services/web/log") == "hello"
        run = json.loads(await read("services/web/runs"))[0]["number"]
        assert await read(f"services/web/runs/{run}/log") == "hello"
        assert json.loads(await read("events"))
        for place in ("services/nobody/log", "services/web/secrets", "elsewhere"):
            with pytest.raises(MCPError) as error:
                await read(place)
            assert error.value.code == (-32602 if era == ERAS[1] else -32002)

    hold.talk(story, era=era)


def test_prompts_and_completion(hold: McpHold) -> None:
    """Three prompts with what is known now; names of services are completed."""

    async def story(client: Any) -> None:
        prompts = {one.name for one in (await client.list_prompts()).prompts}
        assert prompts == {"diagnose", "explain_restarts", "review_changes"}
        told = await client.get_prompt("diagnose", {"service": "web"})
        assert "hello" in told.messages[0].content.text
        told = await client.get_prompt("explain_restarts", {"service": "web"})
        assert '"number": 1' in told.messages[0].content.text
        told = await client.get_prompt("review_changes", {})
        assert "git" in told.messages[0].content.text
        for name, arguments in (("nope", {}), ("diagnose", {}), ("diagnose", {"service": "no"})):
            with pytest.raises(MCPError) as error:
                await client.get_prompt(name, arguments)
            assert error.value.code == -32602
        prompt = PromptReference(name="diagnose")
        found = await client.complete(prompt, {"name": "service", "value": "w"})
        assert found.completion.values == ["web"]
        template = ResourceTemplateReference(uri="holdfast://services/{name}/log")
        found = await client.complete(template, {"name": "name", "value": ""})
        assert found.completion.values == ["web", "clock"]

    hold.talk(story)


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
def test_subscriptions_before_2026(hold: McpHold) -> None:
    """Told that the log grew, about once a second, also by the next gate, until unsubscribed."""
    told: list[str] = []

    async def on_message(message: Any) -> None:
        method = getattr(message, "method", "")
        if method == "notifications/resources/updated":
            told.append(str(message.params.uri))

    async def story(client: Any) -> None:
        uri = "holdfast://services/clock/log"
        began = time.monotonic()
        await client.session.subscribe_resource(uri)
        await until(lambda: len(told) >= 3)
        assert time.monotonic() - began > 1.5, "coalesced"
        kill_9(hold.gate_pid())
        await client.list_tools()
        count = len(told)
        await until(lambda: len(told) > count)
        await client.session.unsubscribe_resource(uri)
        count = len(told)
        await asyncio.sleep(1.2)
        assert len(told) <= count + 1
        assert set(told) == {uri}

    hold.talk(story, message_handler=on_message)


def test_subscriptions_since_2026(hold: McpHold) -> None:
    """One stream, acknowledged; a restart is an event and another state."""

    async def story(client: Any) -> None:
        uris = ["holdfast://events", "holdfast://services/web"]
        async with client.listen(resource_subscriptions=uris) as stream:
            for _ in range(2):
                await client.call_tool("control", {"action": "restart", "names": ["web"]})
                seen: set[str] = set()
                async for event in stream:
                    seen.add(str(getattr(event, "uri", "")))
                    if seen >= set(uris):
                        break
                kill_9(hold.gate_pid())  # the stream goes on with the next one
                await client.list_tools()

    hold.talk(story, era=ERAS[1])


async def until(probe: Any, seconds: float = 30.0) -> None:
    for _ in range(int(seconds / 0.05)):
        if probe():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("is_newest_last", [True, False])
def test_of_a_long_list_the_newest_are_kept(is_newest_last: bool) -> None:
    """And how many are left out is said at the end where they would be."""
    newest_first = [{"number": number, "text": "x" * 1000} for number in range(200, 0, -1)]
    given = newest_first[::-1] if is_newest_last else newest_first
    _, text = resources.as_json(given, is_newest_last=is_newest_last)
    assert len(text.encode()) <= answers.MOST_BYTES
    found = json.loads(text)
    if is_newest_last:
        found = found[::-1]
    *kept, note = found
    assert kept == newest_first[: len(kept)]
    assert note == {"left_out": 200 - len(kept)}
    assert len(kept) > 50
