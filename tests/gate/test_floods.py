"""Floods of strangers at the gate: they end, they cost little, and guests get their answers."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.gate.conftest import Gate, greeting_hold
from tests.gate.ws.client import Ws
from tests.harness import Hold, wait_for

ANSWER_SECONDS = 20.0
"""Within this a guest is answered while a flood goes on, on a machine that is busy otherwise."""
MIB = 1024 * 1024
SHORT = (
    "import holdfast.gate.http_limits as p; "
    "p.HEAD_SECONDS = p.BODY_SECONDS = p.STALL_SECONDS = 1.0; p.LEAST_RATE = 1_000_000;"
)
"""The same deadlines, for who has less time."""


@pytest.fixture(scope="module")
def shared_hold() -> Iterator[Hold]:
    with greeting_hold() as made:
        yield made


@contextmanager
def gate_of(hold: Hold, before: str = "") -> Iterator[Gate]:
    made = Gate(hold, before)
    made.listening.listen(1000)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def gate(shared_hold: Hold) -> Iterator[Gate]:
    with gate_of(shared_hold) as made:
        yield made


@pytest.fixture
def hasty(shared_hold: Hold) -> Iterator[Gate]:
    with gate_of(shared_hold, SHORT) as made:
        yield made


class Flood:
    """Raw connections of strangers, all closed in the end."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.sockets: list[socket.socket] = []
        self._stack = ExitStack()

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self) -> socket.socket:
        made = self._stack.enter_context(socket.socket())
        made.settimeout(30)
        made.connect(("127.0.0.1", self.gate.port))
        self.sockets.append(made)
        return made

    def head(self, start: str, *headers: str) -> bytes:
        lines = [start, f"Host: 127.0.0.1:{self.gate.port}", *headers, "", ""]
        return "\r\n".join(lines).encode()

    def send_what_is_taken(self, sock: socket.socket, data: bytes, seconds: float = 0.2) -> None:
        """As much as the gate reads; it may hang up at any moment."""
        sock.settimeout(seconds)
        try:
            sock.sendall(data)
        except OSError:
            pass


