"""Programs of the owner at the network doors of their own machine, without a token."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import PYTHON, Hold, wait_for
from tests.scenarios.test_tcp import Wire, free_port, piped

needs_socket_table = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel's socket table is read on Linux only"
)
pytestmark = needs_socket_table

ASKING = """
import http.client, json, os, socket, sys, time
os.environ.clear()
if "orphan" in sys.argv:
    if os.fork():
        time.sleep(1000)
    os.setsid()
    if os.fork():
        os._exit(0)
port, http_port = map(int, sys.argv[1:3])
with socket.create_connection(("127.0.0.1", port)) as wire:
    wire.sendall(b"status\\nstop web\\n")
    wire.shutdown(socket.SHUT_WR)
    print("TCP", wire.makefile().read(), flush=True)
asking = http.client.HTTPConnection("127.0.0.1", http_port)
asking.request("GET", "/dashboard/api/system/status")
print("HTTP", asking.getresponse().status, flush=True)
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[3])
with open(f"/proc/{sys.argv[4]}/stat") as file:
    start = file.read().rsplit(")", 1)[1].split()[19]
peer = {"uid": os.getuid(), "processes": [[int(sys.argv[4]), start]]}
caller = {"token": "", "door": "rest", "here": True, "peer": peer}
frame = {"id": 1, "command": "status", "caller": caller}
line.sendall(json.dumps(frame).encode() + b"\\n")
print("LINE", line.makefile().readline(), flush=True)
time.sleep(1000)
"""


AS_PRINTED: dict[str, Any] = {
    "default_service": "web",
    "commands": {"allowed_types": ["make", "shell"]},
    "security": {"authentication": {"enabled": False}},
}
"""With this, examples for other supervisors work as they are printed."""


class OpenHold(Hold):
    """A Holdfast with both network doors, as source programs expect them."""

    def __init__(self) -> None:
        super().__init__(HOLDFAST_TCP="on", HOLDFAST_HTTP="on")
        self.port, self.http_port = free_port(), free_port()
        (self.project / "Makefile").write_text("clean:\n\techo cleaned > cleaned.txt\n")

    def declare(self, **more: Any) -> None:
        services = {
            "web": {"command": ["sleep", "1000"], "start_seconds": 0},
            "db": {"command": ["sleep", "1000"], "start_seconds": 0},
            **more.pop("services", {}),
        }
        ports = {"port": self.port, "http_port": self.http_port}
        self.write({**ports, "services": services, **more})

    def open(self) -> None:
        self.up()
        wait_for(lambda: len(self.status()["supervisor"]["doors"]) == 2, what="both doors")

    def curl(self, path: str, *options: str) -> tuple[int, str]:
        """The status and the body, as curl gets them."""
        url = f"http://localhost:{self.http_port}{path}"
        words = ["curl", "-s", "-w", "\n%{http_code}", *options, url]
        told = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
        body, _, status = told.rpartition("\n")
        return int(status), body


@pytest.fixture(scope="module")
def opened() -> Iterator[OpenHold]:
    """Authentication is off, and a service is meant when none is named."""
    with OpenHold() as made:
        made.declare(**AS_PRINTED)
        made.open()
        yield made


@pytest.fixture(scope="module")
def closed() -> Iterator[OpenHold]:
    """Nothing is said about authentication."""
    with OpenHold() as made:
        made.declare()
        made.open()
        yield made


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def test_netcat_without_a_token(opened: OpenHold) -> None:
    """`echo "status" | nc localhost 8081`, and the words that a person types into telnet."""
    assert "web: running" in piped(opened.port, "status")
    before = opened.service("web")["pid"]
    told = piped(opened.port, "status", "restart web", '{"Restart": {"args": null}}')
    assert "web: restarted" in told
    assert '"ok":true' in told
    assert opened.service("web")["pid"] != before


def test_after_a_wrong_token_nobody_is_the_owner(opened: OpenHold) -> None:
    """A program that means to be somebody, and is not, is not taken for its user instead."""
    told = piped(opened.port, "token holdfast_00000000_wrong", "status", "restart web")
    assert told.count("error:") == 3, told
    assert "a token is needed" in told.splitlines()[1]


@pytest.mark.skipif(shutil.which("nc") is None, reason="netcat is not installed")
def test_real_netcat(opened: OpenHold) -> None:
    """The line of the documentation, with the program itself."""
    asked = f'echo "status" | nc -q 5 localhost {opened.port}'
    done = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, timeout=60)
    assert "web: running" in done.stdout, done


@pytest.mark.skipif(shutil.which("telnet") is None, reason="telnet is not installed")
def test_real_telnet(opened: OpenHold) -> None:
    """A person types `status` and `restart web`; carriage returns do no harm."""
    words = ["telnet", "localhost", str(opened.port)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as telnet:
        assert telnet.stdin is not None
        assert telnet.stdout is not None
        telnet.stdin.write("status\nrestart web\nquit\n")
        telnet.stdin.flush()
        told = telnet.stdout.read()
    assert "web: running" in told
    assert "web: restarted" in told
    assert "bye" in told


@needs_curl
def test_curl_without_a_token(opened: OpenHold) -> None:
    """Status, and a custom restart with commands of the types that are allowed."""
    status, body = opened.curl("/dashboard/api/system/status")
    assert (status, json.loads(body)["supervisor"]["status"]) == (200, "running")
    wanted = {
        "pre_commands": [{"command_type": "make", "command": "clean", "is_safe": True}],
        "post_commands": [
            {"command_type": "shell", "command": 'echo "done" > after.txt', "is_safe": True}
        ],
        "args": ["1001"],
    }
    more = ["-X", "POST", "-H", "Content-Type: application/json", "-d", json.dumps(wanted)]
    status, body = opened.curl("/dashboard/api/system/custom-restart", *more)
    assert status == 200, body
    assert (opened.project / "cleaned.txt").read_text() == "cleaned\n"
    assert (opened.project / "after.txt").read_text() == "done\n"
    assert opened.service("web")["status"] == "running"


@needs_curl
def test_what_failed_is_told_as_a_failure(opened: OpenHold) -> None:
    """A command that fails is no success of HTTP, nor `ok` in JSON; the steps are inside."""
    failing = {"command_type": "shell", "command": "echo oops >&2; exit 3"}
    more = ["-X", "POST", "-H", "Content-Type: application/json", "-d"]
    before = opened.service("web")["pid"]
    asked = json.dumps({"pre_commands": [failing]})
    status, body = opened.curl("/dashboard/api/system/custom-restart", *more, asked)
    told = json.loads(body)
    assert (status, told["code"], told["details"]["outcome"]) == (424, "command_failed", "failed")
    assert told["detail"].endswith("failed: echo oops >&2; exit 3: exit code 3")
    first, restart = told["details"]["steps"]
    assert (first["exit_code"], first["err"], restart["outcome"]) == (3, "oops\n", "skipped")
    assert opened.service("web")["pid"] == before == told["details"]["status"]["pid"]
    status, body = opened.curl("/api/commands/execute", *more, json.dumps({"command": failing}))
    assert (status, json.loads(body)["details"]["steps"][0]["exit_code"]) == (424, 3)
    told = json.loads(piped(opened.port, json.dumps({"ExecuteCommand": {"command": failing}})))
    assert (told["ok"], told["error"]["details"]["steps"][0]["err"]) == (False, "oops\n")
    records = opened.ask("audit", about="execute_command")["records"]
    assert {one["outcome"] for one in records if one["decision"] == "allowed"} == {"failed"}


@needs_curl
@pytest.mark.parametrize(
    "header",
    [
        "Origin: http://localhost:{port}",
        "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Mode: navigate",
        "Referer: http://localhost:{port}/",
        "Cookie: a=b",
        "User-Agent: Mozilla/5.0 (Macintosh) Version/15.0 Safari/605.1.15",
        "X-Forwarded-For: 127.0.0.1",
        "Via: 1.1 proxy",
    ],
)
def test_a_browser_needs_a_token(opened: OpenHold, header: str) -> None:
    """Whatever tells that a browser asks, or that a proxy hides who does."""
    given = header.format(port=opened.http_port)
    for path in ("/dashboard/api/system/status", "/api/services/web/status"):
        assert opened.curl(path, "-H", given)[0] == 401
    assert opened.curl("/api/services/stop", "-X", "POST", "-H", given, "-d", "{}")[0] == 401


def test_a_page_through_a_browser_stops_nothing(opened: OpenHold) -> None:
    """A form of another site, sent to the control door: the connection ends at its first line."""
    told = piped(
        opened.port, "POST / HTTP/1.1\r", "Origin: http://evil.example\r", "\r", "stop web"
    )
    assert "web" not in told.partition("\r\n\r\n")[2]
    assert opened.service("web")["status"] == "running"


@pytest.mark.parametrize("way", ["plain", "orphan"])
def test_a_supervised_process_is_not_the_owner(opened: OpenHold, way: str) -> None:
    """Neither at a network door, also not as an orphan without its environment, nor by claiming at
    the local socket to speak for a process of the owner."""
    line = str(opened.runtime / "line.sock")
    words = [PYTHON, "-c", ASKING, opened.port, opened.http_port, line, os.getpid(), way]
    opened.cli("run", "--name", f"rogue-{way}", "--", *map(str, words))

    def told() -> str:
        text = opened.raw(f"rogue-{way}").decode()
        return text if '"ok"' in text else ""

    text = wait_for(told, what="all three answers")
    assert text.count("a token is needed") == 3, text
    assert "HTTP 401" in text
    assert opened.service("web")["status"] == "running"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_is_not_the_owner(opened: OpenHold) -> None:
    """A process of another user of this machine needs a token for everything."""
    code = "import socket,sys; s=socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
    code += "s.sendall(b'status\\nstop web\\n'); s.shutdown(1); print(s.makefile().read())"
    words = ["/usr/bin/env", "python3", "-c", code, str(opened.port)]
    if shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("no Python that another user may run")
    options: dict[str, Any] = {"env": {"PATH": "/usr/bin:/bin"}, "cwd": "/"}
    done = subprocess.run(
        words, user=65534, group=65534, extra_groups=[], capture_output=True, timeout=60, **options
    )
    assert done.stdout.decode().count("a token is needed") == 2, done


def test_a_socket_shared_with_a_supervised_process(opened: OpenHold) -> None:
    """Everybody who has the socket open must be the owner's own: one who is not decides."""
    path = str(opened.folder / "give")
    code = "import socket,sys,time; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]);"
    code += "s.listen(); c=s.accept()[0]; kept=socket.recv_fds(c, 1, 4); c.sendall(b'x');"
    code += "time.sleep(1000)"
    opened.cli("run", "--name", "keeper-of-sockets", "--", PYTHON, "-c", code, path)
    wait_for(lambda: os.path.exists(path))
    # Bound, but not connected yet: the door looks only once the other process has it, too.
    with socket.socket() as asking, socket.socket(socket.AF_UNIX) as giving:
        giving.connect(path)
        socket.send_fds(giving, [b"x"], [asking.fileno()])
        assert giving.recv(1) == b"x"
        asking.connect(("127.0.0.1", opened.port))
        asking.sendall(b"status\n")
        assert "a token is needed" in asking.makefile().readline()


