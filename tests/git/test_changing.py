"""Changes of a repository: what they do, what they would do, and what stands in their way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary.errors import Failed, NotFound, Refused, UsageError
from holdfast.vocabulary.specs.files import FilesSpec, RootSpec
from tests.git.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.repository(**{"a.txt": "one\n", "b.txt": "two\n"})
    return desk


def state(desk: Desk) -> tuple[str, str, str]:
    return (
        desk.run_git("status", "--porcelain"),
        desk.run_git("rev-parse", "HEAD"),
        desk.run_git("stash", "list"),
    )


def test_nothing_to_commit_is_no_failure(desk: Desk) -> None:
    """With paths and without; also when the paths did change nothing."""
    for paths in ([], ["a.txt"], ["."]):
        result = desk.ask("git_commit", message="m", paths=paths)
        assert (result.changed, result.message) == (False, "nothing to commit")
    desk.write("untracked", "x")
    assert not desk.ask("git_commit", message="m").changed


def test_a_commit_takes_its_paths_and_nothing_else(desk: Desk) -> None:
    """New, changed and deleted files; what else is staged stays staged."""
    desk.write("b.txt", "staged\n")
    desk.run_git("add", "b.txt")
    desk.write("new.txt", "new\n")
    (desk.project / "a.txt").unlink()
    result = desk.ask("git_commit", message="first line\n\nmore", paths=["new.txt", "a.txt"])
    assert {(one.path, one.change) for one in result.files} == {
        ("new.txt", "added"), ("a.txt", "deleted"),
    }  # fmt: skip
    assert result.message.endswith(" first line")
    assert desk.run_git("status", "--porcelain") == "M  b.txt\n"
    assert desk.run_git("log", "-1", "--format=%an %B").startswith("Ann first line\n\nmore")


@pytest.mark.parametrize(
    "message", ["-m", "--amend", "#not a comment", "'; touch x;'", "ü\n\n\nend", "a" * 60_000]
)
def test_messages_are_taken_as_they_are(desk: Desk, message: str) -> None:
    """A message is never an option, a comment or a template."""
    desk.write("a.txt", "x\n")
    desk.ask("git_commit", message=message, paths=["a.txt"])
    assert desk.run_git("log", "-1", "--format=%B").strip() == message.replace("\n\n\n", "\n\n")


def test_dry_runs_change_nothing(desk: Desk) -> None:
    """Each change says what it would do, and does not."""
    desk.run_git("branch", "topic")
    desk.write("a.txt", "changed\n")
    desk.write("new.txt", "new\n")
    before = state(desk)
    assert [one.path for one in desk.ask("git_add", paths=["."], dry_run=True).files] == [
        "a.txt", "new.txt",
    ]  # fmt: skip
    committed = desk.ask("git_commit", message="m", paths=["a.txt"], dry_run=True)
    assert (committed.changed, [one.path for one in committed.files]) == (True, ["a.txt"])
    assert desk.ask("git_restore", paths=["a.txt"], dry_run=True).files[0].path == "a.txt"
    assert len(desk.ask("git_stash", dry_run=True).files) == 2
    assert desk.ask("git_switch", branch="topic", dry_run=True).message == "would be on topic"
    assert desk.ask("git_tag", tag="v1", dry_run=True).changed
    assert state(desk) == before
    assert desk.run_git("tag") == ""


def test_a_switch_that_would_lose_changes_names_the_files(desk: Desk) -> None:
    """And says what can be done; asked dry or in earnest."""
    desk.ask("git_switch", branch="topic", create=True)
    desk.write("a.txt", "topic\n")
    desk.ask("git_commit", message="m", paths=["a.txt"])
    desk.write("a.txt", "dirty\n")
    for is_dry in (True, False):
        with pytest.raises(Failed, match=r"a\.txt") as caught:
            desk.ask("git_switch", branch="main", dry_run=is_dry)
        assert caught.value.details["files"] == ["a.txt"]
        assert "git_stash" in caught.value.hint
    assert desk.read("a.txt") == "dirty\n"
    with pytest.raises(NotFound, match='no branch "nowhere"'):
        desk.ask("git_switch", branch="nowhere")


def test_a_change_within_the_second_of_the_index_is_seen(desk: Desk) -> None:
    """Of the same size and time as what was committed, it is told from it by its content; also
    in a copy of the index, which was made later."""
    desk.run_git("config", "core.trustctime", "false")
    index, now = desk.project / ".git" / "index", os.stat(desk.project).st_mtime - 5
    os.utime(desk.write("a.txt", "topic\n"), (now, now))
    desk.ask("git_switch", branch="topic", create=True)
    desk.ask("git_commit", message="m", paths=["a.txt"])
    os.utime(index, (now, now))
    os.utime(desk.write("a.txt", "dirty\n"), (now, now))
    assert [one.path for one in desk.ask("git_add", paths=["."], dry_run=True).files] == ["a.txt"]
    with pytest.raises(Failed, match=r"a\.txt"):
        desk.ask("git_switch", branch="main", dry_run=True)


def test_a_stash_comes_back_or_says_what_conflicts(desk: Desk) -> None:
    """Untracked files too; with conflicts it is kept."""
    desk.write("a.txt", "mine\n")
    desk.write("new.txt", "new\n")
    assert desk.ask("git_stash", message="aside").message == "2 files stashed"
    assert "aside" in desk.ask("git_stash", action="list").message
    assert not (desk.project / "new.txt").exists()
    assert desk.ask("git_stash").message == "nothing to stash"
    desk.write("a.txt", "theirs\n")
    desk.ask("git_commit", message="m", paths=["a.txt"])
    result = desk.ask("git_stash", action="pop")
    assert [one.path for one in result.conflicts] == ["a.txt"]
    assert "git_add" in result.next
    assert desk.ask("git_status").conflicts
    blocked = desk.ask("git_commit", message="m")
    assert not blocked.changed
    assert blocked.conflicts
    desk.write("a.txt", "both\n")
    desk.ask("git_add", paths=["a.txt"])
    assert desk.ask("git_commit", message="settled").changed
    assert desk.ask("git_stash", action="drop").changed
    with pytest.raises(NotFound, match="no stash 0"):
        desk.ask("git_stash", action="pop")


def _begin_merge(desk: Desk) -> None:
    """A merge with a conflict in a.txt."""
    desk.ask("git_switch", branch="topic", create=True)
    desk.write("a.txt", "topic\n")
    desk.ask("git_commit", message="m", paths=["a.txt"])
    desk.ask("git_switch", branch="main")
    desk.write("a.txt", "main\n")
    desk.ask("git_commit", message="m", paths=["a.txt"])
    with pytest.raises(Exception, match="non-zero"):
        desk.run_git("merge", "topic")


def test_a_merge_is_committed_as_a_whole(desk: Desk) -> None:
    """Status says what is under way and how it goes on; paths are those that are resolved."""
    _begin_merge(desk)
    found = desk.ask("git_status")
    assert found.under_way == "merge"
    assert [one.kind for one in found.conflicts] == ["both modified"]
    assert "git_abort" in (found.next or "")
    desk.write("a.txt", "both\n")
    assert desk.ask("git_commit", message="m", paths=["b.txt"]).conflicts
    assert desk.ask("git_commit", message="merged", paths=["a.txt"]).changed
    assert len(desk.ask("git_log").commits[0].parents) == 2
    assert desk.ask("git_status").under_way is None


def test_a_merge_can_be_left(desk: Desk) -> None:
    """Files are as before it, what was there is in a checkpoint; without a merge that is said."""
    assert desk.ask("git_abort").message == "no merge is under way"
    _begin_merge(desk)
    assert desk.ask("git_abort", dry_run=True).changed
    assert desk.ask("git_status").under_way == "merge"
    left = desk.ask("git_abort")
    assert left.changed
    assert left.checkpoint
    assert (desk.project / "a.txt").read_text() == "main\n"
    found = desk.ask("git_status")
    assert found.under_way is None
    assert found.clean


def test_restore_keeps_what_it_replaces(desk: Desk) -> None:
    """What was there is in a checkpoint, and can be had back."""
    desk.write("a.txt", "precious\n")
    result = desk.ask("git_restore", paths=["a.txt"])
    assert desk.read("a.txt") == "one\n"
    desk.ask("restore_checkpoint", checkpoint=result.checkpoint)
    assert desk.read("a.txt") == "precious\n"
    desk.run_git("add", "a.txt")
    assert desk.ask("git_restore", paths=["a.txt"], staged=True).changed
    assert desk.run_git("status", "--porcelain") == " M a.txt\n"
    assert desk.ask("git_restore", paths=["b.txt"]).message == "nothing to restore"


def test_tags_are_not_moved(desk: Desk) -> None:
    """A tag that is there stays where it is."""
    desk.ask("git_tag", tag="v1.0", message="a release")
    with pytest.raises(UsageError, match="already"):
        desk.ask("git_tag", tag="v1.0")
    assert desk.run_git("cat-file", "-t", "v1.0").strip() == "tag"


def test_a_root_that_may_only_be_read_is_not_changed(desk: Desk) -> None:
    """No change, but looking and dry runs."""
    spec = FilesSpec(roots=(RootSpec(name="project", path=str(desk.project)),))
    from holdfast.adapters.files.roots import Roots

    desk.files.roots = Roots(spec, str(desk.project), list)
    desk.write("a.txt", "x\n")
    for name, fields in (
        ("git_add", {"paths": ["."]}), ("git_commit", {"message": "m"}), ("git_stash", {}),
        ("git_restore", {"paths": ["."]}), ("git_tag", {"tag": "x"}), ("restore_checkpoint", {}),
        ("git_switch", {"branch": "x", "create": True}),
    ):  # fmt: skip
        with pytest.raises(Refused, match="read-only"):
            desk.ask(name, **fields)
    assert desk.ask("git_add", paths=["."], dry_run=True).changed
    assert desk.ask("git_status").changed


def test_who_commits_must_be_known(desk: Desk) -> None:
    """The user's own configuration counts; without any, the answer says what to set."""
    desk.run_git("config", "--unset", "user.name")
    desk.run_git("config", "--unset", "user.email")
    desk.run_git("config", "user.useConfigOnly", "true")
    desk.write("a.txt", "x\n")
    with pytest.raises(Failed, match="does not know who commits"):
        desk.ask("git_commit", message="m", paths=["a.txt"])
    (desk.home / ".gitconfig").write_text("[user]\n\tname = Bea\n\temail = bea@example.org\n")
    desk.ask("git_commit", message="m", paths=["a.txt"])
    assert desk.run_git("log", "-1", "--format=%an").strip() == "Bea"


