"""REST: the registry's commands over HTTP, and nobody who should not pass."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket

import pytest

from holdfast.vocabulary.command import Door
from holdfast.vocabulary.commands import COMMANDS
from tests.gate.conftest import Gate
from tests.harness import Hold, kill_9, quick


def test_status_and_control(gate: Gate) -> None:
    """The same answers as on the line door."""
    assert gate.get("/api/status")["services"]["web"]["status"] == "running"
    assert gate.post("/api/services/stop", {"services": ["web"]})["services"]["web"]["outcome"] == (
        "stopped"
    )
    assert gate.get("/api/status?services=web")["services"]["web"]["status"] == "stopped"
    assert gate.post("/api/services/start", {"services": ["web"]})["services"]["web"]["pid"]


def test_arguments_of_path_and_query(gate: Gate) -> None:
    """They become fields of the command, with their types."""
    lines = gate.get("/api/services/web/logs?tail=5&stream=out")["lines"]
    assert [line["text"] for line in lines] == ["hello"]
    assert gate.get("/api/services/web/runs?limit=1")["runs"][0]["number"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/api/status?nonsense=1", None, 400, "usage"),
        ("GET", "/api/services/web/logs?tail=many", None, 400, "usage"),
        ("GET", "/api/services/web/logs?tail=1&tail=2", None, 400, "usage"),
        ("GET", "/api/services/nobody/logs", None, 404, "unknown_service"),
        ("GET", "/api/nothing", None, 404, "not_found"),
        ("POST", "/api/status", {}, 405, "usage"),
        ("POST", "/api/services/stop", {"servces": []}, 400, "usage"),
        ("POST", "/api/services/stop", ["web"], 400, "usage"),
        ("POST", "/api/services/stop", b"{", 400, "usage"),
        ("POST", "/api/services/stop", b'{"services": [], "grace": NaN}', 400, "usage"),
        ("POST", "/api/services/stop", b'{"services": [], "grace": 1e999}', 400, "usage"),
        ("POST", "/api/services/stop", b'{"services": ["\\ud800"]}', 400, "usage"),
        ("GET", "/api/metrics?history=nan", None, 400, "usage"),
        ("POST", "/api/services/stop?services=web", {}, 400, "usage"),
        ("POST", "/api/services/pause", {"services": []}, 422, "usage"),
    ],
)
def test_errors_are_problem_details(
    lasting_gate: Gate, method: str, path: str, body: object, status: int, code: str
) -> None:
    """With a stable code, a sentence, and what to do."""
    found = lasting_gate.refused(status, method, path, body=body)
    assert (found["code"], found["status"]) == (code, status)
    assert found["detail"]


def test_nobody_without_a_token(gate: Gate, hold: Hold) -> None:
    """Every route; only whether the gate lives may be asked by anybody."""
    for command in COMMANDS.values():
        if command.route is None or Door.REST not in command.doors:
            continue
        method, path = command.route
        path = re.sub(r"{\w+}", "web", path)
        body: dict[str, object] | None = {} if method == "POST" else None
        assert gate.refused(401, method, path, token=None, body=body)["code"] == "unauthorized"
        assert gate.refused(401, method, path, token="wrong", body=body)["code"] == "unauthorized"
    hint = gate.refused(401, "GET", "/api/status", token=None)["hint"]
    assert "Bearer" in hint
    assert "hidden" not in hint
    told = [one for one in hold.ask("audit", limit=5)["records"] if one["role"] == "stranger"]
    assert told[-1]["door"] == "rest", "who shows none is on record, too"
    assert gate.get("/health", token=None)["status"] == "ok"
    assert gate.get("/ready", token=None)["status"] == "ready"
    assert hold.service("web")["status"] == "running"


def test_open_status_opens_status_and_nothing_else() -> None:
    """`curl` from this machine, as long as no proxy passes on what others ask."""
    with Hold() as hold:
        hold.write({"services": {"web": quick()}, "security": {"open_status": True}})
        hold.up()
        with contextlib.closing(Gate(hold)) as gate:
            for path in ("/dashboard/api/system/status", "/api/services/web/status"):
                assert "running" in str(gate.get(path, token=None))
                gate.refused(401, "GET", path, token=None, X_Forwarded_For="192.0.2.1")
                gate.refused(401, "GET", path, token="wrong")
            gate.refused(401, "GET", "/api/services/web/logs", token=None)
            gate.refused(401, "POST", "/api/services/stop", token=None, body={"services": ["web"]})
            assert hold.service("web")["status"] == "running"


def test_a_role_binds(gate: Gate, hold: Hold) -> None:
    """A viewer may look and not stop, and the refusal is on record."""
    viewer = hold.cli("token", "create", "eyes", "--role", "viewer").stdout.strip()
    assert gate.get("/api/status", token=viewer)["services"]
    body = {"services": ["web"]}
    found = gate.refused(403, "POST", "/api/services/stop", token=viewer, body=body)
    assert "viewer" in found["detail"]
    record = json.loads(hold.cli("audit", "--json").stdout.splitlines()[-1])
    assert (record["actor"], record["door"], record["decision"]) == (
        "token eyes",
        "rest",
        "refused",
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    ],
)
def test_pages_of_other_sites_are_refused(lasting_gate: Gate, headers: dict[str, str]) -> None:
    """Even with a good token: a name that was rebound, a form, a fetch."""
    for path in ("/api/status", "/dashboard/api/system/status", "/metrics"):
        lasting_gate.refused(403, "GET", path, **headers)


def test_a_form_cannot_be_sent(gate: Gate) -> None:
    """A body that a page of another site could send is refused."""
    headers = {"Content_Type": "application/x-www-form-urlencoded"}
    found = gate.refused(400, "POST", "/api/services/stop", body=b"services=web", **headers)
    assert "application/json" in found["hint"]


def test_a_body_is_bounded(gate: Gate) -> None:
    """Before it is read, or as soon as it is too much."""
    huge = str(1 << 30)
    found = gate.refused(413, "POST", "/api/services/stop", body=b"x", Content_Length=huge)
    assert "8 MiB" in found["detail"]
    for path in ("/api/services/stop", "/login"):
        with socket.create_connection(("127.0.0.1", gate.port), timeout=60) as sock:
            sock.sendall(
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{gate.port}\r\nX-Holdfast-Page: x\r\n"
                f"Authorization: Bearer {gate.token}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            )
            for _ in range(9):
                sock.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("number", ["\xb2", "9" * 5000, "-1", "x"])
def test_strange_numbers_of_the_last_event(gate: Gate, number: str) -> None:
    """What is no number there is not one: the stream begins as if nothing was said."""
    connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
    headers = {"Authorization": f"Bearer {gate.token}", "Accept": "text/event-stream"}
    for path in ("/api/events", "/api/audit?follow=true"):
        connection.request("GET", path, headers={**headers, "Last-Event-ID": number})
        answer = connection.getresponse()
        assert answer.status == 200
        connection.close()


def test_events_are_streamed_and_resumed(gate: Gate, hold: Hold) -> None:
    """Server-sent events with their numbers; a client that comes back misses nothing, also if the
    number that it knows is of a history that was lost."""
    seen: list[int] = []
    for last in ("1000000", None):
        connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
        headers = {"Authorization": f"Bearer {gate.token}", "Accept": "text/event-stream"}
        headers["Last-Event-ID"] = last if last is not None else str(seen[-1])
        connection.request("GET", "/api/events", headers=headers)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        if last is None:
            hold.cli("restart", "web")
        wanted = len(seen) + 3
        while len(seen) < wanted:
            line = answer.readline().decode()
            if line.startswith("id: "):
                seen.append(int(line[4:]))
        connection.close()
    assert seen == list(range(1, 7))


def test_a_killed_supervisor_is_not_noticed_by_who_reads(gate: Gate, hold: Hold) -> None:
    """The request waits for the next one."""
    kill_9(hold.supervisor_pid)
    assert gate.get("/api/status")["services"]["web"]["status"] == "running"


def test_a_killed_gate_refuses_nobody(gate: Gate) -> None:
    """Its socket stays open; who connected meanwhile is answered by the next one."""
    gate.kill()
    connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
    connection.request("GET", "/health")
    gate.replace()
    assert connection.getresponse().status == 200
    connection.close()


def test_answers_tell_browsers_what_not_to_do(gate: Gate) -> None:
    """Headers against sniffing and framing are on every answer."""
    answer, _ = gate.request("GET", "/health")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Holdfast-Instance"] == "test"


def test_a_gate_that_is_left_alone_ends(hold: Hold) -> None:
    """Keeper and supervisor are gone for good: nobody else would end it."""
    alone = Gate(hold, HOLDFAST_GATE_PATIENCE="0.5")
    try:
        hold.cli("down")
        assert alone.process.wait(60) == 0
    finally:
        alone.close()


def test_a_stream_ends_with_its_token(gate: Gate, hold: Hold) -> None:
    """Who is shut out is told nothing more."""
    made = hold.json("token", "create", "ci", "--role", "viewer")
    connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
    headers = {"Authorization": f"Bearer {made['text']}", "Accept": "text/event-stream"}
    connection.request("GET", "/api/events?limit=1", headers=headers)
    answer = connection.getresponse()
    assert b"id: " in answer.readline() + answer.readline() + answer.readline()
    hold.cli("token", "revoke", "ci")
    hold.cli("restart", "web", "--no-wait")
    assert b"event: error" in answer.read()
    connection.close()


def raw(gate: Gate, data: bytes) -> bytes:
    """What a program gets that writes its own HTTP, until we hang up."""
    with socket.create_connection(("127.0.0.1", gate.port), timeout=60) as sock:
        try:
            for start in range(0, len(data), 100_000):
                sock.sendall(data[start : start + 100_000])
            return b"".join(iter(lambda: sock.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            return b""


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization"])
def test_names_are_sent_once(gate: Gate, name: str) -> None:
    """What a proxy in front of us looked at must be what we look at."""
    host = f"127.0.0.1:{gate.port}"
    sent = {"Host": host, "Origin": f"http://{host}", "Authorization": f"Bearer {gate.token}"}
    lines = [f"{key}: {value}" for key, value in sent.items()]
    again = f"{name}: evil.example"
    head = "\r\n".join(["GET /api/status HTTP/1.1", *lines, again, "Connection: close"])
    assert raw(gate, f"{head}\r\n\r\n".encode()).startswith(b"HTTP/1.1 400")


def test_a_head_without_end_fills_no_memory(gate: Gate) -> None:
    """Who has not even asked yet is hung up on; a large body in one piece is taken."""
    head = f"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1:{gate.port}\r\nX: ".encode()
    assert raw(gate, head + b"a" * 3_000_000 + b"\r\n\r\n") == b""
    answer, _ = gate.request("POST", "/api/services/restart", {"services": ["x" * 2_000_000]})
    assert answer.status in (400, 404, 413)
    assert gate.get("/api/status")
