"""The gate as the supervisor keeps it: hidden, held, and back on the same socket."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import Hold, is_alive, kill_9, wait_for
from tests.scenarios.test_tcp import free_port


class HttpHold(Hold):
    """A Holdfast that serves HTTP."""

    def __init__(self) -> None:
        super().__init__(HOLDFAST_HTTP="on")
        self.port = free_port()

    def open(self) -> None:
        services = {"web": {"command": ["sleep", "1000"], "start_seconds": 0}}
        self.write({"http_port": self.port, "services": services})
        self.up()

    def http(self, path: str = "/api/status") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        token = (self.state / "admin.token").read_text().strip()
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def gate_pid(self) -> int:
        def started() -> list[dict[str, Any]]:
            events = self.ask("events", limit=1000)["events"]
            kind = "process:started"
            return [e for e in events if e["kind"] == kind and e["service"] == "holdfast.gate"]

        return int(wait_for(started)[-1]["data"]["pid"])


@pytest.fixture
def hold() -> Iterator[HttpHold]:
    with HttpHold() as made:
        made.open()
        yield made


def test_it_serves_and_is_hidden(hold: HttpHold) -> None:
    """A request in the first moment waits; the user's list has only the user's services."""
    assert list(hold.http()["services"]) == ["web"]
    assert list(hold.status()["services"]) == ["web"]
    assert hold.status()["supervisor"]["doors"] == {"http": f"http://127.0.0.1:{hold.port}"}
    assert "gate" not in hold.cli("ps").stdout


def test_a_killed_gate_is_back_and_nothing_else_is_touched(hold: HttpHold) -> None:
    """On the same port; supervisor and services keep their pids."""
    hold.http()
    pid, web, supervisor = hold.gate_pid(), hold.service("web")["pid"], hold.supervisor_pid
    kill_9(pid)
    assert hold.http()["services"]["web"]["pid"] == web
    assert hold.supervisor_pid == supervisor
    assert hold.gate_pid() != pid


def test_the_gate_outlives_the_supervisor(hold: HttpHold) -> None:
    """It is the same process after the supervisor was replaced."""
    hold.http()
    pid = hold.gate_pid()
    kill_9(hold.supervisor_pid)
    assert hold.http()["services"]["web"]["status"] == "running"
    assert hold.gate_pid() == pid
    assert is_alive(pid)


def test_down_ends_it(hold: HttpHold) -> None:
    """Also if the services stay: nobody could answer it."""
    hold.http()
    pid = hold.gate_pid()
    hold.cli("down", "--keep-running")
    wait_for(lambda: not is_alive(pid), what="the gate to end")


def test_it_can_be_left_out(hold: HttpHold) -> None:
    """A reload closes the port and ends the process."""
    pid = hold.gate_pid()
    hold.write({"http": False, "services": {"web": {"command": ["sleep", "1000"]}}})
    hold.environ.pop("HOLDFAST_HTTP")
    hold.cli("up", "-d")
    wait_for(lambda: not is_alive(pid), what="the gate to end")
    assert hold.status()["supervisor"]["doors"] == {}
