"""A state folder on a full disk: the supervisor lives, answers, and can be ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disk import fill, small_disk
from tests.harness import Hold, is_alive, wait_for


@pytest.fixture
def full_disk(hold: Hold) -> Iterator[Path]:
    """A file system of 3 MB; what fills it is the test's."""
    with small_disk(hold.folder / "disk") as disk:
        yield disk


def test_a_supervisor_starts_and_ends_on_a_full_disk(hold: Hold, full_disk: Path) -> None:
    """Killed on a full disk, its successor answers; history is kept, and down is down."""
    hold.environ["HOLDFAST_STATE_DIR"] = str(full_disk / "state")
    hold.services(web=["sleep", "1000"])
    try:
        hold.cli("up", "-d")
        before = hold.json("status")
        events = hold.cli("events", "--json").stdout.splitlines()
        fill(full_disk)
        for _ in range(2):
            old = hold.json("status")["supervisor"]["pid"]
            os.kill(old, signal.SIGKILL)
            wait_for(lambda old=old: hold.json("status")["supervisor"]["pid"] != old)
        after = hold.json("status")
        assert after["services"]["web"]["pid"] == before["services"]["web"]["pid"]
        hold.cli("restart", "web")
        wait_for(lambda: "History cannot be written: " in hold.cli("status").stdout)
        assert not list((full_disk / "state").glob("*.corrupt-*"))
        (full_disk / "ballast").unlink()
        wait_for(
            lambda: '"supervisor:started"' in hold.cli("events", "--json", expect=None).stdout,
            what="the history to be written again",
        )
        assert hold.cli("events", "--json").stdout.splitlines()[: len(events)] == events
        assert "history" not in hold.cli("status").stdout
    finally:
        pid = hold.json("status")["supervisor"]["keeper_pid"]
        hold.cli("down", "--now")
        wait_for(lambda: not is_alive(pid))
