"""The link to the keeper: order, descriptors, memory, and what is kept for its successor."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import resource
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.succession import Succession
from holdfast.keeper import handover
from holdfast.keeper.protocol import wire
from holdfast.keeper.protocol.messages import Notice, RunFacts, SpawnRequest
from holdfast.vocabulary.errors import Failed, SpawnFailed

Message = dict[str, Any]


class Peer:
    """The keeper's end of the socket pair, driven by the test."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._inbox = wire.Inbox()
        self._found: list[tuple[Message, list[int]]] = []

    async def take(self) -> tuple[Message, list[int]]:
        for _ in range(500):
            if self._found:
                return self._found.pop(0)
            try:
                data, fds = wire.receive(self._sock)
                self._found += self._inbox.feed(data, fds)
            except BlockingIOError:
                await asyncio.sleep(0.002)
        raise AssertionError("no message came")

    def send(self, message: Message, fds: list[int] | None = None) -> None:
        wire.Outbox().send_now(self._sock, message, fds or [])

    def close(self) -> None:
        self._sock.close()


Story = Callable[[KeeperLink, Peer, list[Message]], Coroutine[Any, Any, None]]


def with_link(story: Story, gone: list[bool] | None = None) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        notices: list[Any] = []
        link = KeeperLink(
            ours,
            asyncio.get_running_loop(),
            on_notice=notices.append,
            on_gone=lambda: (gone if gone is not None else []).append(True),
        )
        peer = Peer(theirs)
        try:
            await story(link, peer, notices)
        finally:
            link.close()
            peer.close()

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")


def test_replies_find_their_requests() -> None:
    """Pipelined requests are answered by id; a refusal becomes an error with its words."""

    async def story(link: KeeperLink, peer: Peer, notices: list[Any]) -> None:
        asked = [asyncio.ensure_future(link.ask({"do": "tree", "run_id": "r"})) for _ in range(3)]
        ids = [(await peer.take())[0]["id"] for _ in range(3)]
        peer.send({"id": ids[1], "ok": True, "processes": []})
        error = {"code": "spawn_failed", "message": "entering directory", "stage": "directory"}
        peer.send({"id": ids[0], "ok": False, "error": error})
        peer.send({"id": ids[2], "ok": False, "error": {"code": "not_found", "message": "gone"}})
        assert (await asked[1])["processes"] == []
        with pytest.raises(SpawnFailed, match="entering directory"):
            await asked[0]
        with pytest.raises(Failed, match="gone"):
            await asked[2]

    with_link(story)


def test_spare_descriptors_live_as_long_as_their_run() -> None:
    """Taken from replies and notices, never read, closed when the tree is empty."""

    async def story(link: KeeperLink, peer: Peer, notices: list[Any]) -> None:
        reads, writes = os.pipe()
        spawned = asyncio.ensure_future(
            link.ask(
                {
                    "do": "spawn",
                    "run_id": "r1",
                    "service": "web",
                    "number": 1,
                    "argv": [],
                    "env": {},
                }
            )
        )
        request, _ = await peer.take()
        reply = {"id": request["id"], "ok": True, "pid": 5, "start_time": "9", "parts": ["out"]}
        peer.send(reply, [reads])
        os.close(reads)
        assert (await spawned)["pid"] == 5
        os.write(writes, b"kept in the pipe")
        assert link.runs["r1"]["pid"] == 5
        assert "env" not in link.runs["r1"]
        peer.send({"notice": "exit", "run_id": "r1", "service": "web", "empty": False})
        await until(lambda: len(notices) == 1)
        os.write(writes, b"still open")
        assert link.runs["r1"]["exit"]["empty"] is False
        peer.send({"notice": "ended", "run_id": "r1", "service": "web", "empty": True})
        await until(lambda: len(notices) == 2)
        with pytest.raises(BrokenPipeError):
            os.write(writes, b"nobody holds the other end")
        assert not link.runs
        os.close(writes)

    with_link(story)


