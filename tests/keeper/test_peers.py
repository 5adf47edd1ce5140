"""Who may direct a keeper: people may, whatever a run does to look like one may not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.keeper.protocol import wire
from holdfast.system import peers, processes
from holdfast.system.peers import peer_of
from holdfast.system.processes import Process, is_below, is_in_cgroup, lineage
from tests.keeper.conftest import KeeperProcess, wait_for

pytestmark = pytest.mark.unprivileged

ASK = """
import os, socket, sys, time
door = socket.socket(socket.AF_UNIX)
def ask():
    door.sendall(b'{"id": 1, "do": "list"}\\n{"id": 2, "do": "shutdown"}\\n')
    answer = b""
    while answer.count(b"\\n") < 2:
        answer += door.recv(65536)
    print("answer", answer.splitlines()[1].decode(), flush=True)
"""
ORPHAN = (
    ASK
    + """
path, keeper = sys.argv[1], int(sys.argv[2])
while os.getppid() != keeper:
    time.sleep(0.001)
door.connect(path)
ask()
"""
)
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", *sys.argv[1:]], {})
os.wait()
time.sleep(1000)
"""
GHOST = (
    ASK
    + """
child = os.fork()
if child == 0:
    door.connect(sys.argv[1])
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | (os.WNOWAIT if sys.argv[2] == "zombie" else 0))
ask()
"""
)
PERSON = (
    ASK
    + """
door.connect(sys.argv[1])
ask()
"""
)


def door_of(keeper: KeeperProcess) -> str:
    return str(keeper.runtime / "keeper.sock")


def answer_to(keeper: KeeperProcess) -> str:
    return keeper.wait_output(keeper.last, b"}\n").decode()


@pytest.mark.parametrize("cgroup", ["", "off"])
def test_an_orphan_of_a_run_may_not_direct(
    make_keeper: Callable[..., KeeperProcess], monkeypatch: pytest.MonkeyPatch, cgroup: str
) -> None:
    """Two forks, a session of its own and an empty environment make nobody the owner."""
    monkeypatch.setenv("HOLDFAST_CGROUP", cgroup)
    keeper = make_keeper()
    code = [sys.executable, "-I", "-S", "-c", DAEMON, ORPHAN]
    keeper.spawn(*code, door_of(keeper), str(keeper.pid))
    assert '"refused"' in answer_to(keeper)
    assert len(keeper.link.do("list")["runs"]) == 1


@pytest.mark.parametrize("body", ["zombie", "reaped"])
def test_a_run_may_not_direct_in_the_name_of_the_dead(keeper: KeeperProcess, body: str) -> None:
    """A connection made by a process that has ended since belongs to nobody we know."""
    keeper.spawn(sys.executable, "-I", "-S", "-c", GHOST, door_of(keeper), body, env={})
    assert '"refused"' in answer_to(keeper)
    assert keeper.link.do("list")


def test_a_run_may_look(keeper: KeeperProcess) -> None:
    """What is supervised is told what there is, also after it was refused."""
    keeper.spawn("sleep", "1000")
    keeper.spawn(sys.executable, "-I", "-S", "-c", PERSON, door_of(keeper))
    assert '"refused"' in answer_to(keeper)


@pytest.mark.parametrize("how", ["child", "orphan"])
def test_a_person_may_direct(keeper: KeeperProcess, how: str) -> None:
    """A process that no run started may: with its parent, without it, with no environment."""
    keeper.spawn("sleep", "1000")
    argv = [sys.executable, "-I", "-S", "-c", PERSON, door_of(keeper)]
    if how == "orphan":
        argv = ["/bin/sh", "-c", '("$@" &)', "sh", *argv]
    done = subprocess.run(argv, env={}, capture_output=True, text=True, timeout=60)
    assert '"ok":true' in done.stdout, done
    assert keeper.process.wait(30) == 0


def test_the_verdict_is_kept(keeper: KeeperProcess) -> None:
    """Who came in as a person stays one, though the process that connected has ended since."""
    door = socket.socket(socket.AF_UNIX)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        door.connect(door_of(keeper))
        door.sendall(wire.encode({"id": 1, "do": "list"}))
        os.write(writer, door.recv(1))
        os.read(reader, 1)
        os._exit(0)
    wait_for(lambda: door.fileno() >= 0 and _has_answer(door))
    os.kill(child, 9)
    os.waitpid(child, 0)
    for fd in (reader, writer):
        os.close(fd)
    keeper.spawn("sleep", "1000")
    door.sendall(wire.encode({"id": 2, "do": "end", "run_id": keeper.last}))
    keeper.link.notice("ended")
    door.close()


