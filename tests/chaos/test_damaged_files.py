"""Files of Holdfast's own state, damaged or replaced by something else: services are held on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Hold, is_alive, kill_9, wait_for

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _fill(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def _remove(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _full_folder(path: Path) -> None:
    _folder(path)
    (path / "file").write_text("mine")


def _fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/full")


def _dangling(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/nowhere/at/all")


Damage = Callable[[Path], None]
NOT_PLAIN = [_folder, _fifo, _device]
OWN_LOGS = ("keeper.err", "supervisor.err", "holdfast.log")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("holdfast.db-shm", _empty),
        ("holdfast.db-shm", _halve),
        ("holdfast.db-shm", _remove),
        ("holdfast.db-shm", _folder),
        ("holdfast.db-wal", _halve),
        ("holdfast.db-wal", _remove),
        ("holdfast.db", _fill),
        ("holdfast.db", _folder),
    ],
)
def test_the_keeper_dies_and_the_database_is_damaged(hold: Hold, name: str, damage: Damage) -> None:
    """A supervisor answers afterwards, with the same process; only history may be lost."""
    hold.services(web=["sleep", "300"])
    hold.up()
    status = hold.status()
    web, keeper = status["services"]["web"]["pid"], status["supervisor"]["keeper_pid"]
    hold._disconnect()
    damage(hold.state / name)
    kill_9(keeper)
    wait_for(lambda: not is_alive(keeper))
    after = wait_for(lambda: _status(hold), what="a supervisor that answers")
    assert after["services"]["web"]["pid"] == web
    hold.cli("restart", "web")
    hold.cli("down")
    assert not hold.marked_pids()


def _status(hold: Hold) -> Any:
    done = hold.cli("status", "--json", expect=None)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else None


@pytest.mark.parametrize("damage", [*NOT_PLAIN, _full_folder, _dangling])
def test_without_own_logs_everything_starts(hold: Hold, damage: Damage) -> None:
    """Losing Holdfast's own logs never costs a start, nor a successor of the keeper."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.cli("down")
    for name in OWN_LOGS:
        damage(hold.state / name)
    hold.up()
    web, keeper = hold.service("web")["pid"], hold.keeper_pid
    hold.kill_supervisor()
    hold._disconnect()
    kill_9(keeper)
    wait_for(lambda: not is_alive(keeper))
    after = wait_for(lambda: _status(hold), what="a supervisor that answers")
    assert after["services"]["web"]["pid"] == web
    hold.cli("down")


def test_a_log_that_can_be_written_again_is(hold: Hold) -> None:
    """Once the obstacle is gone, the next line of Holdfast's own log is written."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.cli("down")
    _folder(hold.state / "holdfast.log")
    hold.up()
    (hold.state / "holdfast.log").rmdir()
    hold.cli("restart", "web")
    wait_for(lambda: "web" in (hold.state / "holdfast.log").read_text())


@pytest.mark.parametrize("name", ["lock", "exits.jsonl", "logs", "keeper.json"])
def test_a_file_that_a_start_needs_is_named(hold: Hold, name: str) -> None:
    """What is in its place is not waited for: the start fails at once and says which file it is."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.cli("down")
    path = hold.state / name
    if path.is_dir():
        shutil.rmtree(path)
    (_folder if name == "keeper.json" else _fifo)(path)
    refused = hold.cli("up", "-d", expect=1, timeout=60)
    assert str(path) in refused.stderr
    assert "Traceback" not in refused.stderr
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    hold.up()


@pytest.mark.parametrize("damage", NOT_PLAIN)
def test_an_unreadable_lockdown_is_in_force(hold: Hold, damage: Damage) -> None:
    """Nobody gets out of a lockdown, or past tokens, by putting something else in the place of
    their files; the supervisor answers, and says which file it is."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.cli("down")
    for name in ("lockdown.json", "tokens.json", "sessions.json"):
        damage(hold.state / name)
    refused = hold.cli("up", "-d", expect=5, timeout=60)
    assert "lockdown.json cannot be read" in refused.stderr
    assert "tokens.json cannot be read" in (hold.state / "holdfast.log").read_text()
    hold.cli("down", expect=None)


@pytest.mark.parametrize(
    "line", ['{"forget": 5}', '{"exit": {"run_id": []}}', "[]", '{"forget": [[]]}']
)
def test_a_damaged_journal_costs_its_lines_only(hold: Hold, line: str) -> None:
    """Lines that no keeper wrote are passed over."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.cli("down")
    (hold.state / "exits.jsonl").write_text(line + "\n")
    hold.up()
    assert hold.service("web")["status"] in ("starting", "running")
