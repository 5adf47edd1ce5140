"""Changes are atomic, keep what a file is, never overwrite what others wrote, and can be undone."""

from __future__ import annotations

import base64
import codecs
import difflib
import json
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.adapters.files import changer, replacement
from holdfast.adapters.files.change_store import FileState
from holdfast.vocabulary.errors import Conflict, HoldfastError, NotFound, Refused, UsageError
from holdfast.vocabulary.specs.files import BackupSpec
from tests.adapters.files.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_file_is_made_and_replaced(stage: Stage) -> None:
    """Replacing takes the etag of what was read, or a star; folders on the way are made."""
    made = stage.write("a/b/c.txt", "one\n")
    assert (made.outcome, made.etag_before) == ("created", None)
    with pytest.raises(Conflict, match="there already"):
        stage.write("a/b/c.txt", "two\n")
    with pytest.raises(Conflict, match="not the one"):
        stage.write("a/b/c.txt", "two\n", etag="0" * 32)
    done = stage.write("a/b/c.txt", "two\n", etag=made.etag)
    assert (done.outcome, done.etag_before) == ("replaced", made.etag)
    assert done.etag == stage.read("a/b/c.txt").etag
    assert stage.write("a/b/c.txt", "three\n", etag="*").outcome == "replaced"
    assert stage.write("a/b/c.txt", "three\n").outcome == "unchanged"
    with pytest.raises(Conflict, match="gone"):
        stage.write("a/new", "x", etag=made.etag)
    assert stage.names() == {"a", "a/b", "a/b/c.txt"}


def test_mode_and_owner_stay(stage: Stage) -> None:
    """And extended attributes, where there are any; what runs as somebody else does not."""
    place = stage.put("run.sh", "echo\n")
    place.chmod(0o4751)
    if os.geteuid() == 0:
        os.chown(place, 12345, 23456)
        place.chmod(0o4751)
    try:
        os.setxattr(place, "user.mark", b"kept")
    except (OSError, AttributeError):
        pass
    else:
        stage.edit("run.sh", "echo", "date")
        assert os.getxattr(place, "user.mark") == b"kept"
        stage.edit("run.sh", "date", "echo")
    before = place.stat()
    stage.edit("run.sh", "echo", "exec true")
    after = place.stat()
    assert stat.S_IMODE(after.st_mode) == 0o751
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    stage.undo()
    assert stat.S_IMODE(place.stat().st_mode) == 0o751


