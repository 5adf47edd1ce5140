"""Pains of users whose supervisor died, was upgraded, or remembered the wrong process."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.chaos.test_replaced import Installed
from tests.harness import Hold, is_alive, kill_9, read_until, started, wait_for


@pytest.fixture
def installed() -> Iterator[Installed]:
    with Installed() as one:
        yield one


def kill_holdfast(hold: Hold) -> None:
    """Supervisor and keeper at once; the services live on."""
    own = hold.status()["supervisor"]
    pids = (own["pid"], own["keeper_pid"])
    for pid in pids:
        kill_9(pid)
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_a_job_that_ends_while_nobody_looks_is_recorded_as_it_ended(hold: Hold) -> None:
    """A migration succeeds while the supervisor is away, and is then called failed."""
    go = hold.folder / "go"
    body = f"while ! test -e {go}; do sleep 0.02; done; exit "
    once = {"restart_policy": "on_failure", "restart": {"delay": 0, "jitter": 0}}
    hold.services(
        migration={"command": ["sh", "-c", body + "0"], **once},
        broken={"command": ["sh", "-c", f"test -e {go} && exec sleep 300; {body} 3"], **once},
        other=["sleep", "300"],
    )
    hold.up()
    pids = [hold.service(name)["pid"] for name in ("migration", "broken")]
    hold.cli("down", "--keep-running")
    go.touch()
    wait_for(lambda: not any(is_alive(pid) for pid in pids))
    hold.up("other")
    done = hold.wait_status("migration", "exited")
    assert (done["exit_code"], done["run"]) == (0, 1)
    again = wait_for(lambda: (s := hold.service("broken"))["run"] == 2 and s)
    assert again["restart_count"] == 1
    first = hold.json("runs", "broken")["runs"][-1]
    assert (first["number"], first["exit_code"], first["unknown"]) == (1, 3, False)


def test_a_stale_pid_file_harms_no_stranger(hold: Hold) -> None:
    """After a crash the remembered pid is somebody else's: stopping us ends that process."""
    hold.services(web=["sleep", "300"])
    hold.up()
    web = hold.service("web")["pid"]
    description = hold.state / "keeper.json"
    kill_holdfast(hold)
    kill_9(web)
    with started(["sleep", "300"]) as stranger:
        facts = json.loads(description.read_text())
        description.write_text(json.dumps({**facts, "pid": stranger.pid}))
        hold.cli("status", expect=4)
        hold.cli("down", expect=None)
        hold.up()
        hold.cli("down")
        assert stranger.poll() is None


@pytest.mark.parametrize("content", ["", "{", '{"pid": "x"}', "[]"])
def test_a_torn_description_is_taken_over(hold: Hold, content: str) -> None:
    """Files torn by a crash must not have to be deleted by hand."""
    hold.services(web=["sleep", "300"])
    hold.up()
    path = hold.state / "keeper.json"
    kill_holdfast(hold)
    path.write_text(content)
    hold.cli("status", expect=4)
    hold.up()
    hold.wait_status("web", "running")


def test_a_process_of_before_the_reboot_is_nobody_of_ours(hold: Hold) -> None:
    """After a reboot the old numbers fit a new process by chance, and it is taken for ours."""
    hold.services(web=["sleep", "300"])
    hold.up()
    pid = hold.service("web")["pid"]
    kill_holdfast(hold)
    try:
        database = sqlite3.connect(hold.state / "holdfast.db")
        with closing(database), database:
            assert database.execute("UPDATE runs SET boot_id = 'another'").rowcount == 1
        hold.up()
        now = hold.wait_status("web", "running")
        assert now["pid"] != pid
        assert not now["adopted"]
        hold.cli("down")
        assert is_alive(pid)
    finally:
        kill_9(pid)
        wait_for(lambda: not is_alive(pid))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_lost_window_loses_no_service(hold: Hold, number: signal.Signals) -> None:
    """The window of the foreground is closed or killed: dead services, or orphans for ever."""
    hold.services(web=["sh", "-c", "echo hi; exec sleep 300"])
    with started(hold.command("up"), cwd=hold.project, env=hold.environ) as front:
        read_until(front, b"hi")
        pid = hold.service("web")["pid"]
        front.send_signal(number)
        front.wait(timeout=60)
    assert hold.wait_status("web", "running")["pid"] == pid
    hold.cli("down")
    assert not is_alive(pid)


def test_a_clean_end_leaves_no_socket(hold: Hold) -> None:
    """Sockets pile up in the temporary folder, one for each project that was ever started."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.cli("down")
    assert [path for path in (hold.folder / "r").rglob("*") if not path.is_dir()] == []


def test_the_next_version_speaks_to_this_one(installed: Installed) -> None:
    """After an installation the new client only says that everything must be killed."""
    hold = installed
    hold.services(web=["sleep", "300"])
    hold.up()
    pid = hold.service("web")["pid"]
    hold.replace_version("0.2.0")
    for verb in (["status"], ["ps"], ["logs", "web"], ["restart", "web"]):
        hold.cli(*verb)
    pid = hold.service("web")["pid"]
    path = hold.site / "holdfast" / "__init__.py"
    path.write_text(path.read_text().replace('"0.2.0"', '"0.9.0"'))
    os.utime(path, (1, 1))
    assert "holdfast upgrade" in hold.cli("status", expect=5).stderr
    hold.cli("upgrade")
    assert hold.json("status")["supervisor"]["version"] == "0.9.0"
    assert hold.service("web")["pid"] == pid
