"""Moving from the real programs: theirs runs, ours takes over, the same answers on the same ports.

The programs are looked for in the folders that HOLDFAST_PEERS names, in the environment of the
benchmarks (which has supervisord), and in PATH.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.harness import Hold, started, wait_for

BENCH = Path(__file__).parents[2] / ".scratch/bench-venv/bin"
PLACES = os.pathsep.join(
    (os.environ.get("HOLDFAST_PEERS", ""), str(BENCH), os.environ.get("PATH", ""))
)
SERVER = """\
import http.server, os, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"{os.environ['GREETING']} from {os.getcwd()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *args):
        print("asked", flush=True)
http.server.ThreadingHTTPServer.allow_reuse_address = True
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""


def peer(name: str) -> str:
    found = shutil.which(name, path=PLACES)
    if found is None:
        pytest.skip(f"{name} is not installed; HOLDFAST_PEERS names the folder that has it")
    return found


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def asked(port: int) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def take_over(hold: Hold, before: str, port: int, file: str) -> None:
    """Import the file and start what it becomes: the same answer, and the output is recorded."""
    wait_for(lambda: asked(port) is None, what="their end")
    hold.cli("import", file, "--write")
    hold.up()
    assert wait_for(lambda: asked(port), what="our server") == before
    wait_for(lambda: "asked" in hold.cli("logs", "web").stdout, what="its output")


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


def test_from_supervisord(server: Path) -> None:
    """A program with its folder, environment and port."""
    program, port = peer("supervisord"), free_port()
    with Hold() as hold:
        (hold.project / "supervisord.conf").write_text(
            f"[supervisord]\nnodaemon=true\nlogfile={hold.folder}/theirs.log\npidfile={hold.folder}/pid\n"
            f"[program:web]\ncommand={sys.executable} {server} {port}\n"
            f'directory={hold.project}\nenvironment=GREETING="hello, 100%%"\n'
            "autorestart=unexpected\nstopsignal=INT\nstopwaitsecs=5\nkillasgroup=true\n"
        )
        with started(
            [program, "-c", str(hold.project / "supervisord.conf")], stderr=subprocess.DEVNULL
        ) as theirs:
            before = wait_for(lambda: asked(port), what="their server")
            theirs.terminate()
            theirs.wait(60)
        assert before == f"hello, 100% from {hold.project}"
        take_over(hold, before, port, "supervisord.conf")


def test_from_a_procfile(server: Path) -> None:
    """A line with a shell's variable, the port that its runner gives, and `.env`."""
    program, port = peer("honcho"), free_port()
    with Hold() as hold:
        (hold.project / "Procfile").write_text(f"web: {sys.executable} {server} $PORT\n")
        (hold.project / ".env").write_text("GREETING=hello\n")
        (hold.project / ".foreman").write_text(f"port: {port}\n")
        line = [program, "start", "-p", str(port), "-f", "Procfile"]
        with started(line, cwd=hold.project, stderr=subprocess.DEVNULL) as theirs:
            before = wait_for(lambda: asked(port), what="their server")
            theirs.terminate()
            theirs.wait(60)
        take_over(hold, before, port, "Procfile")


def test_from_pm2(server: Path) -> None:
    """An app with arguments, folder and environment."""
    program, port = peer("pm2"), free_port()
    with Hold() as hold:
        (hold.project / "ecosystem.config.js").write_text(
            "module.exports = {apps: [{\n"
            f"  name: 'web', script: '{server}', interpreter: '{sys.executable}',\n"
            f"  args: '{port}', cwd: '{hold.project}', env: {{GREETING: 'hello'}},\n"
            "}]};\n"
        )
        environ = {**os.environ, "PM2_HOME": str(hold.folder / "pm2")}

        def pm2(*words: str) -> None:
            subprocess.run([program, *words], cwd=hold.project, env=environ, check=True,
                           capture_output=True, timeout=120)  # fmt: skip

        pm2("start", "ecosystem.config.js")
        try:
            before = wait_for(lambda: asked(port), what="their server")
        finally:
            pm2("kill")
        take_over(hold, before, port, "ecosystem.config.js")
