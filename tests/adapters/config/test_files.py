"""`files:` says which folders are offered, in short or at length, and every mistake is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters import config
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.files import BackupSpec, FilesSpec, RootSpec


def loaded(folder: Path, files: Any) -> FilesSpec:
    path = folder / "holdfast.json"
    path.write_text(json.dumps({"services": {"web": "true"}, "files": files}))
    return config.load(str(path), environ={}).settings.files


def test_roots_in_every_form(tmp_path: Path) -> None:
    """A folder, a list, names; blocks with `write`."""
    here = str(tmp_path)
    one = (RootSpec(name="src", path=f"{here}/src"),)
    for written in ("src", ["src"], [{"path": "src"}], {"src": "src"}, {"src": {"path": "src"}}):
        assert loaded(tmp_path, {"roots": written}).roots == one
    roots = loaded(
        tmp_path, {"roots": {"all": {"path": ".", "write": True}, "docs": "/srv/docs"}}
    ).roots
    assert [(root.name, root.path, root.write) for root in roots] == [
        ("all", here, True), ("docs", "/srv/docs", False),
    ]  # fmt: skip


def test_what_is_left_out(tmp_path: Path) -> None:
    """No roots: the project, read-only; thirty days and 256 MB of backups."""
    assert loaded(tmp_path, None) == FilesSpec()
    found = loaded(tmp_path, {"deny": "*.sql", "backups": {"keep": "2d", "max_size": "1MB"}})
    assert found.deny == ("*.sql",)
    assert found.backups == BackupSpec(keep=172800.0, max_size=1_000_000)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"roots": {"UP": "x"}}, "cannot name a root"),
        ({"roots": {"uri": "x"}}, "cannot name a root"),
        ({"roots": ["a/x", "b/x"]}, "two roots"),
        ({"roots": {"x": {"write": True}}}, "no path"),
        ({"roots": {"x": {"path": "x", "writeable": True}}}, "unknown key"),
        ({"root": "x"}, "unknown key"),
    ],
)
def test_mistakes(tmp_path: Path, files: Any, message: str) -> None:
    """Each with what is wrong."""
    with pytest.raises(ConfigError, match=message):
        loaded(tmp_path, files)
