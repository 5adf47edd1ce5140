"""What the keeper takes down while no supervisor listens."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.keeper.descriptors import Descriptors
from holdfast.keeper.memory import Memory
from holdfast.keeper.notify_sockets import NotifyReader
from holdfast.system import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs names beside the files")


class FakeLoop:
    def __init__(self) -> None:
        self.watched: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        self.watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        del self.watched[fd]

    def turn(self) -> None:
        for callback in list(self.watched.values()):
            callback()


class FakeRun:
    def __init__(self, pid: int) -> None:
        self.run_id, self.service, self.exit = "run-1", "web", None
        self.pid = pid
        self.start_time = processes.start_time(pid)


class Listening:
    """A held socket, and notes of it."""

    def __init__(self, pid: int) -> None:
        self.address = f"\0holdfast-test-{os.getpid()}-{pid}"
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, 16, 1)
        self.sock.bind(self.address)
        self.loop, self.memory = FakeLoop(), Memory(None)
        held = Descriptors({"notify:web": self.sock.detach(), "line": os.dup(0)})
        runs: Any = {"run-1": FakeRun(pid)}
        self.notify_sockets = NotifyReader(self.loop, held, self.memory, runs)  # type: ignore[arg-type]
        self.held = held

    def say(self, *messages: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect(self.address)
            for message in messages:
                sock.send(message)
                self.loop.turn()

    def heard(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.memory.values.get("heard:web") or "{}")
        return found

    def close(self) -> None:
        self.notify_sockets.leave()
        for name in self.held.names():
            self.held.release(name)


@pytest.fixture
def listening() -> Iterator[Listening]:
    one = Listening(os.getpid())
    yield one
    one.close()


def test_the_newest_words_are_kept(listening: Listening) -> None:
    """Of any number of messages, what a new supervisor needs to know; the rest only drains."""
    listening.notify_sockets.listen()
    assert len(listening.loop.watched) == 1
    listening.say(b"STATUS=one", *[b"WATCHDOG=1"] * 50, b"READY=1\nSTATUS=two", b"X_METRIC_a=1")
    assert listening.heard() == {"run_id": "run-1", "state": "READY=1", "status": "STATUS=two"}
    listening.say(b"RELOADING=1")
    assert listening.heard()["state"] == "RELOADING=1"


def test_a_supervisor_reads_for_itself(listening: Listening) -> None:
    """As soon as one is there nothing is taken from it."""
    listening.notify_sockets.listen()
    listening.notify_sockets.leave()
    assert listening.loop.watched == {}
    listening.say(b"READY=1")
    assert listening.heard() == {}


def test_words_of_strangers_are_not_kept() -> None:
    """A live process that is not of the run is not believed."""
    with subprocess.Popen(["sleep", "60"]) as other:
        one = Listening(other.pid)
        try:
            one.notify_sockets.listen()
            one.say(b"READY=1")
            assert one.heard() == {}
        finally:
            one.close()
            other.kill()