def test_a_file_of_somebody_else_is_not_taken_over(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the owner cannot be kept, nothing is changed."""
    stage.put("a.txt", "x\n")

    def refuse(*_: object) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr(os, "fchown", refuse)
    seen = FileState("", 0, 0o644, 12345, 12345)
    folder = os.open(stage.tree, os.O_RDONLY)
    try:
        with pytest.raises(Refused, match="belongs to"):
            replacement.prepare(folder, "t", b"", seen, None)
    finally:
        os.close(folder)


def test_a_hard_link_is_never_written_through(stage: Stage) -> None:
    """The other name keeps its content."""
    stage.put("a.txt", "old\n")
    other = stage.tree.parent / "other.txt"
    os.link(stage.tree / "a.txt", other)
    stage.edit("a.txt", "old", "new")
    assert (other.read_text(), (stage.tree / "a.txt").read_text()) == ("old\n", "new\n")


@pytest.mark.parametrize(
    ("data", "content", "expected"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (codecs.BOM_UTF8 + b"a\n", "x\n", codecs.BOM_UTF8 + b"x\n"),
        (codecs.BOM_UTF8 + b"a\n", "\ufeffx\n", codecs.BOM_UTF8 + b"x\n"),
        (
            codecs.BOM_UTF16_BE + "a\r\n".encode("utf-16-be"),
            "é\n",
            codecs.BOM_UTF16_BE + "é\r\n".encode("utf-16-be"),
        ),
        (b"a\nb\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\r\nb\n", "x\n", b"x\n"),
        (b"\0binary", "x\n", b"x\n"),
    ],
)
def test_text_takes_over_the_form_of_the_file(
    stage: Stage, data: bytes, content: str, expected: bytes
) -> None:
    """Line ends, byte order mark and encoding; base64 is written as it is."""
    place = stage.put("a.txt", data)
    stage.write("a.txt", content, etag="*")
    assert place.read_bytes() == expected
    raw = base64.b64encode(content.encode()).decode()
    stage.write("a.txt", raw, etag="*", encoding="base64")
    assert place.read_bytes() == content.encode()
    with pytest.raises(UsageError):
        stage.write("a.txt", "no base64!", etag="*", encoding="base64")


def test_an_edit_shows_and_does_nothing_more(stage: Stage) -> None:
    """The difference, etags, a try without effect; a file that is no text is refused."""
    place = stage.put("a.txt", codecs.BOM_UTF8 + b"one\r\ntwo \xff\r\nthree\r\n")
    etag = stage.read("a.txt").etag
    tried = stage.edit("a.txt", "three", "3", dry_run=True)
    assert (tried.etag_before, tried.change) == (etag, None)
    assert "-three\r\n+3\r\n" in tried.diff
    assert place.read_bytes().endswith(b"three\r\n")
    with pytest.raises(Conflict):
        stage.edit("a.txt", "three", "3", etag="0" * 32)
    done = stage.edit("a.txt", "one\ntwo", "1\n2", etag=etag)
    assert place.read_bytes() == codecs.BOM_UTF8 + b"1\r\n2 \xff\r\nthree\r\n"
    assert done.etag == stage.read("a.txt").etag
    stage.put("b", b"\0\1")
    with pytest.raises(Refused, match="no text"):
        stage.edit("b", "x", "y")
    with pytest.raises(NotFound, match=r'no "a\.text"'):
        stage.edit("a.text", "x", "y")


def test_what_others_wrote_meanwhile_is_not_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading and replacing somebody else writes: a conflict, and theirs stays."""
    place = stage.put("a.txt", "one\n")
    prepare = replacement.prepare

    def slow(*arguments: Any, **more: Any) -> None:
        prepare(*arguments, **more)
        place.write_text("theirs\n")

    monkeypatch.setattr(replacement, "prepare", slow)
    with pytest.raises(Conflict, match="changed meanwhile"):
        stage.edit("a.txt", "one", "two")
    assert place.read_text() == "theirs\n"
    assert stage.names() == {"a.txt"}
    assert stage.changes().changes == []


def test_two_edits_never_mix(stage: Stage) -> None:
    """Many at once, each of its own line, in the one thread of changes: none is lost."""
    stage.put("a.txt", "".join(f"<{n}>\n" for n in range(40)))
    with ThreadPoolExecutor(1) as one:
        done = [one.submit(stage.edit, "a.txt", f"<{n}>", f"[{n}]") for n in range(40)]
        for each in done:
            each.result()
    assert stage.read("a.txt").content == "".join(f"[{n}]\n" for n in range(40))


@given(st.binary(max_size=200), st.binary(max_size=200))
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
def test_undo_gives_the_very_bytes_back(stage: Stage, before: bytes, after: bytes) -> None:
    """Whatever they are; and undoing the undoing gives the others back."""
    place = stage.put("a.bin", before)
    if before == after:
        return
    content = base64.b64encode(after).decode()
    stage.write("a.bin", content, encoding="base64", etag="*")
    undone = stage.undo()
    assert place.read_bytes() == before
    stage.undo(change=undone.change)
    assert place.read_bytes() == after


def test_undo_goes_back_step_by_step(stage: Stage) -> None:
    """The newest that is not undone; of one path; what was made goes, with its folders."""
    stage.put("a.txt", "0\n")
    stage.edit("a.txt", "0", "1")
    stage.write("new/deep/b.txt", "b")
    stage.edit("a.txt", "1", "2")
    assert stage.undo(path="new/deep/b.txt").files[0].outcome == "deleted"
    assert stage.names() == {"a.txt"}
    assert stage.undo(dry_run=True).change is None
    stage.undo()
    assert stage.read("a.txt").content == "1\n"
    stage.undo()
    assert stage.read("a.txt").content == "0\n"
    with pytest.raises(NotFound, match="no change to undo"):
        stage.undo()
    told = stage.changes().changes
    assert [one.files[0].undone for one in told] == [False, False, False, True, True, True]
    assert [one.command for one in told] == ["undo"] * 3 + ["test"] * 3
    assert len(stage.changes(path="a.txt", limit=2).changes) == 2
    assert stage.changes(limit=2).truncated


def test_undo_refuses_what_was_changed_since(stage: Stage) -> None:
    """Unless it is told to; a session undoes its own changes only."""
    place = stage.put("a.txt", "0\n")
    stage.edit("a.txt", "0", "1")
    place.write_text("others\n")
    with pytest.raises(Conflict, match="changed since"):
        stage.undo()
    assert place.read_text() == "others\n"
    about = stage.about
    stage.about = about._replace(session="session-1")
    with pytest.raises(NotFound):
        stage.undo()
    stage.about = about
    stage.undo(force=True)
    assert place.read_text() == "0\n"
    with pytest.raises(NotFound, match="is kept"):
        stage.undo(change="change-../../etc/passwd")


PATCH = """\
diff --git a/changed.txt b/changed.txt
--- a/changed.txt
+++ b/changed.txt
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/old.sh b/sub/new.sh
similarity index 90%
rename from old.sh
rename to sub/new.sh
diff --git a/fresh.sh b/fresh.sh
new file mode 100755
--- /dev/null
+++ b/fresh.sh
@@ -0,0 +1 @@
+#!/bin/sh
\\ No newline at end of file
diff --git a/mode.sh b/mode.sh
old mode 100644
new mode 100755
"""


def lay(stage: Stage) -> dict[str, bytes]:
    for name, data in (("changed.txt", "one\ntwo\n"), ("gone.txt", "x\n"), ("mode.sh", "m\n")):
        stage.put(name, data)
    stage.put("old.sh", "s\n").chmod(0o740)
    return contents(stage)


def contents(stage: Stage) -> dict[str, bytes]:
    return {name: p.read_bytes() for name in stage.names() if (p := stage.tree / name).is_file()}


def test_a_patch_of_all_kinds(stage: Stage) -> None:
    """Changed, deleted, renamed, made, made executable: as one change, undone as one."""
    before = lay(stage)
    assert [one.outcome for one in stage.patch(PATCH, dry_run=True).files] == [
        "changed", "deleted", "renamed", "created", "changed",
    ]  # fmt: skip
    assert contents(stage) == before
    done = stage.patch(PATCH)
    assert contents(stage) == {
        "changed.txt": b"one\n2\n",
        "sub/new.sh": b"s\n",
        "fresh.sh": b"#!/bin/sh",
        "mode.sh": b"m\n",
    }
    assert stat.S_IMODE((stage.tree / "sub/new.sh").stat().st_mode) == 0o740
    assert os.access(stage.tree / "fresh.sh", os.X_OK)
    assert (stage.tree / "mode.sh").stat().st_mode & 0o100
    assert done.files[2].previous_path == "old.sh"
    stage.undo(change=done.change)
    assert contents(stage) == before
    assert not (stage.tree / "mode.sh").stat().st_mode & 0o100
    assert stat.S_IMODE((stage.tree / "old.sh").stat().st_mode) == 0o740
    assert "sub" not in stage.names()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (("changed.txt", "one\nthree\n"), 'line 2 is "three", not "two"'),
        (("gone.txt", "x\ny\n"), "more lines"),
        (("fresh.sh", "here"), "already"),
        (("sub/new.sh", "here"), "already"),
    ],
)
def test_a_patch_fits_as_a_whole_or_not_at_all(
    stage: Stage, spoil: tuple[str, str], reason: str
) -> None:
    """One part that does not fit, and nothing is changed; the reason is told."""
    lay(stage)
    stage.put(*spoil)
    before = contents(stage)
    with pytest.raises(Conflict, match=reason) as caught:
        stage.patch(PATCH)
    assert len(caught.value.details["rejects"]) == 1
    assert contents(stage) == before
    assert stage.changes().changes == []


