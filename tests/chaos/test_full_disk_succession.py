"""A keeper is succeeded while its state folder is on a full disk: nothing is let go."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.logbook.entries import Note
from holdfast.logbook.index import GAP_BEGINS
from holdfast.logbook.lines import lines
from holdfast.logbook.reader import Reader
from tests.disk import fill, small_disk
from tests.harness import Hold, is_alive, wait_for


@pytest.fixture
def disk(hold: Hold) -> Iterator[Path]:
    """A file system of 3 MB that holds the state."""
    with small_disk(hold.folder / "disk") as disk:
        hold.environ["HOLDFAST_STATE_DIR"] = str(disk / "state")
        yield disk


def _fill(disk: Path) -> None:
    fill(disk)
    # No name can be added either.
    try:
        for number in range(100_000):
            (disk / f"filler{number}").touch()
    except OSError:
        pass


def _empty(disk: Path) -> None:
    for path in (disk / "ballast", *disk.glob("filler*")):
        path.unlink(missing_ok=True)


def _gaps(disk: Path) -> list[int | None]:
    """How many bytes each gap says it has; None for one whose keeper was killed."""
    entries = lines(Reader(str(disk / "state" / "logs"), "web"))
    return [it.lost for it in entries if isinstance(it, Note) and it.kind == "gap"]


def _pids(hold: Hold) -> dict[str, int]:
    return {name: facts["pid"] for name, facts in hold.json("status")["services"].items()}


@pytest.mark.parametrize("succession", ["upgrade", "kill"])
def test_full_disk(hold: Hold, disk: Path, succession: str) -> None:
    """An upgrade or a kill -9 of the keeper on a full disk: same pids, status answers, and
    what could not be written is written once there is room. What a killed keeper lost is said to
    be of unknown size."""
    say = "echo tick" if succession == "upgrade" else "printf %0400d 7"
    hold.services(web=["sh", "-c", f"while :; do {say}; sleep 0.05; done"], db=["sleep", "1000"])
    hold.cli("up", "-d")
    before = _pids(hold)
    old = hold.json("status")["supervisor"]
    keeper = old["keeper_pid"]
    try:
        _fill(disk)
        if succession == "upgrade":
            hold.cli("upgrade")
            hold.cli("upgrade")
        else:
            index = disk / "state" / "logs" / "web.000001.idx"
            wait_for(lambda: GAP_BEGINS in index.read_bytes()[7::24], what="a gap")
            os.kill(keeper, signal.SIGKILL)
            wait_for(
                lambda: (
                    hold.cli("status", "--json", expect=None).returncode == 0
                    and hold.json("status")["supervisor"]["keeper_pid"] == old["pid"]
                ),
                30,
                "the supervisor to be the keeper",
            )
            keeper = old["pid"]
        assert hold.json("status")["supervisor"]["keeper_pid"] == keeper
        assert _pids(hold) == before
        assert all(is_alive(pid) for pid in before.values())
        hold.cli("restart", "db")
        assert _pids(hold)["web"] == before["web"]
        _empty(disk)
        description = disk / "state" / "keeper.json"
        wait_for(
            lambda: json.loads(description.read_text())["pid"] == keeper,
            what="the description to be written",
        )
        if succession == "kill":
            wait_for(lambda: None in _gaps(disk), what="a gap of unknown size")
    finally:
        _empty(disk)
        hold.cli("down", "--now", expect=None)
        for pid in (keeper, *before.values()):
            wait_for(lambda pid=pid: not is_alive(pid), what=f"the end of {pid}")


WRITE = """
import os, sys, time
for n in range(400):
    os.write(1, b"%0690d\\n" % n)
    if n in (100, 200, 300):
        open(sys.argv[1] + str(n), "x").close()
        while not os.path.exists(sys.argv[1] + "go" + str(n)):
            time.sleep(0.01)
time.sleep(1000)
"""


def test_recorded_and_lost_bytes_add_up(hold: Hold, disk: Path) -> None:
    """Segments fill up, no new one can be begun, and the keeper is killed: what is recorded,
    removed and told as lost adds up to what was printed, or a gap of unknown size is told."""
    prefix = str(hold.folder / "at")
    command = [sys.executable, "-I", "-S", "-c", WRITE, prefix]
    hold.services(web={"command": command, "log": {"max_size": "96KiB", "total_size": "1MiB"}})
    hold.cli("up", "-d")
    old = hold.json("status")["supervisor"]
    try:
        wait_for(lambda: Path(prefix + "100").exists(), what="the first hundred lines")
        _fill(disk)
        Path(prefix + "go100").touch()
        wait_for(lambda: Path(prefix + "200").exists(), what="lines on a full disk")
        os.kill(old["keeper_pid"], signal.SIGKILL)
        wait_for(
            lambda: hold.cli("status", expect=None).returncode == 0, 30, "the supervisor to be it"
        )
        Path(prefix + "go200").touch()
        wait_for(lambda: Path(prefix + "300").exists(), what="lines of the next keeper")
        _empty(disk)
        Path(prefix + "go300").touch()
        logs = disk / "state" / "logs"
        reader = Reader(str(logs), "web")
        wait_for(lambda: b"%0690d" % 399 in b"".join(reader.raw()), what="the last line")
        notes = [it for it in lines(reader) if isinstance(it, Note)]
        lost = [it.lost for it in notes if it.kind in ("gap", "removed", "missing")]
        assert (
            None in lost or len(b"".join(reader.raw())) + sum(it or 0 for it in lost) == 400 * 691
        )
    finally:
        _empty(disk)
        hold.cli("down", "--now", expect=None)
