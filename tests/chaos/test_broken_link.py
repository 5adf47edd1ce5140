"""A link that breaks while both sides live: one keeper, whatever happens."""

from __future__ import annotations

import ctypes
import os
import shlex
import socket
import subprocess

import pytest

from tests.harness import Hold, is_alive, program, wait_for

_PIDFD_GETFD = 438


def test_few_descriptors(hold: Hold) -> None:
    """Too few descriptors for all services: those that were started live on with another
    supervisor, and no second keeper appears."""
    hold.services(**{f"s{i}": ["sleep", "300"] for i in range(20)})
    command = "ulimit -n 64; exec " + shlex.join(hold.command("up", "-d"))
    done = subprocess.run(
        ["sh", "-c", command], cwd=hold.project, env=hold.environ,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert (hold.state / "keeper.json").exists(), (done.stdout, done.stderr, hold.own_logs())
    keeper, old = hold.keeper_pid, hold.supervisor_pid
    alive = {name: s["pid"] for name, s in hold.status()["services"].items() if s["pid"]}
    assert len(alive) >= 5
    os.kill(old, 9)
    wait_for(lambda: hold.supervisor_pid != old)
    assert hold.keeper_pid == keeper
    for name, pid in alive.items():
        assert hold.service(name)["pid"] == pid
        assert is_alive(pid)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_keeper_killed_with_few_descriptors(hold: Hold) -> None:
    """Runs for which there were no spares go on, and all they print is recorded."""
    names = [f"s{i}" for i in range(12)]
    hold.services(**{
        name: program("count.py", hold.folder / name, 100_000, 0.01, 0, "err", hold.folder / "end")
        for name in names
    })  # fmt: skip
    command = "ulimit -n 95; exec " + shlex.join(hold.command("up", "-d"))
    subprocess.run(["sh", "-c", command], cwd=hold.project, env=hold.environ,
                   capture_output=True, timeout=60, check=False)  # fmt: skip
    old = hold.keeper_pid
    pids = {name: s["pid"] for name, s in hold.status()["services"].items() if s["pid"]}
    assert len(pids) >= 10
    os.kill(old, 9)
    wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != old)
    for name, pid in pids.items():
        assert hold.service(name)["pid"] == pid
        size = len(hold.raw(name))
        wait_for(lambda name=name, size=size: len(hold.raw(name)) > size + 100, what=name)
    (hold.folder / "end").touch()
    for name in pids:
        hold.wait_status(name, "exited", "failed")
        wrote = (hold.folder / name).read_bytes().splitlines()
        assert sorted(hold.raw(name).splitlines()) == sorted(wrote), name


def test_a_broken_link_makes_no_second_keeper(hold: Hold) -> None:
    """The link breaks though the keeper lives: the supervisor leaves, another is started."""
    hold.services(web=["sleep", "300"])
    hold.up()
    pid, old, keeper = hold.service("web")["pid"], hold.supervisor_pid, hold.keeper_pid
    with _link_of(old) as link:
        link.shutdown(socket.SHUT_RDWR)
    wait_for(lambda: hold.supervisor_pid != old)
    assert hold.keeper_pid == keeper
    assert hold.service("web")["pid"] == pid
    wait_for(lambda: not is_alive(old))


def _link_of(supervisor: int) -> socket.socket:
    """A copy of the supervisor's end of its link, taken out of its hands."""
    with open(f"/proc/{supervisor}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    pidfd = os.pidfd_open(supervisor)
    try:
        number = int(words[words.index(b"--link") + 1])
        fd = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)
    if fd < 0:
        pytest.skip(f"this host does not lend descriptors: {os.strerror(ctypes.get_errno())}")
    return socket.socket(fileno=fd)
