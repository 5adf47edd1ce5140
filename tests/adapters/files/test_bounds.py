"""What changes may cost, and what stays when the disk, the clock or the store fails them."""

from __future__ import annotations

import errno
import os
import resource
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.files import change_store, changer, listing, patch_plan, replacement
from holdfast.adapters.files.files import Files
from holdfast.vocabulary.errors import Conflict, Failed, NotFound, Refused, UsageError
from holdfast.vocabulary.files import UndoFiles, WriteFile
from holdfast.vocabulary.specs.files import BackupSpec, FilesSpec, RootSpec
from tests.adapters.files.stage import Stage

DAY = 86400.0


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def replacing_all(names: list[str], old: str = "1", new: str = "2") -> str:
    return "".join(f"--- a/{n}\n+++ b/{n}\n@@ -1 +1 @@\n-{old}\n+{new}\n" for n in names)


def move_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)


def records(stage: Stage) -> list[str]:
    return sorted(os.listdir(stage.state / "files" / "changes"))


def test_descriptors_go_with_folders_not_with_files(stage: Stage) -> None:
    """Hundreds of files in one folder are changed with a handful of descriptors."""
    names = [f"f{number}" for number in range(150)]
    for name in names:
        stage.put(name, "1\n")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 60
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, limits[1]))
    try:
        stage.patch(replacing_all(names))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert {(stage.tree / name).read_text() for name in names} == {"2\n"}


def test_deep_folders_are_refused_at_once(stage: Stage) -> None:
    """2,000 nested folders do not hold the only writer, whichever command asks for them."""
    began = time.monotonic()
    deep = "/".join(["d"] * 2000) + "/f"
    with pytest.raises(UsageError, match="2000 nested folders"):
        stage.write(deep, "1\n")
    with pytest.raises(Conflict, match="nested folders"):
        stage.patch(f"--- /dev/null\n+++ b/{deep}\n@@ -0,0 +1 @@\n+1\n")
    assert time.monotonic() - began < 5
    assert sorted(os.listdir(stage.tree)) == []
    stage.write("/".join(["d"] * 99) + "/f", "1\n")


