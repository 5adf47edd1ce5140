"""Equal questions at one moment, and clients who leave: seen from the supervisor's end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.client import channel as channels
from holdfast.client.channel import Caller, Channel
from holdfast.gate.callers import ValidTokens
from holdfast.gate.rest.coalescing import SingleFlight
from holdfast.gate.rest.door import RestDoor
from holdfast.vocabulary.errors import Failed


class FakeSupervisor:
    """A line door that answers when the test says so."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[dict[str, Any]] = []
        self.lines = 0
        self.came = asyncio.Event()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._gone: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> FakeSupervisor:
        self.server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await asyncio.gather(*self._gone)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines += 1
        gone = asyncio.get_running_loop().create_future()
        self._gone.append(gone)
        while line := await reader.readline():
            frame = json.loads(line)
            self.asked.append(frame)
            self._writers[frame.get("id", 0)] = writer
            self.came.set()
        writer.close()
        gone.set_result(None)

    async def until(self, count: int) -> None:
        while len(self.asked) < count:
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 30)

    def answer(self, place: int, result: Any) -> None:
        number = self.asked[place]["id"]
        frame = {"id": number, "ok": True, "result": result}
        self._writers[number].write(json.dumps(frame).encode() + b"\n")


def played(tmp_path: Any, scene: Callable[[FakeSupervisor, Channel], Awaitable[None]]) -> None:
    async def play() -> None:
        path = str(tmp_path / "line.sock")
        channel = Channel(path)
        async with FakeSupervisor(path) as supervisor:
            await scene(supervisor, channel)
            await channel.close()

    asyncio.run(play())


def test_who_comes_meanwhile_is_answered_by_the_next_one() -> None:
    """One answer at a time; each was asked for after all who get it came."""

    async def scene() -> None:
        flight, asked = SingleFlight(), []

        async def ask() -> bytes:
            gate = asyncio.get_running_loop().create_future()
            asked.append(gate)
            return bytes(await gate)

        async def question() -> bytes:
            return await flight.ask("status", ask)

        first = asyncio.ensure_future(question())
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(question()) for _ in range(5)]
        others[0].cancel()
        await asyncio.sleep(0)
        assert len(asked) == 1
        asked[0].set_result(b"old")
        assert await first == b"old"
        await asyncio.sleep(0)
        late = asyncio.ensure_future(question())
        await asyncio.sleep(0)
        assert len(asked) == 2
        asked[1].set_result(b"new")
        assert set(await asyncio.gather(*others[1:])) == {b"new"}
        await asyncio.sleep(0)
        asked[2].set_exception(Failed("not now"))
        with pytest.raises(Failed):
            await late
        assert flight._waiting == {}

    asyncio.run(scene())


async def served(
    door: RestDoor, path: str, receive: Callable[[], Awaitable[dict[str, Any]]]
) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"",
        "headers": [(b"authorization", b"Bearer one"), (b"content-type", b"application/json")],
    }  # fmt: skip
    await door(scope, receive, send)
    return sent


def test_a_request_whose_client_left_is_cancelled_at_the_supervisor(tmp_path: Any) -> None:
    """At once, and nothing is sent to nobody."""

    async def scene(supervisor: FakeSupervisor, channel: Channel) -> None:
        left = asyncio.Event()
        messages = [{"type": "http.request", "body": b'{"service": "web"}', "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        door = RestDoor(lambda *_: None, channel, lambda: channel, ValidTokens(channel))  # type: ignore[arg-type]
        serving = asyncio.ensure_future(served(door, "/api/services/wait", receive))
        await supervisor.until(1)
        left.set()
        await supervisor.until(2)
        assert supervisor.asked[1] == {"command": "cancel", "target": supervisor.asked[0]["id"]}
        assert await serving == []

    played(tmp_path, scene)


def test_many_open_requests_take_another_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tokens that wait for long leave room for a third; what is not needed is closed."""
    monkeypatch.setattr(channels, "MAX_REQUESTS_PER_SOCKET", 2)
    monkeypatch.setattr(channels, "MAX_REQUESTS_PER_TOKEN", 2)

    async def scene(supervisor: FakeSupervisor, channel: Channel) -> None:
        def ask(who: str) -> asyncio.Task[Any]:
            caller = Caller(who, "rest")
            return asyncio.ensure_future(channel.ask("wait", {}, caller, is_repeatable=False))

        waiting = [ask(who) for who in ("one", "one", "two", "two", "three")]
        await supervisor.until(5)
        assert supervisor.lines == 3
        supervisor.answer(4, {"met": True})
        assert await waiting.pop() == {"met": True}
        for task in waiting:
            task.cancel()
        await supervisor.until(9)
        assert len([socket for socket in channel._sockets if socket.is_open]) == 1

    played(tmp_path, scene)
