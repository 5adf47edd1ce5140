"""Pains of users whose processes were left behind, doubled, or could not be stopped."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from holdfast.keeper.processes.cgroups import Cgroups
from tests.harness import Hold, is_alive, program, wait_for
from tests.keeper.stage import Stage, has_cgroups, in_a_subreaper


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def children_of(pid: int) -> dict[int, str]:
    """Every child of the process with its state, zombies included."""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found[int(entry)] = fields[0]
    return found


@pytest.mark.parametrize("cgroup", ["", "off"])
def test_the_port_is_free_after_every_restart(cgroup: str) -> None:
    """A worker of the wrapper survives the stop and keeps the port: address in use for ever."""
    with Hold(**({"HOLDFAST_CGROUP": cgroup} if cgroup else {})) as hold:
        hold.services(
            web={"command": program("port.py", free_port()), "stop": {"grace": 0.2}},
        )
        hold.up()
        for count in range(1, 4):
            wait_for(lambda count=count: hold.raw("web").count(b"bound") == count)
            hold.cli("restart", "web")
        wait_for(lambda: hold.raw("web").count(b"bound") == 4)
        workers = [int(line.split()[1]) for line in hold.raw("web").splitlines()]
        assert [is_alive(pid) for pid in workers] == [False, False, False, True]


@pytest.mark.parametrize("mode", ["child", "daemon"])
def test_down_returns_when_the_last_process_is_gone(hold: Hold, mode: str) -> None:
    """The leader obeys, its child does not, and `down` returns success with the child alive."""
    pids_file = hold.folder / "pids"
    hold.services(web={"command": program("tree.py", pids_file, mode), "stop": {"grace": 0.3}})
    hold.up()
    wait_for(lambda: b"ready" in hold.raw("web"))
    hold.cli("down")
    assert not any(is_alive(int(pid)) for pid in pids_file.read_text().split())


def test_a_slow_stop_says_who_was_in_the_way(hold: Hold) -> None:
    """A shutdown takes long, and nothing tells which process it waited for."""
    pids_file = hold.folder / "pids"
    hold.services(web={"command": program("tree.py", pids_file, "child"), "stop": {"grace": 0.3}})
    hold.up()
    wait_for(lambda: b"ready" in hold.raw("web"))
    worker = next(
        pid for pid in pids_file.read_text().split() if int(pid) != hold.service("web")["pid"]
    )
    told = hold.cli("stop", "web").stdout
    line = next(line for line in told.splitlines() if worker in line)
    assert "SIGKILL" in line or "cgroup.kill" in line, told


def test_adopted_orphans_do_not_become_zombies(hold: Hold) -> None:
    """Daemons that a service leaves and that end later stay as zombies beside the supervisor."""
    hold.services(web=program("orphans.py", 20))
    hold.up()
    wait_for(lambda: b"left" in hold.raw("web"))
    status = hold.status()
    expected = {status["supervisor"]["pid"], status["services"]["web"]["pid"]}
    wait_for(lambda: set(children_of(hold.keeper_pid)) == expected, what="all to be reaped")
    assert "Z" not in children_of(hold.keeper_pid).values()


@pytest.mark.skipif(not has_cgroups(), reason="no writable cgroup v2 tree")
@pytest.mark.parametrize("answer", [False, True])
@in_a_subreaper
def test_a_kernel_that_refuses_to_kill_a_cgroup(answer: bool) -> None:
    """The one write that should kill everything fails, or does nothing, and the service cannot
    be restarted."""
    setattr(Cgroups, "kill", lambda *_: answer)  # noqa: B010 - in the forked subreaper only
    with Stage("on") as stage:
        tree = stage.start("daemon(lambda: (ignore(), say(os.getpid()), forever()))\nforever()")
        daemon = stage.says()
        hows, seconds, is_empty = stage.end(tree, grace=0.1)
        assert is_empty
        assert answer or hows[daemon] == "SIGKILL"
        assert seconds < 10
        assert not is_alive(daemon)
