"""A service prints private keys; a reader that begins in the middle of one sees no piece of it."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.logbook import cursors
from holdfast.logbook.reader import Reader
from tests.contract.doors import World, by_flat_json, by_line, by_rest, by_websocket
from tests.gate.mcp.conftest import McpHold, quick, text_of
from tests.gate.ws.client import Place, Ws, content
from tests.harness import PYTHON, wait_for
from tests.secrets.private_keys import BODIES, KEYS, told

STAY = "import time; time.sleep(1000)"
PLAIN = [f"plain line {number} of the log" for number in range(40)]
PRINTED = "\n".join([*PLAIN, *KEYS["rsa"], *PLAIN[:3], *KEYS["prefix"], *PLAIN[:2], ""])
LAST = "\n".join([*PLAIN, *KEYS["openssh"]])
SAY = (
    f"import sys; sys.stdout.write({PRINTED!r}); sys.stdout.flush();"
    f"sys.stderr.write({PRINTED!r}); sys.stderr.flush()"
)
SAY_LAST = f"import sys; print({LAST!r}, flush=True); sys.exit(3)"
PIECE = BODIES["rsa"][3][:24]


def services() -> dict[str, Any]:
    return {
        "web": quick([PYTHON, "-c", f"{SAY}; {STAY}"]),
        "screen": quick([PYTHON, "-c", f"{SAY}; {STAY}"], terminal=True),
        "broken": quick(
            [PYTHON, "-c", SAY_LAST], restart_policy="never", autostart=False, start_seconds=5
        ),
    }


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        doors = {"port": made.tcp_port, "http_port": made.http_port}
        made.write(
            {
                **doors,
                "services": services(),
                "workflows": {"w": {"steps": [{"start": ["broken"]}]}},
            }
        )
        made.up()
        wait_for(lambda: {"tcp", "http"} <= made.status()["supervisor"]["doors"].keys())
        wait_for(lambda: len(made.raw("web")) >= 2 * len(PRINTED))
        wait_for(lambda: len(made.raw("screen")) >= len(PRINTED))
        yield made


def places(world: World, service: str = "web") -> list[str]:
    """Cursors in the middle of the keys of both streams."""
    end = len(world.raw(service))
    return [cursors.encode(cursors.at(place)) for place in range(1800, end, 211)]


VERBS = [
    *(["logs", "web", "--tail", str(count)] for count in (1, 4, 9, 14, 20, 30)),
    ["logs", "web", "--tail", "9", "--stream", "err"],
    ["logs", "web", "--tail", "9", "--json"],
    ["logs", "web", "--grep", PIECE],
    ["logs", "screen", "--tail", "9"],
    ["logs", "web", "--since", "1h", "--tail", "9"],
    ["search", "--logs", PIECE],
    ["search", "--logs", "-F", BODIES["rsa"][-1]],
    ["start", "broken"],
    ["explain", "broken"],
    ["status", "broken"],
    ["runs", "broken"],
    ["events"],
    ["alerts"],
    ["workflow", "w"],
]


def test_on_the_command_line(world: World) -> None:
    """Whatever the tail, and in what is said of a failure."""
    for verb in VERBS:
        done = world.cli(*verb, expect=None)
        assert not told(done.stdout + done.stderr), (verb, done.stdout)
    shown = world.cli("logs", "web", "--tail", "9").stdout
    assert "plain line 1 of the log" in shown
    assert "[hidden]" in shown


ASKED: list[tuple[str, dict[str, Any]]] = [
    *(("logs", {"service": "web", "tail": count}) for count in (1, 4, 9, 14, 20, 30)),
    ("logs", {"service": "web", "tail": 20, "max_bytes": 300}),
    ("logs", {"service": "web", "stream": "err", "tail": 9}),
    ("logs", {"service": "web", "grep": "[A-Za-z0-9+/]{30}"}),
    ("search_logs", {"pattern": PIECE, "literal": True}),
    ("search_logs", {"pattern": "[A-Za-z0-9+/]{20}", "limit": 3}),
    ("search_logs", {"pattern": ".", "limit": 100}),
    ("wait", {"service": "web", "condition": "log:[A-Za-z0-9+/]{30}", "timeout": 0.3}),
    ("start", {"services": ["broken"]}),
    ("explain", {"service": "broken"}),
    ("status", {}),
]


@pytest.mark.parametrize("ask", [by_line, by_flat_json, by_rest, by_websocket])
def test_in_answers(world: World, ask: Any) -> None:
    """At every door, from the end and from any cursor."""
    token = "" if ask is by_line else world.token
    some = [("logs", {"service": "web", "cursor": cursor}) for cursor in places(world)[::3]]
    for command, fields in [*ASKED, *some]:
        answer = ask(world, token, command, fields)
        assert not told(str(answer)), (command, fields, answer)


def test_a_search_tells_what_stands_beside_a_key(world: World) -> None:
    """Lines of keys take no other's place, and the same lines are told for any limit."""
    for limit in (9, 50):
        asked = {"pattern": "[A-Za-z0-9+/=]{5}", "services": ["web"], "limit": limit}
        texts, cursor = list[str](), None
        while True:
            page = by_line(world, "", "search_logs", {**asked, "cursor": cursor}).result
            texts += [hit["text"] for hit in page["hits"]]
            cursor = page["cursor"]
            if page["complete"]:
                break
        assert not told("\n".join(texts))
        assert len([text for text in texts if text.startswith("plain line")]) == 2 * 45


