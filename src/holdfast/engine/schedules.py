"""Starts services at their times.

A scheduled service is wanted like any other, but rests between its times; `stop` ends that, `start`
and `up` begin it again. Sleeps at most a minute, because a clock may be set and a machine
suspended. A time is noted in the keeper's memory before its run begins, so that no time counts
twice, whatever is killed; and in the history, to catch up after everything died.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.adapters import keeper_memory
from holdfast.engine.runner.environment import PendingCall, RunnerEnvironment
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.specs.services import ScheduleSpec, ServiceSpec
from holdfast.vocabulary.states import Desired, State

if TYPE_CHECKING:
    from datetime import tzinfo

SHORTEST_SECONDS = 0.01
BUSY = {
    State.STARTING: "it is starting",
    State.RUNNING: "it still runs",
    State.PAUSED: "it is paused",
    State.STOPPING: "it is being stopped",
    State.BACKOFF: "it failed and is about to be started again",
}


class ScheduleEntry:
    """One schedule, of a service or of instances that share it."""

    def __init__(self, spec: ScheduleSpec, zone: tzinfo, handled: float) -> None:
        self.spec = spec
        self.zone = zone
        self.handled = handled
        self.next: float | None = None
        self.timer: PendingCall | None = None


class Schedules(RunObserver):
    """Every schedule, by the name of its service or of the instances that share it."""

    def __init__(
        self,
        environment: RunnerEnvironment,
        *,
        kept: Callable[[], Mapping[str, str]],
        runners: Callable[[], Mapping[str, Runner]],
        start: Callable[[Runner], object],
    ) -> None:
        self._environment = environment
        self._kept = kept
        self._runners = runners
        self._start = start
        self._entries: dict[str, ScheduleEntry] = {}
        self._key_of: dict[str, str] = {}

    def arm(self, runner: Runner) -> None:
        """Want a service at its times from now on."""
        runner.await_schedule()
        self._wake(self._key_of[runner.name])

    def arm_all(self, names: list[str]) -> dict[str, Outcome]:
        """Want those of these services that have a schedule; leave the others alone."""
        known = self._runners()
        armed = [known[name] for name in names if name in self._key_of]
        for runner in armed:
            self.arm(runner)
        return {runner.name: runner.outcome("scheduled") for runner in armed}

    # Changes of services

    def declared(self, runner: Runner) -> None:
        name, spec = runner.name, runner.declaration.spec
        key = _key(spec)
        if (old := self._key_of.get(name)) is not None and old != key:
            self._leave(name)
        schedule = spec.schedule
        if key is None or schedule is None:
            runner.set_next_scheduled(None)
            return
        self._key_of[name] = key
        entry = self._entries.get(key)
        if entry is None or entry.spec != schedule:
            handled = (
                self._handled(key, runner) if entry is None else self._environment.clock.time()
            )
            if entry is not None and entry.timer is not None:
                entry.timer.cancel()
            from holdfast.adapters import time_zones

            zone = time_zones.zone(schedule.timezone)
            entry = self._entries[key] = ScheduleEntry(schedule, zone, handled)
            if runner.desired is Desired.RUNNING:
                self._check(key)
        runner.set_next_scheduled(entry.next)

    def changed(self, runner: Runner) -> None:
        key = self._key_of.get(runner.name)
        if key is None or runner.desired is not Desired.RUNNING:
            return
        entry = self._entries[key]
        if entry.timer is None:
            # It was started by hand: times that passed while it was not wanted were not missed.
            entry.handled = self._environment.clock.time()
            self._wake(key)

    def removed(self, runner: Runner) -> None:
        if runner.name in self._key_of:
            self._leave(runner.name)

    # Time

    def _wake(self, key: str) -> None:
        if self._entries[key].timer is None:
            self._check(key)

    def _check(self, key: str) -> None:
        from holdfast.rules import schedule

        entry, now = self._entries[key], self._environment.clock.time()
        seen = schedule.look(entry.spec, entry.zone, entry.handled, now)
        members = self._members(key)
        entry.next = seen.next
        seconds = max(SHORTEST_SECONDS, schedule.sleep_seconds(seen.next, now))
        entry.timer = self._environment.call_later(seconds, lambda: self._check(key))
        self._mark_handled(key, entry, seen.handled, members)
        wanted = [
            runner
            for runner in members
            if runner.desired is Desired.RUNNING and not runner.is_retiring
        ]
        if not wanted:
            return
        if seen.missed is not None:
            self._skip(wanted[0], seen.missed, "nobody was there at the time")
        if seen.due is None:
            return
        if entry.spec.overlap == "allow":
            self._start_free(wanted, seen.due)
        else:
            for runner in wanted:
                self._start_one(runner, seen.due)

    def _start_free(self, members: list[Runner], due: float) -> None:
        free = next((runner for runner in members if _busy(runner) is None), None)
        if free is None:
            self._skip(members[0], due, f"all {len(members)} instances are busy")
        else:
            self._start_one(free, due)

    def _start_one(self, runner: Runner, due: float) -> None:
        why = _busy(runner)
        if why is not None:
            self._skip(runner, due, why)
            return
        self._environment.recorder.event(EventKind.SCHEDULE_STARTED, runner.name, due=due)
        self._start(runner)

    def _skip(self, runner: Runner, due: float, reason: str) -> None:
        self._environment.recorder.event(
            EventKind.SCHEDULE_SKIPPED, runner.name, due=due, reason=reason
        )

    # Settled times

    def _handled(self, key: str, runner: Runner) -> float:
        """Return until when everything is settled; a new schedule begins now."""
        now = self._environment.clock.time()
        known = [runner.scheduled_until] if runner.scheduled_until is not None else []
        if (text := self._kept().get(keeper_memory.schedule(key))) is not None:
            known.append(float(text))
        return max(known, default=now)

    def _mark_handled(
        self, key: str, entry: ScheduleEntry, handled: float, members: list[Runner]
    ) -> None:
        entry.handled = handled
        self._environment.keeper.keep(keeper_memory.schedule(key), repr(handled))
        for runner in members:
            runner.set_next_scheduled(entry.next)
            runner.settle_schedule(handled)

    def _members(self, key: str) -> list[Runner]:
        known = self._runners()
        return [known[name] for name, its in self._key_of.items() if its == key and name in known]

    def _leave(self, name: str) -> None:
        key = self._key_of.pop(name)
        if key in self._key_of.values():
            return
        entry = self._entries.pop(key)
        if entry.timer is not None:
            entry.timer.cancel()
        self._environment.keeper.keep(keeper_memory.schedule(key), None)


def _key(spec: ServiceSpec) -> str | None:
    if spec.schedule is None:
        return None
    return spec.template if spec.template and spec.schedule.overlap == "allow" else spec.name


def _busy(runner: Runner) -> str | None:
    if runner.state in BUSY:
        return BUSY[runner.state]
    if runner.waiting_for:
        return f"waiting for {', '.join(runner.waiting_for)}"
    return "processes of its last run are left" if runner.run is not None else None
