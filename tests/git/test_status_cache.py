"""A status that is told again is the one that git would tell."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.adapters.git import work_tree_state
from holdfast.engine.git import status_cache
from tests.git.desk import Desk

RACY = 20_000_000


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    # A margin that suits the file system of the test, so that it need not wait for seconds.
    monkeypatch.setattr(work_tree_state, "RACY_NANOSECONDS", RACY)
    monkeypatch.setattr(status_cache, "RACY_NANOSECONDS", RACY)
    monkeypatch.setattr(status_cache, "_RELEARN_SECONDS", 0.0)
    desk = Desk(tmp_path)
    desk.repository(**{
        "a.txt": "one\n", "dir/b.txt": "two\n", "dir/deep/c.txt": "three\n",
        ".gitignore": "*.log\nbuild/\n",
    })  # fmt: skip
    return desk


async def settle(desk: Desk) -> None:
    """Until what was asked is known."""
    for _ in range(3):
        await asyncio.sleep(RACY / 1e9 * 1.5)
        await desk.asking("git_status")
        for known in desk.git_status._all.values():
            if known.learning is not None:
                await known.learning


def processes(desk: Desk) -> int:
    return len(desk.tasks.ran)


def test_what_has_not_changed_is_not_asked_again(desk: Desk) -> None:
    """No process for a status of a quiet work tree."""

    async def story() -> None:
        await settle(desk)
        before = processes(desk)
        one, other = await desk.asking("git_status"), await desk.asking("git_status")
        assert one == other
        assert processes(desk) == before

    asyncio.run(story())


CHANGES: dict[str, Any] = {
    "content": lambda desk: desk.write("a.txt", "two\n"),
    "same size": lambda desk: desk.write("a.txt", "ONE\n"),
    "mode": lambda desk: (desk.project / "a.txt").chmod(0o755),
    "new file": lambda desk: desk.write("new.txt", ""),
    "new file below": lambda desk: desk.write("dir/deep/new.txt", ""),
    "new folder": lambda desk: desk.write("other/new.txt", ""),
    "deleted": lambda desk: (desk.project / "dir/deep/c.txt").unlink(),
    "renamed": lambda desk: os.rename(desk.project / "a.txt", desk.project / "z.txt"),
    "folder gone": lambda desk: shutil.rmtree(desk.project / "dir"),
    "link instead": lambda desk: _link(desk),
    "ignored": lambda desk: desk.write(".gitignore", "*.txt\n"),
    "excluded": lambda desk: desk.write(".git/info/exclude", "new*\n"),
    "staged": lambda desk: (desk.write("a.txt", "x\n"), desk.run_git("add", "a.txt")),
    "committed": lambda desk: desk.run_git("commit", "-q", "--allow-empty", "-m", "x"),
    "switched": lambda desk: desk.run_git("switch", "-qc", "topic"),
    "stashed": lambda desk: (desk.write("a.txt", "x\n"), desk.run_git("stash")),
    "configured": lambda desk: desk.run_git("config", "core.fileMode", "false"),
    "user ignores": lambda desk: _user_ignores(desk),
}


def _link(desk: Desk) -> None:
    (desk.project / "a.txt").unlink()
    (desk.project / "a.txt").symlink_to("dir/b.txt")


def _user_ignores(desk: Desk) -> None:
    place = desk.home / ".config/git"
    place.mkdir(parents=True)
    (place / "ignore").write_text("seen.txt\n")


def truth(desk: Desk) -> Any:
    """What a desk that knows nothing says."""
    fresh = Desk(desk.project.parent)
    return fresh.ask("git_status")


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_seen_at_once(desk: Desk, name: str) -> None:
    """The first answer after a change tells of it."""

    async def story() -> Any:
        desk.write("seen.txt", "x")
        await settle(desk)
        quiet = processes(desk)
        await desk.asking("git_status")
        assert processes(desk) == quiet
        CHANGES[name](desk)
        return await desk.asking("git_status")

    found = asyncio.run(story())
    assert found == truth(desk)


def test_many_changes_in_any_order(desk: Desk) -> None:
    """Whatever happens between two looks, both say what git says."""
    chance = random.Random(20261116)
    names = ["a.txt", "dir/b.txt", "x.log", "build/y", "new.txt", "dir/n/m.txt", ".gitignore"]

    def act() -> None:
        name = chance.choice(names)
        match chance.randrange(6):
            case 0 | 1:
                desk.write(name, chance.choice(["one\n", "uno\n", "*.txt\n", ""]))
            case 2:
                (desk.project / name).unlink(missing_ok=True)
            case 3:
                desk.run_git("add", "--all")
            case 4:
                desk.run_git("commit", "-q", "--allow-empty", "-m", "x")
            case _:
                pass

    async def story() -> None:
        for _ in range(25):
            if chance.random() < 0.5:
                await settle(desk)
            act()
            found = await desk.asking("git_status")
            expected = await Desk(desk.project.parent).asking("git_status")
            assert msgspec.to_builtins(found) == msgspec.to_builtins(expected)

    asyncio.run(story())


def test_what_changed_just_now_is_not_relied_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes within one tick of the clock look alike; so git is asked."""
    monkeypatch.setattr(work_tree_state, "RACY_NANOSECONDS", 10**12)
    monkeypatch.setattr(status_cache, "RACY_NANOSECONDS", 10**12)

    async def story() -> None:
        for _ in range(3):
            await desk.asking("git_status")
        assert all(known.answer is None for known in desk.git_status._all.values())

    asyncio.run(story())


