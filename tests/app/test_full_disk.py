"""A state folder on a full disk: the supervisor lives, answers, and can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Hold, is_alive, wait_for


@pytest.fixture
def full_disk(hold: Hold) -> Iterator[Path]:
    """A file system of 3 MB; what fills it is the test's."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    disk = hold.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this host does not allow a mount")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_supervisor_starts_and_ends_on_a_full_disk(hold: Hold, full_disk: Path) -> None:
    """Killed on a full disk, its successor answers; history is kept, and down is down."""
    hold.environ["HOLDFAST_STATE_DIR"] = str(full_disk / "state")
    hold.services(web=["sleep", "1000"])
    try:
        hold.cli("up", "-d")
        before = hold.json("status")
        events = hold.cli("events", "--json").stdout.splitlines()
        with (full_disk / "ballast").open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        for _ in range(2):
            old = hold.json("status")["supervisor"]["pid"]
            os.kill(old, signal.SIGKILL)
            wait_for(lambda old=old: hold.json("status")["supervisor"]["pid"] != old)
        after = hold.json("status")
        assert after["services"]["web"]["pid"] == before["services"]["web"]["pid"]
        hold.cli("restart", "web")
        assert not list((full_disk / "state").glob("*.corrupt-*"))
        (full_disk / "ballast").unlink()
        wait_for(
            lambda: '"supervisor:started"' in hold.cli("events", "--json", expect=None).stdout,
            what="the history to be written again",
        )
        assert hold.cli("events", "--json").stdout.splitlines()[: len(events)] == events
    finally:
        pid = hold.json("status")["supervisor"]["keeper_pid"]
        hold.cli("down", "--now")
        wait_for(lambda: not is_alive(pid))