def rss(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def is_open(sock: socket.socket) -> bool:
    sock.settimeout(0.1)
    try:
        while sock.recv(65536):
            pass
    except TimeoutError:
        return True
    return False


def guest_is_answered(gate: Gate) -> None:
    began = time.monotonic()
    assert gate.get("/api/status")["services"]["web"]["status"] == "running"
    assert time.monotonic() - began < ANSWER_SECONDS


def has_ended(sock: socket.socket, seconds: float = 30.0) -> bytes:
    """Everything that came until the gate hung up; fails if it does not."""
    sock.settimeout(seconds)
    came = b""
    try:
        while part := sock.recv(65536):
            came += part
    except ConnectionResetError:
        pass
    except TimeoutError:
        raise AssertionError(f"still open after {seconds} s; came: {came[:100]!r}") from None
    return came


@pytest.mark.parametrize("headers", [(), ("Authorization: Bearer made-up",)])
@pytest.mark.parametrize("path", ["/login", "/api/files/write"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_unfinished_bodies_hold_little(
    gate: Gate, path: str, headers: tuple[str, ...], is_chunked: bool
) -> None:
    """Forty unfinished posts of 7.6 MiB each without a valid token: little memory, no delay."""
    guest_is_answered(gate)
    before = rss(gate.process.pid)
    size = 7_600_000
    with Flood(gate) as flood:
        for _ in range(40):
            stranger = flood.connect()
            kind = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size + 1}"
            more = ("X-Holdfast-Page: x", "Content-Type: application/json", kind, *headers)
            stranger.sendall(flood.head(f"POST {path} HTTP/1.1", *more))
            data = b" " * size
            flood.send_what_is_taken(stranger, b"%x\r\n" % size + data if is_chunked else data)
        guest_is_answered(gate)
        assert rss(gate.process.pid) - before < 48 * MIB
    guest_is_answered(gate)


def _slow_first_head(flood: Flood) -> socket.socket:
    stranger = flood.connect()
    stranger.sendall(b"GET /api/st")
    return stranger


def _slow_second_head(flood: Flood) -> socket.socket:
    stranger = flood.connect()
    stranger.sendall(flood.head("GET /login HTTP/1.1"))
    stranger.recv(65536)
    stranger.sendall(b"GET /api/st")
    return stranger


def _slow_body(flood: Flood) -> socket.socket:
    stranger = flood.connect()
    length = "Content-Length: 1000"
    stranger.sendall(flood.head("POST /login HTTP/1.1", "X-Holdfast-Page: x", length) + b"{")
    return stranger


def _slow_second_body(flood: Flood) -> socket.socket:
    stranger = flood.connect()
    stranger.sendall(flood.head("GET /login HTTP/1.1"))
    stranger.recv(65536)
    length = "Content-Length: 1000"
    stranger.sendall(flood.head("POST /login HTTP/1.1", "X-Holdfast-Page: x", length) + b"{")
    return stranger


def _body_after_the_answer(flood: Flood) -> socket.socket:
    stranger = flood.connect()
    stranger.sendall(flood.head("POST /login HTTP/1.1", "Content-Length: 1000") + b"{")
    assert b" 403 " in stranger.recv(65536)
    return stranger


def _guest_with_a_slow_body(flood: Flood) -> socket.socket:
    guest = flood.connect()
    token = f"Authorization: Bearer {flood.gate.token}"
    head = flood.head("POST /api/files/write HTTP/1.1", token, "Content-Length: 1000000")
    guest.sendall(head + b"{")
    return guest


SLOW = (
    *(_slow_first_head, _slow_second_head, _slow_body, _slow_second_body),
    *(_body_after_the_answer, _guest_with_a_slow_body),
)


@pytest.mark.parametrize("begin", SLOW)
@pytest.mark.parametrize("drip", [b"", b"x"])
def test_slow_requests_are_ended(
    hasty: Gate, begin: Callable[[Flood], socket.socket], drip: bytes
) -> None:
    """Whatever part is slow, of the first or a later request, and whether bytes drip or not."""
    with Flood(hasty) as flood:
        slow = [begin(flood) for _ in range(20)]
        deadline = time.monotonic() + 30
        is_taken = True
        while drip and is_taken:
            assert time.monotonic() < deadline, "bytes that drip keep it open"
            try:
                for one in slow:
                    one.sendall(drip)
                time.sleep(0.1)
            except OSError:
                is_taken = False
        guest_is_answered(hasty)
        for one in slow:
            has_ended(one)
    wait_for(lambda: descriptors(hasty.process.pid) < 60)


def test_empty_lines_keep_no_connection(gate: Gate) -> None:
    """A line break after an answer is no request: the connection ends as an idle one does."""
    with Flood(gate) as flood:
        stranger = flood.connect()
        stranger.sendall(flood.head("GET /login HTTP/1.1"))
        stranger.recv(65536)
        stranger.sendall(b"\r\n")
        has_ended(stranger)


def test_who_is_refused_for_slowness_is_told(hasty: Gate) -> None:
    """A client that can be told hears a 408 with a reason."""
    with Flood(hasty) as flood:
        came = has_ended(_slow_first_head(flood))
        assert came.startswith(b"HTTP/1.1 408 ")
        assert json.loads(came.partition(b"\r\n\r\n")[2])["detail"]


def test_strangers_share_few_connections(gate: Gate) -> None:
    """A thousand silent connections push each other out, and nobody with a token."""
    kept = socket.socket()
    with Flood(gate) as flood, kept:
        kept.connect(("127.0.0.1", gate.port))
        token = f"Authorization: Bearer {gate.token}"
        kept.sendall(flood.head("GET /api/events?follow=true HTTP/1.1", token))
        assert b" 200 " in kept.recv(65536)
        for number in range(1000):
            flood.connect()
            if number % 200 == 199:
                guest_is_answered(gate)
        wait_for(lambda: descriptors(gate.process.pid) < 330)
        assert is_open(kept)
    guest_is_answered(gate)
    wait_for(lambda: descriptors(gate.process.pid) < 60)


UPGRADE = (
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def test_strangers_on_websockets_lock_nobody_out(shared_hold: Hold) -> None:
    """More WebSockets without a token than there may be with one; a guest connects, and stays."""

    async def guests(gate: Gate, flood: Flood) -> None:
        async with await Ws.open(gate) as kept:
            for _ in range(400):
                flood.connect().sendall(flood.head("GET /ws HTTP/1.1", *UPGRADE))
            async with await Ws.open(gate, open_timeout=ANSWER_SECONDS) as guest:
                answer = await guest.ask("command:execute", {"command": "status"})
                assert "web" in json.dumps(answer)
            assert "web" in json.dumps(await kept.ask("command:execute", {"command": "status"}))

    few = "import holdfast.gate.ws.door as c; c.MOST_CONNECTIONS, c.AUTH_SECONDS = 300, 60.0;"
    with gate_of(shared_hold, few) as gate, Flood(gate) as flood:
        guest_is_answered(gate)
        before = rss(gate.process.pid)
        asyncio.run(guests(gate, flood))
        guest_is_answered(gate)
        assert rss(gate.process.pid) - before < 48 * MIB
        wait_for(lambda: descriptors(gate.process.pid) < 330)
        for stranger in flood.sockets:
            stranger.close()
        wait_for(lambda: descriptors(gate.process.pid) < 60)


def test_a_first_message_is_short(gate: Gate) -> None:
    """Before a token, a WebSocket may not even fill one large frame."""
    before = rss(gate.process.pid)
    with Flood(gate) as flood:
        for _ in range(60):
            stranger = flood.connect()
            stranger.sendall(flood.head("GET /ws HTTP/1.1", *UPGRADE))
            assert b" 101 " in stranger.recv(4096)
            frame = b"\x81\xff" + (1_000_000).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 900_000
            flood.send_what_is_taken(stranger, frame)
            has_ended(stranger)
        guest_is_answered(gate)
        assert rss(gate.process.pid) - before < 24 * MIB


def test_one_token_leaves_room_on_websockets(shared_hold: Hold) -> None:
    """When all connections are taken, the token with the most gives way; an admin has a reserve."""
    small = (
        "import holdfast.gate.ws.door as c, holdfast.gate.ws.accounts as r; "
        "c.MOST_CONNECTIONS, c.RESERVED, r.MOST_CONNECTIONS = 12, 2, 12;"
    )
    tokens = [
        shared_hold.ask("create_token", token_name=name, role="viewer")["text"]
        for name in ("greedy", "modest")
    ]

    async def crowd(gate: Gate) -> None:
        greedy = [await Ws.open(gate, tokens[0]) for _ in range(12)]
        admin = await Ws.open(gate)
        modest = await Ws.open(gate, tokens[1])
        assert await greedy[0].closed() == 4429
        for one in (admin, modest, greedy[-1]):
            assert "web" in json.dumps(await one.ask("command:execute", {"command": "status"}))
        for one in (*greedy, admin, modest):
            await one.socket.close()

    with gate_of(shared_hold, small) as gate:
        asyncio.run(crowd(gate))
    for name in ("greedy", "modest"):
        shared_hold.ask("revoke_token", token=name)


def test_pipelined_requests_are_bounded(gate: Gate) -> None:
    """Thousands of requests in one segment cost no memory: the connection ends."""
    guest_is_answered(gate)
    before = rss(gate.process.pid)
    with Flood(gate) as flood:
        one = flood.head("GET /mcp HTTP/1.1")
        for _ in range(10):
            flood.send_what_is_taken(flood.connect(), one * 5000)
        guest_is_answered(gate)
        assert rss(gate.process.pid) - before < 24 * MIB


def test_headers_are_bounded(gate: Gate) -> None:
    """Neither many headers nor long ones are collected."""
    guest_is_answered(gate)
    before = rss(gate.process.pid)
    with Flood(gate) as flood:
        for number in range(40):
            stranger = flood.connect()
            stranger.sendall(b"GET / HTTP/1.1\r\n")
            many = b"a:b\r\n" * 80_000 if number % 2 else b"a: " + b"b" * 400_000
            flood.send_what_is_taken(stranger, many)
            has_ended(stranger)
        guest_is_answered(gate)
        assert rss(gate.process.pid) - before < 24 * MIB


@pytest.mark.parametrize("kind", ["answer", "websocket"])
def test_who_never_reads_is_ended(hasty: Gate, kind: str) -> None:
    """A client that asks and does not read costs a bounded buffer, and that not for long."""
    guest_is_answered(hasty)
    before = descriptors(hasty.process.pid)
    token = f"Authorization: Bearer {hasty.token}"
    with Flood(hasty) as flood:
        for _ in range(12):
            guest = flood.connect()
            guest.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            if kind == "websocket":
                guest.sendall(flood.head("GET /ws HTTP/1.1", *UPGRADE, token))
                while b"auth:ok" not in (seen := guest.recv(4096)):
                    assert seen
                pings = (b"\x89\xfd" + b"\0" * 4 + b"x" * 125) * 2000
                deadline = time.monotonic() + 30
                guest.settimeout(0.5)
                try:
                    while time.monotonic() < deadline:
                        guest.sendall(pings)
                    raise AssertionError("pings are taken for ever")
                except TimeoutError:
                    pass
                except OSError:
                    continue
            else:
                path = (
                    "/api/openapi.json" if kind == "answer" else "/api/events?since=0&follow=true"
                )
                flood.send_what_is_taken(guest, flood.head(f"GET {path} HTTP/1.1", token) * 16)
        guest_is_answered(hasty)
        wait_for(lambda: descriptors(hasty.process.pid) < before + 8)


def test_one_token_leaves_streams_to_the_others(shared_hold: Hold) -> None:
    """A token has a share of the streams; when one ends, another begins."""
    viewer = shared_hold.ask("create_token", token_name="streams", role="viewer")["text"]
    with (
        gate_of(
            shared_hold, "import holdfast.gate.rest.event_streams as s; s.MOST_OF_TOKEN = 5;"
        ) as gate,
        Flood(gate) as flood,
    ):

        def status_of_stream(token: str) -> bytes:
            guest = flood.connect()
            head = flood.head(
                "GET /api/events?follow=true HTTP/1.1", f"Authorization: Bearer {token}"
            )
            guest.sendall(head)
            return guest.recv(65536).split(b" ")[1]

        assert [status_of_stream(viewer) for _ in range(6)] == [b"200"] * 5 + [b"429"]
        assert status_of_stream(gate.token) == b"200"
        flood.sockets[0].close()
        wait_for(lambda: status_of_stream(viewer) == b"200", what="a place for a stream")
    shared_hold.ask("revoke_token", token="streams")


def test_unfinished_bodies_of_one_token_are_bounded(shared_hold: Hold) -> None:
    """A token that sends too much at once is told so; another one is answered."""
    before = "import holdfast.gate.body_limits as b; b.TOKEN_BYTES = 1_000_000;"
    viewer = shared_hold.ask("create_token", token_name="bodies", role="viewer")["text"]
    with gate_of(shared_hold, before) as gate, Flood(gate) as flood:
        guests = []
        for _ in range(3):
            guest = flood.connect()
            token = f"Authorization: Bearer {viewer}"
            length = "Content-Length: 700000"
            guest.sendall(flood.head("POST /api/files/write HTTP/1.1", token, length))
            flood.send_what_is_taken(guest, b" " * 600_000, 2.0)
            guests.append(guest)
        # Which of them comes to be too much depends on whose bytes the gate has read first.
        refused, _, _ = select.select(guests, [], [], 30)
        assert refused
        assert b" 429 " in refused[0].recv(65536)
        guest_is_answered(gate)
    shared_hold.ask("revoke_token", token="bodies")