def test_what_was_open_closes(opened: OpenHold) -> None:
    """A connection, and a token that was made without one, count no more once tokens are asked
    for; the status stays open to the owner's own programs."""
    with Wire(opened.port) as wire:
        wire.send('{"command": "create_token", "token_name": "made", "role": "admin"}')
        made = wire.json()["result"]["text"]
        assert "web: running" in piped(opened.port, f"token {made}", "status")
        opened.declare(default_service="web")
        opened.cli("reload")
        wire.send("stop web")
        assert "a token is needed" in wire.line()
    assert "not known" in piped(opened.port, f"token {made}", "status")
    assert "web: running" in piped(opened.port, "status")
    assert opened.service("web")["status"] == "running"
    opened.declare(**AS_PRINTED)
    opened.cli("reload")


@needs_curl
def test_status_and_health_alone_without_the_setting(closed: OpenHold) -> None:
    """The owner's own programs may look at the state of things, and at nothing else."""
    assert "web: running" in piped(closed.port, "status")
    assert '"services"' in piped(closed.port, '"HealthCheck"')
    assert closed.curl("/dashboard/api/system/status")[0] == 200
    for line in ("stop web", "logs web", "shutdown", '{"command": "events"}'):
        assert "a token is needed" in piped(closed.port, line), line
    assert closed.curl("/api/events")[0] == 401
    assert closed.service("web")["status"] == "running"


