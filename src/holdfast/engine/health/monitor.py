"""Health of live runs: when each probe is asked, and what follows from its answers.

`HealthMonitor` begins the probes of a run with the run and ends them with it. `RunHealth` keeps
the schedule and the tally of each probe of one run, and reports changes to the runner. How a
probe asks is in `probes`; what follows from the answers is decided by `rules.health`. Nothing
here changes the state of a service.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.adapters.own_log import logger
from holdfast.adapters.probes import Finding
from holdfast.adapters.probes.notify import Message
from holdfast.engine.health.probes import ProbeCheck, Prober, Then
from holdfast.engine.runner.environment import PendingCall, RunnerEnvironment
from holdfast.engine.runner.observers import MonitoredRun, RunObserver
from holdfast.engine.runner.run_slot import RunSlot
from holdfast.engine.runner.runner import Runner
from holdfast.engine.workflows.recovery import recover
from holdfast.rules import health
from holdfast.rules.health import Condition, ProbePlan, ProbeTally
from holdfast.rules.ports import fill_probe
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.probes import ProbeSpec
from holdfast.vocabulary.states import ALIVE, State

MOST_METRICS = 100
"""Largest number of different metric names that one service may report."""
STATUS_SECONDS = 0.5
"""The status text of a service is passed on at most this often."""
_log = logger("health")

OnMetric = Callable[[str, str, float], None]


class HealthMonitor(RunObserver):
    """Runs the probes of every live run."""

    def __init__(self, environment: RunnerEnvironment, prober: Prober) -> None:
        self._environment = environment
        self._prober = prober
        self._live: dict[str, RunHealth] = {}
        self._candidates: dict[str, RunHealth] = {}
        self._metrics: dict[str, set[str]] = {}
        self.on_metric: OnMetric = _ignore_metric
        """Called with service, name and value of a metric that a service reports itself."""

    # Events of runs

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

    def candidate_began(self, candidate: RunSlot) -> None:
        """Ask the probes of a candidate run, too."""
        spec = candidate.declaration.spec
        if spec.probes or spec.notify is not None:
            self._candidates[candidate.name] = live = RunHealth(
                candidate, self._environment, self._prober
            )
            live.begin()

    def candidate_over(self, candidate: RunSlot) -> None:
        if (live := self._candidates.pop(candidate.name, None)) is not None:
            live.end()

    def changed(self, runner: Runner) -> None:
        live = self._live.get(runner.name)
        if live is not None:
            if runner.state is State.PAUSED:
                live.pause()
            else:
                live.resume()

    def declared(self, runner: Runner) -> None:
        """Begin anew if the new declaration has other probes."""
        live = self._live.get(runner.name)
        probes = probes_of(runner)
        is_alive = runner.run is not None and runner.run.is_up
        is_same = (live.specs if live is not None else ()) == probes
        if is_alive and not is_same and runner.state in ALIVE:
            self.run_began(runner)

    def removed(self, runner: Runner) -> None:
        self._end(runner.name)
        self._metrics.pop(runner.name, None)

    def _end(self, name: str) -> None:
        live = self._live.pop(name, None)
        if live is not None:
            live.end()

    # Messages of services

    def hear(self, runner: MonitoredRun, message: Message) -> None:
        """Take a message that a service sent over its notify socket."""
        candidate = self._candidates.get(runner.name)
        is_candidate = candidate is not None and candidate.runner is runner
        live = candidate if is_candidate else self._live.get(runner.name)
        if live is not None:
            live.hear(message)
        known = self._metrics.setdefault(runner.name, set()) if message.metrics else set()
        for name, value in message.metrics:
            if name in known or len(known) < MOST_METRICS:
                known.add(name)
                self.on_metric(runner.name, name, value)

    # Asked out of turn

    async def check(self, runner: Runner) -> list[tuple[ProbeSpec, Finding]]:
        """Ask every probe of the live run now. The answers do not count for its health."""
        live = self._live.get(runner.name)
        if live is None:
            return []
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Finding]] = []
        for probe in live.probes:
            future: asyncio.Future[Finding] = loop.create_future()
            futures.append(future)
            live.check(probe, partial(_set_result, future))
        findings = [await future for future in futures]
        return list(zip([probe.spec for probe in live.probes], findings, strict=True))


def _set_result(future: asyncio.Future[Finding], finding: Finding) -> None:
    if not future.done():
        future.set_result(finding)


def _ignore_metric(service: str, name: str, value: float) -> None:
    """Used until somebody collects metrics."""


class RunProbe:
    """One probe of one run: its tally, and when it is asked next."""

    def __init__(self, spec: ProbeSpec, tally: ProbeTally) -> None:
        self.spec = spec
        self.tally = tally
        self.has_passed = tally.verdict is True
        self.plan = ProbePlan(0.0, 0.0)
        self.timer: PendingCall | None = None
        self.check: ProbeCheck
        self.is_begun = self.is_asking = self.is_due = False
        self.listeners: list[Then] = []
        self.reported_at = float("-inf")
        self.unreported = 0
        """Failed checks since the last one that was recorded as an event."""

    @property
    def passes_once(self) -> bool:
        """Return whether there is nothing more to ask once it has passed."""
        return self.spec.kind in health.TOLD_BY_THE_SERVICE and "liveness" not in self.spec.roles

    @property
    def is_watchdog(self) -> bool:
        return self.spec.kind == "notify" and "liveness" in self.spec.roles

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def drop(self) -> None:
        """Cancel the timer and the question under way."""
        self.cancel()
        if self.is_asking:
            self.is_asking = self.is_due = False
            self.check.drop()
            self.answer_listeners(Finding(False, "the run ended or was paused meanwhile"))

    def answer_listeners(self, finding: Finding) -> None:
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener(finding)


class RunHealth:
    """The probes of one run, and what they say of it."""

    def __init__(
        self, runner: MonitoredRun, environment: RunnerEnvironment, prober: Prober
    ) -> None:
        assert runner.run is not None
        self.runner = runner
        self.run = runner.run
        self.specs = probes_of(runner)
        self._environment = environment
        self._said = runner.condition.said
        self._status_timer: PendingCall | None = None
        self._is_over = self._is_paused = self._is_stopping = False
        self.has_said_ready = False
        self._last_sign = environment.clock.monotonic()
        self.probes = [
            RunProbe(spec, health.resumed(spec, runner.condition))
            for spec in self.specs
            # An adopted run may have said READY=1 before; nobody knows.
            if not (self.run.adopted and spec.kind == "notify" and "liveness" not in spec.roles)
        ]
        for probe in self.probes:
            probe.check = (
                _NotifyCheck(self, probe)
                if probe.spec.kind == "notify"
                else prober.open(runner, probe.spec, partial(self.ask, probe))
            )

    # The run

    def begin(self) -> None:
        self.runner.judge(self._condition())
        self._begin_due()

    def end(self) -> None:
        self._is_over = True
        if self._status_timer is not None:
            self._status_timer.cancel()
        for probe in self.probes:
            probe.drop()
            probe.check.close()

    def pause(self) -> None:
        """Stop asking: a frozen service cannot answer."""
        self._is_paused = True
        for probe in self.probes:
            probe.drop()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._last_sign = now = self._now()
            for probe in self._current_probes():
                probe.plan = health.after_pause(
                    probe.spec, probe.plan, now, has_passed=probe.has_passed
                )
                self._arm(probe)

    # Questions

    def check(self, probe: RunProbe, then: Then) -> None:
        """Ask now. The answer counts only if the probe becomes due meanwhile."""
        probe.listeners.append(then)
        if not probe.is_asking:
            if self._is_paused:
                probe.answer_listeners(Finding(False, "the service is paused"))
                return
            probe.is_asking = True
            probe.check.ask(lambda finding: self._answered(probe, finding))

    def _current_probes(self) -> list[RunProbe]:
        is_started = self._condition().is_started
        return [
            probe
            for probe in self.probes
            if health.is_asked(probe.spec, is_started=is_started)
            and not (probe.passes_once and probe.tally.verdict is True)
        ]

    def _begin_due(self) -> None:
        """Begin the probes whose time has come."""
        now = self._now()
        age = now - self.run.started_mono
        for probe in self._current_probes():
            if not probe.is_begun:
                probe.is_begun = True
                if probe.is_watchdog:
                    self._last_sign = now
                probe.plan = health.first(
                    probe.spec,
                    now,
                    self._environment.random(),
                    age=age,
                    has_passed=probe.has_passed,
                )
                self._arm(probe)
                probe.check.begin()

    def _arm(self, probe: RunProbe) -> None:
        probe.cancel()
        if not self._is_over and not self._is_paused:
            seconds = max(0.0, probe.plan.due - self._now())
            probe.timer = self._environment.call_later(seconds, lambda: self.ask(probe))

    def ask(self, probe: RunProbe) -> None:
        """Ask because the probe is due; the answer counts."""
        probe.cancel()
        if self._is_over or self._is_paused:
            return
        if probe.is_watchdog and self._has_sign(probe):
            return
        probe.is_due = True
        if not probe.is_asking:
            probe.is_asking = True
            probe.check.ask(lambda finding: self._answered(probe, finding))

    def _answered(self, probe: RunProbe, finding: Finding) -> None:
        if self._is_over or not probe.is_asking:
            return
        probe.is_asking, is_due, probe.is_due = False, probe.is_due, False
        probe.answer_listeners(finding)
        if is_due:
            self._count(probe, finding)

    def _count(self, probe: RunProbe, finding: Finding) -> None:
        """Count an answer that was due, and report what changed."""
        spec, before, plan = probe.spec, probe.tally, probe.plan
        is_first_pass = finding.is_passed and not probe.has_passed
        probe.has_passed = probe.has_passed or finding.is_passed
        probe.plan = health.following(
            spec,
            plan,
            self._now(),
            self._environment.random(),
            has_passed=probe.has_passed,
            is_first_pass=is_first_pass,
        )
        if finding.is_passed or plan.is_counted:
            probe.tally = health.count(spec, before, is_passed=finding.is_passed)
        if finding.is_passed:
            if before.failures:
                self._report(EventKind.HEALTH_PASSED, probe, finding)
            self._log_pass(finding, is_change=before.verdict is not True or before.failures > 0)
        elif plan.is_counted:
            seconds = self._now() - probe.reported_at
            if health.is_told(before, probe.tally, seconds=seconds):
                self._report(EventKind.HEALTH_FAILED, probe, finding, failures=probe.tally.failures)
            else:
                probe.unreported += 1
        if not (probe.passes_once and probe.tally.verdict is True):
            self._arm(probe)
        self._conclude(probe, before, finding)

    # Consequences

    def _conclude(self, probe: RunProbe, before: ProbeTally, finding: Finding) -> None:
        self._judge(probe, finding)
        if self._is_over:
            return
        if self.runner.condition.is_started is not False:
            for other in self.probes:
                if "startup" in other.spec.roles:
                    other.cancel()
            self._begin_due()
        after = probe.tally
        if after.verdict is False and before.verdict is not False:
            self.runner.tell_unready(finding.reason)
        cause = health.sentence(probe.spec, before, after)
        if cause is not None and not self._is_stopping:
            recover(self.runner, cause, _reason(probe, finding))

    def _judge(self, probe: RunProbe | None = None, finding: Finding | None = None) -> None:
        before, after = self.runner.condition, self._condition()
        if before == after:
            return
        facts = self._facts(probe, finding)
        if before.health != after.health and None not in (before.health, after.health):
            words = {"from": before.health, "to": after.health}
            self._event(EventKind.HEALTH_CHANGED, what="health", **words, **facts)
        if before.is_ready and after.is_ready is False:
            words = {"from": "ready", "to": "not ready"}
            self._event(EventKind.HEALTH_CHANGED, what="readiness", **words, **facts)
        elif after.is_overdue and not before.is_overdue and _asks_readiness_only(probe):
            words = {"from": "unknown", "to": "not ready"}
            self._event(EventKind.HEALTH_CHANGED, what="readiness", **words, **facts)
        self.runner.judge(after)
        if after.is_ready and before.is_ready is False:
            seconds = round(self._now() - self.run.started_mono, 3)
            self._event(EventKind.SERVICE_READY, after=seconds)

    def _condition(self) -> Condition:
        return health.condition([(probe.spec, probe.tally) for probe in self.probes], self._said)

    # Messages of the service

    def hear(self, message: Message) -> None:
        """Take a message that the service sent over its notify socket."""
        if self._is_over:
            return
        if message.status is not None and message.status != self._said:
            self._said = message.status or None
            if self._status_timer is None:
                self._status_timer = self._environment.call_later(
                    STATUS_SECONDS, self._pass_status_on
                )
        if message.is_stopping:
            self._is_stopping = True
        if message.extend_seconds is not None:
            self._extend(message.extend_seconds)
        if message.is_ready is not None:
            self._hear_ready(message)
        self._hear_sign(message)

    def _pass_status_on(self) -> None:
        self._status_timer = None
        if not self._is_over:
            self._judge()

    def _hear_ready(self, message: Message) -> None:
        self.has_said_ready = bool(message.is_ready)
        self._last_sign = self._now()
        for probe in self.probes:
            if probe.spec.kind != "notify" or "liveness" in probe.spec.roles:
                continue
            if message.is_ready:
                if probe.tally.verdict is not True and probe.is_begun:
                    self.ask(probe)
            elif "readiness" in probe.spec.roles and probe.tally.verdict is not None:
                why = "it says that it " + ("stops" if message.is_stopping else "reloads")
                probe.tally, probe.has_passed = ProbeTally(), False
                probe.plan = health.first(probe.spec, self._now(), self._environment.random())
                self._arm(probe)
                self._judge(probe, Finding(False, why))

    def _hear_sign(self, message: Message) -> None:
        if message.watchdog is None and message.watchdog_seconds is None:
            return
        self._last_sign = self._now()
        for probe in self.probes:
            if not probe.is_watchdog:
                continue
            if message.watchdog_seconds is not None:
                probe.spec = replace(probe.spec, interval=message.watchdog_seconds)
                probe.plan = health.at(self._last_sign + message.watchdog_seconds)
                self._arm(probe)
            if message.watchdog is False:
                probe.plan = health.at(self._last_sign)
                self._count(probe, Finding(False, "it asked for help with WATCHDOG=trigger"))
            elif message.watchdog and (probe.tally.verdict is not True or probe.tally.failures):
                self._count(probe, Finding(True, "it said WATCHDOG=1"))

    def sign_of_life(self, probe: RunProbe) -> Finding:
        seconds = self._now() - self._last_sign
        if seconds < probe.spec.interval - 0.001:
            return Finding(True, f"its last sign of life is {seconds:.1f} s old")
        return Finding(False, f"no WATCHDOG=1 within {probe.spec.interval:g} s")

    def _has_sign(self, probe: RunProbe) -> bool:
        """Return whether its last sign of life is young enough; if so, wait until it is not."""
        is_awaited = any(
            other.passes_once and other.spec.kind == "notify" for other in self._current_probes()
        )
        if is_awaited:
            self._last_sign = self._now()
        left = self._last_sign + probe.spec.interval - self._now()
        if left <= 0.001:
            return False
        probe.plan = health.at(self._now() + left)
        self._arm(probe)
        return True

    def _extend(self, seconds: float) -> None:
        """Give the startup probes more time."""
        for probe in self._current_probes():
            if "startup" in probe.spec.roles:
                probe.plan = health.postponed(probe.plan, self._now() + seconds)
                self._arm(probe)

    # Events and logs

    def _now(self) -> float:
        return self._environment.clock.monotonic()

    def _event(self, kind: EventKind, **data: Any) -> None:
        self._environment.recorder.event(kind, self.runner.name, self.run.run_id, **data)

    def _report(self, kind: EventKind, probe: RunProbe, finding: Finding, **facts: Any) -> None:
        unreported = {"untold": probe.unreported} if probe.unreported else {}
        found = self._facts(probe, finding)
        self._event(kind, **found, **facts, **unreported, pid=self.run.pid)
        probe.reported_at, probe.unreported = self._now(), 0

    def _facts(self, probe: RunProbe | None, finding: Finding | None) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if probe is not None:
            facts = {"probe": probe.spec.name, "check": probe.spec.kind}
        if finding is not None:
            facts.update(reason=finding.reason, duration=round(finding.seconds, 4))
        return facts

    def _log_pass(self, finding: Finding, *, is_change: bool) -> None:
        level = logging.INFO if is_change else logging.DEBUG
        if _log.isEnabledFor(level):
            uptime = round(self._now() - self.run.started_mono, 1)
            facts = {"service": self.runner.name, "pid": self.run.pid, "uptime": uptime}
            _log.log(level, "Service health check passed: %s", finding.reason, extra=facts)


def probes_of(runner: MonitoredRun) -> tuple[ProbeSpec, ...]:
    """Return the probes of the live run.

    They are those declared now, unless the run was started with another way to notify.
    """
    declared = runner.declaration.spec
    launched = runner.launched or declared
    probes = declared.probes if declared.notify == launched.notify else launched.probes
    ports = runner.ports
    return tuple(fill_probe(spec, ports) for spec in probes) if ports else probes


class _NotifyCheck:
    """Answers from what the service has said over its notify socket."""

    def __init__(self, health: RunHealth, probe: RunProbe) -> None:
        self._health = health
        self._probe = probe

    def begin(self) -> None:
        if self._health.has_said_ready and self._probe.passes_once:
            self._health.ask(self._probe)

    def ask(self, then: Then) -> None:
        if self._probe.is_watchdog:
            then(self._health.sign_of_life(self._probe))
        elif self._health.has_said_ready:
            then(Finding(True, "it said READY=1"))
        else:
            then(Finding(False, "it has not said READY=1"))

    def drop(self) -> None:
        """Do nothing: every question is answered at once."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _asks_readiness_only(probe: RunProbe | None) -> bool:
    """Return whether only this event tells of the failure: liveness and startup end the run."""
    return probe is not None and set(probe.spec.roles) == {"readiness"}


def _reason(probe: RunProbe, finding: Finding) -> str:
    if probe.is_watchdog:
        return f"watchdog missed: {finding.reason}"
    what = "startup" if "startup" in probe.spec.roles else "liveness"
    times = probe.tally.failures
    how = f"{times} checks in a row failed" if times > 1 else "the check failed"
    return f"{what} ({probe.spec.kind}): {how}; last: {finding.reason}"
