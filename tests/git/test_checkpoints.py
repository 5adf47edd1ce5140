"""Checkpoints: what was there comes back byte for byte, and nothing is ever lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.adapters.git import shadow
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.errors import Failed, HoldfastError, NotFound
from holdfast.vocabulary.specs.git import GitSpec
from tests.git.desk import Desk

ASSISTANT = Actor(Role.AGENT, "assistant", session="session-1")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.repository(**{"a.txt": "one\n", "dir/b.txt": "two\n", ".gitignore": "*.log\n"})
    return desk


def tree(desk: Desk) -> dict[str, tuple[int, bytes]]:
    """Every file beside git's own, with its kind and content."""
    found = {}
    for path in sorted(desk.project.rglob("*")):
        name = str(path.relative_to(desk.project))
        if (
            not name.startswith(".git/")
            and name != ".git"
            and not (path.is_dir() and not path.is_symlink())
        ):
            data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            mode = path.lstat().st_mode & 0o170100
            found[name] = (mode, data)
    return found


def test_everything_comes_back_byte_for_byte(desk: Desk) -> None:
    """Line ends, attributes, modes, links, bytes that are no text, odd names, deletions."""
    desk.write(".gitattributes", "* text=auto eol=crlf filter=x\n*.txt ident\n")
    desk.run_git("config", "core.autocrlf", "true")
    desk.run_git("config", "filter.x.clean", "tr a-z A-Z")
    desk.write("crlf.txt", b"one\r\ntwo\nthree\r\n$Id$\n")
    desk.write("binary", bytes(range(256)))
    desk.write("odd names/with\nline end", "x")
    desk.write("odd names/[*] ! # \\ ", "y")
    os.symlink("/nowhere", desk.project / "link")
    script = desk.write("run.sh", "#!/bin/sh\n")
    script.chmod(0o755)
    (desk.project / "dir/b.txt").unlink()
    before = tree(desk)
    made = desk.ask("checkpoint", note="all of it")
    desk.write("crlf.txt", "other")
    desk.write("binary", b"")
    desk.write("dir/b.txt", "back")
    desk.write("added/later", "z")
    script.chmod(0o644)
    (desk.project / "link").unlink()
    (desk.project / "a.txt").unlink()
    (desk.project / "odd names/with\nline end").unlink()
    after = tree(desk)
    result = desk.ask("restore_checkpoint", checkpoint=made.id)
    assert tree(desk) == before
    assert result.changed
    back = desk.ask("restore_checkpoint", checkpoint=result.saved.id)
    assert tree(desk) == after
    assert back.saved.note == f"before restoring {result.saved.id}"


def test_making_one_leaves_no_trace(desk: Desk) -> None:
    """Index, branches, stashes and what `git status` says are as before."""
    desk.write("a.txt", "staged\n")
    desk.run_git("add", "a.txt")
    desk.write("a.txt", "changed after\n")
    desk.write("new.txt", "new\n")
    before = (
        desk.run_git("status", "--porcelain=v2", "--branch"), desk.run_git("ls-files", "--stage"),
        desk.run_git("log", "--all", "--format=%H", "--exclude=refs/holdfast/*"), tree(desk),
    )  # fmt: skip
    desk.ask("checkpoint")
    after = (
        desk.run_git("status", "--porcelain=v2", "--branch"), desk.run_git("ls-files", "--stage"),
        desk.run_git("log", "--exclude=refs/holdfast/*", "--all", "--format=%H"), tree(desk),
    )  # fmt: skip
    assert before == after
    assert desk.ask("git_log").commits[0].names == ["main"]
    assert "holdfast" not in desk.run_git("branch", "--all")


