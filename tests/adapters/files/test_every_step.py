"""Dies at every single step of a change, and at every step of taking it back."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.adapters.files.stage import Stage

STEPS = ("open", "link", "rename", "unlink", "mkdir", "rmdir", "fchmod", "fsync")
PATCH = """\
--- a/edited
+++ b/edited
@@ -1 +1 @@
-old
+new
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/here b/made/there/moved
rename from here
rename to made/there/moved
diff --git a/tool b/tool
old mode 100644
new mode 100755
--- /dev/null
+++ b/made/fresh
@@ -0,0 +1 @@
+fresh
"""
Tree = dict[str, tuple[str, int]]


def tree(stage: Stage) -> Tree:
    return {
        name: (place.read_text(), place.stat().st_mode & 0o777) if place.is_file() else ("", 0)
        for name in stage.names()
        for place in [stage.tree / name]
    }


def new_stage(folder: Path) -> Stage:
    folder.mkdir()
    stage = Stage(folder)
    for name, text in (("edited", "old\n"), ("gone", "bye\n"), ("here", "x\n"), ("tool", "t\n")):
        stage.put(name, text)
    return stage


def dies(work: Callable[[], object], at: int) -> bool:
    """Do something in a process that dies at its n-th step; whether it got so far."""
    child = os.fork()
    if child == 0:
        count = 0

        def dying(call: Callable[..., object]) -> Callable[..., object]:
            def counted(*arguments: object, **more: object) -> object:
                nonlocal count
                count += 1
                if count == at:
                    os._exit(9)
                return call(*arguments, **more)

            return counted

        for name in STEPS:
            setattr(os, name, dying(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 9


def is_clean(stage: Stage) -> bool:
    return not list((stage.state / "files" / "pending").iterdir())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_all_or_none_wherever_it_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left beside the files, and no record that nobody closes."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # processes die, not the machine
    whole = new_stage(tmp_path / "whole")
    before = tree(whole)
    whole.patch(PATCH)
    after = tree(whole)
    assert after["made/there/moved"][0] == "x\n"
    at, last = 1, 0
    while True:
        stage = new_stage(tmp_path / f"n{at}")
        if not dies(partial(stage.patch, PATCH), at):
            break
        later = Stage(stage.tree.parent)
        settled = later.files.recover()
        assert all(record.state == "rolled_back" for record in settled), (at, settled)
        assert tree(later) in (before, after), at
        assert is_clean(later), at
        last = at if settled else last  # all files are replaced, and the record is not closed
        at += 1
    assert last > 20
    for again in range(1, 100):
        stage = new_stage(tmp_path / f"again{again}")
        dies(partial(stage.patch, PATCH), last)
        later = Stage(stage.tree.parent)
        is_over = not dies(later.files.recover, again)
        later.files.recover()
        assert (tree(later), is_clean(later)) == (before, True), again
        if is_over:
            break
    assert 10 < again < 99
    later.patch(PATCH)
    assert tree(later) == after
    later.undo()
    assert tree(later) == before
