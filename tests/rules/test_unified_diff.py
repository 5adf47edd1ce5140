"""A diff is applied exactly or not at all, with a reason that says where."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rules.text import differences, encoding, patching
from holdfast.rules.text.unified_diff import FilePatch, parse
from holdfast.vocabulary.errors import UsageError

PLAIN = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"


def patched(text: str, patch: str) -> patching.Patched:
    one = parse(patch)[0]
    form = encoding.Form(ending=encoding.ending_of(text))
    return patching.apply(text, form, one.hunks, patching.Effort())


def made(before: str, after: str) -> str:
    """A diff as difflib writes it, with the mark of a missing line end."""
    told = ""
    lines = difflib.unified_diff(encoding.lines_of(before), encoding.lines_of(after), "a/x", "b/x")
    for line in lines:
        told += line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
    return told


LINES = st.lists(st.sampled_from(["a", "b", "", " c", "-d", "+e", "\\f", "--- g", "@@ h"]))


@given(LINES, LINES, st.booleans(), st.booleans())
@settings(max_examples=300)
def test_any_difference_applies_exactly(
    old: list[str], new: list[str], old_end: bool, new_end: bool
) -> None:
    """What differs is made the same, whatever the lines look like."""
    before = "\n".join(old) + ("\n" if old and old_end else "")
    after = "\n".join(new) + ("\n" if new and new_end else "")
    if before == after:
        return
    assert patched(before, made(before, after)) == patching.Patched(after, 0)


@given(st.lists(st.sampled_from("abcdef"), min_size=1), LINES)
def test_our_own_diffs_apply(old: list[str], new: list[str]) -> None:
    """The diff in an answer is a true one."""
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    if before != after:
        assert patched(before, differences.unified(before, after, "x")).text == after


def test_where_a_part_fits_is_not_looked_for_without_end() -> None:
    """Texts and patches that nearly fit everywhere are given up; a patch that fits never is."""
    same = " a\n" * 20_000
    hostile = f"--- a/x\n+++ b/x\n@@ -9,20001 +9,20001 @@\n{same}-b\n+c\n"
    with pytest.raises(patching.Misfit, match="takes too long"):
        patched("a\n" * 200_000, hostile)
    one = parse(PLAIN)[0]
    form = encoding.Form(ending="lf")
    assert patching.apply("a\nb\nc\n", form, one.hunks, patching.Effort(0)).offset == 0


def test_a_part_may_have_moved_if_it_fits_only_once() -> None:
    """And how far is told."""
    assert patched("0\n0\na\nb\nc\n", PLAIN) == patching.Patched("0\n0\na\nB\nc\n", 2)
    with pytest.raises(patching.Misfit, match="lines 2, 5"):
        patched("0\na\nb\nc\na\nb\nc\n", PLAIN)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\nx\nc\n", 'line 2 is "x", not "b"'),
        ("a\nb\nc", 'line 3 is "c" without a line end'),
        ("a\n", "the file ends at line 1"),
        ("", "the file ends at line 0"),
    ],
)
def test_a_misfit_says_where(text: str, reason: str) -> None:
    """No line of context is forgiven."""
    with pytest.raises(patching.Misfit, match=reason):
        patched(text, PLAIN)


def test_line_ends_of_the_file_are_kept() -> None:
    """A patch with simple line ends fits a file with others; nothing is mixed."""
    assert patched("a\r\nb\r\nc\r\n", PLAIN).text == "a\r\nB\r\nc\r\n"
    with_crlf = PLAIN.replace("\n a\n-b\n+B\n c\n", "\n a\r\n-b\r\n+B\r\n c\r\n")
    assert patched("a\r\nb\r\nc\r\n", with_crlf).text == "a\r\nB\r\nc\r\n"
    with pytest.raises(patching.Misfit):
        patched("a\nb\nc\n", with_crlf)


@pytest.mark.parametrize(
    "patch",
    [
        *("", "hello\n", "@@ -1 +1 @@\n-a\n+b\n", "--- a/x\n+++ b/x\n@@ nonsense @@\n"),
        "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n",
        "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n+c\n",
        "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n",
        "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n",
        "diff --git a/x b/x\nGIT binary patch\nliteral 3\n",
        "diff --git a/x b/x\nold mode 100644\nnew mode 104755\n",
    ],
)
def test_what_cannot_be_carried_out_is_refused(patch: str) -> None:
    """Climbing paths, links, set-user-id, binary content, wrong counts."""
    with pytest.raises(UsageError):
        parse(patch)


@given(st.text(alphabet='-+@ ,0123ab/\n\\"d', max_size=120))
def test_garbage_is_understood_or_refused(patch: str) -> None:
    """No text breaks the reader."""
    try:
        parse(f"--- a/x\n+++ b/x\n{patch}")
    except UsageError:
        pass


def test_a_plain_file_may_follow_a_rename() -> None:
    """Git's lines do not swallow the next file."""
    found = parse(f"diff --git a/g b/h\nrename from g\nrename to h\n{PLAIN}")
    assert [(one.old, one.new, len(one.hunks)) for one in found] == [("g", "h", 0), ("x", "x", 1)]


def test_all_that_git_says(tmp_path: Path) -> None:
    """Creation, deletion, rename, modes, quoted names and missing ends, as git writes them."""

    def git(*words: str) -> str:
        done = subprocess.run(
            [
                "git",
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "core.fileMode=true",
                *words,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    git("init", "-q")
    (tmp_path / "old.txt").write_text("same\n" * 20)
    (tmp_path / "gone.txt").write_text("x\n")
    (tmp_path / "run.sh").write_text("echo\n")
    (tmp_path / "sub folder").mkdir()
    (tmp_path / "sub folder" / "naïve.txt").write_text("1\n2")
    git("add", ".")
    git("commit", "-qm", "x")
    (tmp_path / "old.txt").rename(tmp_path / "new.txt")
    (tmp_path / "gone.txt").unlink()
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "sub folder" / "naïve.txt").write_text("1\n3\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "tab\there").write_text("x")
    git("add", ".")
    found = {one.new or one.old: one for one in parse(git("diff", "--cached", "-M"))}
    assert set(found) == {
        "new.txt", "gone.txt", "run.sh", "sub folder/naïve.txt", "empty", "tab\there",
    }  # fmt: skip
    assert found["new.txt"] == FilePatch("old.txt", "new.txt", [])
    assert found["gone.txt"].new is None
    assert found["run.sh"] == FilePatch("run.sh", "run.sh", [], executable=True)
    assert found["empty"] == FilePatch(None, "empty", [], executable=False)
    assert found["tab\there"].hunks[0].new == ["x"]
    hunk = found["sub folder/naïve.txt"].hunks[0]
    assert (hunk.old, hunk.new) == (["1\n", "2"], ["1\n", "3\n"])
