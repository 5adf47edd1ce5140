"""The example of authority does what it says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.harness import Hold, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "authority"


def test_the_example_asks_for_a_second_opinion() -> None:
    """About the data, and not about the rest; and it can be locked down."""
    with Hold() as hold:
        shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
        hold.up()
        hold.cli("restart", "web")
        asking = subprocess.Popen(
            hold.command("stop", "db", "web"), cwd=hold.project, env=hold.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with asking:
            wait_for(lambda: asking.poll() is not None)
        hold.cli("start", "db", "web")
        asking = subprocess.Popen(
            hold.command("restart", "db"), cwd=hold.project, env=hold.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with asking:
            waiting = wait_for(lambda: hold.json("approvals")["waiting"])
            assert waiting[0]["policy"] == "data"
            hold.cli("approve", waiting[0]["approval"])
            out, err = asking.communicate(timeout=60)
        assert "waiting for approval" in err
        assert "db: restarted" in out
        hold.cli("lockdown", "--reason", "that is enough")
        assert "that is enough" in hold.cli("restart", "web", expect=5).stderr
