"""Processes that no run owns: what is taken for one, and what looking for them costs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.keeper.processes import unclaimed
from holdfast.keeper.processes.tree import Tree, is_owned
from holdfast.keeper.processes.unclaimed import UnclaimedProcesses
from holdfast.system import processes, run_marks
from tests.keeper.conftest import KeeperProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's own")


def test_only_ceilings_are_read_from_a_note() -> None:
    """A number that every process of the machine has as its limit would make all of them ours."""
    ours = 63 << 56 | 5
    damaged: list[Any] = [run_marks.UNLIMITED, 200_000, 0, -1, True, "5", None, 1 << 56, 64 << 56]
    assert run_marks.ceilings_of({"ceilings": [*damaged, ours]}) == [ours]
    assert run_marks.ceilings_of({"ceilings": 5}) == []
    assert run_marks.ceilings_of({}) == []


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_the_note(
    folder: Path, make_keeper: Callable[..., KeeperProcess]
) -> None:
    """Nobody is at its other end; a keeper does not wait there, and writes its note."""
    (folder / "state").mkdir()
    os.mkfifo(folder / "state" / "keeper.json")
    assert make_keeper().ready == {"ready": True}
    assert (folder / "state" / "keeper.json").is_file()


def test_the_rest_of_a_run_owns_no_orphan_without_a_mark() -> None:
    """Of a run that ended unseen no start time is known, so that it says nothing of an orphan."""
    rest = Tree("rest", 0, "", None, False, cast("Any", None), lambda: ())
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        orphan = processes.process(other.pid)
        assert orphan is not None
        assert not is_owned(orphan, [rest])


def test_a_slow_look_is_taken_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine has very many processes, `status` costs the keeper a small share."""
    now = 1000.0
    monkeypatch.setattr(unclaimed, "time", SimpleNamespace(monotonic=lambda: now))
    children = SimpleNamespace(runs={}, known_children=lambda: ())
    found = UnclaimedProcesses(
        cast("Any", children), cast("Any", None), [63 << 56], is_successor=True
    )
    looks = []

    def scan() -> list[Any]:
        nonlocal now
        now += 0.5
        looks.append(now)
        return []

    monkeypatch.setattr(found, "_scan", scan)
    began = now
    while now < began + 600:
        found._beneath_ceiling(is_rough=True)
        now += 0.1
    assert 0.5 * len(looks) <= 600 * 0.03
    found._beneath_ceiling(is_rough=False)
    assert looks[-1] == now, "who ends them looks at everybody"
