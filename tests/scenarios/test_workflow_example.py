"""The example of workflows does what its comments say."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness import Hold, kill_9, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "workflows"


def test_the_example_of_workflows(hold: Hold) -> None:
    """Built, restarted, waited for; a crash is told by its recovery command."""
    shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
    hold.up()
    told = hold.cli("workflow", "run", "release").stdout
    for words in ("[1/4] ./build.sh (build the page)\nbuilding\n", "released\n", "release: done"):
        assert words in told
    assert b"--greeting hello serving page of" in hold.raw("web")
    hold.cli("custom-restart", "web", "--pre-command", "build", "--args", "--greeting moin")
    wait_for(lambda: b"--greeting moin serving page of" in hold.raw("web"))
    assert hold.cli("exec", "--", "./build.sh").stdout == "building\n"
    kill_9(hold.service("web")["pid"])
    report = hold.project / "told.txt"
    wait_for(lambda: report.exists() and report.read_text())
    assert report.read_text() == "web: crash (killed by SIGKILL)\n"
