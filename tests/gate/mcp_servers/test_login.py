"""Logins at a remote server, against a real authorization server: made apart from every call,
renewed once for all calls, and taken back."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.error import HTTPError

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import HoldfastError
from tests.gate.mcp_servers.conftest import GatewayHold
from tests.gate.mcp_servers.test_http import free_port
from tests.harness import PROGRAMS, PYTHON, kill_9, wait_for


class Guarded(GatewayHold):
    """With one remote server that asks for a login."""

    def __init__(self) -> None:
        self.base = f"http://127.0.0.1:{free_port()}"
        super().__init__(web={"url": f"{self.base}/mcp", "auth": "oauth", "pins": "first"})
        self.ledger.touch()

    def noted(self, what: str) -> int:
        return self.ledger.read_text().split("\n").count(what)

    def post(self, path: str) -> None:
        urllib.request.urlopen(urllib.request.Request(self.base + path, method="POST")).close()

    def browse(self, address: str) -> str:
        """Open an address as a browser does that agrees to everything; returns where it ends."""
        opener = urllib.request.build_opener(_Stay())
        try:
            opener.open(address).close()
        except HTTPError as error:
            return str(error.headers["location"])
        raise AssertionError("nobody was sent back")

    def log_in(self) -> None:
        callback = "http://127.0.0.1:9/callback"
        begun = self.ask("login_mcp_server", service="web", callback=callback)
        done = self.ask("finish_mcp_login", service="web", address=self.browse(begun["address"]))
        assert done["scope"] == "use"
        self.await_listing("web")

    def need_login(self) -> None:
        """Log in, unless an earlier test has."""
        if not self.server()["tools"] or "needs login" in self.note_of():
            self.log_in()

    def server(self, name: str = "web") -> dict[str, Any]:
        return super().server(name)

    def note_of(self) -> list[str]:
        notes: list[str] = self.server("web")["notes"]
        return notes


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@pytest.fixture(scope="module")
def hold() -> Iterator[Guarded]:
    with Guarded() as made:
        port = made.base.rpartition(":")[2]
        environ = {**made.environ, "PORT": port, "LEDGER": str(made.ledger)}
        with subprocess.Popen(
            [PYTHON, str(PROGRAMS / "oauth_server.py")], env=environ, stderr=subprocess.PIPE
        ) as process:
            assert process.stderr is not None
            try:
                assert process.stderr.readline() == b"listening\n"
                made.up()
                wait_for(lambda: made.ask("mcp_servers")["gate"])
                yield made
            finally:
                process.kill()


def test_nothing_is_asked_without_a_login(hold: Guarded) -> None:
    """The server is not sent anything, and what to do is told."""
    wait_for(lambda: "needs login" in hold.note_of())
    assert hold.noted("initialize") == hold.noted("401") == 0
    with pytest.raises(HoldfastError, match="offers no tool"):
        hold.call("web__who")


def test_a_login_is_made_and_kept(hold: Guarded) -> None:
    """Its tokens are in a file of mode 0600, in no answer, and outlive the gate and the
    supervisor."""
    hold.need_login()
    assert "needs login" not in hold.note_of()
    assert hold.text("web__who") == "did who"
    kept = hold.state / "mcp_servers" / "_logins.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    text = kept.read_text()
    token = text.partition('"access_token":"')[2].partition('"')[0]
    assert token
    told = str(
        [hold.ask("mcp_servers"), hold.ask("status"), hold.ask("events"), hold.ask("config")]
    )
    assert token not in told + hold.own_logs()
    audit = "".join(path.read_text() for path in (hold.state / "audit").iterdir())
    assert "finish_mcp_login" in audit
    assert token not in audit
    assert "code=" not in audit
    kill_9(hold.gate_pid())
    assert hold.text("web__who") == "did who"
    hold.kill_supervisor()
    assert hold.text("web__who") == "did who"
    assert hold.noted("code") == 1


def test_a_token_is_renewed_once_for_all_calls(hold: Guarded) -> None:
    """Calls that meet a token that has run out wait for one renewal, and each is done once."""
    hold.need_login()
    before = hold.noted("call add"), hold.noted("refresh")
    hold.post("/expire")

    def call(_: int) -> str:
        with closing(Connection(str(hold.runtime / "line.sock"))) as connection:
            answer = connection.ask("call_mcp_tool", tool="web__add", arguments={})
            return str(answer["result"]["content"][0]["text"])

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(call, range(6))) == {"did add"}
    assert (hold.noted("call add"), hold.noted("refresh")) == (before[0] + 6, before[1] + 1)


def test_a_revoked_login_is_said(hold: Guarded) -> None:
    """A call is refused with what to do, was not done, and a new login mends it."""
    hold.need_login()
    hold.post("/revoke-all")
    before = hold.noted("call add")
    with pytest.raises(HoldfastError, match="holdfast mcp login web"):
        hold.call("web__add")
    assert hold.noted("call add") == before
    assert "needs login" in hold.note_of()
    assert hold.ask("mcp_tools")["total"] == 2, "its tools stay listed"
    hold.log_in()
    assert hold.text("web__add") == "did add"


def test_a_login_that_goes_wrong(hold: Guarded) -> None:
    """A refusal, another state and a step without a beginning are told and leave the login."""
    hold.need_login()
    callback = "http://127.0.0.1:9/callback"
    with pytest.raises(HoldfastError, match="no login is under way"):
        hold.ask("finish_mcp_login", service="web", address=f"{callback}?code=1")
    for end, why in (("error=access_denied", "access_denied"), ("code=1&state=2", "[Ss]tate")):
        hold.ask("login_mcp_server", service="web", callback=callback)
        with pytest.raises(HoldfastError, match=why):
            hold.ask("finish_mcp_login", service="web", address=f"{callback}?{end}")
    with pytest.raises(HoldfastError, match="own machine"):
        hold.ask("login_mcp_server", service="web", callback="http://elsewhere.example/x")
    assert hold.text("web__who") == "did who"


def test_the_command_line_logs_in_and_out(hold: Guarded) -> None:
    """`mcp login` shows the address and takes what the browser ends at; `mcp logout` revokes."""
    process = subprocess.Popen(
        hold.command("mcp", "login", "web"),
        env=hold.environ, cwd=hold.project, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    line = next(line for line in process.stderr if line.startswith("http"))
    urllib.request.urlopen(hold.browse(line.strip())).close()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == "logged in at web, for use\n"
    assert hold.text("web__who") == "did who"
    assert "logged out of web" in hold.cli("mcp", "logout", "web").stdout
    assert hold.noted("revoke") >= 1
    wait_for(lambda: "needs login" in hold.note_of())
    with pytest.raises(HoldfastError, match="has no login"):
        hold.ask("logout_mcp_server", service="web")
