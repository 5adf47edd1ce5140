"""A client of `/ws` for tests: frames in and out, with deadlines."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

SECONDS = 30.0
Frame = dict[str, Any]


class Place(NamedTuple):
    """Where to connect, and as whom."""

    port: int
    token: str


class Gate(Protocol):
    """Something to connect to."""

    @property
    def port(self) -> int: ...

    @property
    def token(self) -> str: ...


class Ws:
    """One connection; frames that were not asked for yet are kept."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.kept: list[Frame | bytes] = []
        self._ids = 0

    @classmethod
    async def open(cls, gate: Gate, token: str | None = "", **options: Any) -> Ws:
        """Connected; with a token (the admin's, if none is given) also authenticated."""
        options = {"compression": None, "max_size": None, "max_queue": None, **options}
        socket = await connect(f"ws://127.0.0.1:{gate.port}/ws", **options)
        made = cls(socket)
        if token is not None:
            await made.send("auth", {"token": token or gate.token})
            made.hello = (await made.event("auth:ok"))["data"]
        return made

    hello: Frame

    async def __aenter__(self) -> Ws:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()

    async def send(self, event: str, data: Any = None, **more: Any) -> None:
        await self.socket.send(json.dumps({"event": event, "data": data, **more}))

    async def ask(self, event: str, data: Any = None) -> Frame:
        """The answer with the same id."""
        self._ids += 1
        number = self._ids
        await self.send(event, data, id=number)
        answer: Frame = await self.frame(lambda it: isinstance(it, dict) and it.get("id") == number)
        return answer

    async def frame(self, wanted: Callable[[Any], bool], seconds: float = SECONDS) -> Any:
        for place, kept in enumerate(self.kept):
            if wanted(kept):
                return self.kept.pop(place)

        async def read() -> Any:
            while True:
                data = await self.socket.recv()
                found = json.loads(data) if isinstance(data, str) else data
                if wanted(found):
                    return found
                self.kept.append(found)

        try:
            return await asyncio.wait_for(read(), seconds)
        except asyncio.TimeoutError:
            raise AssertionError(f"did not come; kept: {self.kept[-5:]}") from None

    async def event(self, name: str, seconds: float = SECONDS) -> Frame:
        found: Frame = await self.frame(
            lambda it: isinstance(it, dict) and it["event"] == name, seconds
        )
        return found

    async def watch(self, service: str, **options: Any) -> Frame:
        """A session; answers what was created."""
        answer = await self.ask("session:create", {"service": service, **options})
        assert answer["event"] == "session:created", answer
        created: Frame = answer["data"]
        return created

    async def output_until(self, wanted: bytes, seconds: float = SECONDS) -> tuple[bytes, str]:
        """What was printed, up to and with these bytes, and the cursor behind it."""
        seen, cursor = b"", ""
        while wanted not in seen:
            message = (await self.event("output", seconds))["data"]
            seen += content(message)
            cursor = message["cursor"]
        return seen, cursor

    async def closed(self) -> int:
        """The code with which the other side closes."""
        try:
            while True:
                data = await asyncio.wait_for(self.socket.recv(), SECONDS)
                self.kept.append(json.loads(data) if isinstance(data, str) else data)
        except ConnectionClosed:
            return self.socket.close_code or 0


def content(message: Frame) -> bytes:
    data = message["data"]
    if data["encoding"] == "base64":
        return base64.b64decode(data["content"])
    return str(data["content"]).encode()
