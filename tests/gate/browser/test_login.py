"""A browser logs in by a link; its cookie alone changes nothing."""

from __future__ import annotations

import http.client
import json
import re
from http.cookies import SimpleCookie
from typing import Any

import pytest

from tests.gate.conftest import Gate
from tests.harness import Hold, wait_for

JSON = {"Content-Type": "application/json"}


class Browser:
    """What a browser sends: its cookies, where a page is from, and what the page knows."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.origin = f"http://127.0.0.1:{gate.port}"
        self.cookie = ""
        self.page = ""
        self.attributes: Any = None

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str | None
    ) -> tuple[int, dict[str, Any]]:
        given: dict[str, str | None] = {
            "Sec-Fetch-Site": "same-origin",
            "X-Holdfast-Page": self.page or None,
            "Cookie": self.cookie or None,
            "Origin": self.origin if method != "GET" else None,
        }
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in given.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.gate.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {**sent, **(JSON if data else {})})
            answer = connection.getresponse()
            self.attributes = SimpleCookie(answer.headers["Set-Cookie"] or "")
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def log_in(self, code: str) -> tuple[int, dict[str, Any]]:
        status, told = self.ask("POST", "/login", {"code": code}, X_Holdfast_Page="login")
        if status == 200:
            name = f"holdfast_{self.gate.port}"
            self.cookie, self.page = f"{name}={self.attributes[name].value}", told["page"]
        return status, told

    def stop(self, **headers: str | None) -> int:
        return self.ask("POST", "/api/services/stop", {"services": ["web"]}, **headers)[0]


def link(hold: Hold, **fields: Any) -> str:
    """The secret of a new link. The gate of these tests is not the supervisor's own."""
    hold.ask("hello")
    answer = hold.json("dashboard", *[f"--{key}={value}" for key, value in fields.items()])
    return str(answer["url"]).partition("#")[2]


@pytest.fixture
def browser(gate: Gate) -> Browser:
    return Browser(gate)


@pytest.fixture
def hold() -> Any:
    with Hold(HOLDFAST_HTTP="on", HOLDFAST_HTTP_PORT="0") as made:
        made.services(web={"command": ["sleep", "1000"], "start_seconds": 0})
        made.up()
        yield made


