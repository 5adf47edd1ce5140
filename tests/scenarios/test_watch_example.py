"""The example of watched files and schedules does what its comments say."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness import Hold, wait_for
from tests.scenarios.test_watch_files import wait_watched

EXAMPLE = Path(__file__).parents[2] / "examples" / "watch-and-schedule"


def test_the_example(hold: Hold) -> None:
    """A changed page restarts the server, its own log does not; the clean-up runs by itself."""
    shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
    hold.up()
    wait_for(lambda: b"serving <h1>hello</h1>" in hold.raw("web"))
    page = hold.project / "pages" / "index.html"
    wait_watched(hold, folders=2)
    page.write_text("<h1>changed</h1>")
    wait_for(lambda: b"cleaned" in hold.raw("clean-up"))
    wait_for(lambda: b"serving <h1>changed</h1>" in hold.raw("web"))
    events = hold.ask("events", limit=1000)["events"]
    told = [it["data"]["paths"] for it in events if it["kind"] == "watch:changed"]
    assert {path for paths in told for path in paths} == {str(page)}