def test_spares_leave_room_for_what_is_needed_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where descriptors are few, a supervisor without spares is better than none."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    succession = Succession()
    low = os.open(os.devnull, os.O_RDONLY)
    high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 950)
    for name, fd in (("low", low), ("high", high)):
        succession.begin({"runs": [{"run_id": name, "service": name}]})
        succession.on_notice({"notice": "spare", "run_id": name, "parts": ["out"]}, [fd])
    parts = {run["run_id"]: run["parts"] for run in succession.table()}
    assert parts == {"low": {"out": low}, "high": {}}
    os.close(low)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(high)


def test_the_end_of_input_is_not_hidden_by_a_spare() -> None:
    """Our copy of a service's standard input is closed when its end is asked for."""

    async def story(link: KeeperLink, peer: Peer, notices: list[Any]) -> None:
        reads, writes = os.pipe()
        peer.send({"notice": "spare", "run_id": "r1", "parts": ["stdin"]}, [writes])
        link.runs["r1"] = {"run_id": "r1"}
        os.close(writes)
        await until(lambda: len(notices) == 1)
        link.request({"do": "write", "run_id": "r1", "data": "", "eof": True}, lambda _: None)
        assert os.read(reads, 10) == b""
        os.close(reads)

    with_link(story)


def test_memory_travels_with_requests() -> None:
    """What is to be kept comes with the next request, or by itself when none follows."""

    async def story(link: KeeperLink, peer: Peer, notices: list[Any]) -> None:
        link.keep("a", "1")
        link.keep("a", "1")
        link.request({"do": "list"}, lambda _: None)
        link.keep("a", None)
        link.keep("b", "2")
        seen = [(await peer.take())[0] for _ in range(2)]
        assert [(it["do"], it["kept"]) for it in seen] == [
            ("list", {"a": "1"}),
            ("keep", {"a": None, "b": "2"}),
        ]
        assert link.kept == {"b": "2"}
        link.keep("b", "2")
        link.request({"do": "list"}, lambda _: None)
        assert "kept" not in (await peer.take())[0]

    with_link(story)


def test_much_memory_is_there_before_what_follows() -> None:
    """Hundreds of values of one turn arrive whole, in order, the first before the last is said."""

    async def story(link: KeeperLink, peer: Peer, notices: list[Any]) -> None:
        for number in range(300):
            link.keep(f"key{number}", str(number))
        link.request(
            {"do": "spawn", "run_id": "r", "service": "web", "argv": []}, lambda reply: None
        )
        kept: dict[str, str] = {}
        messages: list[Message] = []
        while not messages or messages[-1]["do"] != "spawn":
            messages.append((await peer.take())[0])
            kept |= messages[-1].get("kept") or {}
        assert kept == {f"key{number}": str(number) for number in range(300)} == link.kept
        assert list(kept) == list(link.kept)
        assert [message["do"] for message in messages[:-1]] == ["keep"] * (len(messages) - 1)
        assert len(messages) > 3

    with_link(story)


def test_a_callback_that_fails_does_not_stop_the_next_notice() -> None:
    """The border catches what our own machinery does wrong."""

    async def story(link: KeeperLink, peer: Peer, notices: list[Any]) -> None:
        def fail(notice: Notice) -> None:
            notices.append(notice)
            raise RuntimeError("a bug of ours")

        link._on_notice = fail
        peer.send({"notice": "exit", "run_id": "r1", "service": "a"})
        peer.send({"notice": "exit", "run_id": "r2", "service": "b"})
        await until(lambda: len(notices) == 2)

    with_link(story)


