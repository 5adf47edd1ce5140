"""Paths beside the commands' own: the dashboard's, metrics, logs as files and as they grow."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.client.channel import MAX_REQUESTS_PER_TOKEN
from tests.gate.conftest import Gate
from tests.harness import Hold, quick, wait_for

PRINTING = "printf 'one\\n\\033[1mtwo\\033[0m\\n'; echo bad >&2; exec sleep 1000"


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        made.services(web=quick(["sh", "-c", PRINTING]), db=quick())
        made.up()
        yield made


def test_the_dashboard_paths_stand_as_they_did(gate: Gate) -> None:
    """Status with both spellings, restart of a named service, a custom restart."""
    status = gate.get("/dashboard/api/system/status")
    assert status["supervisor"]["status"] == "running"
    assert status["supervisor"]["managed_services"] == 2
    web = status["services"]["web"]
    assert {"status", "pid", "uptime", "restart_count", "startTime", "startTimeMs"} <= set(web)
    assert web["startTime"].endswith("Z")
    assert web["startTimeMs"] == pytest.approx(web["started_at"] * 1000, abs=1)
    used = gate.get("/dashboard/api/system/metrics")
    names = {"cpu", "memory", "handles", "bytesRead", "bytesWritten", "userTime", "systemTime"}
    assert names | {"startTime", "custom"} <= set(used["services"]["web"])
    assert used["services"]["web"]["memory"] == used["services"]["web"]["memory_bytes"]
    assert {"totalCPU", "totalMemory", "activeProcesses"} <= set(used["aggregate"])
    done = gate.post("/dashboard/api/system/restart", {"service": "web"})
    assert done["services"]["web"]["outcome"] == "restarted"
    done = gate.post("/dashboard/api/system/custom-restart", {"service": "web", "args": None})
    assert done["outcome"] == "done"
    found = gate.refused(422, "POST", "/dashboard/api/system/restart", body={})
    assert "web, db" in found["hint"]


def test_the_mode_is_told_and_set_where_dashboards_look(gate: Gate) -> None:
    """The command itself decides; its path is only another name."""
    path = "/dashboard/api/mode"
    told, own = gate.get(path), gate.get("/api/mode")
    assert told["runtime_mode"] == own["runtime_mode"] == "proxy"
    assert gate.refused(400, "POST", path, body={})["code"] == "usage"


def test_services_are_resources(gate: Gate) -> None:
    """All of them, or one by its name; the query is the command's."""
    assert set(gate.get("/api/services")["services"]) == {"web", "db"}
    assert set(gate.get("/api/services?services=web")["services"]) == {"web"}
    assert gate.get("/api/services/web/status")["status"] == "running"
    assert gate.refused(404, "GET", "/api/services/wbe/status")["code"] == "unknown_service"
    gate.refused(400, "GET", "/api/services/web/status?services=db")


