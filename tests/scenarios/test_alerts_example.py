"""The example of alerts does what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness import Hold, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "alerts"


def test_the_example_tells_of_its_trouble() -> None:
    """The flaky service is told of as it crashes and when it is given up, and explained."""
    with Hold() as hold:
        shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
        hold.up(expect=None)
        hold.wait_status("flaky", "failed")
        told = hold.project / "told.txt"
        lines = wait_for(
            lambda: told.exists() and len(it := told.read_text().splitlines()) > 1 and it
        )
        assert lines[0] == "raised warning: flaky crashed: exit code 1"
        assert lines[1].startswith("raised critical: flaky is not started again")
        assert "something it needs does not answer" in hold.cli("explain", "flaky").stdout
        hold.cli("stop", "flaky")
        wait_for(lambda: told.read_text().count("cleared") == 2)