def test_too_many_folders_are_refused_and_nothing_stays(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each folder is open until the change is done."""
    monkeypatch.setattr(changer, "MOST_FOLDERS", 3)
    names = [f"d{number}/f" for number in range(4)]
    for name in names:
        stage.put(name, "1\n")
    with pytest.raises(Refused, match="at most 3 folders"):
        stage.patch(replacing_all(names))
    assert [os.listdir(stage.tree / f"d{number}") for number in range(4)] == [["f"]] * 4
    assert records(stage) == []


def test_a_patch_of_too_much_content_is_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is small enough; together they would fill the memory."""
    monkeypatch.setattr(patch_plan, "MOST_BYTES", 10_000)
    for name in "abc":
        stage.put(name, "1\n" + "x" * 2000)
    patch = "".join(f"diff --git a/{n} b/{n}\nold mode 100644\nnew mode 100755\n" for n in "abc")
    with pytest.raises(Refused, match="hold more than"):
        stage.patch(patch)
    stage.patch(patch[: patch.index("diff --git a/c")])
    assert os.access(stage.tree / "b", os.X_OK)
    assert not os.access(stage.tree / "c", os.X_OK)


def test_nothing_is_left_beside_a_file_when_the_disk_fills_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where what was done cannot be taken back; that is told."""
    for name in "ab":
        stage.put(name, "1\n")
    put_over, sync = replacement.put_over, os.fsync

    def full(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def second_fails(folder: int, temporary: str, name: str) -> None:
        if name == "b":
            monkeypatch.setattr(os, "fsync", full)
            monkeypatch.setattr(change_store, "_write", lambda path, data: None)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        put_over(folder, temporary, name)

    monkeypatch.setattr(replacement, "put_over", second_fails)
    with pytest.raises(Failed, match="could not be given back: a"):
        stage.patch(replacing_all(["a", "b"]))
    monkeypatch.setattr(os, "fsync", sync)
    assert stage.names() == {"a", "b"}


def test_a_mode_is_never_set_through_a_link(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody puts a link in place of what was just written."""
    outside = stage.state / "outside"
    stage.state.mkdir(exist_ok=True)
    outside.write_text("theirs")
    outside.chmod(0o600)
    stage.put("run", "1\n")
    real = os.fchmod

    def swapped(descriptor: int, mode: int) -> None:
        for name in os.listdir(stage.tree):
            if name.startswith(".holdfast.tmp."):
                os.unlink(stage.tree / name)
                os.symlink(outside, stage.tree / name)
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", swapped)
    stage.patch("diff --git a/run b/run\nold mode 100644\nnew mode 100755\n")
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600


def test_undo_knows_the_order_when_the_clock_was_set_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is undone stays undone, for the next supervisor, too."""
    place = stage.put("a", "1\n")
    first = stage.edit("a", "1", "2").change
    move_clock(monkeypatch, -3600)
    assert stage.files.undo(UndoFiles(), stage.about).undone == first
    assert place.read_text() == "1\n"
    with pytest.raises(NotFound):
        stage.files.undo(UndoFiles(), stage.about)
    later = Stage(stage.tree.parent)  # the next supervisor
    second = later.edit("a", "1", "3").change
    assert later.files.undo(UndoFiles(), later.about).undone == second


def test_changes_without_backups_are_forgotten_in_time_too(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were only made leave no content behind, but a record."""
    for number in range(5):
        stage.write(f"made{number}", "x")
    move_clock(monkeypatch, 31 * DAY)
    stage.write("last", "x")
    assert len(records(stage)) == 1


def test_records_are_bounded_in_number(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little each of them needs."""
    monkeypatch.setattr(change_store, "MOST_RECORDS", 3)
    monkeypatch.setattr(change_store, "PRUNE_EVERY_SECONDS", -1.0)
    made = [stage.write(f"made{number}", "x").change for number in range(6)]
    assert records(stage) == [f"{change}.json" for change in made[-3:]]


def test_what_cannot_be_read_for_a_moment_is_not_forgotten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few descriptors while old backups are removed: the change is done, and they stay."""
    stage.put("a", "1\n")
    first = stage.edit("a", "1", "2").change
    load = change_store._load

    def failing(path: str) -> Any:
        if str(first) in path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return load(path)

    monkeypatch.setattr(change_store, "_load", failing)
    monkeypatch.setattr(change_store, "PRUNE_EVERY_SECONDS", -1.0)
    second = stage.edit("a", "2", "3").change
    monkeypatch.setattr(change_store, "_load", load)
    assert records(stage) == [f"{first}.json", f"{second}.json"]
    for change in (second, first):
        stage.files.undo(UndoFiles(change=change), stage.about)
    assert (stage.tree / "a").read_text() == "1\n"


def test_a_stray_file_in_the_store_fails_no_change(tmp_path: Path) -> None:
    """A change that is done is never told as failed."""
    stage = Stage(tmp_path, backups=BackupSpec(keep=0))
    stage.put("a", "1\n")
    stage.edit("a", "1", "2")
    (stage.state / "files" / "objects" / "stray").write_text("x")
    stage.files._store._pruned = 0.0
    assert stage.edit("a", "2", "3").change is not None
    assert len(records(stage)) == 1


def test_a_root_for_reading_within_a_root_for_writing(stage: Stage) -> None:
    """However it is named; the other way round, the name decides."""
    stage.put("docs/x", "1\n")
    stage.put("x", "1\n")
    spec = FilesSpec(
        roots=(
            RootSpec(name="tree", path=str(stage.tree), write=True),
            RootSpec(name="docs", path=str(stage.tree / "docs")),
        )
    )
    files = Files(str(stage.state), str(stage.tree), lambda: spec)
    for path in ("docs/x", "docs:x", str(stage.tree / "docs" / "x"), "docs/new/y"):
        with pytest.raises(Refused, match="read-only"):
            files.write(WriteFile(path=path, content="2\n", etag="*"), stage.about)
    assert files.write(WriteFile(path="x", content="2\n", etag="*"), stage.about).change


def test_a_listing_that_was_cut_always_gets_further(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with more names than are looked at in one go has folders of its own."""
    names = {f"d{number:02}" for number in range(12)}
    for name in names:
        stage.put(f"{name}/x", "1")
    monkeypatch.setattr(listing, "MOST_LOOKED_AT", 5)
    found: list[str] = []
    cursor = None
    for _ in range(30):
        listed = stage.look(depth=2, cursor=cursor)
        found += [entry.path for entry in listed.entries]
        cursor = listed.cursor
        if cursor is None:
            break
    assert cursor is None
    assert found == sorted(names | {f"{name}/x" for name in names})


def test_a_place_that_no_file_has_is_refused(stage: Stage) -> None:
    """It is the caller's mistake, not one inside."""
    stage.put("a", "x\n" * 200_000)
    for place in (2**63 - 1, 2**63, 2**64):
        with pytest.raises(UsageError):
            stage.read("a", from_byte=place)