def test_the_table_for_a_new_keeper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When the keeper is gone, its table is rebuilt from the spares, and execv follows."""
    gone: list[bool] = []
    executed: list[list[str]] = []

    def execv(path: str, argv: list[str]) -> None:
        executed.append(argv)
        raise SystemExit

    monkeypatch.setattr(os, "execv", execv)

    async def story(link: KeeperLink, peer: Peer, notices: list[Any]) -> None:
        greeting = asyncio.ensure_future(link.hello("1"))
        request, _ = await peer.take()
        run = {"run_id": "r1", "service": "web", "number": 3, "pid": 7, "start_time": "5"}
        run |= {"age": 12.0, "stop": {"signal": 15, "grace": 5.0}}
        facts = {"id": request["id"], "ok": True, "protocol": 1, "pid": 1, "started_at": 5.0}
        peer.send({**facts, "runs": [run], "exits": [], "kept": {"k": "v"}})
        await greeting
        reads, writes = os.pipe()
        peer.send({"notice": "spare", "run_id": "r1", "parts": ["out"]}, [reads])
        peer.send({"notice": "held", "name": "line"}, [writes])
        os.close(reads)
        os.close(writes)
        await until(lambda: len(notices) == 2)
        link.request({"do": "end", "run_id": "r1", "grace": 1.0}, lambda _: None)
        await peer.take()
        spawn: SpawnRequest = {
            "do": "spawn",
            "run_id": "r2",
            "service": "web",
            "number": 4,
            "argv": [],
            "env": {"A": "b"},
        }
        link.request(spawn, lambda _: None)
        await peer.take()
        peer.close()
        await until(lambda: bool(gone))
        lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
        with pytest.raises(SystemExit):
            link.turn_into_keeper(
                lock_fd=lock, state=str(tmp_path), runtime=str(tmp_path), umask=0o022
            )
        table = handover.read(int(executed[0][executed[0].index("--recover") + 1]))
        assert table["lock"] == lock
        assert table["kept"] == {"k": "v"}
        (found,) = table["runs"]
        assert found["pid"] == 7
        assert found["age"] >= 12.0
        end = found["end"]
        assert (end["signal"], end["signalled"]) == (15, False), "it was not answered"
        assert 0.0 < end["grace"] <= 1.0
        assert [it["run_id"] for it in table["pending"]] == ["r2"]
        assert "env" not in table["pending"][0]
        assert os.get_inheritable(found["parts"]["out"])
        assert os.get_inheritable(table["held"]["line"])
        assert json.dumps(table)
        os.close(lock)

    with_link(story, gone)


def test_the_moment_at_which_a_run_began_is_handed_on() -> None:
    """An age would be too small by the time that a successor takes to begin."""
    now = [100.0]
    succession = Succession(clock=lambda: now[0])
    succession.begin({"runs": [{"run_id": "r1", "service": "web", "age": 30.0}]})
    now[0] += 2.0
    (found,) = succession.table()
    assert (found["began"], found["age"]) == (70.0, 32.0)


def test_an_answered_stop_is_handed_on_with_what_is_left_of_its_grace() -> None:
    """A successor learns that the signal was sent, how long ago, and only shorter graces."""
    now = [100.0]
    succession = Succession(clock=lambda: now[0])
    run: RunFacts = {"run_id": "r1", "service": "web", "stop": {"signal": 15, "grace": 9.0}}
    succession.begin({"runs": [run]})
    succession.on_notice({"notice": "spare", "run_id": "r1", "parts": []}, [])
    then = succession.on_request({"do": "end", "run_id": "r1"})
    assert then is not None
    now[0] += 2.0
    (found,) = succession.table()
    assert found["end"] == {"signal": 15, "grace": 7.0, "signalled": False, "ago": 2.0}
    then({"ok": True})
    succession.on_request({"do": "end", "run_id": "r1", "signal": 2, "grace": 60.0})
    (found,) = succession.table()
    assert found["end"] == {"signal": 15, "grace": 7.0, "signalled": True, "ago": 2.0}
    succession.on_request({"do": "end", "run_id": "r1", "grace": 1.0})
    succession.on_notice({"notice": "exit", "run_id": "r1", "empty": False}, [])
    now[0] += 3.0
    (found,) = succession.table()
    assert (found["end"]["grace"], found["end"]["rest_ago"]) == (0.0, 3.0)
