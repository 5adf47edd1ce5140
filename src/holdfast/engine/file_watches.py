"""Restarts services, or signals them, when their files change.

A burst of changes counts as one: it is acted on after `debounce` of silence, or after a few seconds
at the latest. A service stopped by hand stays stopped. A failed one is started again, because
people fix a service by fixing its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.engine.runner.environment import PendingCall, RunnerEnvironment
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.quantities import parse_signal
from holdfast.vocabulary.specs.services import WatchSpec
from holdfast.vocabulary.states import Desired, State

if TYPE_CHECKING:
    from holdfast.adapters.watch.file_watch import FileWatch

LONGEST_SECONDS = 5.0
"""The longest delay for files that never stop changing, unless `debounce` is longer."""
SHOWN_PATHS = 5
MOST_PATHS = 1000
"""More are not counted."""
LEFT_ALONE = (State.PENDING, State.STOPPING, State.STOPPED, State.PAUSED)
"""It is about to be started anyway, or stopped or paused on purpose."""
NewWatch = Callable[[Callable[[str, list[str]], None], Callable[[str, str], None]], "FileWatch"]


class Burst:
    """Changes that count as one."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.paths: dict[str, None] = {}
        self.timer: PendingCall | None = None


class FileWatches(RunObserver):
    """The watched files of each service; the watcher itself is created for the first service."""

    def __init__(
        self,
        environment: RunnerEnvironment,
        *,
        runners: Callable[[], Mapping[str, Runner]],
        new_watch: NewWatch,
    ) -> None:
        self._environment = environment
        self._runners = runners
        self._new_watch = new_watch
        self._watch: FileWatch | None = None
        self._bursts: dict[str, Burst] = {}
        self._failures: dict[str, str] = {}
        self.is_held: Callable[[], bool] = lambda: False
        """Whether a lockdown is in force: then no change of a file restarts anything."""

    def declared(self, runner: Runner) -> None:
        self._set(runner.name, runner.declaration.spec.watch)

    def removed(self, runner: Runner) -> None:
        self._set(runner.name, None)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def on_changes(self, name: str, paths: list[str]) -> None:
        """Take changed files of a service; called again and again while they change."""
        runner = self._runners().get(name)
        spec: WatchSpec | None = runner.declaration.spec.watch if runner is not None else None
        if spec is None:
            return
        now = self._environment.clock.monotonic()
        burst = self._bursts.setdefault(name, Burst(now))
        for path in paths:
            if len(burst.paths) < MOST_PATHS:
                burst.paths[path] = None
        if burst.timer is not None:
            burst.timer.cancel()
        latest = burst.began + max(LONGEST_SECONDS, spec.debounce)
        seconds = max(0.0, min(spec.debounce, latest - now))
        burst.timer = self._environment.call_later(seconds, lambda: self._over(name))

    def on_failed(self, name: str, why: str) -> None:
        if self._failures.get(name) != why:
            self._failures[name] = why
            self._environment.recorder.event(EventKind.WATCH_FAILED, name, reason=why)

    def _set(self, name: str, spec: WatchSpec | None) -> None:
        if spec is None:
            self._failures.pop(name, None)
            if (burst := self._bursts.pop(name, None)) is not None and burst.timer is not None:
                burst.timer.cancel()
        if self._watch is None:
            if spec is None:
                return
            self._watch = self._new_watch(self.on_changes, self.on_failed)
        self._watch.set(name, spec)

    def _over(self, name: str) -> None:
        """Act on a burst that is over."""
        burst = self._bursts.pop(name)
        runner = self._runners().get(name)
        if runner is None or runner.declaration.spec.watch is None or not _is_meant(runner):
            return
        action = runner.declaration.spec.watch.action
        run = runner.run if runner.run is not None and runner.run.is_up else None
        if self.is_held():
            action = "none: a lockdown is in force"
        elif run is None:
            action = "restart"
        paths = sorted(burst.paths)
        facts = {"paths": paths[:SHOWN_PATHS], "count": len(paths), "action": action}
        self._environment.recorder.event(EventKind.WATCH_CHANGED, name, runner.last_run_id, **facts)
        if self.is_held():
            return
        if run is None or action == "restart":
            runner.restart(wait=False, overrides=runner.overrides, cause="files")
        else:
            runner.signal(parse_signal(action))


def _is_meant(runner: Runner) -> bool:
    if runner.desired is not Desired.RUNNING or runner.is_retiring or runner.state in LEFT_ALONE:
        return False
    # Between its times a scheduled service has nothing to do, whatever its files say.
    return runner.declaration.spec.schedule is None or runner.run is not None
