"""A request whose supervisor died is asked again, but never against what was asked since."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.harness import Hold, quick, started, wait_for

SLOW = """
trap 'until [ -e go ]; do sleep 0.02; done; exit 0' TERM
echo up
while :; do sleep 0.02; done
"""


def asked_again(
    hold: Hold, words: list[str], begun: Callable[[], object], meanwhile: list[str]
) -> tuple[int, str]:
    """Ask something whose supervisor dies when it is `begun`; ask something else before the first
    client can ask again. What the first client ends with."""
    client = hold.command(*words)
    with started(client, cwd=hold.project, env=hold.environ, stderr=-2) as process:
        wait_for(begun)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            hold.kill_supervisor()
            (hold.project / "go").touch()
            hold.cli(*meanwhile)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert process.stdout is not None
        told = process.stdout.read().decode()
        return process.wait(30), told


def test_a_stop_that_is_asked_again_undoes_no_start(hold: Hold) -> None:
    """What was started after a stop had begun goes on; who asked for the stop is told."""
    hold.services(web=quick(["sh", "-c", SLOW], stop={"grace": "60s"}))
    hold.up()
    wait_for(lambda: b"up" in hold.raw("web"))

    def is_stopping() -> bool:
        return bool(hold.service("web")["status"] == "stopping")

    code, told = asked_again(hold, ["stop", "web"], is_stopping, ["up", "-d"])
    web = hold.service("web")
    assert (web["status"], web["desired"], web["run"]) == ("running", "running", 2)
    assert code == 1
    assert "up" in told
    assert "holdfast status" in told
