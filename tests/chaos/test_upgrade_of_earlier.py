"""An upgrade from an earlier version, under load, with everything in force that must outlive it."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.client.launch import import_path, python_prefix
from holdfast.vocabulary.errors import HoldfastError
from tests.chaos.load import Load
from tests.harness import PYTHON, Hold, is_alive, quick, wait_for
from tests.project.tree import ROOT

EARLIER = "4276a3ef7a2b0a989e11d6540dc24d905ae676e7"
"""The last commit whose modules lay in flat folders."""
NEWER = "0.1.9"
"""So that a test can tell whose code answers."""


def earlier_package() -> bytes:
    """The sources of the earlier version, out of the project's history."""
    made = subprocess.run(
        ["git", "archive", EARLIER, "src/holdfast"], cwd=ROOT, capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"this copy of the project has no history: {made.stderr.decode().strip()}")
    return made.stdout


class Upgraded(Hold):
    """A Holdfast of the earlier version, whose package a test replaces by the one that ships."""

    def __init__(self) -> None:
        super().__init__()
        self.site = self.folder / "site"
        with tarfile.open(fileobj=io.BytesIO(earlier_package())) as archive:
            archive.extractall(self.folder / "earlier")
        shutil.move(self.folder / "earlier" / "src", self.site)
        self.environ["PYTHONPATH"] = str(self.site)

    def command(self, *args: object) -> list[str]:
        # The copy must win over the installed package, so it is put first by PYTHONPATH.
        return [PYTHON, "-m", "holdfast", *map(str, args)]

    def install(self) -> None:
        """Replace the package on disk, as pip does: the old files go, the new ones come."""
        (self.site / "holdfast").rename(self.folder / "replaced")
        source = Path(holdfast.__file__).parent
        shutil.copytree(
            source, self.site / "holdfast", ignore=shutil.ignore_patterns("__pycache__")
        )
        init = self.site / "holdfast" / "__init__.py"
        init.write_text(init.read_text().replace(f'"{holdfast.__version__}"', f'"{NEWER}"'))

    def upgrade(self) -> None:
        """Ask the keeper itself: a lockdown refuses the command."""
        before = self.supervisor_pid
        with closing(KeeperConnection(str(self.runtime / "keeper.sock"))) as keeper:
            request = {"argv_prefix": python_prefix(), "import_path": import_path()}
            keeper.ask("upgrade", seconds=60, package=str(self.site), **request)
        self._disconnect()
        wait_for(lambda: self._answers_anew(before), what="the next supervisor")

    def _answers_anew(self, before: int) -> bool:
        try:
            return self.supervisor_pid != before
        except (HoldfastError, OSError):
            return False


@pytest.fixture
def hold() -> Iterator[Upgraded]:
    with Upgraded() as one:
        yield one


def assistant(hold: Hold) -> dict[str, Any]:
    """The caller of a session that has started a service."""
    opened = hold.ask("open_session", client="claude")
    caller = {"token": opened["token"], "door": "mcp"}
    hold.ask("start", services=["owned"], caller=caller)
    return caller


def test_nothing_is_lost_over_an_upgrade_from_flat_folders(hold: Upgraded) -> None:
    """Processes, terminals, output, exit codes, sessions with their leases, ports, pauses and
    stops are the same after the earlier keeper and supervisor became the ones that ship."""
    load = Load(
        hold, 12, lines=2500, interval=0.004,
        owned=quick(autostart=False),
        paused=quick(),
        off=quick(),
        typed=quick(["cat"], terminal=True),
        leased=quick(["sh", "-c", "echo on $$PORT; exec sleep 300"], port="auto"),
    )  # fmt: skip
    caller = assistant(hold)
    hold.cli("pause", "paused")
    hold.cli("stop", "off")
    hold.cli("run", "--name", "adhoc", "--", "sleep", "300")
    before, keeper = hold.status(), hold.keeper_pid
    sessions = hold.ask("list_sessions")["sessions"]

    hold.install()
    hold.cli("upgrade")

    hello, after = hold.ask("hello"), hold.status()
    assert (hello["version"], hello["keeper_version"]) == (NEWER, NEWER)
    assert after["supervisor"]["pid"] != before["supervisor"]["pid"]
    assert hold.keeper_pid == keeper
    load.check_same_processes()
    for name in ("owned", "paused", "off", "typed", "leased", "adhoc"):
        for fact in ("pid", "run_id", "status", "owner", "ports", "restart_count"):
            assert after["services"][name].get(fact) == before["services"][name].get(fact), name
    assert hold.service("paused")["status"] == "paused"
    assert hold.service("off")["status"] == "stopped"
    kept = hold.ask("list_sessions")["sessions"]
    assert [one["session"] for one in kept] == [one["session"] for one in sessions]
    text = base64.b64encode(b"still there\n").decode()
    hold.ask("send_input", service="typed", data=text)
    wait_for(lambda: hold.raw("typed").count(b"still there") == 2, what="the echo")
    load.check_nothing_lost()
    owned = after["services"]["owned"]["pid"]
    hold.ask("close_session", caller=caller)
    wait_for(lambda: not is_alive(owned), what="the session's service to end")
    hold.cli("audit", "--verify")


def test_a_lockdown_holds_over_an_upgrade_from_flat_folders(hold: Upgraded) -> None:
    """What was refused before is refused afterwards, for the same reason; an admin lifts it."""
    load = Load(hold, 4, lines=800, off=quick(autostart=False))
    hold.cli("lockdown", "--reason", "a drill")
    hold.install()
    hold.upgrade()
    load.check_same_processes()
    with pytest.raises(HoldfastError, match="a drill"):
        hold.ask("start", services=["off"])
    hold.cli("unlock")
    hold.cli("start", "off")
    load.check_nothing_lost()
