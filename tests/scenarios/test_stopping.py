"""Stop means empty: also for the descendants that every other supervisor leaks."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from tests.harness import Hold, is_alive, program, wait_for


@pytest.fixture(params=["cgroup", "no-cgroup"])
def hold(request: pytest.FixtureRequest) -> Iterator[Hold]:
    """Once with whatever cgroup the host grants, once without any."""
    environ = {} if request.param == "cgroup" else {"HOLDFAST_CGROUP": "off"}
    with Hold(**environ) as one:
        yield one


@pytest.mark.parametrize("mode", ["child", "session", "daemon", "scrubbed", "stopped"])
def test_no_descendant_outlives_the_stop(hold: Hold, mode: str) -> None:
    """After stop nothing is left: SIGTERM-ignorers, setsid, double forks, stopped children. Also
    where they might be another's, which is not touched."""
    pids_file = hold.folder / "pids"
    web = {"command": program("tree.py", pids_file, mode), "stop": {"grace": 0.5}}
    hold.services(other=["sleep", "300"], web=web)
    hold.up()
    other = hold.service("other")["pid"]
    wait_for(lambda: b"ready" in hold.raw("web"))
    pids = [int(pid) for pid in pids_file.read_text().split()]
    assert len(pids) == 2
    began = time.monotonic()
    report = hold.ask("stop", services=["web"])["services"]["web"]["report"]
    assert time.monotonic() - began < 10
    assert not any(is_alive(pid) for pid in pids)
    assert {entry["pid"] for entry in report} >= set(pids)
    assert any(entry["how"] in ("SIGKILL", "cgroup.kill") for entry in report)
    assert is_alive(other)


def test_leftovers_of_a_crash_are_ended_before_the_restart(hold: Hold) -> None:
    """A crashed main process leaves no worker behind to hold its port."""
    pids_file = hold.folder / "pids"
    hold.services(
        web={
            "command": program("tree.py", pids_file, "session"),
            "restart": {"delay": 0, "jitter": 0},
            "stop": {"grace": 0.3},
        }
    )
    hold.up()
    wait_for(lambda: b"ready" in hold.raw("web"))
    main, worker = hold.service("web")["pid"], None
    for pid in map(int, pids_file.read_text().split()):
        if pid != main:
            worker = pid
    assert worker
    os.kill(main, 9)
    wait_for(lambda: hold.service("web")["pid"] not in (None, main))
    assert not is_alive(worker)


def test_grace_is_given_first(hold: Hold) -> None:
    """SIGTERM first; a handler that needs a while finishes; no SIGKILL within the grace."""
    hold.services(
        web={
            "command": ["sh", "-c", "trap 'sleep 1; echo cleaned; exit 0' TERM; echo up; "
                        "while :; do sleep 0.05; done"],
            "stop": {"grace": 10},
        }
    )  # fmt: skip
    hold.up()
    wait_for(lambda: b"up" in hold.raw("web"))
    report = hold.json("stop", "web")["services"]["web"]["report"]
    assert hold.raw("web").endswith(b"cleaned\n")
    assert all(entry["how"] != "SIGKILL" for entry in report)
    assert hold.service("web")["exit_code"] == 0


def test_sigkill_only_after_the_grace(hold: Hold) -> None:
    """A service that ignores SIGTERM is killed when its grace is over, not before."""
    hold.services(
        web={
            "command": ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"],
            "stop": {"grace": 0.8},
        }
    )
    hold.up()
    wait_for(lambda: b"up" in hold.raw("web"))
    began = time.monotonic()
    hold.ask("stop", services=["web"])
    assert 0.8 <= time.monotonic() - began < 10
    assert hold.service("web")["signal"] == "SIGKILL"


def test_shutdown_ends_everything(hold: Hold) -> None:
    """down stops the services, the supervisor and the keeper."""
    hold.services(web=["sleep", "300"], db=["sleep", "300"])
    hold.up()
    status = hold.status()
    pids = [s["pid"] for s in status["services"].values()]
    pids += [status["supervisor"]["pid"], status["supervisor"]["keeper_pid"]]
    hold.cli("down")
    assert not any(is_alive(pid) for pid in pids)
    assert not hold.marked_pids()
    hold.cli("status", expect=4)


def test_down_keep_running_leaves_the_services(hold: Hold) -> None:
    """down --keep-running ends the supervisor only; up joins the same services again."""
    hold.services(web=["sh", "-c", "while :; do echo tick; sleep 0.05; done"])
    hold.up()
    pid = hold.service("web")["pid"]
    supervisor = hold.supervisor_pid
    hold.cli("down", "--keep-running")
    wait_for(lambda: not is_alive(supervisor))
    assert is_alive(pid)
    fallback = hold.cli("status")
    assert str(pid) in fallback.stdout
    hold.up()
    assert hold.service("web")["pid"] == pid


def test_a_stop_without_a_supervisor_is_no_crash(hold: Hold) -> None:
    """Who is stopped through the keeper is stopped for the next supervisor, too."""
    hold.services(web=["sleep", "300"], db=["sleep", "300"])
    hold.up()
    supervisor = hold.supervisor_pid
    hold.cli("down", "--keep-running")
    wait_for(lambda: not is_alive(supervisor))
    hold.cli("stop", "web")
    hold.up("db")
    told = hold.service("web")
    assert (told["status"], told["desired"], told["restart_count"]) == ("stopped", "stopped", 0)
    assert hold.json("alerts")["alerts"] == []
    hold.cli("start", "web")
    assert hold.service("web")["status"] == "running"


def test_a_stop_is_finished_after_its_client_has_gone(hold: Hold) -> None:
    """Who asks for a stop and hangs up gets it all the same, layer by layer."""
    slow = {"command": ["sh", "-c", "trap 'sleep 0.3; exit 0' TERM; while :; do sleep 0.05; done"]}
    hold.services(db=dict(slow), web={**slow, "depends_on": ["db"]})
    hold.up()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(hold.runtime / "line.sock"))
        client.sendall(b'{"id": 1, "command": "stop"}\n')
        wait_for(lambda: hold.service("web")["status"] == "stopping")
    hold.wait_status("web", "stopped")
    hold.wait_status("db", "stopped")


INTERACTIVE = """#!/bin/sh
trap '' TERM
trap 'echo hung up; exit 0' HUP
echo ready
while :; do sleep 0.1; done
"""


def test_a_shell_in_a_terminal_does_not_take_the_whole_grace(hold: Hold) -> None:
    """It ignores SIGTERM as interactive shells do; it is hung up on as well, and a job of it that
    left its group ends, too. With `stop.signal` it gets that and nothing else."""
    script = hold.project / "shell"
    script.write_text(INTERACTIVE)
    script.chmod(0o755)
    stop = {"grace": "60s"}
    hold.services(
        shell={"command": "./shell", "terminal": True, "stop": stop},
        real={"command": ["sh", "-i"], "terminal": True, "stop": stop},
        chosen={
            "command": "./shell",
            "terminal": True,
            "stop": {"grace": "1s", "signal": "TERM"},
        },
        piped={"command": "./shell", "stop": {"grace": "1s"}},
    )
    hold.up()
    for name in ("shell", "chosen", "piped"):
        wait_for(lambda name=name: b"ready" in hold.raw(name))
    began = time.monotonic()
    hold.cli("stop", "shell", "real")
    assert time.monotonic() - began < 30, "they did not take their grace of 60 s"
    assert b"hung up" in hold.raw("shell")
    hold.cli("stop", "chosen", "piped")
    for name in ("chosen", "piped"):
        assert b"hung up" not in hold.raw(name), name