def test_who_commits_may_depend_on_the_folder(tmp_path: Path) -> None:
    """As the user's own configuration says, also in a part that it includes and changes."""
    desk = Desk(tmp_path)
    desk.run_git("init", "--quiet", "--initial-branch=main")
    where = f'[includeIf "gitdir:{desk.project}/"]\n\tpath = work\n'
    (desk.home / ".gitconfig").write_text(f"[user]\n\tname = Me\n\temail = me@example.org\n{where}")
    for name in ("Worker", "Another"):
        (desk.home / "work").write_text(f"[user]\n\tname = {name}\n")
        desk.write("a.txt", name)
        desk.ask("git_commit", message="x", paths=["a.txt"])
        assert desk.run_git("log", "-1", "--format=%an").strip() == name


def test_what_is_ignored_is_not_overwritten(desk: Desk) -> None:
    """Git would; but no checkpoint holds it."""
    desk.run_git("checkout", "--quiet", "-b", "other")
    desk.write("local.txt", "of the branch")
    desk.run_git("add", "local.txt")
    desk.run_git("commit", "--quiet", "--message=local")
    desk.run_git("checkout", "--quiet", "main")
    desk.write(".git/info/exclude", "local.txt\n")
    desk.write("local.txt", "precious")
    asked: tuple[dict[str, Any], ...] = (
        {"name": "git_switch", "branch": "other", "dry_run": True},
        {"name": "git_switch", "branch": "other"},
        {"name": "git_restore", "paths": ["local.txt"], "rev": "other"},
    )
    for fields in asked:
        with pytest.raises(Failed, match=r"would be lost: local\.txt"):
            desk.ask(**fields)
    assert desk.read("local.txt") == "precious"


def test_another_git_at_work_is_said(desk: Desk) -> None:
    """With what to do about it; nothing was changed."""
    desk.write("a.txt", "another\n")
    lock = desk.write(".git/index.lock", "")
    with pytest.raises(Failed, match=r"index\.lock") as caught:
        desk.ask("git_commit", message="x", paths=["a.txt"])
    assert "try again" in caught.value.hint
    lock.unlink()
    assert desk.ask("git_commit", message="x", paths=["a.txt"]).changed
