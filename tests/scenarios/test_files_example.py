"""The example of files does what its comments say."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness import Hold

EXAMPLE = Path(__file__).parents[2] / "examples" / "files"


def test_the_example(hold: Hold) -> None:
    """One root is read, the other changed and patched, and everything is undone."""
    shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
    hold.up()
    todo = hold.project / "notes" / "todo.txt"
    before = todo.read_text()
    assert hold.cli("files", "read", "notes/todo.txt").stdout == before
    edit = ("--old", "write the guide", "--new", "read the guide")
    hold.cli("files", "edit", "notes/todo.txt", *edit)
    assert "read the guide" in todo.read_text()
    hold.cli("files", "undo")
    hold.cli("files", "patch", "rename.diff", "--root", "notes")
    assert (hold.project / "notes" / "list.txt").read_text() == f"{before}sleep\n"
    assert len(hold.json("files", "changes")["changes"]) == 3
    hold.cli("files", "undo")
    assert todo.read_text() == before
    refused = hold.cli("files", "edit", "holdfast.yaml", "--old", "web", "--new", "x", expect=5)
    assert "denied" in refused.stderr