def test_without_a_default_service_the_error_names_the_key(closed: OpenHold) -> None:
    """`restart` alone, where there are several services."""
    token = (closed.state / "admin.token").read_text().strip()
    told = piped(closed.port, f"token {token}", "restart", '"Stop"')
    assert told.count("`default_service:`") == 2, told


def test_a_relative_path_is_the_projects(closed: OpenHold) -> None:
    """`ReloadConfig` over TCP names a file as seen from the project, wherever anybody stands."""
    token = (closed.state / "admin.token").read_text().strip()
    folder = closed.project / "other"
    folder.mkdir()
    config = json.loads((closed.project / "holdfast.json").read_text())
    (folder / "holdfast.json").write_text(json.dumps(config))
    asked = {"ReloadConfig": {"config_path": "./other/holdfast.json"}}
    told = piped(closed.port, f"token {token}", json.dumps(asked)).splitlines()[1]
    assert json.loads(told)["ok"], told
    missing = {"ReloadConfig": {"config_path": "no-such.yaml"}}
    told = piped(closed.port, f"token {token}", json.dumps(missing)).splitlines()[1]
    assert str(closed.project / "no-such.yaml") in json.loads(told)["error"]["message"], told


def test_errors_of_a_configuration_name_their_keys(closed: OpenHold) -> None:
    """A name is no secret, although what stands under `key` elsewhere may be one."""
    token = (closed.state / "admin.token").read_text().strip()
    services = {"web": {"command": "x", "restrat": 1}}
    closed.write({"services": services}, "wrong.json")
    asked = {"ReloadConfig": {"config_path": "wrong.json"}}
    told = json.loads(piped(closed.port, f"token {token}", json.dumps(asked)).splitlines()[1])
    assert told["error"]["details"]["problems"][0]["key"] == "services.web.restrat"
