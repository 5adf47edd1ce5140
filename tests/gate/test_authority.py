"""Modes, lockdowns and approvals over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gate.conftest import Gate
from tests.harness import Hold, quick, wait_for


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        made.write(
            {
                "runtime_mode": "advanced",
                "services": {"web": quick(), "db": quick()},
                "policies": [{"effect": "confirm", "commands": ["restart"], "services": ["db"]}],
                "security": {"rate_limit": {"requests_per_second": 1, "burst": 40}},
            }
        )
        made.up()
        yield made


def waiting(hold: Hold) -> dict[str, Any]:
    found: dict[str, Any] = wait_for(lambda: hold.ask("approvals")["waiting"])[0]
    return found


def test_an_approval_of_another_token(gate: Gate, hold: Hold) -> None:
    """The request waits as long as it takes; the one who asked cannot answer it."""
    boss = hold.cli("token", "create", "boss", "--role", "admin").stdout.strip()
    answers: list[Any] = []
    body = {"services": ["db"]}
    asking = threading.Thread(
        target=lambda: answers.append(gate.post("/api/services/restart", body))
    )
    asking.start()
    path = f"/api/approvals/{waiting(hold)['approval']}/approve"
    assert "same token" in gate.refused(403, "POST", path, body={})["detail"]
    assert gate.get("/api/approvals")["waiting"][0]["door"] == "rest"
    assert gate.post(path, {}, token=boss)["approval"]["state"] == "approved"
    asking.join(60)
    assert answers[0]["services"]["db"]["outcome"] == "restarted"


def test_who_hangs_up_does_not_wait(gate: Gate, hold: Hold) -> None:
    """A request that nobody awaits any more is void."""
    body = json.dumps({"services": ["db"]}).encode()
    with socket.create_connection(("127.0.0.1", gate.port)) as sock:
        head = (
            f"POST /api/services/restart HTTP/1.1\r\nHost: 127.0.0.1:{gate.port}\r\n"
            f"Authorization: Bearer {gate.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        sock.sendall(head.encode() + body)
        waiting(hold)
    wait_for(lambda: not hold.ask("approvals")["waiting"], what="the request to be void")


def test_a_lockdown_and_the_mode(gate: Gate, hold: Hold) -> None:
    """The same at the paths of dashboards; a lockdown is seen by all and ended by an admin."""
    found = gate.get("/dashboard/api/mode")
    assert found["runtime_mode"] == "advanced"
    assert "approvals" in found["advanced_services"]
    problem = gate.refused(403, "POST", "/dashboard/api/mode", body={"mode": "proxy"})
    assert "policies" in problem["detail"]
    assert gate.post("/api/lockdown", {"reason": "leak"})["lockdown"]["reason"] == "leak"
    viewer = "holdfast token create eyes"
    assert "lockdown" in hold.cli(*viewer.split()[1:], expect=5).stderr
    status = gate.get("/api/status")["supervisor"]
    assert (status["lockdown"]["reason"], status["runtime_mode"]) == ("leak", "advanced")
    refused = gate.refused(403, "POST", "/api/services/restart", body={"services": ["web"]})
    assert "leak" in refused["detail"]
    assert "unlock" in refused["hint"]
    gate.post("/api/unlock", {})
    gate.post("/api/services/restart", {"services": ["web"]})


def test_too_many_requests(gate: Gate) -> None:
    """429, and when to come back."""
    for _ in range(400):
        answer, data = gate.request("GET", "/api/mode")
        if answer.status != 200:
            break
    assert answer.status == 429, data
    assert int(answer.headers["Retry-After"]) >= 1
    assert json.loads(data)["code"] == "too_many_requests"
