"""Sessions that work in a git worktree of their own, and what becomes of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.vocabulary.errors import HoldfastError
from tests.engine.agents.conftest import AgentHold


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository() -> Iterator[AgentHold]:
    """A project with one commit, and a backend for each way to end."""
    ends = {end: {"worktree_end": end} for end in ("keep", "remove", "merge")}
    with AgentHold(**{name: {"kind": "claude", **keys} for name, keys in ends.items()}) as hold:
        git(hold.project, "init", "-q", "-b", "main")
        for key, value in (("user.name", "tester"), ("user.email", "tester@localhost")):
            git(hold.project, "config", key, value)
        (hold.project / ".gitignore").write_text("holdfast.json\n")
        git(hold.project, "add", ".gitignore")
        git(hold.project, "commit", "-q", "-m", "first")
        hold.up()
        yield hold


def over(hold: AgentHold, name: str) -> str:
    hold.ask("stop_agent", session=name)
    return str(hold.ask("forget_agent", session=name)["message"])


def commit(folder: Path, name: str) -> None:
    (folder / name).write_text("made\n")
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", name)


@pytest.mark.parametrize("end", ["keep", "remove", "merge"])
def test_unsaved_work_is_never_lost(repository: AgentHold, end: str) -> None:
    """A worktree with a change that is not committed is kept, whatever the configuration says."""
    name = repository.begin(end, worktree=True)
    folder = Path(repository.agent(name)["worktree"])
    assert repository.agent(name)["folder"] == str(folder)
    (folder / "unsaved").write_text("work")
    assert "kept" in over(repository, name)
    assert (folder / "unsaved").read_text() == "work"


@pytest.mark.parametrize("end", ["remove", "merge"])
def test_ignored_files_are_never_lost(repository: AgentHold, end: str) -> None:
    """A worktree with a file that git ignores is kept, and the answer says so."""
    name = repository.begin(end, worktree=True)
    folder = Path(repository.agent(name)["worktree"])
    (folder / "holdfast.json").write_text("KEY=1")
    assert "ignored files" in over(repository, name)
    assert (folder / "holdfast.json").read_text() == "KEY=1"


def test_untracked_files_that_settings_hide_are_not_lost(repository: AgentHold) -> None:
    """A setting of the user that hides new files does not make a worktree look clean."""
    git(repository.project, "config", "status.showUntrackedFiles", "no")
    try:
        name = repository.begin("remove", worktree=True)
        folder = Path(repository.agent(name)["worktree"])
        (folder / "unsaved").write_text("work")
        assert "not committed" in over(repository, name)
        assert (folder / "unsaved").read_text() == "work"
    finally:
        git(repository.project, "config", "--unset", "status.showUntrackedFiles")


def test_commits_that_are_not_merged_are_kept(repository: AgentHold) -> None:
    """`remove` takes away only what is in the branch of the repository already."""
    name = repository.begin("remove", worktree=True)
    folder = Path(repository.agent(name)["worktree"])
    commit(folder, "own-work")
    assert "not merged" in over(repository, name)
    assert folder.is_dir()
    other = repository.begin("remove", worktree=True)
    clean = Path(repository.agent(other)["worktree"])
    assert "removed" in over(repository, other)
    assert not clean.exists()


def test_a_worktree_is_merged(repository: AgentHold) -> None:
    """`merge` brings the commits of the session home, and takes the worktree away."""
    name = repository.begin("merge", worktree=True)
    folder = Path(repository.agent(name)["worktree"])
    commit(folder, "merged-work")
    assert "merged" in over(repository, name)
    assert (repository.project / "merged-work").is_file()
    assert not folder.exists()
    assert f"agent/{folder.name}" not in git(repository.project, "branch", "--list")


def test_a_folder_without_a_repository(repository: AgentHold) -> None:
    """Without a repository the start is refused, and says why."""
    with pytest.raises(HoldfastError, match="no git repository"):
        repository.ask(
            "start_or_attach", backend="keep", worktree=True, working_dir=str(repository.folder)
        )


def test_a_repository_without_commits(repository: AgentHold) -> None:
    """A branch needs a commit to begin at: without one the start is refused, and says why."""
    fresh = repository.folder / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    with pytest.raises(HoldfastError, match="no commit yet"):
        repository.ask("start_or_attach", backend="keep", worktree=True, working_dir=str(fresh))
