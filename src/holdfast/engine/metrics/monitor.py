"""The use of services: sampled every few seconds, compared with their limits, kept as history.

Lives on the loop; `sampler` reads the numbers in its own thread. Ends runs only through the runner.
Without a live run it does nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.metrics import SampledRun, Totals, Usage, new_sampler
from holdfast.adapters.own_log import logger
from holdfast.engine.metrics.counters import SupervisorCounters
from holdfast.engine.metrics.sampler import Errand, MetricsSampler, Sample
from holdfast.engine.runner.environment import Clock, HistoryRecorder, PendingCall
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.engine.workflows.recovery import recover
from holdfast.rules import limits
from holdfast.rules.limits import Breach, LimitState, ResourceUse
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.settings import Settings

FIRST_LOOK_SECONDS = 1.0
FRESH_SECONDS = 1.0
"""A caller that asks for numbers gets none older than this."""
EARLY_LOOKS = 4
MOST_CUSTOM = 100
_log = logger("resource_monitor")


class Gauge:
    """The numbers of one service."""

    __slots__ = (
        "custom",
        "early_looks",
        "finished",
        "name",
        "run_id",
        "runner",
        "standing",
        "timer",
        "usage",
    )  # fmt: skip

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.name: str = runner.name
        self.run_id: str | None = None
        self.usage: Usage | None = None
        self.early_looks = 0
        """Early samples that are left until it has numbers."""
        self.finished = Totals()
        """The use of its ended runs."""
        self.custom: dict[str, float] = {}
        self.standing = LimitState()
        self.timer: PendingCall | None = None

    @property
    def totals(self) -> Totals:
        """The totals of all its runs, this one included; they only grow."""
        return self.finished.plus(self.usage.totals) if self.usage is not None else self.finished


class ResourceMonitor(RunObserver):
    """The numbers of all services."""

    def __init__(
        self,
        sampler: MetricsSampler,
        loop: asyncio.AbstractEventLoop,
        recorder: HistoryRecorder,
        clock: Clock,
        counters: SupervisorCounters,
    ) -> None:
        self.gauges: dict[str, Gauge] = {}
        self.looked_at: float | None = None
        """Monotonic time."""
        self.on_sample: Callable[[Sample], None] = lambda _: None
        self.counters = counters
        self._sampler = sampler
        self._loop = loop
        self._recorder = recorder
        self._clock = clock
        self._interval = Settings().monitoring_interval
        self._by_run: dict[str, Gauge] = {}
        self._limited: dict[str, Gauge] = {}
        """Services with limits, by name."""
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Future[None] | None = None
        self._errands: list[Errand] = []
        self._is_full_due = False
        self._full_at: float | None = None

    def use(self, settings: Settings) -> None:
        """Apply these settings."""
        if settings.monitoring_interval != self._interval:
            self._interval = settings.monitoring_interval
            self._schedule(min(self._interval, FIRST_LOOK_SECONDS))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._send()
        self._sampler.close()

    # Changes of services

    def run_began(self, runner: Runner) -> None:
        run, gauge = runner.run, self._gauge(runner)
        if run is None or run.pid is None or gauge.run_id == run.run_id:
            return
        self._leave(gauge)
        if not run.is_found:
            self.counters.spawned(self._clock.monotonic() - run.started_mono)
        gauge.run_id, gauge.usage, gauge.standing = run.run_id, None, LimitState()
        gauge.custom, gauge.early_looks = {}, EARLY_LOOKS
        self._by_run[run.run_id] = gauge
        began, is_limited = run.started_mono, limits.has_limits(runner.declaration.spec)
        watched = SampledRun(run.run_id, run.pid, run.start_time or "", began, Totals(), is_limited)
        self._do(self._sampler.begin, runner.name, watched)
        self._await_timeout(gauge)
        self._schedule(FIRST_LOOK_SECONDS)

    def run_over(self, runner: Runner) -> None:
        gauge, run, cpu = self._gauge(runner), runner.run, runner.last_exit.cpu
        self._cancel(gauge)
        if run is not None and not run.main_gone:
            return
        if gauge.run_id is None and run is not None and cpu is not None:
            self._do(self._sampler.end_unseen, runner.name, run.run_id, cpu)
        self._leave(gauge, cpu)

    def declared(self, runner: Runner) -> None:
        gauge = self._gauge(runner)
        self._limited.pop(runner.name, None)
        if limits.has_limits(runner.declaration.spec):
            self._limited[runner.name] = gauge
        if gauge.run_id is not None:
            self._await_timeout(gauge)

    def removed(self, runner: Runner) -> None:
        gauge = self.gauges.pop(runner.name, None)
        self._limited.pop(runner.name, None)
        if gauge is not None:
            self._cancel(gauge)
            self._leave(gauge)
        self._do(self._sampler.remove, runner.name)

    def take_custom(self, service: str, name: str, value: float) -> None:
        """Take a metric that a service reports itself."""
        gauge = self.gauges.get(service)
        if gauge is not None and (name in gauge.custom or len(gauge.custom) < MOST_CUSTOM):
            gauge.custom[name] = value

    # Sampling

    async def refresh(self, seconds: float = FRESH_SECONDS) -> None:
        """Take a full sample, unless the last one is younger than this."""
        now, last = self._clock.monotonic(), self._full_at
        is_stale = last is None or now - last >= seconds
        if self._by_run and (
            is_stale or any(gauge.usage is None for gauge in self._by_run.values())
        ):
            await asyncio.shield(self._looking(is_full=True))

    async def ask(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Call a function in the sampler's thread."""
        self._send()
        return await asyncio.wrap_future(self._sampler.submit(call, *arguments))

    @property
    def sampler(self) -> MetricsSampler:
        return self._sampler

    def _schedule(self, seconds: float) -> None:
        due = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        self._timer = None
        self.counters.lagged(self._loop.time() - due)
        if self._by_run or self._errands:
            self._looking()

    def _looking(self, *, is_full: bool = False) -> asyncio.Future[None]:
        """Return the sample that is under way, or begin one."""
        look, self._is_full_due = self._look, self._is_full_due or is_full
        if look is None or look.done():
            look = self._look = self._loop.create_task(self._look_now())
        elif self._is_full_due:
            look = self._look = self._loop.create_task(self._look_after(look))
        return look

    async def _look_after(self, look: asyncio.Future[None]) -> None:
        await look
        await self._look_now()

    async def _look_now(self) -> None:
        is_full, self._is_full_due = self._is_full_due, False
        try:
            self._send()
            call = partial(self._sampler.look, is_full=is_full)
            seen = await asyncio.wrap_future(self._sampler.submit(call))
            self._full_at = seen.at if is_full else self._full_at
        except RuntimeError:
            return  # closed meanwhile
        except Exception:  # noqa: BLE001 - a fault here must not end the looking
            _log.exception("looking at what services use failed")
        else:
            self._take(seen)
        if self._by_run or self._errands:
            # A run that has just begun may not have moved to its cgroup yet.
            soon = [
                gauge
                for gauge in self._by_run.values()
                if gauge.usage is None and gauge.early_looks > 0
            ]
            for gauge in soon:
                gauge.early_looks -= 1
            self._schedule(min(FIRST_LOOK_SECONDS, self._interval) if soon else self._interval)

    def _take(self, seen: Sample) -> None:
        self.looked_at = seen.at
        for service, finished in seen.finished.items():
            if (gauge := self.gauges.get(service)) is not None:
                gauge.finished = finished
        for run_id, usage in seen.usages.items():
            gauge = self._by_run.get(run_id)
            if gauge is None:
                continue
            gauge.usage = usage
            if gauge.runner.run is not None and gauge.runner.run.run_id == run_id:
                gauge.runner.run.usage = usage
        for gauge in list(self._limited.values()):
            if gauge.usage is not None and gauge.run_id is not None:
                self._judge(gauge, gauge.usage)
        self.on_sample(seen)

    # Limits

    def _judge(self, gauge: Gauge, usage: Usage) -> None:
        runner = gauge.runner
        enforced = runner.run.enforced if runner.run is not None else frozenset()
        use = ResourceUse(usage.memory, usage.cpu_percent, usage.threads)
        verdict = limits.judge(runner.declaration.spec, gauge.standing, use, enforced)
        gauge.standing = verdict.standing
        for limit in verdict.cleared:
            self._recorder.event(EventKind.LIMIT_CLEARED, gauge.name, gauge.run_id, limit=limit)
        for breach in verdict.breaches:
            self._on_breach(gauge, breach)

    def _on_breach(self, gauge: Gauge, breach: Breach) -> None:
        limit, reason, action = breach
        run = gauge.runner.run
        pid = run.pid if run is not None else None
        facts = {"limit": limit, "reason": reason, "action": action, "pid": pid}
        self._recorder.event(EventKind.LIMIT_REACHED, gauge.name, gauge.run_id, **facts)
        runner = gauge.runner
        match action:
            case "warn":
                pass  # the event was enough
            case "stop":
                runner.stop_for("memory", reason)
            case "restart":
                recover(runner, "memory", reason)
            case _ if limit == "memory" and "memory" in runner.declaration.spec.recovery:
                recover(runner, "memory", reason)
            case _:
                runner.end_as_failure(limit, reason, 0.0)

    def _await_timeout(self, gauge: Gauge) -> None:
        self._cancel(gauge)
        run, timeout = gauge.runner.run, gauge.runner.declaration.spec.timeout
        if timeout is None or run is None or run.main_gone:
            return
        left = timeout - (self._clock.monotonic() - run.started_mono)

        def expired() -> None:
            gauge.timer = None
            if gauge.runner.run is run:
                recover(gauge.runner, "timeout", limits.timeout_reason(timeout))

        gauge.timer = self._loop.call_later(max(0.0, left), expired)

    # Gauges and errands

    def _gauge(self, runner: Runner) -> Gauge:
        gauge = self.gauges.get(runner.name)
        if gauge is None:
            gauge = self.gauges[runner.name] = Gauge(runner)
        gauge.runner = runner
        return gauge

    def _leave(self, gauge: Gauge, cpu: tuple[float, float] | None = None) -> None:
        """Note that its run is over."""
        run_id, gauge.run_id = gauge.run_id, None
        if run_id is None:
            return
        self._by_run.pop(run_id, None)
        used = gauge.usage.totals if gauge.usage is not None else Totals()
        if cpu is not None:
            used = used.at_least(Totals(*cpu))
        gauge.finished, gauge.usage = gauge.finished.plus(used), None
        self._do(self._sampler.end, gauge.name, run_id, cpu)

    def _cancel(self, gauge: Gauge) -> None:
        if gauge.timer is not None:
            gauge.timer.cancel()
            gauge.timer = None

    def _do(self, call: Callable[..., None], *arguments: object) -> None:
        """Call a function in the thread before the next sample: one waking for many changes."""
        self._errands.append((call, arguments))
        self._schedule(FIRST_LOOK_SECONDS)

    def _send(self) -> None:
        errands, self._errands = self._errands, []
        if errands:
            self._sampler.submit(self._sampler.run, errands)


def monitor_for(
    link: KeeperLink,
    recorder: HistoryRecorder,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    state: str,
) -> ResourceMonitor:
    """Return the monitor of this supervisor, with its sampler and its files."""

    sampler = MetricsSampler(lambda: new_sampler(link.cgroup_root), os.path.join(state, "metrics"))
    return ResourceMonitor(sampler, loop, recorder, clock, SupervisorCounters())
