"""What a repository says, bounded and with words of callers that are never options."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.adapters.git import shadow
from holdfast.vocabulary.errors import HoldfastError, NotFound, Refused, UsageError
from tests.git.desk import Desk

OPTION_LIKE = (
    *("--output=/tmp/holdfast-out", "-o/tmp/holdfast-out", "--exec=touch x", "--upload-pack=x"),
    *("--all", "-p", "--no-index", "--ext-diff", "--textconv", "--open-files-in-pager=sh"),
    *("--help", "-h", "--", "-", "--git-dir=/etc", "-c", "-C/etc", "--work-tree=/", "--stdin"),
)
HOSTILE = (
    *OPTION_LIKE,
    *("HEAD:a.txt", ":a.txt", ":/x", ":0:a.txt", "HEAD --output=x", "HEAD\n--all", "\tHEAD"),
    *("refs/heads/*", "a b", "main^{/x", "@{-1", "..", "...", "", " ", "\0", "HEAD\0", "x" * 400),
    *("$(touch x)", "`touch x`", "main;touch x", "ext::sh -c x", "../../etc", "/etc/passwd"),
    *("\u202emain", "main\u0000", "HEAD@{upstream", "stash@{99999999999}", "-" * 100),
)
HOSTILE_PATHS = (
    *("../outside", "a/../../outside", "/etc/passwd", "/", "..", ".git", ".git/config"),
    *("sub/../.git/config", ".GIT/config", ".git ", "a\0b", "x" * 5000),
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.repository(**{"a.txt": "one\n", "dir/b.txt": "two\n"})
    return desk


def refused(desk: Desk, name: str, **fields: Any) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        desk.ask(name, **fields)
    return caught.value


@pytest.mark.parametrize("rev", HOSTILE)
def test_a_hostile_revision_is_refused(desk: Desk, rev: str) -> None:
    """As commit, range, branch or tag; nothing is written and nothing is started with it."""
    before = sorted(desk.project.rglob("*"))
    for fields in ({"rev": rev}, {"rev": f"HEAD..{rev or '-'}"}, {"rev": f"{rev or '-'}...HEAD"}):
        if rev not in ("..", "...") or "HEAD" in fields["rev"]:
            refused(desk, "git_diff", **fields)
    for name in ("git_show", "git_log"):
        if rev not in ("..", "..."):
            refused(desk, name, rev=rev)
    refused(desk, "git_blame", path="a.txt", rev=rev)
    refused(desk, "git_switch", branch=rev)
    refused(desk, "git_switch", branch=rev, create=True)
    refused(desk, "git_tag", tag=rev)
    refused(desk, "git_restore", paths=["a.txt"], rev=rev)
    refused(desk, "restore_checkpoint", checkpoint=rev)
    assert sorted(desk.project.rglob("*")) == before
    assert not Path("/tmp/holdfast-out").exists()
    for task in desk.tasks.ran:
        assert rev in ("", "-", "--", "HEAD") or rev not in task.argv


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_hostile_path_is_refused(desk: Desk, path: str) -> None:
    """Outside the root, in `.git`, or no path at all."""
    for name in ("git_diff", "git_log", "git_show", "git_add", "git_restore"):
        refused(desk, name, paths=[path])
    refused(desk, "git_commit", paths=[path], message="m")
    refused(desk, "git_blame", path=path)
    if path != "/":
        refused(desk, "git_status", repository=path)


@pytest.mark.parametrize("path", ["*", ":(glob)**", ":!a.txt", ":/", "a*", "--all", "-A", "[a]"])
def test_paths_are_taken_word_for_word(desk: Desk, path: str) -> None:
    """No pattern, no magic, no option."""
    assert desk.ask("git_diff", paths=[path]).text == ""
    desk.write("a.txt", "changed\n")
    error = refused(desk, "git_add", paths=[path])
    assert "did not match" in error.message
    assert desk.ask("git_status").staged == []


def test_status_tells_everything_once(desk: Desk) -> None:
    """Staged, changed, untracked, renamed, deleted; names with spaces and line ends too."""
    desk.write("a.txt", "changed\n")
    desk.run_git("mv", "dir/b.txt", "dir/c d\n.txt")
    desk.write("new/deep/x.txt", "x")
    desk.write("été.txt", "x")
    found = desk.ask("git_status")
    assert [(one.path, one.change, one.old_path) for one in found.staged] == [
        ("dir/c d\n.txt", "renamed", "dir/b.txt")
    ]
    assert [(one.path, one.change) for one in found.changed] == [("a.txt", "modified")]
    assert found.untracked == ["new/", "été.txt"]
    assert (found.branch, found.clean, found.complete) == ("main", False, True)
    assert found.counts == {"staged": 1, "changed": 1, "untracked": 2}


def test_a_long_status_is_cut_and_counted(desk: Desk) -> None:
    """The lists are bounded, the counts are true."""
    for number in range(30):
        desk.write(f"n{number}", "x")
    found = desk.ask("git_status", limit=10)
    assert len(found.untracked) == 10
    assert found.counts["untracked"] == 30
    assert not found.complete


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    """Everything answers before the first commit, too."""
    desk = Desk(tmp_path)
    desk.run_git("init", "-q", "--initial-branch=main")
    desk.run_git("config", "user.name", "Ann")
    desk.run_git("config", "user.email", "ann@example.org")
    desk.write("a.txt", "one\n")
    found = desk.ask("git_status")
    assert (found.branch, found.head, found.untracked) == ("main", None, ["a.txt"])
    assert desk.ask("git_log").commits == []
    assert desk.ask("git_diff").text == ""
    assert desk.ask("checkpoint").head is None
    result = desk.ask("git_commit", message="first", paths=["a.txt"])
    assert result.changed
    assert [one.path for one in result.files] == ["a.txt"]


def test_a_long_diff_comes_in_pieces(desk: Desk) -> None:
    """Cut at line ends, with a summary first and cursors that lead through all of it."""
    desk.write("a.txt", "".join(f"line {number} with some text\n" for number in range(2000)))
    desk.write("dir/b.txt", "other\n")
    whole = desk.run_git("diff")
    first = desk.ask("git_diff", max_bytes=5000)
    assert not first.complete
    assert "+2000 -1\ta.txt" in first.stat
    text, cursor = first.text, first.cursor
    while cursor is not None:
        assert text.endswith("\n")
        piece = desk.ask("git_diff", max_bytes=5000, cursor=cursor)
        assert len(piece.text.encode()) <= 5000
        assert piece.stat is None
        text, cursor = text + piece.text, piece.cursor
    assert text.splitlines()[1:] == whole.splitlines()[1:]


def test_a_cursor_of_another_text_is_refused(desk: Desk) -> None:
    """Nobody goes on in the middle of something else."""
    desk.write("a.txt", "x\n" * 3000)
    cursor = desk.ask("git_diff", max_bytes=1000).cursor
    desk.write("a.txt", "y\n" * 3000)
    with pytest.raises(UsageError, match="another one by now"):
        desk.ask("git_diff", max_bytes=1000, cursor=cursor)
    for text in ("", "x", "1.zz", "-1.ab", "9" * 300, "ffffffffffff.00ff"):
        with pytest.raises(UsageError):
            desk.ask("git_diff", max_bytes=1000, cursor=text)
    with pytest.raises(UsageError):
        desk.ask("git_log", cursor="²")
    with pytest.raises(UsageError):
        desk.ask("git_blame", cursor="²", path="a.txt")


def test_one_huge_line_is_bounded(desk: Desk) -> None:
    """Ten million characters in one line, and bytes that are no text."""
    desk.write("a.txt", b"\xff\xfe" + b"z" * 10_000_000)
    found = desk.ask("git_diff", max_bytes=2000)
    assert len(found.text.encode()) <= 2000
    assert not found.complete


def test_what_is_denied_is_not_shown(desk: Desk) -> None:
    """Neither in differences nor in commits; that something is left out is said."""
    desk.write(".env", "PASSWORD=hunter2\n")
    desk.write("dir/key.pem", "hunter3\n")
    desk.run_git("add", "-Af")
    desk.run_git("commit", "-qm", "secrets")
    desk.write(".env", "PASSWORD=hunter4\n")
    desk.write("a.txt", "changed\n")
    shown = desk.ask("git_show")
    assert "hunter" not in shown.text
    assert shown.notes == ["2 files are not shown: they are denied"]
    changed = desk.ask("git_diff")
    assert "hunter" not in changed.text
    assert "+changed" in changed.text
    assert "hunter" not in desk.ask("git_diff", rev="HEAD~1..HEAD").text
    with pytest.raises(Refused):
        desk.ask("git_blame", path=".env")
    with pytest.raises(Refused):
        desk.ask("git_diff", paths=[".env"])
    assert desk.ask("git_commit", message="m", paths=["."]).files[0].path == "a.txt"


def test_log_goes_on_where_it_ended(desk: Desk) -> None:
    """A cursor stays valid while commits are added."""
    for number in range(7):
        desk.write("a.txt", f"{number}\n")
        desk.run_git("commit", "-qam", f"commit {number}, with | and \x01")
    seen, cursor = [], None
    while True:
        page = desk.ask("git_log", limit=3, cursor=cursor)
        seen += [one.subject for one in page.commits]
        if page.cursor is None:
            break
        cursor = page.cursor
        desk.run_git("commit", "-q", "--allow-empty", "-m", "later")
    assert [text.split(",")[0] for text in seen] == [
        *(f"commit {number}" for number in range(6, -1, -1)), "first",
    ]  # fmt: skip
    assert [one.subject for one in desk.ask("git_log", paths=["dir"]).commits] == ["first"]


def test_blame_goes_on_line_by_line(desk: Desk) -> None:
    """Each line with its commit, in pieces."""
    desk.write("a.txt", "".join(f"{number}\n" for number in range(100)))
    desk.run_git("commit", "-qam", "many")
    lines, cursor = [], None
    while True:
        page = desk.ask("git_blame", path="a.txt", limit=30, cursor=cursor)
        lines += page.text.splitlines()
        if page.cursor is None:
            break
        cursor = page.cursor
    assert [line.rsplit(" ", 1)[1] for line in lines] == [str(number) for number in range(100)]


def test_branches_with_their_upstream(desk: Desk, tmp_path: Path) -> None:
    """Local ones; with `remote` also what is known of others."""
    copy = tmp_path / "copy"
    desk.run_git("clone", "-q", str(desk.project), str(copy))
    other = Desk(tmp_path, copy=str(copy))
    subprocess.run(["git", "branch", "topic"], cwd=copy, check=True)
    found = other.ask("git_branches").branches
    assert {one.name for one in found} == {"main", "topic"}
    assert next(one for one in found if one.current).upstream == "origin/main"
    assert {one.name for one in other.ask("git_branches", remote=True).branches} == {
        "main", "topic", "origin/main",
    }  # fmt: skip
    assert other.ask("git_status").upstream == "origin/main"


def test_no_repository_is_said(tmp_path: Path) -> None:
    """With where it was looked for."""
    desk = Desk(tmp_path)
    with pytest.raises(NotFound, match="in no git repository") as caught:
        desk.ask("git_status")
    assert "not above" in caught.value.hint


def test_no_git_is_said(desk: Desk, tmp_path: Path) -> None:
    """A machine without git gets a sentence."""
    desk.git._environ = lambda: {"PATH": str(tmp_path), "HOME": "/"}
    desk.git._path = lambda: str(tmp_path)  # type: ignore[method-assign]
    with pytest.raises(HoldfastError, match="git is not installed"):
        desk.ask("git_status")


def test_secrets_of_remotes_are_not_told(desk: Desk) -> None:
    """A password in the address of a remote is hidden where git repeats it."""
    desk.run_git("remote", "add", "origin", "https://ann:hunter2@host.invalid/x")
    desk.run_git("config", "core.repositoryFormatVersion", "1")
    desk.run_git("config", "extensions.partialClone", "origin")
    error = refused(desk, "git_show", rev="0123456789012345678901234567890123456789")
    assert "hunter2" not in f"{error.message} {error.hint} {error.details}"


def test_names_that_are_no_text_in_a_long_difference(tmp_path: Path) -> None:
    """Its summary names them in one line each, as text."""
    desk = Desk(tmp_path)
    desk.repository()
    odd = os.fsencode(desk.project) + b"/caf\xe9\n.txt"
    with open(odd, "w") as file:
        file.write("line\n" * 5000)
    desk.run_git("add", "--all")
    desk.run_git("commit", "--quiet", "--message=odd")
    shown = desk.ask("git_show", rev="HEAD")
    assert shown.cursor is not None
    assert "+5000 -0\tcaf\ufffd\\n.txt\n" in shown.stat
    msgspec.json.encode(shown)


def test_a_large_file_with_a_name_that_is_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a checkpoint says of it can be told."""
    monkeypatch.setattr(shadow, "LARGEST_FILE", 10)
    desk = Desk(tmp_path)
    desk.repository()
    with open(os.fsencode(desk.project) + b"/caf\xe9", "w") as file:
        file.write("long enough\n")
    assert desk.ask("checkpoint").skipped == ["caf\ufffd"]
    msgspec.json.encode(desk.ask("checkpoints"))