def test_what_is_ignored_denied_or_large_is_not_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stays as it is when files are brought back."""
    monkeypatch.setattr(shadow, "LARGEST_FILE", 1000)
    desk.write("debug.log", "ignored")
    desk.write(".env", "PASSWORD=x")
    desk.write("large.bin", b"x" * 2000)
    desk.run_git("init", "-q", "nested")
    desk.write("nested/file", "x")
    made = desk.ask("checkpoint")
    assert made.skipped == ["large.bin"]
    kept = desk.run_git("ls-tree", "-r", "--name-only", made.commit).split()
    assert kept == [".gitignore", "a.txt", "dir/b.txt"]
    for name in ("debug.log", ".env", "large.bin", "nested/file"):
        desk.write(name, "changed")
    desk.ask("restore_checkpoint", checkpoint=made.id)
    for name in ("debug.log", ".env", "large.bin", "nested/file"):
        assert desk.read(name) == "changed"


def test_what_was_ignored_then_is_not_removed(desk: Desk) -> None:
    """Though it is not in the checkpoint, and is not ignored any more."""
    desk.write(".gitignore", "*.log\nmodules/\n")
    desk.write("modules/deep/x.js", "x")
    desk.write("debug.log", "ignored")
    made = desk.ask("checkpoint")
    desk.write(".gitignore", "")
    desk.write("added.txt", "x")
    desk.ask("restore_checkpoint", checkpoint=made.id)
    assert desk.read("modules/deep/x.js") == "x"
    assert desk.read("debug.log") == "ignored"
    assert desk.read(".gitignore") == "*.log\nmodules/\n"
    assert not (desk.project / "added.txt").exists()


def test_the_first_change_of_a_session_makes_one(desk: Desk) -> None:
    """One for each session, before the change; not for looking, dry runs or people."""
    desk.write("a.txt", "by a person\n")
    desk.ask("git_status", ASSISTANT)
    desk.ask("git_add", ASSISTANT, paths=["."], dry_run=True)
    desk.ask("git_add", paths=["."])
    assert desk.ask("checkpoints").checkpoints == []
    desk.ask("git_commit", ASSISTANT, message="m")
    desk.write("a.txt", "more\n")
    desk.ask("git_commit", ASSISTANT, message="m", paths=["a.txt"])
    found = desk.ask("checkpoints", session="session-1").checkpoints
    assert [one.note for one in found] == ["before the first change"]
    assert desk.run_git("show", f"{found[0].commit}:a.txt") == "by a person\n"
    assert found[0].head != desk.ask("git_log").commits[0].commit
    # Without a name, a session means its own.
    desk.ask("checkpoint", note="of somebody else")
    assert desk.ask("restore_checkpoint", ASSISTANT).restored.id == found[0].id
    assert desk.read("a.txt") == "by a person\n"


def test_a_new_supervisor_makes_no_second_one(desk: Desk, tmp_path: Path) -> None:
    """That there is one is known from the repository itself."""
    desk.ask("git_tag", ASSISTANT, tag="one")
    again = Desk(tmp_path)
    again.ask("git_tag", ASSISTANT, tag="two")
    assert len(again.ask("checkpoints").checkpoints) == 1
    again.ask("git_tag", Actor(Role.AGENT, "other", session="session-2"), tag="three")
    assert len(again.ask("checkpoints").checkpoints) == 2


def test_no_change_without_a_checkpoint(desk: Desk) -> None:
    """If it cannot be made, nothing is changed; unless the configuration does without."""
    (desk.project / "unwritable").mkdir()
    desk.checkpoints._state = "/proc/nowhere"
    with pytest.raises((Failed, OSError)):
        desk.ask("git_tag", ASSISTANT, tag="one")
    assert desk.run_git("tag") == ""
    import msgspec

    desk.settings.now = msgspec.structs.replace(desk.settings.now, git=GitSpec(checkpoints=False))
    assert desk.ask("git_tag", ASSISTANT, tag="one").changed


def test_a_file_changed_meanwhile_is_not_lost(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the further checkpoint and bringing back: then nothing is brought back."""
    made = desk.ask("checkpoint")
    desk.write("a.txt", "second\n")
    real = desk.checkpoints._make

    async def slow(*given: object) -> object:
        found = await real(*given)  # type: ignore[arg-type]
        desk.write("a.txt", "third, unsaved\n")
        return found

    monkeypatch.setattr(desk.checkpoints, "_make", slow)
    with pytest.raises(HoldfastError):
        desk.ask("restore_checkpoint", checkpoint=made.id)
    assert desk.read("a.txt") == "third, unsaved\n"


