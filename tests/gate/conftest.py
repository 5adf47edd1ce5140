"""A real Holdfast with a real gate on a socket of the test's."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.harness import Hold, read_until


class Gate:
    """The gate's process, and a client of it."""

    def __init__(self, hold: Hold, before: str = "", **environ: str) -> None:
        """`before`: what is said in the process before it begins."""
        self.hold = hold
        self.before = before
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(100)
        self.port = int(self.listening.getsockname()[1])
        self.environ = {
            **hold.environ,
            "HOLDFAST_GATE_LINE": str(hold.runtime / "line.sock"),
            "HOLDFAST_GATE_INSTANCE": "test",
            **environ,
        }
        self.process = self._start()
        self.token = (hold.state / "admin.token").read_text().strip()

    def _start(self) -> subprocess.Popen[bytes]:
        # The socket becomes descriptor 3, as the keeper passes it.
        number = self.listening.fileno()
        code = f"import os; os.dup2({number}, 3); {self.before}"
        code += "from holdfast.gate.main import main; main()"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=self.environ,
            pass_fds=[number],
            stdout=subprocess.PIPE,
        )
        read_until(process, b"listening")
        return process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def replace(self) -> None:
        self.process = self._start()

    def request(
        self, method: str, path: str, body: Any = None, token: str | None = "", **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given.setdefault("Authorization", f"Bearer {token or self.token}")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            given.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, data, given)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Any:
        answer, data = self.request("GET", path, **options)
        assert answer.status == 200, data
        return json.loads(data)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        answer, data = self.request("POST", path, body, **options)
        assert answer.status == 200, data
        return json.loads(data)

    def refused(self, status: int, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The problem details of a request that must fail with this status."""
        answer, data = self.request(method, path, **options)
        assert answer.status == status, (answer.status, data)
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        found: dict[str, Any] = json.loads(data)
        return found

    def close(self) -> None:
        self.kill()
        self.listening.close()


@contextmanager
def greeting_hold() -> Iterator[Hold]:
    with Hold() as made:
        made.services(web={"command": ["sh", "-c", "echo hello; exec sleep 1000"]})
        made.up()
        yield made


@contextmanager
def gate_of(hold: Hold) -> Iterator[Gate]:
    made = Gate(hold)
    try:
        yield made
    finally:
        made.close()
        assert os.path.exists(hold.state)


@pytest.fixture
def hold() -> Iterator[Hold]:
    with greeting_hold() as made:
        yield made


@pytest.fixture
def gate(hold: Hold) -> Iterator[Gate]:
    with gate_of(hold) as made:
        yield made


@pytest.fixture(scope="module")
def lasting_gate() -> Iterator[Gate]:
    """For those who change nothing, one after the other."""
    with greeting_hold() as hold, gate_of(hold) as made:
        yield made
