"""Whether a client has left is found out without taking anything of its request."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from holdfast.client.channel import Channel
from holdfast.gate.callers import ValidTokens
from holdfast.gate.rest import door as rest
from holdfast.gate.rest.door import RestDoor

ROUNDS = 20
BODY = (b'{"service": "web",', b' "condition":', b' "exited"}')


class Supervisor:
    """Answers after a while; the gate watches for a client that leaves at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rest, "WATCH_AFTER_SECONDS", 0.0)
        self.asked: list[dict[str, Any]] = []
        self.is_deaf = False
        self.was_cancelled = False

    async def ask(self, *_: Any, **__: Any) -> dict[str, Any]:
        await rounds()
        return {}

    async def ask_text(self, _: str, fields: dict[str, Any], *__: Any, **___: Any) -> bytes:
        self.asked.append(fields)
        try:
            await (asyncio.Event().wait() if self.is_deaf else rounds())
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return b"{}"


async def rounds() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def served(supervisor: Supervisor, messages: list[dict[str, Any]]) -> list[int]:
    """What is answered to a visitor without a token whose body comes in pieces."""
    channel = cast("Channel", supervisor)
    door = RestDoor(cast("Any", None), channel, lambda: channel, ValidTokens(channel))
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        await rounds()
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/services/wait",
        "headers": headers,
        "query_string": b"",
        "client": ("127.0.0.1", 1),
    }
    await asyncio.wait_for(door(scope, receive, send), 30)
    return statuses


def pieces() -> list[dict[str, Any]]:
    return [
        {"type": "http.request", "body": body, "more_body": body is not BODY[-1]} for body in BODY
    ]


def test_the_body_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly it comes, and however long it takes before it is read."""
    supervisor = Supervisor(monkeypatch)
    assert asyncio.run(served(supervisor, pieces())) == [200]
    assert supervisor.asked == [{"service": "web", "condition": "exited"}]


def test_who_leaves_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the supervisor works on it: it is told so, and nobody is answered."""
    supervisor = Supervisor(monkeypatch)
    supervisor.is_deaf = True
    messages = [*pieces(), {"type": "http.disconnect"}]
    assert asyncio.run(served(supervisor, messages)) == []
    assert supervisor.was_cancelled


def test_who_leaves_in_the_middle_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that ends too early is not done by half."""
    supervisor = Supervisor(monkeypatch)
    asyncio.run(served(supervisor, [*pieces()[:2], {"type": "http.disconnect"}]))
    assert supervisor.asked == []