def test_a_patch_tells_every_reason(stage: Stage) -> None:
    """And refuses to touch one file twice, or what is not there."""
    stage.put("a", "x\n")
    one = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"
    missing = one.replace("/a\n", "/none\n")
    odd = one.replace(" a/a\n", ' "a/\\377"\n').replace(" b/a\n", ' "b/\\377"\n')
    with pytest.raises(Conflict) as caught:
        stage.patch(one + one + missing + odd)
    reasons = [reject["reason"] for reject in caught.value.details["rejects"]]
    assert reasons == ["the patch names it twice", *["there is no such file"] * 2]
    json.dumps(caught.value.as_fields(), ensure_ascii=False).encode()


def test_what_is_done_is_on_disk(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that was answered is not found half done after the power failed."""
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    stage.put("a", "x\n")
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("names of descriptors are known on Linux only")
    monkeypatch.setattr(os, "fsync", noted)
    stage.patch("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n")
    assert synced[-1] == "changes"
    assert "objects" in synced


@pytest.mark.parametrize("moment", range(1, 5))
def test_trouble_in_the_middle_takes_everything_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """The disk fails at the n-th file: what was replaced is as before, and nothing lies about."""
    before = lay(stage)
    count = 0
    put = changer.Changer._put

    def failing(self: changer.Changer, *arguments: object) -> None:
        nonlocal count
        count += 1
        if count == moment:
            raise OSError(5, "Input/output error")
        put(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(changer.Changer, "_put", failing)
    with pytest.raises(HoldfastError, match="Input/output error"):
        stage.patch(PATCH)
    assert contents(stage) == before
    assert not any(".tmp" in name for name in stage.names())
    assert os.listdir(stage.state / "files" / "pending") == []


@given(
    st.lists(st.sampled_from("abc"), max_size=20),
    st.lists(st.sampled_from("abc"), max_size=20),
    st.booleans(),
)
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
def test_any_diff_applies_to_its_file(
    stage: Stage, old: list[str], new: list[str], crlf: bool
) -> None:
    """With the line ends that the file has."""
    if old == new or not old:
        return
    end = "\r\n" if crlf else "\n"
    place = stage.put("f", "".join(line + end for line in old))
    before, after = ([f"{line}\n" for line in lines] for lines in (old, new))
    stage.patch("".join(difflib.unified_diff(before, after, "a/f", "b/f")))
    assert place.read_bytes() == "".join(line + end for line in new).encode()
    stage.undo()
    assert place.read_bytes() == "".join(line + end for line in old).encode()


def test_backups_are_outside_and_kept_within_bounds(tmp_path: Path) -> None:
    """The oldest go beyond the size; the newest always stays."""
    stage = Stage(tmp_path, backups=BackupSpec(max_size=3000))
    stage.put("a", "0" * 1000)
    for number in range(1, 9):
        stage.write("a", f"{number}" * 1000, etag="*")
    kept = stage.changes().changes
    assert 1 <= len(kept) <= 4
    objects = [p for p in (stage.state / "files" / "objects").rglob("*") if p.is_file()]
    assert len(objects) == len(kept)
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in objects)
    stage.undo()
    assert stage.read("a").content == "7" * 1000
    assert stage.names() == {"a"}


def test_old_backups_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that the configuration says."""
    stage = Stage(tmp_path, backups=BackupSpec(keep=100.0))
    stage.put("a", "0")
    stage.write("a", "1", etag="*")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7200)
    stage.write("a", "2", etag="*")
    assert len(stage.changes().changes) == 1


def test_large_files_are_not_changed(stage: Stage) -> None:
    """Neither replaced, because the backup would be large, nor made."""
    with open(stage.tree / "big", "wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(Refused, match="16 MiB"):
        stage.write("big", "x", etag="*")
    assert (stage.tree / "big").stat().st_size == 17 * 1024 * 1024
