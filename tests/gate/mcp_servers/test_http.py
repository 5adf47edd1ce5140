"""MCP servers that speak HTTP: those that Holdfast runs, and those that somebody else runs."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError, OutcomeUnknown
from tests.gate.mcp_servers.conftest import GatewayHold
from tests.harness import is_alive, kill_9, program, wait_for


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_elsewhere(hold: GatewayHold, port: int, **env: str) -> Iterator[None]:
    """A server that Holdfast does not run."""
    environ = {**hold.environ, "PORT": str(port), "LEDGER": str(hold.ledger), **env}
    with subprocess.Popen(
        program("mcp_http_server.py"), env=environ, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == b"listening\n"
            yield
        finally:
            process.kill()


def test_one_that_we_run() -> None:
    """It gets a leased port, answers as JSON and as a stream, and is there again after a kill. A
    call that it answers with HTTP 5xx may have been done; one that may be repeated is."""
    keys: dict[str, Any] = {
        "command": program("mcp_http_server.py"), "port": "auto", "path": "/mcp",
    }  # fmt: skip
    with GatewayHold(web=keys) as hold:
        hold.up()
        hold.await_listing("web")
        assert hold.server("web")["transport"] == "http"
        assert hold.text("web__add", text="one") == "added one"
        pid = hold.service("web")["pid"]
        assert hold.text("web__whoami") == str(pid)
        kill_9(pid)
        wait_for(lambda: not is_alive(pid))
        assert hold.text("web__add", text="two") == "added two"
        assert hold.lines() == ["one", "two"]
        for status in (500, 502, 503):
            with pytest.raises(OutcomeUnknown, match=f"HTTP {status}"):
                hold.call("web__add", text=str(status), status=status)
            assert hold.call("web__whoami", status=status)["attempts"] == 2
        assert hold.lines() == ["one", "two", "500", "502", "503"]
        refused = hold.call("web__add", text="again", status=403)
        assert refused["outcome"] == "error"


def test_a_taken_port_is_told() -> None:
    """A server whose port another process holds is not started, and it is said who holds it."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        keys: dict[str, Any] = {
            "command": program("mcp_http_server.py"), "port": port, "path": "/mcp",
        }  # fmt: skip
        with GatewayHold(web=keys) as hold:
            hold.up()
            wait_for(lambda: f"port {port} was used by pid" in str(hold.server("web")["reason"]))
            assert hold.lines() == []


def test_one_that_others_run() -> None:
    """Its definitions wait for approval; a restart of it loses nothing, and a login is named."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    remote = {"url": url, "headers": {"Authorization": "Bearer sesame"}}
    with GatewayHold(web=remote) as hold, running_elsewhere(hold, port, NEEDED_TOKEN="sesame"):
        hold.up()
        hold.await_listing("web")
        with pytest.raises(HoldfastError, match="held until somebody approves"):
            hold.call("web__add", text="early")
        (entry,) = hold.ask("approvals")["waiting"]
        assert entry["arguments"] == {"service": "web", "tools": ["add", "whoami"]}
        hold.ask("approve", approval=entry["approval"])
        assert hold.text("web__add", text="one") == "added one"
        assert "sesame" not in str(hold.ask("mcp_servers"))
    with GatewayHold(web={**remote, "pins": "first"}) as hold:
        with running_elsewhere(hold, port):
            hold.up()
            hold.await_listing("web")
            assert hold.text("web__add", text="one") == "added one"
        with pytest.raises(HoldfastError, match="was not asked: it cannot be reached"):
            hold.ask("call_mcp_tool", tool="web__whoami")
        with running_elsewhere(hold, port):
            assert hold.text("web__add", text="two") == "added two"
            assert hold.lines() == ["one", "two"]
