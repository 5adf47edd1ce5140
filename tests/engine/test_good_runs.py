"""Which run went well last, and what it was started with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.engine.alerts.good_runs import GoodRuns
from holdfast.engine.runner.declaration import Declaration
from tests.engine.stage import Stage


class Scene(Stage):
    """A service whose good runs are remembered."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.good_runs = GoodRuns(self.environment())
        self.observers.add(self.good_runs)
        self.good_runs.declared(self.runner)

    def declare(self, **fields: Any) -> None:
        spec = msgspec.structs.replace(self.runner.declaration.spec, **fields)
        self.runner.declare(Declaration(spec))
        self.good_runs.declared(self.runner)
        self.settle()

    def good(self) -> tuple[int, tuple[str, ...]] | None:
        found = self.good_runs.of(self.runner)
        return None if found is None else (found[0].run, found[1].argv)

    def start(self) -> None:
        self.runner.start()
        self.settle()
        self.advance(2.0)


@pytest.fixture
def scene() -> Any:
    made = Scene()
    yield made
    made.close()


def test_a_run_that_lasts_is_good(scene: Scene) -> None:
    """After `reset_after`; before that nobody knows."""
    scene.start()
    assert scene.good() is None
    scene.advance(60.0)
    assert scene.good() == (1, ("web", "--x"))


def test_a_run_that_fails_is_not(scene: Scene) -> None:
    """A crash before `reset_after` does not count, and does not replace what was good."""
    scene.start()
    scene.keeper.exit(code=1)
    scene.settle()
    assert scene.good() is None


def test_a_success_and_a_stop_are_good(scene: Scene) -> None:
    """Who ends well or is stopped after it was up has gone well."""
    scene.start()
    scene.runner.stop()
    scene.settle()
    assert scene.good() == (1, ("web", "--x"))
    scene.start()
    scene.keeper.exit(code=0)
    scene.settle()
    assert scene.good() == (2, ("web", "--x"))


def test_the_old_declaration_is_remembered(scene: Scene) -> None:
    """Once another is declared; it is kept for a later supervisor, and only then."""
    scene.start()
    scene.advance(60.0)
    assert "--x" not in scene.keeper.kept["good:web"]
    scene.declare(argv=("web", "--y"))
    assert scene.good() == (1, ("web", "--x"))
    assert "--x" in scene.keeper.kept["good:web"]
    scene.declare(argv=("web", "--z"))
    assert scene.good() == (1, ("web", "--x"))
    later = GoodRuns(scene.environment())
    later.restore(scene.keeper.kept)
    found = later.of(scene.runner)
    assert found is not None
    assert found[1].argv == ("web", "--x")
    scene.declare(argv=("web", "--x"))
    assert "--x" not in scene.keeper.kept["good:web"]


def test_a_removed_service_is_forgotten(scene: Scene) -> None:
    """Nothing of it stays in the keeper's memory."""
    scene.start()
    scene.advance(60.0)
    scene.good_runs.removed(scene.runner)
    scene.settle()
    assert "good:web" not in scene.keeper.kept


def test_a_new_run_is_compared_with_the_last_good_one(scene: Scene) -> None:
    """The fields that differ are on record with the run; nothing is where nothing was good."""
    scene.start()
    assert scene.recorder.compared == {}
    scene.advance(60.0)
    scene.declare(argv=("web", "--y"))
    scene.runner.restart()
    scene.settle()
    scene.advance(2.0)
    (changes,) = scene.recorder.compared.values()
    assert changes == ["command"]
