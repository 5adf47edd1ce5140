"""Pain of users whose clock was set: the wall clock stamps, and decides nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast
from tests.engine.stage import Stage

PACKAGE = Path(holdfast.__file__).parent
MODULES = sorted(
    path
    for name in ("keeper", "engine", "rules", "doors")
    for path in (PACKAGE / name).rglob("*.py")
)
BOUNDED = {
    "engine/git/status_cache.py": ["the age of a file, waited for two seconds at most"],
    "engine/runner/runner.py": [
        "the stamp of the planned start; its timer is monotonic",
        "a planned start after a death of ours, at most max_delay",
    ],
    "engine/survivors.py": ["the age of a process that outlived all of us, never negative"],
    "keeper/recording/recorder.py": ["the unit of a stamp"],
    "system/processes.py": ["the age of a process where only that clock tells its start"],
    "keeper/runs/run.py": ["the stamp of a start that was before we knew of it"],
    "keeper/processes/unlisted_runs.py": ["the stamp of a start that nobody was told about"],
}


def reads_the_wall_clock(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in ("time", "time_ns")
        # A loop's time is monotonic.
        and not ast.unparse(part.func.value).endswith("loop")
        for part in ast.walk(node)
    )


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_nothing_is_measured_with_the_wall_clock(module: Path) -> None:
    """The clock is set back an hour, and a timeout takes an hour or a process is forgotten."""
    measured = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, (ast.BinOp, ast.Compare, ast.AugAssign)) and reads_the_wall_clock(node)
    ]
    name = module.relative_to(PACKAGE).as_posix()
    assert len(measured) <= len(BOUNDED.get(name, [])), measured


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_step_of_the_clock_changes_no_delay(step: float) -> None:
    """The clock is set while a service waits for its restart: it starts at once, or never."""
    stage = Stage()
    wall = stage.clock.time
    try:
        stage.runner.start()
        stage.settle()
        stage.advance(2.0)
        stage.clock.time = lambda: wall() + step  # type: ignore[method-assign]
        assert stage.runner.status().uptime == pytest.approx(2.0)
        stage.keeper.exit(code=1)
        stage.settle()
        stage.clock.time = lambda: wall() - step  # type: ignore[method-assign]
        assert stage.runner.status().next_start_in == pytest.approx(5.0)
        stage.advance(4.9)
        assert stage.runner.status().status == "backoff"
        stage.advance(0.2)
        assert stage.runner.status().status == "starting"
    finally:
        stage.close()
