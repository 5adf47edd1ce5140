"""Exits survive the keeper until they are forgotten."""

from __future__ import annotations

from pathlib import Path

from holdfast.keeper.journal import Journal


def _ended(name: str) -> dict[str, object]:
    return {"run_id": name, "code": 0}


def _names(journal: Journal) -> list[str]:
    return [it["run_id"] for it in journal.exits()]


def test_survives(tmp_path: Path) -> None:
    """An exit that was added is there for the next keeper, in order."""
    path = str(tmp_path / "exits.jsonl")
    Journal(path).add([_ended("a"), _ended("b")])
    Journal(path).add([_ended("c")])
    assert _names(Journal(path)) == ["a", "b", "c"]


def test_forgotten_stay_forgotten(tmp_path: Path) -> None:
    """What was forgotten does not come back; forgetting twice is no error."""
    path = str(tmp_path / "exits.jsonl")
    journal = Journal(path)
    journal.add([_ended("a"), _ended("b")])
    journal.forget(["a", "a", "unknown"])
    assert _names(journal) == ["b"]
    assert _names(Journal(path)) == ["b"]


def test_empty_file_when_all_is_forgotten(tmp_path: Path) -> None:
    """The file does not grow for ever."""
    path = tmp_path / "exits.jsonl"
    journal = Journal(str(path))
    journal.add([_ended("a")])
    journal.forget(["a"])
    assert path.stat().st_size == 0
    journal.add([_ended("b")])
    assert _names(Journal(str(path))) == ["b"]


def test_compacted(tmp_path: Path) -> None:
    """One exit that nobody forgets does not keep all others on disk."""
    path = tmp_path / "exits.jsonl"
    journal = Journal(str(path))
    journal.add([_ended("stays")])
    for number in range(30):
        name = f"{number}" + "x" * 50_000
        journal.add([_ended(name)])
        journal.forget([name])
    assert path.stat().st_size < 1_300_000
    journal.add([_ended("last")])
    assert _names(Journal(str(path))) == ["stays", "last"]


def test_torn_line(tmp_path: Path) -> None:
    """A keeper that died while writing costs nothing but its half line."""
    path = tmp_path / "exits.jsonl"
    Journal(str(path)).add([_ended("a")])
    with open(path, "ab") as file:
        file.write(b'{"exit": {"run_id": "torn", "co')
    journal = Journal(str(path))
    journal.add([_ended("b")])
    assert _names(Journal(str(path))) == ["a", "b"]


def test_private(tmp_path: Path) -> None:
    """Nobody else may read it."""
    path = tmp_path / "exits.jsonl"
    Journal(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
