"""The example of resources does what its comments say."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness import Hold, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "metrics"


def test_the_example() -> None:
    """Custom numbers arrive, the greedy one is restarted, the slow one is ended."""
    with Hold() as hold:
        shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
        hold.up(expect=None)
        done = wait_for(
            lambda: hold.ask("metrics")["services"]["worker"]["custom"].get("jobs_done")
        )
        assert done >= 1
        wait_for(lambda: hold.service("nightly").get("error_type") == "TIMEOUT")
        wait_for(lambda: hold.service("greedy")["restart_count"] >= 1, 30)
        ended = hold.json("runs", "greedy")["runs"][-1]
        assert ended["error_type"] == "RESOURCE_EXCEEDED"
        assert hold.service("worker")["status"] == "running"