def test_repositories_inside_are_always_asked(desk: Desk) -> None:
    """What is not simple is not guessed."""
    desk.run_git("init", "-q", "nested")

    async def story() -> None:
        await settle(desk)
        assert all(known.answer is None for known in desk.git_status._all.values())

    asyncio.run(story())


def _linked(desk: Desk) -> Path:
    folder = desk.home / ".config" / "git"
    folder.mkdir(parents=True)
    (folder / "ignore").symlink_to(desk.home / "patterns")
    return desk.home / "patterns"


def _relative(desk: Desk) -> Path:
    desk.run_git("config", "core.excludesFile", ".git/patterns")
    return desk.project / ".git" / "patterns"


def _included(desk: Desk) -> Path:
    desk.run_git("config", "include.path", "more")
    (desk.home / "patterns").write_text("new.txt\n")
    return desk.project / ".git" / "more"


def _included_for_all(desk: Desk) -> Path:
    (desk.home / ".gitconfig").write_text("[include]\n\tpath = more\n")
    (desk.home / "patterns").write_text("new.txt\n")
    return desk.home / "more"


@pytest.mark.parametrize("place", [_linked, _relative, _included, _included_for_all])
def test_what_is_ignored_may_be_said_elsewhere(desk: Desk, place: Any) -> None:
    """Behind a link, at a relative path, in a file that is included."""
    file = place(desk)
    file.write_text("")
    desk.write("new.txt", "")

    async def story() -> None:
        await settle(desk)
        assert (await desk.asking("git_status")).untracked == ["new.txt"]
        is_list = file.name == "patterns"
        text = "new.txt\n" if is_list else f"[core]\n\texcludesFile = {desk.home}/patterns\n"
        file.write_text(text)
        assert (await desk.asking("git_status")).untracked == []

    asyncio.run(story())


def test_an_upstream_that_is_no_usual_remote(desk: Desk) -> None:
    """Refs of any name are looked at."""
    desk.run_git("config", "branch.main.remote", "away")
    desk.run_git("config", "branch.main.merge", "refs/heads/main")
    desk.run_git("config", "remote.away.url", "nowhere")
    desk.run_git("config", "remote.away.fetch", "+refs/heads/*:refs/odd/away/*")
    desk.run_git("update-ref", "refs/odd/away/main", "HEAD")

    async def story() -> None:
        await settle(desk)
        assert (await desk.asking("git_status")).behind == 0
        newer = desk.run_git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "x").strip()
        desk.run_git("update-ref", "refs/odd/away/main", newer)
        assert (await desk.asking("git_status")).behind == 1

    asyncio.run(story())