def test_a_broken_shadow_index_is_made_anew(desk: Desk) -> None:
    """A cut-off index costs time, not the checkpoint."""
    desk.ask("checkpoint")
    (index,) = Path(desk.state).glob("git/*/index")
    index.write_bytes(index.read_bytes()[:50])
    desk.write("a.txt", "changed\n")
    made = desk.ask("checkpoint")
    assert desk.run_git("show", f"{made.commit}:a.txt") == "changed\n"


def test_old_ones_go(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept."""
    from holdfast.engine.git import checkpoints

    monkeypatch.setattr(checkpoints, "MOST_KEPT", 3)
    ids = [desk.ask("checkpoint", note=str(number)).id for number in range(5)]
    assert [one.id for one in desk.ask("checkpoints").checkpoints] == list(reversed(ids))[:3]


def test_an_unknown_one_is_said(desk: Desk) -> None:
    """With where to find the others."""
    with pytest.raises(NotFound, match="no checkpoint"):
        desk.ask("restore_checkpoint", checkpoint="20200101-000000-000aaaaa")
    with pytest.raises(NotFound, match="no checkpoint yet"):
        desk.ask("restore_checkpoint")


def test_repositories_of_another_hash(tmp_path: Path) -> None:
    """SHA-256 repositories have checkpoints, too."""
    desk = Desk(tmp_path)
    desk.run_git("init", "-q", "--object-format=sha256")
    desk.run_git("config", "user.name", "Ann")
    desk.run_git("config", "user.email", "ann@example.org")
    desk.write("a.txt", "one\n")
    assert desk.ask("git_commit", message="first", paths=["a.txt"]).changed
    made = desk.ask("checkpoint")
    assert len(made.commit) == 64
    desk.write("a.txt", "two\n")
    desk.ask("restore_checkpoint")
    assert desk.read("a.txt") == "one\n"
    desk.write("b.txt", "x\n")
    assert desk.ask("git_add", paths=["b.txt"]).changed


@pytest.mark.parametrize("name", ["data", "data/deep/file"])
def test_what_is_ignored_by_now_is_not_overwritten(desk: Desk, name: str) -> None:
    """No checkpoint holds it: it is named, and nothing is touched."""
    desk.write("data", "then")
    made = desk.ask("checkpoint")
    (desk.project / "data").unlink()
    desk.ask("checkpoint")
    desk.write(".gitignore", "data\n")
    desk.write(name, "precious")
    desk.write("a.txt", "another\n")
    for is_dry in (True, False):
        with pytest.raises(Failed, match="would be lost") as caught:
            desk.ask("restore_checkpoint", checkpoint=made.id, dry_run=is_dry)
        assert caught.value.details["files"] == [name]
    assert desk.read(name) == "precious"
    assert desk.read("a.txt") == "another\n"


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_files_that_git_was_told_not_to_look_at(desk: Desk, flag: str) -> None:
    """They are often changed here only: a checkpoint holds them as they are."""
    desk.run_git("update-index", flag, "a.txt")
    desk.write("a.txt", "of this machine\n")
    made = desk.ask("checkpoint")
    (desk.project / "a.txt").unlink()
    desk.ask("restore_checkpoint", checkpoint=made.id)
    assert desk.read("a.txt") == "of this machine\n"


def test_private_files_stay_private(desk: Desk) -> None:
    """Git knows no such thing."""
    (desk.project / "a.txt").chmod(0o600)
    desk.ask("checkpoint")
    desk.write("a.txt", "another\n")
    desk.ask("restore_checkpoint")
    assert (desk.project / "a.txt").stat().st_mode & 0o777 == 0o600
