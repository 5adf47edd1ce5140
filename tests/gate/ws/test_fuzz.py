"""Whatever frames come, in whatever order: the gate answers or closes, and leaves nothing behind.

The gate's door runs in this process, before a line door that answers at random; tasks and
descriptors are counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.client.channel import Channel
from holdfast.gate.ws.dispatcher import EVENTS
from holdfast.gate.ws.door import WebSocketDoor

GRANT = {
    "service": "web", "directory": "/nowhere", "beginning": "P0", "end": "P0", "terminal": True,
    "status": "running", "exit_code": None, "signal": None, "reason": None, "seq": 0,
}  # fmt: skip
HELLO = {"actor": "token fuzz", "role": "admin", "version": "0"}
ERROR = {"code": "refused", "message": "no", "hint": ""}


class Line:
    """A line door that answers by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.writers: set[asyncio.StreamWriter] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while line := await reader.readline():
                for frame in self.answers(json.loads(line)):
                    writer.write(json.dumps(frame).encode() + b"\n")
        except OSError:
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    def answers(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        number, name = request.get("id"), request["command"]
        if name == "hello":
            return [{"id": number, "ok": True, "result": HELLO}]
        if name in ("watch", "cancel") or request.get("follow"):
            item: Any = {"service": "web", "position": self.chance.randrange(1000)}
            if name == "events":
                kind = self.chance.choice(["transition", "exit", "alert:raised", "service:removed"])
                data = {"from": "running", "to": "failed", "code": 1}
                item = {"seq": 1, "kind": kind, "service": "web", "data": data}
            return [{"id": number, "item": item}] * self.chance.randrange(3)
        match self.chance.randrange(5):
            case 0:
                return [{"id": number, "ok": False, "error": ERROR}]
            case 1:
                return []
            case _:
                result = {**GRANT, "last": 0, "services": {"web": {"pid": 1}}}
                return [{"id": number, "ok": True, "result": result}]


@asynccontextmanager
async def line_door(seed: int) -> AsyncIterator[tuple[str, Line]]:
    with tempfile.TemporaryDirectory() as folder:
        line, path = Line(seed), os.path.join(folder, "line.sock")
        server = await asyncio.start_unix_server(line.serve, path)
        try:
            yield path, line
        finally:
            server.close()
            for writer in list(line.writers):
                writer.close()
            await server.wait_closed()


class Client:
    """The other end of an ASGI connection; stops reading for some frames, now and then."""

    def __init__(self, messages: list[dict[str, Any]], chance: random.Random) -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.chance = chance
        self.sent: list[dict[str, Any]] = []
        for message in [{"type": "websocket.connect"}, *messages]:
            self.incoming.put_nowait(message)

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        return await self.incoming.get()

    async def send(self, message: dict[str, Any]) -> None:
        if self.chance.random() < 0.1:
            await asyncio.sleep(0.001)
        self.sent.append(message)
        if message["type"] == "websocket.close":
            self.incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMED = {"sessionId": st.just("KNOWN")}
PACE = {"bufferSize": st.integers(-1, 10**7), "flushInterval": st.floats(-1, 2)}
SIZE = {"cols": st.integers(-5, 500), "rows": st.integers(-5, 500)}
CARRIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "session:create": (
        {"service": st.just("web")},
        {
            "cursor": st.sampled_from(["P0", "P1.2", "P"]),
            "offset": st.integers(-1, 2**64),
            "tail": st.integers(-1, 10),
            "binary": st.booleans(),
            "slow": st.sampled_from(["skip", "lag"]),
            "metrics": st.floats(0, 2),
            **PACE,
        },
    ),
    "session:close": (NAMED, {}),
    "command:execute": (
        {"command": st.sampled_from(["status", "stop", "events", "watch"]) | SCALARS},
        {"follow": st.booleans(), "caller": VALUES, "id": SCALARS},
    ),
    "command:cancel": ({"target": SCALARS}, {}),
    "subscribe": ({}, {"since": st.integers(-1, 5), "services": st.just(["web"]), **PACE}),
    "unsubscribe": ({"subscription": st.integers(0, 4)}, {}),
    "ack": ({"bytes": st.integers(-10, 10**9)}, {**NAMED, "subscription": st.integers(0, 4)}),
    "terminal:input": (
        {**NAMED, "data": st.text(max_size=20)},
        {"encoding": st.sampled_from(["utf8", "base64"])},
    ),
    "terminal:resize": ({**NAMED, **SIZE}, {}),
    "terminal:take": (NAMED, {**SIZE, "force": st.booleans()}),
    "terminal:release": (NAMED, {}),
}
KNOWN = st.one_of(
    *(
        st.fixed_dictionaries(
            {
                "event": st.just(event),
                "data": st.fixed_dictionaries(required, optional=optional),
            },
            optional={"id": st.integers(0, 9)},
        )
        for event, (required, optional) in CARRIED.items()
    )
)
FRAMES = st.one_of(
    KNOWN,
    KNOWN,
    st.fixed_dictionaries({"event": st.sampled_from(EVENTS), "data": VALUES, "id": SCALARS}),
    VALUES,
).map(lambda frame: {"type": "websocket.receive", "text": json.dumps(frame)})
MESSAGES = st.one_of(
    FRAMES,
    FRAMES,
    FRAMES,
    st.text(max_size=50).map(lambda text: {"type": "websocket.receive", "text": text}),
    st.binary(max_size=30).map(lambda data: {"type": "websocket.receive", "bytes": data}),
    st.binary(max_size=9).map(
        lambda data: {"type": "websocket.receive", "bytes": b"\x10\0\0\0\1" + data}
    ),
)
AUTH = {"type": "websocket.receive", "text": '{"event": "auth", "data": "token"}'}


