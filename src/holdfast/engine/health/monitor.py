"""Readiness and health of every live run: begins probes with a run and ends them with it.

Told by runners what happens to them; tells them what the probes say. Passes on what services
say about themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.adapters.probes import Finding
from holdfast.adapters.probes.notify import Message
from holdfast.engine.health.probe_watch import Prober
from holdfast.engine.health.run_health import RunHealth, probes_of
from holdfast.engine.runner.environment import Environment
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.rules.health import Condition
from holdfast.vocabulary.specs.probes import ProbeSpec
from holdfast.vocabulary.states import ALIVE, State

MOST_METRICS = 100
"""Metrics of one service that are passed on, by their names."""

OnMetric = Callable[[str, str, float], None]


class HealthMonitor(RunObserver):
    """The probes of every live run."""

    def __init__(self, environment: Environment, prober: Prober) -> None:
        self._environment = environment
        self._prober = prober
        self._live: dict[str, RunHealth] = {}
        self._trials: dict[str, RunHealth] = {}
        self._metrics: dict[str, set[str]] = {}
        self.on_metric: OnMetric = _nobody
        """Called with service, name and value of what a service measured itself."""

    # What happens to runs

    def run_began(self, runner: Runner) -> None:
        self._end(runner.name)
        spec = runner.launched or runner.declaration.spec
        if probes_of(runner) or spec.notify is not None:
            self._live[runner.name] = live = RunHealth(runner, self._environment, self._prober)
            if runner.state is State.PAUSED:
                live.pause()
            live.begin()
        else:
            runner.judge(Condition())

    def run_over(self, runner: Runner) -> None:
        self._end(runner.name)

    def candidate_began(self, overlap: Any) -> None:
        """Ask the same of a run on trial; what is known of it goes on with it."""
        if overlap.launched.probes or overlap.launched.notify is not None:
            self._trials[overlap.name] = live = RunHealth(overlap, self._environment, self._prober)
            live.begin()

    def candidate_over(self, overlap: Any) -> None:
        if (live := self._trials.pop(overlap.name, None)) is not None:
            live.end()

    def changed(self, runner: Runner) -> None:
        live = self._live.get(runner.name)
        if live is not None:
            if runner.state is State.PAUSED:
                live.pause()
            else:
                live.resume()

    def declared(self, runner: Runner) -> None:
        """Other probes apply to the run that lives."""
        live = self._live.get(runner.name)
        probes = probes_of(runner)
        is_alive = runner.run is not None and runner.run.is_up
        is_same = (live.probes if live is not None else ()) == probes
        if is_alive and not is_same and runner.state in ALIVE:
            self.run_began(runner)

    def removed(self, runner: Runner) -> None:
        self._end(runner.name)
        self._metrics.pop(runner.name, None)

    def _end(self, name: str) -> None:
        live = self._live.pop(name, None)
        if live is not None:
            live.end()

    # What services say

    def hear(self, runner: Runner, message: Message) -> None:
        trial = self._trials.get(runner.name)
        is_trial = trial is not None and trial.runner is runner
        live = trial if is_trial else self._live.get(runner.name)
        if live is not None:
            live.hear(message)
        known = self._metrics.setdefault(runner.name, set()) if message.metrics else set()
        for name, value in message.metrics:
            if name in known or len(known) < MOST_METRICS:
                known.add(name)
                self.on_metric(runner.name, name, value)

    # Asked out of turn

    async def check(self, runner: Runner) -> list[tuple[ProbeSpec, Finding]]:
        """Ask every probe of the live run now; nothing of it counts."""
        live = self._live.get(runner.name)
        if live is None:
            return []
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Finding]] = []
        for watch in live.watches:
            future: asyncio.Future[Finding] = loop.create_future()
            futures.append(future)
            live.check(watch, lambda finding, it=future: _settle(it, finding))  # type: ignore[misc]
        found = [await future for future in futures]
        return list(zip([watch.probe for watch in live.watches], found, strict=True))


def _settle(future: asyncio.Future[Finding], finding: Finding) -> None:
    if not future.done():
        future.set_result(finding)


def _nobody(*_: Any) -> None:
    """Nobody collects metrics."""
