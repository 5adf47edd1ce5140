"""Folders are swapped for links while git commands run: nothing outside the roots is read, tagged
or written, whatever is swapped at whatever moment."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.engine.tasks import Task, TaskResult
from holdfast.system import landlock
from holdfast.vocabulary.errors import HoldfastError
from tests.git.desk import Desk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="swaps by renameat2")

SECRET = "hunter2"
ROUNDS = 2
_EXCHANGE = 2
_HERE = -100


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[list[int]]:
    """Two names change their places, as quickly as they can, until the end."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    ended, count = threading.Event(), [0]

    def swap() -> None:
        while not ended.is_set() or count[0] % 2:
            if renameat2(_HERE, bytes(one), _HERE, bytes(other), _EXCHANGE) == 0:
                count[0] += 1
            elif ended.is_set():
                break  # git removed it
            time.sleep(0.001)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield count
    finally:
        ended.set()
        thread.join()


class Ground:
    """A repository below a root, and one outside with other files of the same names."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder)
        self.inside = self.desk.project / "repo"
        self.outside = folder / "outside"
        for place, text in ((self.inside, "open"), (self.outside, SECRET)):
            self._make(place, text)

    def _make(self, place: Path, text: str) -> None:
        def git(*words: str) -> None:
            self.desk.run_git(*words, cwd=place)

        (place / "sub").mkdir(parents=True)
        git("init", "-q", "--initial-branch=main", "--template=")
        git("config", "user.name", "Ann")
        git("config", "user.email", "ann@example.org")
        for branch in ("main", "other"):
            git("checkout", "-q", "-B", branch)
            (place / "a.txt").write_text(f"{text} {branch}\n")
            (place / "sub/b.txt").write_text(f"{text} {branch}\n")
            git("add", "-A")
            git("commit", "-qm", f"{text} {branch}")
        git("branch", f"{text}-only")
        git("checkout", "-q", "main")
        (place / "a.txt").write_text(f"{text} changed\n")

    def state(self) -> dict[str, Any]:
        """Everything that the outside holds, but for the times of its index."""
        found: dict[str, Any] = {}
        for path in sorted(self.outside.rglob("*")):
            name = str(path.relative_to(self.outside))
            if path.is_file() and name != ".git/index":
                found[name] = path.read_bytes()
        return found

    def ask(self, name: str, **fields: Any) -> str:
        try:
            answer = self.desk.ask(name, repository="repo", **fields)
            return msgspec.json.encode(answer).decode()
        except HoldfastError as error:
            return f"{error.message} {error.hint} {error.details}"


def asked(number: int) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("git_status", {}),
        ("git_log", {}),
        ("git_branches", {}),
        ("git_show", {"rev": "other"}),
        ("git_diff", {}),
        ("git_blame", {"path": "repo/a.txt"}),
        ("git_tag", {"tag": f"v{number}"}),
        ("git_add", {"paths": ["repo"]}),
        ("git_commit", {"message": f"m{number}", "paths": ["repo"]}),
        ("git_switch", {"branch": "other"}),
        ("git_restore", {"paths": ["repo"], "rev": "other~1"}),
        ("git_switch", {"branch": "main"}),
        ("git_stash", {}),
        ("git_stash", {"action": "pop"}),
        ("checkpoint", {}),
        ("restore_checkpoint", {}),
    ]


@pytest.mark.parametrize("swapped", ["", ".git", ".git/objects", ".git/refs", "sub", ".git/config"])
def test_nothing_outside_is_read_or_changed(tmp_path: Path, swapped: str) -> None:
    """The folder of the repository, its data, a part of them, or a folder of the work tree."""
    ground = Ground(tmp_path)
    target = ground.inside / swapped if swapped else ground.inside
    link = tmp_path / "project" / "link"
    link.symlink_to(ground.outside / swapped if swapped else ground.outside)
    before = ground.state()
    with swapping(target, link) as count:
        for number in range(ROUNDS):
            for name, fields in asked(number):
                said = ground.ask(name, **fields)
                assert SECRET not in said, f"{name}: {said}"
                assert ground.state() == before, f"{name}: {said}"
    assert count[0] > 10


def test_without_landlock_a_replaced_folder_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands work, and are refused if a folder is another one before or after git has run."""
    monkeypatch.setattr(landlock, "version", lambda: 0)
    ground = Ground(tmp_path)
    assert '"branch":"main"' in ground.ask("git_status")
    assert all(task.confinement is None for task in ground.desk.tasks.ran)
    run = ground.desk.tasks.run

    async def moved(task: Task) -> TaskResult:
        result = await run(task)
        if "log" in task.argv:
            os.rename(ground.inside, ground.inside.parent / "moved")
            ground.inside.symlink_to(ground.outside)
        return result

    monkeypatch.setattr(ground.desk.tasks, "run", moved)
    assert "was replaced while git was at work" in ground.ask("git_log")
    assert "reached through a link" in ground.ask("git_log")


def test_git_is_confined_and_names_folders_as_people_do(tmp_path: Path) -> None:
    """Every command in a repository is; its errors tell no descriptors."""
    ground = Ground(tmp_path)
    (ground.inside / ".git/index.lock").write_text("")
    said = ground.ask("git_add", paths=["repo"])
    assert f"{ground.inside}/.git/index.lock" in said
    assert "/proc/" not in said
    commands = [task for task in ground.desk.tasks.ran if "GIT_DIR" in task.env]
    unconfined = {task.argv[2] for task in commands if task.confinement is None}
    assert unconfined == {"config"}
