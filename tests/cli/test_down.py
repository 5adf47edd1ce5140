"""`down` while it takes its time; with real processes."""

from __future__ import annotations

import signal
import subprocess

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
    assert "`holdfast down --now` kills at once" in down.communicate(timeout=20)[1]
    assert down.returncode == 130
    hold.cli("down", "--now")
    assert not is_alive(pid)