def test_metrics_for_prometheus(gate: Gate) -> None:
    """In its format, for who shows a token."""
    assert gate.refused(401, "GET", "/metrics", token=None)["code"] == "unauthorized"
    answer, data = gate.request("GET", "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b'holdfast_service_up{service="web",state="running"} 1.0' in data


def text_of(gate: Gate, query: str = "") -> bytes:
    answer, data = gate.request("GET", f"/api/services/web/log{query}")
    assert answer.status == 200, data
    assert answer.headers["Content-Disposition"] == 'attachment; filename="web.log"'
    return data


def test_a_log_is_downloaded_whole_or_in_part(gate: Gate, hold: Hold) -> None:
    """The bytes as they were printed; by stream, run, time and cursor; or as plain text."""
    printed = b"one\n\x1b[1mtwo\x1b[0m\n"
    wait_for(lambda: len(text_of(gate)) >= len(printed) + 4)
    assert text_of(gate, "?stream=out") == printed
    assert text_of(gate, "?stream=err") == b"bad\n"
    assert text_of(gate, "?stream=out&format=text") == b"one\ntwo\n"
    assert text_of(gate, "?stream=out&tail=1") == printed[4:]
    assert text_of(gate, f"?since={time.time() + 60}") == b""
    assert text_of(gate, "?until=1") == b""
    answer, _ = gate.request("GET", "/api/services/web/log")
    cursor = answer.headers["X-Holdfast-Cursor"]
    hold.cli("restart", "web")
    wait_for(lambda: len(text_of(gate, f"?cursor={cursor}")) >= len(printed) + 4)
    assert text_of(gate, f"?cursor={cursor}&stream=out") == printed
    assert text_of(gate, f"?until_cursor={cursor}&stream=out") == printed
    assert text_of(gate, "?run=1&stream=out") == printed
    assert gate.refused(404, "GET", "/api/services/web/log?run=77")["code"] == "not_found"
    gate.refused(422, "GET", "/api/services/web/log?cursor=nonsense")
    gate.refused(400, "GET", "/api/services/web/log?colour=red")
    gate.refused(401, "GET", "/api/services/web/log", token=None)


class Listening:
    """A client of server-sent events."""

    def __init__(self, gate: Gate, path: str, last: str = "", token: str = "") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
        headers = {"Authorization": f"Bearer {token or gate.token}", "Accept": "text/event-stream"}
        if last:
            headers["Last-Event-ID"] = last
        self.connection.request("GET", path, headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def next(self) -> tuple[str, Any]:
        """The next event: its id, and what it says."""
        number = ""
        while True:
            line = self.answer.readline().decode()
            assert line, "the stream ended"
            if line.startswith("id: "):
                number = line[4:].strip()
            elif line.startswith("data: "):
                return number, json.loads(line[6:])

    def close(self) -> None:
        self.connection.close()


def test_lines_are_told_as_they_are_printed(gate: Gate, hold: Hold) -> None:
    """Who comes back with the last id misses nothing and hears nothing twice."""
    first = Listening(gate, "/api/services/web/logs?stream=out&tail=10")
    number, line = first.next()
    assert (line["text"], line["run"], line["stream"]) == ("one", 1, "out")
    first.close()
    again = Listening(gate, "/api/services/web/logs?stream=out", number)
    assert "two" in again.next()[1]["text"]
    hold.cli("restart", "web")
    assert [again.next()[1]["run"] for _ in range(2)] == [2, 2]
    again.close()
    gate.refused(422, "GET", "/api/services/web/logs?grep=x", Accept="text/event-stream")
    gate.refused(404, "GET", "/api/services/none/logs", Accept="text/event-stream")


def test_a_stream_that_is_refused_is_answered_so(gate: Gate, hold: Hold) -> None:
    """Not told inside a stream that seemed to begin."""
    viewer = hold.cli("token", "create", "eyes", "--role", "viewer").stdout.strip()
    for path, status in (("/api/audit", 403), ("/api/events", 200)):
        headers = {"Accept": "text/event-stream", "Last-Event-ID": "0"}
        connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
        connection.request("GET", path, headers={**headers, "Authorization": f"Bearer {viewer}"})
        assert connection.getresponse().status == status
        connection.close()


def test_progress_is_told(gate: Gate) -> None:
    """A command with `follow` is answered with its steps; the last is the result."""
    answer, data = gate.request(
        "POST", "/api/services/custom-restart", {"service": "web", "follow": True}
    )
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    last = [line for line in data.decode().splitlines() if line.startswith("data: ")][-1]
    assert '"outcome":"done"' in last


def test_who_leaves_takes_his_wait_along(gate: Gate) -> None:
    """As many as one token may have open; when their clients are gone, all can be asked again."""
    body = json.dumps({"service": "web", "condition": "exited", "timeout": 300})
    lines = ["POST /api/services/wait HTTP/1.1", f"Host: 127.0.0.1:{gate.port}"]
    lines += [f"Authorization: Bearer {gate.token}", "Content-Type: application/json"]
    request = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body])
    ask = {"service": "web", "condition": "exited", "timeout": 0}

    def status() -> int:
        return gate.request("POST", "/api/services/wait", ask)[0].status

    def ask_for_long(held: ExitStack) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
        held.callback(connection.close)
        connection.connect()
        connection.sock.sendall(request.encode())

    for _ in range(2):
        with ExitStack() as held:
            for count in range(MAX_REQUESTS_PER_TOKEN):
                ask_for_long(held)
                if count == MAX_REQUESTS_PER_TOKEN // 2:
                    wait_for(lambda: status() == 200, what="room for the other half")
            # A probe of ours, or one who is about to leave, may have held the place of one of them.
            deadline = time.monotonic() + 60
            while status() != 429:
                assert time.monotonic() < deadline, "there is always room for more"
                ask_for_long(held)


def test_the_reference_page_is_all_our_own(gate: Gate) -> None:
    """Served here, with a policy that lets nothing in from elsewhere."""
    answer, page = gate.request("GET", "/api/reference", token=None)
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert b"http://" not in page
    assert b"https://" not in page
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript")):
        answer, data = gate.request("GET", f"/api/reference/{name}", token=None)
        assert answer.headers["Content-Type"].startswith(kind)
        assert b"://" not in data
    gate.refused(404, "GET", "/api/reference/page.py", token=None)


LOADED = """import sys; told = open({path!r}, "a", buffering=1)
def tell(event, given):
    if event == "import" and given[0].partition(".")[0] not in sys.stdlib_module_names:
        told.write(given[0] + "\\n")
    elif event == "open" and "gate/reference/" in str(given[0]):
        told.write(str(given[0]) + "\\n")
sys.addaudithook(tell)
"""


def test_nothing_is_loaded_when_first_asked_for(hold: Hold) -> None:
    """Soon after its start the gate has all of its own: the files on disk may be another
    version's by the time somebody asks."""
    path = hold.folder / "loaded"
    gate = Gate(hold, before=f"exec({LOADED.format(path=str(path))!r}); ")
    last = {"holdfast.gate.rest.examples", "prometheus_client.registry", "page.js"}
    try:
        wait_for(
            lambda: last <= {line.rpartition("/")[2] for line in path.read_text().splitlines()},
            what="everything loaded",
        )
        before = path.read_text()
        for page in ("/api/services", "/metrics", "/api/openapi.json", "/api/reference/page.js"):
            answer, _ = gate.request("GET", page)
            assert answer.status == 200, page
        assert path.read_text() == before
    finally:
        gate.close()