def test_a_link_logs_in_once(browser: Browser, hold: Hold) -> None:
    """Into a cookie that no script and no other site can use; it is listed, and ends."""
    code = link(hold)
    status, told = browser.log_in(code)
    assert (status, told["role"]) == (200, "admin")
    cookie = browser.attributes[f"holdfast_{browser.gate.port}"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert (cookie["secure"], cookie["domain"], cookie["max-age"]) == ("", "", str(12 * 3600))
    again = Browser(browser.gate)
    assert again.log_in(code)[0] == 401
    assert browser.ask("GET", "/session")[1]["actor"] == f"token {told['name']}"
    kinds = {one["name"]: one["kind"] for one in hold.json("token", "ls")["tokens"]}
    assert kinds == {"first admin": "token", told["name"]: "browser"}
    assert browser.stop() == 200
    hold.cli("token", "revoke", told["name"])
    assert browser.ask("GET", "/api/status")[0] == 401


def test_a_link_is_good_for_nothing_else(browser: Browser, hold: Hold) -> None:
    """Not as a token, not for a role that it is not, not after its minute."""
    code = link(hold, role="viewer")
    assert browser.gate.refused(403, "GET", "/api/status", token=code)
    assert browser.gate.refused(
        403, "POST", "/api/tokens", token=code, body={"token_name": "x", "role": "admin"}
    )
    assert browser.log_in(code)[1]["role"] == "viewer"
    assert browser.stop() == 403
    token = browser.gate.token
    assert browser.log_in(token)[0] == 403, "an ordinary token is no link"
    assert hold.cli("dashboard", "--role", "agent", expect=2)


def test_the_cookie_alone_may_look(browser: Browser, hold: Hold) -> None:
    """Programs at other ports of the same host are shown it by the browser."""
    browser.log_in(link(hold))
    page, browser.page = browser.page, ""
    assert browser.ask("GET", "/api/status")[0] == 200
    assert browser.ask("GET", "/api/audit")[0] == 403
    assert browser.stop() == 403
    assert browser.stop(X_Holdfast_Page="guessed") == 403
    assert hold.service("web")["status"] == "running"
    browser.page = page
    assert browser.ask("GET", "/api/audit")[0] == 200


FORGED: list[dict[str, str | None]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": None, "Sec_Fetch_Site": "cross-site"},
    {"Origin": None, "Sec_Fetch_Site": "same-site"},
    {"Origin": None, "Sec_Fetch_Site": None},
    {"X_Holdfast_Page": None},
]


def test_what_changes_something_needs_proof(browser: Browser, hold: Hold) -> None:
    """That one of our own pages sent it, whatever cookie comes along."""
    browser.log_in(link(hold))
    for headers in FORGED:
        assert browser.stop(**headers) == 403, headers
        assert browser.ask("POST", "/logout", **headers)[0] == 403, headers
    assert hold.service("web")["status"] == "running"
    assert browser.stop() == 200


def test_looking_at_pages_changes_nothing(browser: Browser, hold: Hold) -> None:
    """A link that is only fetched, by a preview say, still works; nothing is logged out by GET."""
    code = link(hold)
    for path in ("/login", f"/login?code={code}", "/dashboard", "/dashboard/services/web"):
        answer, _ = browser.gate.request("GET", path, token=None)
        # Without the page, as Python-only work may be, there is one that says how to build it.
        assert answer.status in (200, 503)
        assert "script-src 'self';" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert browser.log_in(code)[0] == 200
    assert browser.ask("GET", "/logout")[0] == 405
    assert browser.ask("GET", "/session")[0] == 200


def test_logging_out(browser: Browser, hold: Hold) -> None:
    """The cookie is refused from then on, also a copy of it."""
    _, told = browser.log_in(link(hold))
    assert browser.ask("POST", "/logout")[0] == 200
    assert browser.attributes[f"holdfast_{browser.gate.port}"]["max-age"] == "0"
    assert browser.ask("GET", "/api/status")[0] == 401
    assert told["name"] not in hold.cli("token", "ls").stdout
    assert browser.ask("POST", "/logout")[0] == 200, "twice is no error"


def test_the_secrets_are_on_no_record(browser: Browser, hold: Hold) -> None:
    """Neither link nor cookie nor what the page knows is in audit, log or answers."""
    code = link(hold)
    browser.log_in(code)
    browser.ask("GET", "/api/status")
    cookie = browser.cookie.partition("=")[2]
    secrets = [code.split("_", 2)[2], cookie.split("_", 2)[2], browser.page]
    texts = [hold.cli("audit", "--json").stdout, hold.cli("token", "ls", "--json").stdout]
    texts += [path.read_text(errors="replace") for path in hold.state.glob("*.log")]
    texts += [path.read_text(errors="replace") for path in hold.state.glob("*.json")]
    texts += [path.read_text(errors="replace") for path in hold.state.glob("audit/*")]
    for secret in secrets:
        assert len(secret) > 20
        assert not any(secret in text for text in texts)
    records = [json.loads(line) for line in texts[0].splitlines()]
    assert {"create_login", "log_in"} <= {record["command"] for record in records}


def test_what_the_gate_turns_away_is_on_record(hold: Hold) -> None:
    """Who, what and why; a flood of it is bounded and hides nothing else."""
    address = wait_for(lambda: hold.status()["supervisor"]["doors"].get("http"))
    port = int(address.rpartition(":")[2])

    def send(method: str, path: str, **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request(method, path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def records() -> list[dict[str, Any]]:
        lines = hold.cli("audit", "--json", "--tail", "1000").stdout.splitlines()
        return [one for one in map(json.loads, lines) if one["role"] == "stranger"]

    assert send("POST", "/api/services/stop?secret=x", Origin="http://evil.example") == 403
    found = wait_for(records)[-1]
    assert found["actor"] == "a page of http://evil.example"
    assert (found["command"], found["decision"]) == ("POST /api/services/stop", "refused")
    assert (found["door"], found["role"]) == ("rest", "stranger")
    assert send("GET", "/api/status", Host="evil.example") == 403
    wait_for(lambda: len(records()) == 2)
    assert '"evil.example" is not a name of this Holdfast' in records()[-1]["reason"]
    for number in range(60):
        assert send("GET", f"/api/{number}", Host=f"evil{number}\x1b[31m.example") in (400, 403)
    assert send("GET", "/api/status", Authorization="Bearer wrong") == 401
    wait_for(lambda: any(one["reason"] == "no valid token" for one in records()))
    pages = [one for one in records() if one["reason"] != "no valid token"]
    assert len(pages) <= 30
    assert not re.search(r"[\x00-\x1f]", "".join(one["reason"] for one in pages))


def test_nobody_but_the_gate_tells_of_refusals(hold: Hold) -> None:
    """Neither its owner nor what it supervises can write that record."""
    done = hold.cli("audit", "--json").stdout
    with pytest.raises(Exception, match="not offered at the cli door"):
        hold.ask("report_refusal", asked="x", reason="y")
    assert "report_refusal" not in done


def test_allowed_origins_use_a_token_and_no_cookie(hold: Hold) -> None:
    """A browser is told that they may, and only they."""
    page = "http://dev.example:5173"
    gate = Gate(hold, ALLOWED_ORIGINS=page)
    try:
        asked = {"Access_Control_Request_Method": "POST"}
        answer, _ = gate.request("OPTIONS", "/api/status", token=None, Origin=page, **asked)
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == page
        assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
        assert answer.headers["Access-Control-Allow-Credentials"] is None
        answer, _ = gate.request("GET", "/api/status", Origin=page)
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, page)
        answer, _ = gate.request("OPTIONS", "/api/status", Origin="http://evil.example", **asked)
        assert answer.status == 403
        assert answer.headers["Access-Control-Allow-Origin"] is None
        browser = Browser(gate)
        browser.log_in(link(hold))
        assert browser.stop(Origin=page) == 403
        assert browser.ask("GET", "/session", Origin=browser.origin)[0] == 200
    finally:
        gate.close()