def _has_answer(door: socket.socket) -> bool:
    try:
        return bool(door.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False


def test_who_has_ended_is_not_found(short_path: Path) -> None:
    """The peer is the very process that connected, while it lives."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as door:
        listener.bind(str(short_path / "door"))
        listener.listen()
        door.connect(str(short_path / "door"))
        with listener.accept()[0] as ours:
            found = peer_of(ours)
            assert found.process is not None
            assert (found.uid, found.process.pid) == (os.geteuid(), os.getpid())
        child = os.fork()
        if child == 0:
            socket.socket(socket.AF_UNIX).connect(str(short_path / "door"))
            os._exit(0)
        os.waitpid(child, 0)
        with listener.accept()[0] as ours:
            found = peer_of(ours)
            assert (found.uid, found.process) == (os.geteuid(), None)


def is_supervised(
    process: Process | None, cgroup: str | None = None, supervisor: int | None = None
) -> bool:
    """As a keeper would judge that is this process and has no run."""
    standing = peers.standing_of(
        process,
        {},
        cgroup_root=cgroup,
        keeper_pid=os.getpid(),
        supervisor_pid=supervisor,
        ceilings=(),
    )
    return standing.is_supervised is not False


def test_in_doubt_supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody, somebody else by now, and the keeper's own descendants are no owners."""
    own = processes.process(os.getpid())
    assert own is not None
    assert is_supervised(None)
    assert is_supervised(own), "it descends from this very process"
    assert not is_supervised(own, supervisor=own.pid), "or else from the supervisor"
    with monkeypatch.context() as patch:
        patch.setattr(
            processes, "is_in_cgroup", lambda pid, root: (pid, root) == (own.pid, "/ours")
        )
        assert is_supervised(own, "/ours", own.pid), "whoever its parents are"
        assert not is_supervised(own, "/others", own.pid)
    own.start_time = "1"
    assert is_supervised(own, supervisor=own.pid)
    monkeypatch.setattr(processes, "lineage", lambda *_: [own])
    assert is_supervised(own, supervisor=own.pid), "it ended after its parents were looked at"


def test_lineage_goes_up_to_the_top() -> None:
    """The chain goes from the process to its parents."""
    own = processes.process(os.getpid())
    assert own is not None
    line = lineage(own)
    assert [process.pid for process in line[:2]] == [os.getpid(), os.getppid()]


def test_who_is_in_our_cgroup() -> None:
    """Only the second hierarchy counts, and only the whole name."""
    root = "/sys/fs/cgroup/user/holdfast-12ab"
    assert is_below(root, b"1:cpu:/\n0::/user/holdfast-12ab/run-1/nested\n")
    assert not is_below(root, b"1:cpu:/holdfast-12ab\n0::/user/holdfast-12abc/run-1\n")
    assert not is_below(root, b"0::/\n")
    assert is_in_cgroup(1 << 22, root), "nobody can tell"


def test_deep_nesting_is_no_message(keeper: KeeperProcess) -> None:
    """A hundred thousand brackets cost their sender the connection, and nobody else anything."""
    control = keeper.control()
    control.sock.settimeout(30)
    control.sock.sendall(b"[" * 200_000 + b"\n")
    answer = control.sock.recv(1000)
    assert b"bad_message" in answer
    assert keeper.link.do("list")


@pytest.mark.parametrize("line", [b'{"id": 1, "do', b'{"id": "\\u12"}', b"{1: 2}", b'"a\tb"'])
def test_half_a_message_is_none(keeper: KeeperProcess, line: bytes) -> None:
    """What no JSON can be costs its sender the connection, and nobody else anything."""
    control = keeper.control()
    control.sock.settimeout(30)
    control.sock.sendall(line + b"\n")
    answer = control.sock.recv(1000)
    assert b"bad_message" in answer
    assert keeper.link.do("list")


def test_a_bad_message_leaks_no_descriptor(keeper: KeeperProcess) -> None:
    """Descriptors of a good message that came with a bad one are closed."""
    keeper.link.do("list")
    folder = Path(f"/proc/{keeper.pid}/fd")
    before = len(list(folder.iterdir()))
    for _ in range(5):
        control = keeper.control()
        control.sock.settimeout(30)
        fds = [control.sock.fileno()] * 3
        socket.send_fds(control.sock, [b'{"id": 1, "do": "list", "fds": 3}\nrubbish\n'], fds)
        while control.sock.recv(1000):
            pass
    wait_for(lambda: len(list(folder.iterdir())) <= before)
