"""A real keeper for each test, and a peer that speaks to it synchronously."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.keeper.protocol import wire
from tests.harness import forbid_marks

PACKAGE = Path(holdfast.__file__).parent
PROGRAM = PACKAGE / "keeper" / "__main__.py"
DEADLINE = 30.0

Message = dict[str, Any]


class Peer:
    """One end of the protocol: requests, answers and notices in order."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.inbox = wire.Inbox()
        self.notices: list[Message] = []
        self.spares: dict[str, dict[str, int]] = {}
        self.held: dict[str, int] = {}
        self._answers: dict[int, tuple[Message, list[int]]] = {}
        self._next = 0
        self._fds: list[int] = []

    def ask(self, word: str, *, fds: tuple[int, ...] = (), **fields: Any) -> Message:
        """The answer, whatever it is."""
        return self.wait(self.send(word, fds=fds, **fields))

    def do(self, word: str, *, fds: tuple[int, ...] = (), **fields: Any) -> Message:
        """The answer, which must be good."""
        answer = self.ask(word, fds=fds, **fields)
        assert answer["ok"], answer
        return answer

    def send(self, word: str, *, fds: tuple[int, ...] = (), **fields: Any) -> int:
        self._next += 1
        outbox = wire.Outbox()
        outbox.put({"id": self._next, "do": word, **fields}, fds)
        while not outbox.flush(self.sock):
            self.receive(0.01)
        return self._next

    def wait(self, name: int, seconds: float = DEADLINE) -> Message:
        self._until(lambda: name in self._answers, seconds, f"answer {name}")
        return self._answers.pop(name)[0]

    def notice(
        self,
        word: str,
        *,
        seconds: float = DEADLINE,
        where: Callable[[Message], bool] | None = None,
    ) -> Message:
        """The next notice of this kind, taken out of the queue."""

        def find() -> Message | None:
            for it in self.notices:
                if it["notice"] == word and (where is None or where(it)):
                    return it
            return None

        self._until(lambda: find() is not None, seconds, f"notice {word}")
        found = find()
        assert found is not None
        self.notices.remove(found)
        return found

    def _until(self, is_true: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not is_true():
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"no {what} within {seconds} s; notices: {self.notices}")
            self.receive(left)

    def receive(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return
        data, fds = wire.receive(self.sock)
        if not data:
            raise ConnectionResetError("the keeper closed the connection")
        for message, own in self.inbox.feed(data, fds):
            self._take(message, own)

    def _take(self, message: Message, fds: list[int]) -> None:
        self._fds += fds
        match message.get("notice"):
            case None:
                self._answers[message["id"]] = (message, fds)
                if "parts" in message:
                    message["spare"] = dict(zip(message["parts"], fds, strict=True))
            case "spare":
                self.spares[message["run_id"]] = dict(zip(message["parts"], fds, strict=True))
            case "held":
                self.held[message["name"]] = fds[0]
            case _:
                self.notices.append(message)

    def close(self) -> None:
        self.sock.close()
        self.inbox.close()
        for fd in self._fds:
            os.close(fd)


class KeeperProcess:
    """A keeper started by the test, which is its supervisor."""

    def __init__(
        self, folder: Path, *arguments: str, link: bool = True, unmarked: bool = False
    ) -> None:
        self.state = folder / "state"
        self.runtime = folder / "run"
        self.logs = self.state / "logs"
        self._peers: list[Peer] = []
        theirs = None
        extra: list[str] = []
        if link:
            ours, theirs = socket.socketpair()
            extra = ["--link", str(theirs.fileno())]
            self.link = Peer(ours)
            self._peers.append(self.link)
        reader, writer = os.pipe()
        passed = [writer, *([theirs.fileno()] if theirs else [])]
        self.state.mkdir(parents=True, exist_ok=True)
        with open(self.state / "keeper.err", "ab") as err:
            self.process = subprocess.Popen(
                [*self.argv(), *extra, "--ready-fd", str(writer), *arguments],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,
                preexec_fn=forbid_marks if unmarked else None,
            )
        self.pid = self.process.pid
        os.close(writer)
        if theirs:
            theirs.close()
        with open(reader, "rb") as file:
            line = file.readline()
        self.ready: Message = json.loads(line) if line else {}
        if link and self.ready.get("ready"):
            self.hello = self.link.do("hello", protocol=1, role="supervisor", version="test")
            self.link.notice("spares_done")

    def argv(self) -> list[str]:
        places = ["--state", str(self.state), "--runtime", str(self.runtime)]
        return [sys.executable, "-I", "-S", str(PROGRAM), *places]

    def control(self) -> Peer:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(self.runtime / "keeper.sock"))
        except OSError:
            sock.close()
            raise
        peer = Peer(sock)
        self._peers.append(peer)
        return peer

    def spawn(self, *argv: str, **fields: Any) -> Message:
        """A run of its own service, with the test's environment."""
        return self.link.do("spawn", **self.request(*argv, **fields))

    def request(self, *argv: str, **fields: Any) -> Message:
        run_id = fields.pop("run_id", None) or f"run-{os.urandom(4).hex()}"
        self.last = run_id
        return {
            "run_id": run_id,
            "service": run_id,
            "number": 1,
            "kind": "service",
            "argv": list(argv),
            "env": {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            "cwd": "/",
            "stdin": "null",
            "stop": {"signal": 15, "grace": 5.0},
            **fields,
        }

    def exit_of(self, run_id: str, seconds: float = DEADLINE) -> Message:
        return self.link.notice("exit", seconds=seconds, where=lambda it: it["run_id"] == run_id)

    def output(self, service: str, stream: str = "out") -> bytes:
        files = sorted(self.logs.glob(f"{service}.*.{stream}"))
        return b"".join(file.read_bytes() for file in files)

    def wait_output(self, service: str, wanted: bytes, seconds: float = DEADLINE) -> bytes:
        wait_for(lambda: wanted in self.output(service), seconds, f"{wanted!r} in {service}")
        return self.output(service)

    def write(self, run_id: str, data: bytes, **fields: Any) -> Message:
        return self.link.ask("write", run_id=run_id, data=base64.b64encode(data).decode(), **fields)

    def pss(self) -> int:
        """Its proportional memory in KiB."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
        raise AssertionError("no Pss")

    def end(self) -> None:
        """Shut down and take away whatever is left."""
        if self.process.poll() is None:
            try:
                self.control().do("shutdown", grace=0)
                self.process.wait(DEADLINE)
            except (OSError, AssertionError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait(DEADLINE)
        for peer in self._peers:
            peer.close()


def wait_for(is_true: Callable[[], object], seconds: float = DEADLINE, what: str = "it") -> None:
    """Wait for a condition, not for a time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds} s")
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: socket names have a limit."""
    with tempfile.TemporaryDirectory(prefix="hf-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def make_keeper(folder: Path) -> Iterator[Callable[..., KeeperProcess]]:
    made: list[KeeperProcess] = []

    def make(*arguments: str, **options: Any) -> KeeperProcess:
        keeper = KeeperProcess(folder, *arguments, **options)
        made.append(keeper)
        return keeper

    yield make
    for keeper in made:
        keeper.end()


@pytest.fixture
def keeper(make_keeper: Callable[..., KeeperProcess]) -> KeeperProcess:
    return make_keeper()
