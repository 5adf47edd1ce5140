"""What a server says within a call reaches the client that made it, and long answers are cut."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import mcp_types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from holdfast.client.channel import Caller
from holdfast.gate.mcp.call import McpClient
from holdfast.gate.mcp_servers.results import KEPT_SECONDS, PREFIX, KeptResults
from holdfast.vocabulary.errors import NotFound
from holdfast.vocabulary.specs.mcp import McpSpec
from tests.gate.mcp.conftest import text_of
from tests.gate.mcp_servers.conftest import GatewayHold
from tests.harness import program, wait_for


def person(name: str) -> Any:
    """A client whose user answers every question with this name."""

    async def answer(context: Any, params: Any) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(
            action="accept", content={"name": f"{name}: {params.message}"}
        )

    return answer


def test_a_question_goes_to_the_client_that_called(counter: GatewayHold) -> None:
    """Each of two people gets the question of their own call; with several calls under way nobody
    is asked by chance, and from then on the server gets one call at a time."""

    async def story() -> None:
        async with (
            counter.client(elicitation_callback=person("ann")) as ann,
            counter.client(elicitation_callback=person("bob")) as bob,
        ):
            for client, name in ((ann, "ann"), (bob, "bob")):
                asked = await client.call_tool("counter__ask", {"message": "who?"})
                told = json.loads(text_of(asked))
                assert told == {"action": "accept", "content": {"name": f"{name}: who?"}}
            slow = asyncio.ensure_future(bob.call_tool("counter__read", {"seconds": 3}))

            def is_under_way() -> bool:
                return bool(counter.server()["under_way"])

            await asyncio.to_thread(wait_for, is_under_way)
            refused = await ann.call_tool("counter__ask", {"message": "again?"})
            assert "several calls are under way" in text_of(refused)
            await slow
            both = [
                client.call_tool("counter__ask", {"message": name})
                for client, name in ((ann, "a"), (bob, "b"))
            ]
            texts = [text_of(one) for one in await asyncio.gather(*both)]
            assert [json.loads(text)["content"]["name"] for text in texts] == ["ann: a", "bob: b"]

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_client_of_the_newer_revision_is_asked_between_two_requests(
    counter: GatewayHold,
) -> None:
    """The call goes on at the server meanwhile, and is done once."""
    handshakes = counter.handshakes()

    async def story(client: Any) -> None:
        asked = await client.call_tool("counter__ask", {"message": "who?"})
        assert json.loads(text_of(asked))["content"] == {"name": "eve: who?"}
        assert text_of(await client.call_tool("counter__read", {})) == "read"

    counter.talk(story, era="2026-07-28", elicitation_callback=person("eve"))
    assert counter.handshakes() == handshakes


def test_a_client_that_cannot_be_asked(counter: GatewayHold) -> None:
    """The server is told so, and the call goes on."""

    async def story(client: Any) -> str:
        return text_of(await client.call_tool("counter__ask", {"message": "who?"}))

    assert "no elicitation" in counter.talk(story)


def test_progress_reaches_the_client(counter: GatewayHold) -> None:
    """Every step of a call that reports progress."""
    steps: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    async def story(client: Any) -> None:
        await client.call_tool("counter__progress", {}, progress_callback=on_progress)

    counter.talk(story)
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_a_long_answer_is_cut_and_read_on(counter: GatewayHold) -> None:
    """At the end of a line; `read` goes on, for the client that called and for no other."""

    async def story(client: Any) -> None:
        answer = text_of(await client.call_tool("counter__big", {"bytes": 260_000}))
        whole, places = "", []
        while True:
            text, _, note = answer.rpartition("\n-- ")
            whole += text
            if note.startswith("end"):
                break
            assert len(text) <= 64_000
            assert text.endswith("line of text\n")
            places.append(note.split('"')[1])
            start = int(note.split("from_byte ")[1].split()[0])
            given = {"path": places[-1], "from_byte": start}
            answer = text_of(await client.call_tool("read", given))
        assert whole == "line of text\n" * (260_000 // 13)
        assert len(places) == 4
        async with counter.client() as other:
            refused = await other.call_tool("read", {"path": places[0]})
            assert refused.is_error
            assert "not kept any more" in text_of(refused)

    counter.talk(story)


def client() -> McpClient:
    channel: Any = None
    return McpClient(channel, Caller("token", "mcp"), McpSpec())


def test_what_is_kept_is_bounded() -> None:
    """A short result stays the same object; pictures that are too large are said to be left out;
    the oldest of what is kept goes first, and everything after its time."""
    kept, here = KeptResults(), client()
    short = {"content": [{"type": "text", "text": "a"}], "structuredContent": [1]}
    assert kept.fitting(here, short) is short
    picture = {"type": "image", "data": "A" * 8_000_000, "mimeType": "image/png"}
    (left_out,) = kept.fitting(here, {"content": [picture]})["content"]
    assert "image/png of 6000000 bytes is left out" in left_out["text"]
    small = {**picture, "data": "A" * 4_000_000}
    assert kept.fitting(here, {"content": [small]})["content"] == [small]
    names = []
    for _ in range(3):
        long = {"content": [{"type": "text", "text": "x" * 30_000_000}], "structuredContent": {}}
        cut = kept.fitting(here, long)
        assert "structuredContent" not in cut
        names.append(cut["content"][0]["text"].split(PREFIX)[1].split('"')[0])
    with pytest.raises(NotFound):
        kept.read(here, names[0], {})
    assert "of 30000000 bytes" in kept.read(here, names[2], {"from_byte": 5}).text
    assert KEPT_SECONDS == 3600
    huge = kept.fitting(here, {"content": [{"type": "text", "text": "é" * 40_000_000}]})
    assert "too long to be kept" in huge["content"][0]["text"]
    assert "�" not in huge["content"][0]["text"]


def test_aliases() -> None:
    """With `aliases`, tools have the names of other programs as well; without, they have not."""
    with GatewayHold({"aliases": True}) as hold:
        hold.up()
        hold.await_listing()

        async def story(client: Any) -> None:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"start_task", "read_file", "git_status", "control"} <= set(tools)
            assert "action" not in tools["start_task"].input_schema["properties"]
            assert tools["read_file"].annotations.read_only_hint
            started = await client.call_tool("start_task", {"name": "counter"})
            assert not started.is_error, text_of(started)
            assert "counter" in text_of(started)

        hold.talk(story)
        assert hold.service("counter")["pid"]


def test_no_aliases_by_default(counter: GatewayHold) -> None:
    """They are neither listed nor known."""

    async def story(client: Any) -> None:
        assert "start_task" not in {tool.name for tool in (await client.list_tools()).tools}

    counter.talk(story)


def test_a_call_is_as_without_us(counter: GatewayHold) -> None:
    """Definitions and results are those of a direct connection; what the protocol does not know
    becomes text, never an error after the tool was called."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add", {"text": "the same"}),
        ("put", {"text": "the same"}),
        ("read", {}),
        ("noise", {"bytes": 1_000_000}),
        ("big", {"bytes": 50_000}),
    ]

    async def told(client: Any, prefix: str) -> tuple[list[Any], list[Any]]:
        listed = [tool.model_dump() for tool in (await client.list_tools()).tools]
        tools = [one for one in listed if one["name"].startswith(prefix)]
        for one in tools:
            one["name"] = one["name"].removeprefix(prefix)
        results = [await client.call_tool(prefix + name, given) for name, given in calls]
        return tools, [result.model_dump(exclude={"meta"}) for result in results]

    async def directly() -> tuple[list[Any], list[Any]]:
        command, *args = program("mcp_server.py")
        env = {**counter.environ, "LEDGER": ""}
        async with Client(StdioServerParameters(command=command, args=args, env=env)) as client:
            return await told(client, "")

    async def story(client: Any) -> tuple[list[Any], list[Any]]:
        odd = await client.call_tool("counter__odd", {})
        assert not odd.is_error
        assert "hologram" in text_of(odd)
        return await told(client, "counter__")

    direct = asyncio.run(asyncio.wait_for(directly(), 60))
    tools, results = counter.talk(story)
    assert (tools, results) == direct
