"""Upgrade under load, a package replaced on disk, and a supervisor that cannot start."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.chaos.load import Load
from tests.disk import fill, small_disk
from tests.harness import PYTHON, Hold, is_alive, kill_9, wait_for


class Installed(Hold):
    """A Holdfast that runs from its own copy of the package, which a test may replace."""

    def __init__(self) -> None:
        super().__init__()
        self.site = self.folder / "site"
        source = Path(holdfast.__file__).parent
        shutil.copytree(source, self.site / "holdfast", ignore=shutil.ignore_patterns("*.pyc"))
        self.environ["PYTHONPATH"] = str(self.site)

    def command(self, *args: object) -> list[str]:
        # The copy must win over the installed package, so it is put first by PYTHONPATH.
        return [PYTHON, "-m", "holdfast", *map(str, args)]

    def replace_version(self, version: str) -> None:
        init = self.site / "holdfast" / "__init__.py"
        old = init.read_text()
        init.write_text(old.replace(f'"{holdfast.__version__}"', f'"{version}"'))
        os.utime(init, (0, 0))


@pytest.fixture
def installed() -> Iterator[Installed]:
    with Installed() as one:
        yield one


def test_upgrade_under_load(hold: Hold) -> None:
    """holdfast upgrade: no pid changes, nothing is lost, keeper pid stays."""
    load = Load(hold)
    keeper = hold.keeper_pid
    for _ in range(2):
        old = hold.supervisor_pid
        hold.cli("upgrade")
        assert hold.supervisor_pid != old
        assert hold.keeper_pid == keeper
        load.check_same_processes()
    load.check_nothing_lost()


def test_package_replaced_while_it_runs(installed: Installed) -> None:
    """Files replaced on disk change nothing that runs; upgrade swaps them."""
    hold = installed
    hold.services(web=["sh", "-c", "while :; do echo tick; sleep 0.02; done"])
    hold.up()
    pid = hold.service("web")["pid"]
    before = hold.status()["supervisor"]["version"]
    assert before == holdfast.__version__
    hold.replace_version("0.1.9")
    assert hold.status()["supervisor"]["version"] == before
    for verb in (
        ["status"],
        ["stop", "web"],
        ["start", "web"],
        ["ps"],
        ["events"],
        ["logs", "web"],
    ):
        hold.cli(*verb)
    pid = hold.service("web")["pid"]
    hold.cli("upgrade")
    assert hold.status()["supervisor"]["version"] == "0.1.9"
    assert hold.ask("hello")["keeper_version"] == "0.1.9"
    assert hold.service("web")["pid"] == pid


def test_upgrade_to_a_broken_package_is_refused(installed: Installed) -> None:
    """A package that cannot start is found before the swap; all stays as it was."""
    hold = installed
    hold.services(web=["sleep", "300"])
    hold.up()
    status = hold.status()
    (hold.site / "holdfast" / "keeper" / "keeper.py").write_text("this is not python")
    done = hold.cli("upgrade", expect=None)
    assert done.returncode != 0
    after = hold.status()
    assert after["supervisor"]["keeper_pid"] == status["supervisor"]["keeper_pid"]
    assert after["services"]["web"]["pid"] == status["services"]["web"]["pid"]


@pytest.mark.parametrize("name", ["supervisor_process.py", "adapters/ports/holders.py"])
def test_upgrade_to_a_broken_supervisor_is_refused(installed: Installed, name: str) -> None:
    """One that could not load is found before the one that works is retired; the reason is told."""
    hold = installed
    hold.services(web=["sleep", "300"])
    hold.up()
    status = hold.status()
    (hold.site / "holdfast" / name).write_text("raise RuntimeError('bad install')")
    done = hold.cli("upgrade", expect=None)
    assert done.returncode != 0
    assert "failed its check (1): RuntimeError: bad install" in done.stderr
    after = hold.status()
    for fact in ("pid", "keeper_pid"):
        assert after["supervisor"][fact] == status["supervisor"][fact]
    assert after["services"]["web"]["pid"] == status["services"]["web"]["pid"]
    assert str(after["services"]["web"]["pid"]) in hold.cli("status").stdout


def test_supervisor_cannot_start(installed: Installed) -> None:
    """With a broken supervisor, status, logs, stop and down work through the keeper."""
    hold = installed
    hold.services(web=["sh", "-c", "while :; do echo tick; sleep 0.05; done"], db=["sleep", "300"])
    hold.up()
    status = hold.status()
    web, db = (status["services"][name]["pid"] for name in ("web", "db"))
    (hold.site / "holdfast" / "supervisor.py").write_text("raise SystemExit('broken install')")
    shutil.rmtree(hold.site / "holdfast" / "__pycache__", ignore_errors=True)
    kill_9(status["supervisor"]["pid"])
    wait_for(lambda: not is_alive(status["supervisor"]["pid"]))
    shown = hold.cli("status")
    assert str(web) in shown.stdout
    assert re.search(r"failed \d+ times in a row, and is tried again( in \d+ s)?: ", shown.stderr)
    assert "supervisor" in shown.stderr
    assert hold.raw("web").startswith(b"tick\n")
    hold.cli("stop", "db")
    assert not is_alive(db)
    assert is_alive(web)
    hold.cli("down")
    assert not is_alive(web)
    assert not hold.marked_pids()


def test_a_broken_installation_is_left_behind(installed: Installed) -> None:
    """Its supervisor cannot start any more; upgrade to another one brings a new, unnoticed."""
    hold = installed
    hold.services(web=["sleep", "300"])
    hold.up()
    status = hold.status()
    (hold.site / "holdfast" / "supervisor.py").write_text("raise SystemExit('broken install')")
    shutil.rmtree(hold.site / "holdfast" / "__pycache__", ignore_errors=True)
    kill_9(status["supervisor"]["pid"])
    wait_for(lambda: not is_alive(status["supervisor"]["pid"]))
    del hold.environ["PYTHONPATH"]
    assert "holdfast upgrade" in hold.cli("start", "web", expect=4).stderr
    told = hold.json("upgrade")
    assert told["before"] == {"version": None, "keeper_version": holdfast.__version__}
    assert (told["after"]["version"], told["changed_pids"]) == (holdfast.__version__, [])
    assert hold.service("web")["pid"] == status["services"]["web"]["pid"]
    assert hold.keeper_pid == status["supervisor"]["keeper_pid"]
    hold.cli("stop", "web")


@pytest.fixture
def disk(hold: Hold) -> Iterator[Path]:
    """A file system of 3 MB."""
    with small_disk(hold.folder / "disk") as disk:
        yield disk


def test_disk_full(hold: Hold, disk: Path) -> None:
    """Disk full: the services go on, the gap is recorded, recording resumes."""
    flag, truth = hold.folder / "more", hold.folder / "truth"
    code = (
        "import os, time\n"
        f"truth = os.open({str(truth)!r}, os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "os.write(1, b'before\\n')\n"
        f"while not os.path.exists({str(flag)!r}): time.sleep(0.02)\n"
        "for n in range(100_000):\n"
        "    os.write(1, b'%099d\\n' % n * 10); os.write(truth, b'x'); time.sleep(0.02)\n"
    )
    hold.environ["HOLDFAST_STATE_DIR"] = str(disk / "state")
    hold.environ["HOLDFAST_FREE_FLOOR"] = "100000"
    hold.services(web=[PYTHON, "-I", "-S", "-c", code])
    try:
        hold.cli("up", "-d")
        wait_for(lambda: hold.raw("web") == b"before\n")
        pid = hold.json("status")["services"]["web"]["pid"]
        ballast = fill(disk)
        flag.touch()
        wait_for(lambda: truth.exists() and truth.stat().st_size > 50, what="it to go on")
        assert hold.json("status")["services"]["web"]["pid"] == pid
        ballast.unlink()
        mark = truth.stat().st_size
        wait_for(lambda: truth.stat().st_size > mark + 20)
        wait_for(lambda: "lost" in hold.cli("logs", "web").stderr, what="the gap to be told")
        newest = b"%099d" % (truth.stat().st_size + 5)
        wait_for(lambda: newest in hold.raw("web"), what="recording to go on")
        wait_for(lambda: '"output:resumed"' in hold.cli("events", "--json").stdout)
        assert is_alive(pid)
    finally:
        hold.cli("down", "--now", expect=None)
