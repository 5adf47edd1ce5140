"""Exits survive the keeper until they are forgotten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.keeper.protocol.messages import ExitFacts
from holdfast.keeper.runs.journal import Journal
from holdfast.system import lean_json
from tests.keeper.conftest import KeeperProcess


def _ended(name: str) -> ExitFacts:
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


def test_a_keeper_starts_with_a_torn_line(
    make_keeper: Callable[..., KeeperProcess], folder: Path
) -> None:
    """The same with a real one, which has loaded nothing but what it needs."""
    (folder / "state").mkdir()
    whole = b'{"exit": {"run_id": "a", "service": "web", "code": 3}}\n'
    (folder / "state" / "exits.jsonl").write_bytes(whole + b'{"exit": {"run_id": "torn", "co')
    keeper = make_keeper()
    assert keeper.ready.get("ready"), keeper.ready
    assert [it["code"] for it in keeper.link.do("list")["exits"]] == [3]


def test_private(tmp_path: Path) -> None:
    """Nobody else may read it."""
    path = tmp_path / "exits.jsonl"
    Journal(str(path))
    assert path.stat().st_mode & 0o777 == 0o600


def test_waits_for_the_file(tmp_path: Path) -> None:
    """Exits live in memory while the file cannot be opened, and join what is in it later."""
    path = tmp_path / "state" / "exits.jsonl"
    refused: list[bool] = []
    journal = Journal(str(path), may_wait=True, on_refused=lambda: refused.append(True))
    journal.add([_ended("b"), _ended("c")])
    journal.forget(["c", "a"])
    assert refused
    assert _names(journal) == ["b"]
    path.parent.mkdir()
    Journal(str(path)).add([_ended("a"), _ended("old"), _ended("c")])
    journal.retry()
    assert journal.is_settled
    assert _names(journal) == _names(Journal(str(path))) == ["old", "b"]


def test_a_plain_start_needs_the_file(tmp_path: Path) -> None:
    """A first keeper says at once that its journal cannot be opened."""
    with pytest.raises(OSError, match="exits"):
        Journal(str(tmp_path / "nowhere" / "exits.jsonl"))


def test_handed_over_in_memory(tmp_path: Path) -> None:
    """What could not be written goes on to the next program image, and into the file."""
    missing = str(tmp_path / "nowhere" / "exits.jsonl")
    journal = Journal(missing, may_wait=True)
    journal.add([_ended("a")])
    second = Journal(missing, inherited=journal.state(), may_wait=True)
    assert _names(second) == ["a"]
    os.mkdir(tmp_path / "nowhere")
    second.retry()
    assert _names(Journal(missing)) == ["a"]


def test_a_name_in_any_script_is_handed_over(tmp_path: Path) -> None:
    """What waits is told to the next program image in bytes, whatever stands in it."""
    missing = str(tmp_path / "nowhere" / "exits.jsonl")
    journal = Journal(missing, may_wait=True)
    journal.add([_ended("größe-\udcff"), _ended("größe")])
    state = lean_json.loads(lean_json.encoded(journal.state()))
    second = Journal(missing, inherited=state, may_wait=True)
    os.mkdir(tmp_path / "nowhere")
    second.retry()
    assert _names(Journal(missing)) == ["größe-\udcff", "größe"]