async def play(messages: list[dict[str, Any]], seed: int, *, is_hung_up: bool) -> list[Any]:
    """Everything is as before when the connection is over, and nothing went wrong unseen."""
    mistakes: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: mistakes.append(facts))
    async with line_door(seed) as (path, line):
        channel = Channel(path)
        door = WebSocketDoor(channel, lambda: Channel(path))
        # What is made once and kept: the channel that all share, the reader threads.
        await channel.ask("hello", {}, None, is_repeatable=True)
        await door._shared.feeds.in_thread(str)
        await asyncio.sleep(0.01)
        tasks, files = len(asyncio.all_tasks()), descriptors()
        client = Client([AUTH, *messages], line.chance)
        scope = {"type": "websocket", "headers": [], "subprotocols": [], "path": "/ws"}
        serving = asyncio.ensure_future(door(scope, client.receive, client.send))  # type: ignore[arg-type]
        for _ in range(200):
            await asyncio.sleep(0.001)
            if client.incoming.empty() or serving.done():
                break
        for message in list(client.sent):
            frame = json.loads(message["text"]) if "text" in message else {}
            if frame.get("event") == "session:created":
                known = frame["data"]["sessionId"]
                for one in messages:
                    if "KNOWN" in one.get("text", ""):
                        text = one["text"].replace("KNOWN", known)
                        client.incoming.put_nowait({"type": "websocket.receive", "text": text})
        await asyncio.sleep(0.005)
        if is_hung_up:
            for writer in list(line.writers):
                writer.close()
            await asyncio.sleep(0.005)
        client.incoming.put_nowait({"type": "websocket.disconnect", "code": 1001})
        await asyncio.wait_for(serving, 30)
        feeds = door._shared.feeds
        assert not feeds._feeds
        assert not feeds._users
        assert not door._shared.connections
        assert not door._shared.accounts._accounts
        assert not door._shared.keyboards._holders
        assert not door._shared.keyboards._viewers
        assert not door._shared.statuses._listeners
        for _ in range(2000):
            # Both ends of the connections of this process are counted; the shared one may
            # have been lost with the line door.
            if len(asyncio.all_tasks()) <= tasks and descriptors() <= files:
                break
            await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) <= tasks, asyncio.all_tasks()
        assert descriptors() <= files
        feeds._threads.shutdown()
        await channel.close()
        await asyncio.sleep(0.005)
        assert not mistakes
        assert not any("a mistake of the gate" in it.get("text", "") for it in client.sent)
        return client.sent


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(MESSAGES, max_size=25), st.integers(0, 10**6), st.booleans())
def test_any_frames_leave_nothing_behind(
    messages: list[dict[str, Any]], seed: int, is_hung_up: bool
) -> None:
    """No exception, no task, no descriptor, no session, no keyboard."""
    sent = asyncio.run(play(messages, seed, is_hung_up=is_hung_up))
    assert sent[0]["type"] == "websocket.accept"
    for message in sent[1:]:
        if "text" in message:
            frame = json.loads(message["text"])
            assert isinstance(frame["event"], str)
            assert "data" in frame
