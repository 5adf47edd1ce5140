"""One HTTP request, whatever the server does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.adapters import http_client
from holdfast.adapters.http_client import HttpError, HttpResponse

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SECRET = "pAtHsEcReT"


def ask(reply: bytes | None, **options: Any) -> tuple[HttpResponse, bytes]:
    """The answer to a request of a server that says this, and what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if reply is None:
            await reader.read()
        else:
            writer.write(reply)
            await writer.drain()
        writer.close()

    async def scene() -> HttpResponse:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        options.setdefault("timeout_seconds", 5.0)
        try:
            url = f"http://127.0.0.1:{port}/{SECRET}/a b?x=ä"
            return await http_client.request(url, **options)
        finally:
            server.close()

    answer = asyncio.run(scene())
    return answer, asked[0]


def test_an_answer() -> None:
    """Status, headers and body; the request is proper HTTP with the headers given."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nhi"
    answer, asked = ask(reply, method="POST", body=b"{}", headers={"X-Token": "t", "Host": "h"})
    assert (answer.status, answer.body, answer.is_success) == (200, b"hi", True)
    assert ("x-a", "b") in answer.headers
    head = asked.lower()
    assert head.startswith(f"post /{SECRET}/a%20b?x=%c3%a4 http/1.1".lower().encode())
    assert head.count(b"host:") == 1
    assert b"x-token: t" in head
    assert b"content-length: 2" in head


@pytest.mark.parametrize(
    ("reply", "status", "body"),
    [
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", 500, b""),
        (b"HTTP/1.1 302 Go\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302, b""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, b"hi"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n", 204, b""),
    ],
)
def test_kinds_of_answers(reply: bytes, status: int, body: bytes) -> None:
    """A failure is an answer, a redirect is not followed, every framing is read."""
    answer, _ = ask(reply)
    assert (answer.status, answer.body) == (status, body)


def test_a_long_body_is_cut() -> None:
    """No more is read than wanted."""
    reply = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 500_000
    answer, _ = ask(reply, largest_body=1000)
    assert answer.body == b"x" * 1000


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (None, "did not answer in 0.2 s"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not speak HTTP"),
        (b"", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi", ""),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "does not speak HTTP"),
    ],
)
def test_no_answer(reply: bytes | None, words: str) -> None:
    """Silence, another protocol and a broken answer are told in words, without the path."""
    with pytest.raises(HttpError) as caught:
        ask(reply, timeout_seconds=0.2 if reply is None else 5.0)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"http://127.0.0.1:9/{SECRET}", "refused"),
        (f"ftp://host/{SECRET}", "not one of HTTP"),
        (f"http://host:99999/{SECRET}", "malformed"),
        (f"http:///{SECRET}", "not one of HTTP"),
        (f"http://name.invalid/{SECRET}", "name.invalid"),
    ],
)
def test_nobody_there(url: str, words: str) -> None:
    """An address that is wrong or where nobody listens."""
    with pytest.raises(HttpError) as caught:
        asyncio.run(http_client.request(url, timeout_seconds=5.0))
    assert words.lower() in str(caught.value).lower()
    assert SECRET not in str(caught.value)