@contextmanager
def opened(world: World, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", world.http_port, timeout=60)
    try:
        known = {"Authorization": f"Bearer {world.token}"}
        connection.request("GET", f"/api/services/web/{path}", headers={**known, **headers})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        yield answer
        answer.close()
    finally:
        connection.close()


def test_in_downloads(world: World) -> None:
    """From any cursor, with control sequences and without."""
    parts = [f"cursor={it}{rest}" for it in places(world) for rest in ("", "&format=text")]
    for part in [*parts, "tail=9", "tail=9&stream=err"]:
        with opened(world, f"log?{part}") as answer:
            assert not told(answer.read()), part


def test_in_server_sent_events(world: World) -> None:
    """A stream that begins with the last lines, or goes on behind one of them."""
    for part in ("tail=9", "tail=30", *(f"cursor={it}" for it in places(world)[:8])):
        with opened(world, f"logs?{part}", Accept="text/event-stream") as answer:
            shown = b""
            while b'"plain line 1 of the log"' not in shown:
                shown += answer.readline()
            assert not told(shown), part


@pytest.mark.parametrize("service", ["web", "screen"])
@pytest.mark.parametrize("binary", [False, True])
def test_in_blocks_of_viewers(world: World, service: str, binary: bool) -> None:
    """Over WebSocket, from any cursor, also in a terminal."""
    total = len(world.raw(service))

    async def look(cursor: str) -> bytes:
        async with await Ws.open(Place(world.http_port, world.token)) as ws:
            seen, wanted = b"", total - cursors.decode(cursor).out
            size = 0
            await ws.watch(service, cursor=cursor, binary=binary)
            while size < wanted:
                if binary:
                    frame = await ws.frame(lambda it: isinstance(it, bytes))
                    seen, size = seen + frame[13:], size + len(frame) - 13
                else:
                    message = (await ws.event("output"))["data"]
                    seen, size = seen + content(message), size + message["bytes"]
            return seen

    for cursor in places(world, service)[::2]:
        assert not told(asyncio.run(look(cursor))), cursor


def test_for_assistants() -> None:
    """The tools that tell output: logs, detail of a process, search, why something failed."""
    with McpHold({"run": True}, **services()) as hold:
        hold.up()
        wait_for(lambda: len(hold.raw("web")) >= 2 * len(PRINTED))
        reader = Reader(str(hold.state / "logs"), "web")
        middle = cursors.encode(reader.tail(9))
        asked: list[tuple[str, dict[str, Any]]] = [
            *(("logs", {"name": "web", "tail": count}) for count in (4, 9, 14, 20, 30)),
            ("logs", {"name": "web", "cursor": middle}),
            ("wait", {"names": ["web"], "until": "log", "pattern": PIECE[:12], "timeout_s": 1}),
            ("control", {"action": "start", "names": ["broken"]}),
            ("status", {"names": ["broken"], "detail": True}),
        ]

        async def story(client: Any) -> None:
            for tool, fields in asked:
                result = await client.call_tool(tool, fields)
                assert not told(text_of(result)), (tool, fields)
            for place in ("services/web/log", "services/broken/log", "services/web"):
                found = await client.read_resource(f"holdfast://{place}")
                assert not told(str(found.contents[0].text)), place

        hold.talk(story)
