"""`down` while it takes its time; with real processes."""

from __future__ import annotations

import signal
import subprocess

import pytest

from holdfast.cli.main import main
from tests.cli.fake_daemon import FakeDaemon
from tests.harness import Hold, is_alive


def test_ends_are_told_as_they_happen_and_ctrl_c_changes_nothing(hold: Hold) -> None:
    """Who waits for a long grace sees what is done; who does not want to is told what to say."""
    deaf = "trap '' TERM; while :; do sleep 0.05; done"
    hold.services(
        quick=["sleep", "300"], deaf={"command": ["sh", "-c", deaf], "stop": {"grace": 300}}
    )
    hold.up()
    pid = hold.service("deaf")["pid"]
    down = subprocess.Popen(
        hold.command("down"), cwd=hold.project, env=hold.environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert down.stdout is not None
    assert down.stdout.readline() == "quick: stopped (ended by SIGTERM)\n"
    assert is_alive(pid)
    down.send_signal(signal.SIGINT)
    assert "`holdfast down --now` kills at once" in down.communicate(timeout=60)[1]
    assert down.returncode == 130
    hold.cli("down", "--now")
    assert not is_alive(pid)


def test_what_cannot_be_killed_is_told(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither as killed nor as kept by a wish, and not as a success."""
    report = [{"pid": 8, "name": "nfs", "how": "unkillable"}, {"pid": 9, "how": "SIGKILL"}]
    daemon.answers["events"] = {
        "events": [
            {"seq": 1, "kind": "process:ended", "service": "db", "data": {"report": report}},
            {"seq": 2, "kind": "transition", "service": "db", "data": {"to": "failed"}},
        ],
        "last": 2,
    }
    daemon.answers["shutdown"] = {"message": "", "kept": ["db", "web"], "stuck": ["db"]}
    assert main(["down"]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "db: failed; killed: 9; cannot be killed: 8",
        "kept running (on_supervisor_exit): web",
        "`holdfast stop web` ends it, `holdfast up` joins it again",
    ]
    assert told.err == "holdfast: processes of db cannot be killed; the keeper holds them\n"
