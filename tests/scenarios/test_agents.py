"""Stories of processes that Holdfast supervises and that would like to be its owner."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess

import pytest

from holdfast.client.connection import Connection
from tests.harness import PYTHON, Hold, started, wait_for

SLEEP = ["sleep", "300"]
ASK = """
import os, socket, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
door = socket.socket(socket.AF_UNIX)
def wait(name):
    while not (folder / name).exists():
        time.sleep(0.005)
def ask():
    door.sendall(b'{"id": 1, "command": "shutdown"}\\n')
    (folder / "new").write_bytes(door.recv(65536))
    os.rename(folder / "new", folder / "answer")
wait("go")
path = (folder / "go").read_text()
"""
GHOST = (
    ASK
    + """
child = os.fork()
if child == 0:
    door.connect(path)
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | (os.WNOWAIT if sys.argv[2] == "zombie" else 0))
(folder / "connected").touch()
ask()
time.sleep(300)
"""
)
ORPHAN = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", *sys.argv[1:]], {})
os.wait()
time.sleep(300)
"""


def begin(hold: Hold) -> None:
    (hold.folder / "path").write_text(str(hold.runtime / "line.sock"))
    os.rename(hold.folder / "path", hold.folder / "go")


def answer(hold: Hold) -> dict[str, object]:
    path = hold.folder / "answer"
    wait_for(path.exists, what="an answer")
    found: dict[str, object] = json.loads(path.read_bytes())
    return found


@pytest.mark.parametrize("body", ["zombie", "reaped"])
def test_nobody_shuts_down_in_the_name_of_the_dead(hold: Hold, body: str) -> None:
    """A service lets a child connect and die, then speaks on its connection."""
    hold.services(ghost=[PYTHON, "-I", "-S", "-c", GHOST, str(hold.folder), body])
    hold.up()
    supervisor = hold.supervisor_pid
    # So that the child is surely dead when the door is opened to it.
    os.kill(supervisor, signal.SIGSTOP)
    try:
        begin(hold)
        wait_for((hold.folder / "connected").exists)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert answer(hold)["ok"] is False
    assert "may look, not change" in str(answer(hold))
    assert hold.service("ghost")["status"] == "running"


@pytest.mark.parametrize("cgroup", ["", "off"])
def test_no_orphan_shuts_down(cgroup: str) -> None:
    """A service's daemon, with a session of its own and no environment, is still a service's."""
    code = ASK + "door.connect(path); ask()"
    with Hold(HOLDFAST_CGROUP=cgroup) as hold:
        hold.services(web=[PYTHON, "-I", "-S", "-c", ORPHAN, code, str(hold.folder)])
        hold.up()
        begin(hold)
        assert "may look, not change" in str(answer(hold))
        assert hold.service("web")["status"] == "running"


def test_a_shell_of_before_is_the_owners(hold: Hold) -> None:
    """Who had a shell open before Holdfast started uses it as well as anybody."""
    hold.services(web=SLEEP, db=SLEEP)
    script = 'read _; "$@" stop web; ("$@" stop db &); exec sleep 300'
    argv = ["sh", "-c", script, "sh", *hold.command()]
    options = {"cwd": hold.project, "env": hold.environ}
    with started(argv, stdin=subprocess.PIPE, **options) as shell:
        hold.up()
        assert shell.stdin is not None
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        hold.wait_status("web", "stopped")
        hold.wait_status("db", "stopped")


def test_deep_nesting_is_refused(hold: Hold) -> None:
    """A hundred thousand brackets get an answer, and the connection goes on."""
    hold.services(web=SLEEP)
    hold.up()
    line = Connection(str(hold.runtime / "line.sock"))
    sock = line._socket
    sock.sendall(b'{"id":' + b"[" * 200_000 + b"\n")
    assert json.loads(sock.recv(4096))["error"]["code"] == "usage"
    assert line.ask("status")["services"]
    line.close()


def test_init_is_not_adopted(hold: Hold) -> None:
    """`adopt --pid 1` says that it cannot be done, why, and what to do instead."""
    hold.services(web=SLEEP)
    hold.up()
    told = hold.cli("adopt", "--pid", 1, "x", expect=1).stderr
    assert "process 1 cannot be adopted: it is the init process" in told
    assert "`ps -e` lists what runs" in told
    told = hold.cli("adopt", "--pid", hold.keeper_pid, "x", expect=1).stderr
    assert "part of this Holdfast" in told
    told = hold.cli("adopt", "--pid", hold.service("web")["pid"], "x", expect=1).stderr
    assert "belongs to web already; `holdfast status web` shows it" in told
    assert "x" not in hold.status()["services"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("name", ["line.sock", "keeper.sock"])
def test_another_user_is_turned_away(hold: Hold, name: str) -> None:
    """Also where folders and sockets were opened to everybody: the kernel tells who it is."""
    hold.services(web=SLEEP)
    hold.up()
    path = hold.runtime / name
    for opened in (path, *path.parents[: len(path.relative_to(hold.folder).parts)]):
        opened.chmod(0o777)
    with socket.socket(socket.AF_UNIX) as door:
        os.seteuid(65534)
        try:
            door.connect(str(path))
        finally:
            os.seteuid(0)
        door.settimeout(30)
        try:
            door.sendall(b'{"id": 1, "command": "hello", "do": "hello"}\n')
            told = door.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            told = b""  # hung up on, before or after it could ask
    assert not told or json.loads(told)["error"]["code"] == "refused"
