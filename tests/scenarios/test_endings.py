"""Ends that are disturbed: whoever hangs or dies meanwhile, what was asked to end ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Hold, is_alive, kill_9, wait_for

IMPATIENT = """
from holdfast.client import discovery
discovery.SETTLED_SECONDS, discovery.HUNG_SECONDS = 0.0, 2.0
from holdfast.cli.main import main
raise SystemExit(main())
"""
SLOW = ["sh", "-c", "trap 'sleep 1.5; exit 0' TERM; while :; do sleep 0.05; done"]


class Impatient(Hold):
    """Its command line, once it is told so, soon takes a silent supervisor for a hung one."""

    is_impatient = False

    def command(self, *args: object) -> list[str]:
        argv = super().command(*args)
        return [argv[0], "-c", IMPATIENT, *argv[3:]] if self.is_impatient else argv


@pytest.fixture
def hold() -> Iterator[Impatient]:
    with Impatient() as one:
        yield one


def own_pids(hold: Hold) -> tuple[int, int]:
    own = hold.status()["supervisor"]
    return own["pid"], own["keeper_pid"]


def pids_of(hold: Hold) -> list[int]:
    return [service["pid"] for service in hold.status()["services"].values()]


def is_held(hold: Hold) -> bool:
    from holdfast.system.places import lock_is_held

    return lock_is_held(str(hold.state))


def wait_for_shutdown(hold: Hold) -> None:
    """Until the shutdown has begun: its first service is being stopped."""
    wait_for(lambda: hold.service("web")["status"] == "stopping", what="the shutdown to begin")


def two_services(hold: Hold) -> list[int]:
    """A slow one that is stopped first, and one that it needs."""
    web = {"command": SLOW, "depends_on": ["db"], "stop": {"grace": 20}}
    hold.services(db=["sleep", "300"], web=web)
    hold.up()
    return pids_of(hold)


def hang(hold: Impatient) -> int:
    """Make the supervisor hang; answers its pid."""
    supervisor, _ = own_pids(hold)
    hold.is_impatient = True
    hold._disconnect()
    os.kill(supervisor, signal.SIGSTOP)
    return supervisor


def test_one_sigterm_ends_all_though_the_supervisor_hangs(hold: Hold) -> None:
    """`docker stop` sends one SIGTERM: the keeper does not rely on a supervisor that is silent."""
    hold.services(web=["sleep", "300"], db=["sleep", "300"])
    hold.up()
    pids = pids_of(hold)
    supervisor, keeper = own_pids(hold)
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(keeper, signal.SIGTERM)
    wait_for(lambda: not is_held(hold), 9)
    wait_for(lambda: not any(map(is_alive, [*pids, supervisor, keeper])))


def test_a_hung_supervisor_is_gone_around(hold: Impatient) -> None:
    """status, logs, stop and down ask the keeper, and say whose fault it is."""
    hold.services(web=["sh", "-c", "echo hi; exec sleep 300"], db=["sleep", "300"])
    hold.up()
    services = hold.status()["services"]
    supervisor = hang(hold)
    told = hold.cli("status")
    assert f"the supervisor (pid {supervisor}) does not answer" in told.stderr
    assert str(services["web"]["pid"]) in told.stdout
    assert hold.raw("web") == b"hi\n"
    assert "web: stopped" in hold.cli("stop", "web").stdout
    assert not is_alive(services["web"]["pid"])
    assert f"kill -9 {supervisor}" in hold.cli("restart", "db", expect=6).stderr
    hold.cli("down")
    assert not any(map(is_alive, [services["db"]["pid"], supervisor]))


def test_down_does_not_wait_for_one_that_hangs_meanwhile(hold: Impatient) -> None:
    """A supervisor that falls silent after `down` has asked it is gone around, too."""
    slow = ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]
    hold.services(web={"command": slow, "stop": {"grace": 6}})
    hold.up()
    pid = hold.service("web")["pid"]
    hold.is_impatient = True
    with down_of(hold) as down:
        wait_for_shutdown(hold)
        supervisor = hang(hold)
        _, err = down.communicate(timeout=40)
        assert down.returncode == 0, (err, hold.own_logs())
        assert f"the supervisor (pid {supervisor}) does not answer" in err
    assert not any(map(is_alive, [pid, supervisor]))


def test_a_supervisor_that_is_only_busy_is_waited_for(hold: Hold) -> None:
    """A stop that takes longer than a hung supervisor is given is not taken for one."""
    slow = ["sh", "-c", "trap 'sleep 6.5; exit 0' TERM; while :; do sleep 0.05; done"]
    hold.services(web={"command": slow, "stop": {"grace": 20}})
    hold.up()
    done = hold.cli("stop", "web")
    assert "does not answer" not in done.stderr
    assert hold.service("web")["exit_code"] == 0


def test_sigterm_is_remembered_when_the_supervisor_dies(hold: Hold) -> None:
    """The next supervisor goes on with the shutdown: nothing runs on, nothing starts again."""
    pids = two_services(hold)
    supervisor, keeper = own_pids(hold)
    os.kill(keeper, signal.SIGTERM)
    wait_for_shutdown(hold)
    kill_9(supervisor)
    wait_for(lambda: not is_held(hold))
    assert not any(map(is_alive, pids))
    assert hold.marked_pids() == []


@pytest.mark.parametrize("victim", ["supervisor", "keeper"])
def test_down_is_finished_by_the_successor(hold: Hold, victim: str) -> None:
    """`down` ends everything and returns soon, whoever is killed while it runs."""
    pids = two_services(hold)
    supervisor, keeper = own_pids(hold)
    with down_of(hold) as down:
        wait_for_shutdown(hold)
        kill_9(supervisor if victim == "supervisor" else keeper)
        out, err = down.communicate(timeout=30)
        assert down.returncode == 0, (out, err, hold.own_logs())
    assert "Holdfast is down" in out
    assert not any(map(is_alive, pids))
    assert not is_held(hold)


def test_down_keep_running_is_not_resumed(hold: Hold) -> None:
    """What was kept on purpose goes on under the next supervisor."""
    hold.services(web=["sleep", "300"])
    hold.up()
    pid = hold.service("web")["pid"]
    hold.cli("down", "--keep-running")
    hold.up()
    assert hold.wait_status("web", "running")["pid"] == pid
    kill_9(hold.supervisor_pid)
    wait_for(lambda: hold.wait_status("web", "running")["pid"] == pid)


def test_survivors_are_named_when_both_died(hold: Hold) -> None:
    """After keeper and supervisor were killed, nobody says that nothing runs, or is down."""
    hold.services(web=["sleep", "300"], db=["sleep", "300"])
    hold.up()
    services = {name: it["pid"] for name, it in hold.status()["services"].items()}
    own = own_pids(hold)
    for pid in own:
        kill_9(pid)
    wait_for(lambda: not any(map(is_alive, own)))
    for verb in ("status", "down"):
        said = hold.cli(verb, expect=4).stderr
        assert "2 services outlived their Holdfast" in said
        assert all(f"{name} pid {pid}" in said for name, pid in services.items())
        assert "holdfast up" in said
    kill_9(services["db"])
    wait_for(lambda: not is_alive(services["db"]))
    assert "1 service outlived its Holdfast" in hold.cli("status", expect=4).stderr
    hold.up()
    assert hold.service("web")["pid"] == services["web"]
    hold.cli("down")
    assert "nothing runs here" in hold.cli("status", expect=4).stderr


def test_a_task_is_not_tried_again(hold: Hold) -> None:
    """run --wait is the command until it ends: it ends once, and with its code."""
    count: Path = hold.folder / "count"
    script = f"echo x >> {count}; exit 7"
    hold.cli("run", "--wait", "--", "sh", "-c", script, expect=7, timeout=60)
    assert count.read_text() == "x\n"


def down_of(hold: Hold) -> subprocess.Popen[Any]:
    return subprocess.Popen(
        hold.command("down"),
        cwd=hold.project,
        env=hold.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
