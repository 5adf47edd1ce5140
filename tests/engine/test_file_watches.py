"""What follows from changed files, on the stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.engine.file_watches import FileWatches
from holdfast.engine.runner.declaration import Overrides
from holdfast.vocabulary.specs.services import ScheduleSpec, WatchSpec
from holdfast.vocabulary.states import State
from tests.engine.stage import Stage

WATCH = WatchSpec(paths=("/p/**",), debounce=0.3)


class NoFiles:
    """Remembers what is watched."""

    def __init__(self, on_changes: Any, on_failed: Any) -> None:
        self.watched: dict[str, WatchSpec | None] = {}

    def set(self, service: str, spec: WatchSpec | None) -> None:
        self.watched[service] = spec

    def close(self) -> None:
        pass


class Watching:
    def __init__(self, **fields: Any) -> None:
        self.stage = Stage(**{"watch": WATCH, **fields})
        self.made: list[NoFiles] = []
        self.watches = FileWatches(
            self.stage.environment(),
            runners=lambda: {"web": self.stage.runner},
            new_watch=self.new_watch,
        )
        self.watches.declared(self.stage.runner)

    def new_watch(self, on_changes: Any, on_failed: Any) -> Any:
        self.made.append(NoFiles(on_changes, on_failed))
        return self.made[-1]

    def start(self) -> None:
        self.stage.runner.start(wait=False)
        self.stage.settle()
        self.stage.advance(2)

    def change(self, *paths: str) -> None:
        self.watches.on_changes("web", list(paths or ("/p/a",)))

    def settle(self) -> None:
        self.stage.advance(1)
        self.stage.advance(1)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [data for kind, data in self.stage.recorder.events if kind == "watch:changed"]


@pytest.fixture
def watching() -> Iterator[Watching]:
    made = Watching()
    yield made
    made.stage.close()


def test_nothing_is_made_before_somebody_watches() -> None:
    """A Holdfast whose services watch nothing has neither thread nor descriptor for it."""
    made = Watching(watch=None)
    assert made.made == []
    made.watches.removed(made.stage.runner)
    assert made.made == []
    made.stage.close()


def test_a_burst_counts_once(watching: Watching) -> None:
    """Changes that follow each other quickly restart once, when it is quiet."""
    watching.start()
    for number in range(20):
        watching.change(f"/p/{number}")
        watching.stage.advance(0.1)
        assert watching.told == []
    watching.settle()
    (told,) = watching.told
    assert told["count"] == 20
    assert len(told["paths"]) == 5
    assert len(watching.stage.keeper.spawned) == 2


def test_a_file_counts_once_however_often_it_changes(watching: Watching) -> None:
    """Of a burst, different files are counted, up to a thousand."""
    watching.start()
    for number in range(1200):
        watching.change(f"/p/{max(0, number - 1)}", f"/p/{number}")
    watching.settle()
    assert watching.told[0]["count"] == 1000


def test_files_that_never_rest(watching: Watching) -> None:
    """A file that is written without end restarts every few seconds, not never."""
    watching.start()
    for _ in range(60):
        watching.change()
        watching.stage.advance(0.1)
    assert len(watching.told) == 1


def test_stopped_by_hand(watching: Watching) -> None:
    """Neither what was never started nor what was stopped is started by a change."""
    watching.change()
    watching.settle()
    watching.start()
    watching.stage.runner.stop()
    watching.settle()
    watching.change()
    watching.settle()
    assert len(watching.stage.keeper.spawned) == 1
    assert watching.told == []


def test_paused_stays_paused(watching: Watching) -> None:
    """Who is paused is left alone."""
    watching.start()
    watching.stage.runner.pause()
    watching.stage.settle()
    watching.change()
    watching.settle()
    assert watching.stage.runner.state is State.PAUSED
    assert watching.told == []


@pytest.mark.parametrize("action", ["restart", "SIGHUP"])
def test_failed_comes_back(action: str) -> None:
    """What gave up is started by a change, its failures forgotten, whatever the action."""
    made = Watching(
        watch=WatchSpec(paths=("/p",), action=action), start_retries=0, start_seconds=1.0
    )
    stage = made.stage
    stage.runner.start(wait=False)
    stage.settle()
    stage.keeper.end_main(stage.keeper.live(), 1, None)
    stage.settle()
    assert stage.runner.status().status == "failed"
    made.change()
    made.settle()
    assert stage.runner.status().status == "running"
    assert stage.runner.counters.start_failures == 0
    stage.close()


def test_an_ended_run_is_run_again(watching: Watching) -> None:
    """A task that ended well runs again when its files change."""
    watching.start()
    stage = watching.stage
    stage.keeper.end_main(stage.keeper.live(), 0, None)
    stage.settle()
    watching.change()
    watching.settle()
    assert len(stage.keeper.spawned) == 2


def test_scheduled_waits_for_its_time() -> None:
    """Between its times a scheduled service is not started by a change."""
    made = Watching(schedule=ScheduleSpec(every=600.0))
    made.start()
    stage = made.stage
    stage.keeper.end_main(stage.keeper.live(), 0, None)
    stage.settle()
    made.change()
    made.settle()
    assert len(stage.keeper.spawned) == 1
    stage.close()


def test_overrides_stay(watching: Watching) -> None:
    """A change keeps the arguments that a restart by hand gave."""
    watching.start()
    watching.stage.runner.restart(wait=False, overrides=Overrides(args=("--y",)))
    watching.settle()
    watching.change()
    watching.settle()
    assert watching.stage.keeper.spawned[-1]["argv"] == ["web", "--y"]


def test_a_failure_is_told_once(watching: Watching) -> None:
    """That files cannot be watched is one event, not one for every walk."""
    for _ in range(3):
        watching.watches.on_failed("web", "the limit is reached")
    kinds = [kind for kind in watching.stage.recorder.kinds() if kind == "watch:failed"]
    assert len(kinds) == 1


def test_in_a_lockdown_files_restart_nothing(watching: Watching) -> None:
    """Somebody changed them: it is told, and not made up for."""
    watching.start()
    before = watching.stage.runner.run
    watching.watches.is_held = lambda: True
    watching.change()
    watching.settle()
    assert watching.stage.runner.run is before
    assert watching.told[-1]["action"] == "none: a lockdown is in force"
    watching.watches.is_held = lambda: False
    watching.settle()
    assert watching.stage.runner.run is before
