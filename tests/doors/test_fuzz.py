"""Whatever comes through the line door or the control door: it is answered or hung up on, others
are answered meanwhile, and the supervisor neither fails nor grows."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.vocabulary.commands import COMMANDS
from tests.contract.doors import World
from tests.harness import quick, wait_for

GROWTH_KIB = 40_000
WORDS = ["status", "restart", "help", "quit", "logs", "token", "shutdown", "stop web", "\x00"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["web", "*", "../..", "P0", "Pzzzzzzzzzzzz", "-1", "1e999", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
NAMES = sorted({field for command in COMMANDS.values() for field in command.__struct_fields__})
IDS = st.none() | st.integers() | st.text(max_size=10) | st.just(10**400) | VALUES


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        web = quick(["sh", "-c", "echo hello; exec sleep 1000"], start_seconds=0)
        made.write({"port": made.tcp_port, "http": False, "services": {"web": web}})
        made.up()
        wait_for(lambda: "tcp" in made.status()["supervisor"]["doors"])
        yield made
        assert "unexpectedly" not in made.own_logs()


@pytest.fixture(scope="module")
def viewer(world: World) -> str:
    """What comes in its name may look, and do nothing."""
    made = world.ask("create_token", token_name="fuzz", role="viewer")
    return str(made["text"])


def requests(token: str) -> st.SearchStrategy[bytes]:
    """Of every command, with fields that may fit; in the name of who may only look."""
    fields = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), VALUES, max_size=5)
    caller = {"token": token, "door": "rest"}
    # Streams and waits are left open by the dozen: they end with their connection.
    names = sorted(set(COMMANDS) - {"health_check"})
    tagged = st.tuples(st.sampled_from(names) | st.text(max_size=10), fields, IDS)
    return tagged.map(
        lambda it: _dumped({**it[1], "id": it[2], "command": it[0], "caller": caller}) + b"\n"
    )


def _dumped(frame: dict[str, Any]) -> bytes:
    return json.dumps(frame).encode()


def noise(token: str) -> st.SearchStrategy[bytes]:
    pieces = (
        requests(token)
        | st.binary(max_size=200)
        | st.sampled_from([f"{word}\n".encode() for word in WORDS])
        | st.sampled_from(
            [
                b"[" * 50_000 + b"\n",
                b'{"a":' * 50_000 + b"\n",
                b'{"id": 1, "command": "status"',
                b'"' + b"x" * 300_000 + b'"\n',
                b"\r\n" * 1000,
                b"\xff\xfe\n",
            ]
        )
    )
    return st.lists(pieces, max_size=12).map(b"".join)


def poured(sock: socket.socket, data: bytes, *, is_read: bool) -> None:
    """Send it, as far as it is taken; read a little of what is said."""
    sock.settimeout(5.0)
    try:
        sock.sendall(data)
        if is_read:
            sock.settimeout(0.02)
            sock.recv(1 << 16)
    except OSError:
        pass  # hung up, or it has nothing to say
    finally:
        sock.close()


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def at_line(world: World) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(world.runtime / "line.sock"))
    return sock


def at_tcp(world: World, token: str) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", world.tcp_port))
    sock.sendall(f"token {token}\n".encode())
    return sock


def check(world: World, run: str, pid: int) -> None:
    status = world.status()
    assert status["supervisor"]["pid"] == pid
    assert status["services"]["web"]["run_id"] == run


@pytest.mark.parametrize("door", ["line", "tcp"])
def test_whatever_comes(world: World, viewer: str, door: str) -> None:
    """Bytes, half frames, deep nesting, every command with fields that may fit."""
    before = world.status()
    pid, run = before["supervisor"]["pid"], before["services"]["web"]["run_id"]
    sizes: list[int] = []

    @settings(
        max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(noise(viewer), st.booleans())
    def story(data: bytes, is_read: bool) -> None:
        sock = at_line(world) if door == "line" else at_tcp(world, viewer)
        poured(sock, data, is_read=is_read)
        check(world, run, pid)
        sizes.append(resident_kib(pid))

    story()
    assert max(sizes[len(sizes) // 2 :]) - sizes[0] < GROWTH_KIB
    assert "unexpectedly" not in world.own_logs()


@pytest.mark.parametrize("door", ["line", "tcp"])
def test_a_flood_slows_nobody(world: World, viewer: str, door: str) -> None:
    """Clients that ask and never read: others are answered, and nothing piles up."""
    pid = world.status()["supervisor"]["pid"]
    run, size = world.service("web")["run_id"], resident_kib(pid)
    caller = {"token": viewer, "door": "rest"}
    frame = _dumped({"id": None, "command": "status", "caller": caller}) + b"\n"

    def flood() -> None:
        sock = at_line(world) if door == "line" else at_tcp(world, viewer)
        poured(sock, frame * 20_000, is_read=False)

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        check(world, run, pid)
    for thread in threads:
        thread.join()
    check(world, run, pid)
    assert resident_kib(pid) - size < GROWTH_KIB
