"""The probes of one live run: when each is asked, what its answers come to.

Begun with the run and ended with it. Keeps time with the ports' clock and timers; how a
probe asks is the prober's. What follows from the answers is decided by `rules.health`.
"""

from __future__ import annotations

from typing import Any

from holdfast.adapters.own_log import logger
from holdfast.adapters.probes import Finding
from holdfast.adapters.probes.notify import Message
from holdfast.engine.health.probe_watch import Prober, RunProbe, Then
from holdfast.engine.runner.environment import Environment, Timer
from holdfast.engine.runner.runner import Runner
from holdfast.engine.workflows.recovery import recover
from holdfast.rules import health
from holdfast.rules.health import Condition, Tally
from holdfast.rules.ports import fill_probe
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.specs.probes import ProbeSpec

SAID_SECONDS = 0.5
"""What a service says of itself is passed on this often at most."""
_log = logger("health")


class RunHealth:
    """What is asked of one run, and what is known."""

    def __init__(self, runner: Runner, environment: Environment, prober: Prober) -> None:
        assert runner.run is not None
        self.runner = runner
        self.run = runner.run
        self.probes = probes_of(runner)
        self._environment = environment
        self._said = runner.condition.said
        self._said_timer: Timer | None = None
        self._is_over = self._is_paused = self._is_stopping = False
        self._has_said_ready = False
        self._last_sign = environment.clock.monotonic()
        self.watches = [
            RunProbe(probe, health.resumed(probe, runner.condition))
            for probe in self.probes
            # Who outlived everything may have said it before; nobody knows.
            if not (self.run.adopted and probe.kind == "notify" and "liveness" not in probe.roles)
        ]
        for watch in self.watches:
            watch.check = (
                _Told(self, watch)
                if watch.probe.kind == "notify"
                else prober.open(runner, watch.probe, lambda it=watch: self._ask(it))  # type: ignore[misc]
            )

    # The run

    def begin(self) -> None:
        self.runner.judge(self._condition())
        self._begin_due()

    def end(self) -> None:
        self._is_over = True
        if self._said_timer is not None:
            self._said_timer.cancel()
        for watch in self.watches:
            watch.drop()
            watch.check.close()

    def pause(self) -> None:
        """A frozen service cannot answer."""
        self._is_paused = True
        for watch in self.watches:
            watch.drop()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._last_sign = now = self._now()
            for watch in self._asked():
                watch.plan = health.after_pause(
                    watch.probe, watch.plan, now, has_passed=watch.has_passed
                )
                self._arm(watch)

    # Questions

    def check(self, watch: RunProbe, then: Then) -> None:
        """Ask out of turn; the answer counts only if it was due meanwhile."""
        watch.listeners.append(then)
        if not watch.is_asking:
            if self._is_paused:
                watch.answer_listeners(Finding(False, "the service is paused"))
                return
            watch.is_asking = True
            watch.check.ask(lambda finding: self._answered(watch, finding))

    def _asked(self) -> list[RunProbe]:
        is_started = self._condition().is_started
        return [
            watch
            for watch in self.watches
            if health.is_asked(watch.probe, is_started=is_started)
            and not (watch.is_told_once and watch.tally.verdict is True)
        ]

    def _begin_due(self) -> None:
        """Begin with those probes whose time has come."""
        now = self._now()
        age = now - self.run.started_mono
        for watch in self._asked():
            if not watch.is_begun:
                watch.is_begun = True
                if watch.is_watchdog:
                    self._last_sign = now
                watch.plan = health.first(
                    watch.probe,
                    now,
                    self._environment.random(),
                    age=age,
                    has_passed=watch.has_passed,
                )
                self._arm(watch)
                watch.check.begin()

    def _arm(self, watch: RunProbe) -> None:
        watch.cancel()
        if not self._is_over and not self._is_paused:
            seconds = max(0.0, watch.plan.due - self._now())
            watch.timer = self._environment.call_later(seconds, lambda: self._ask(watch))

    def _ask(self, watch: RunProbe) -> None:
        watch.cancel()
        if self._is_over or self._is_paused:
            return
        if watch.is_watchdog and self._has_sign(watch):
            return
        watch.is_due = True
        if not watch.is_asking:
            watch.is_asking = True
            watch.check.ask(lambda finding: self._answered(watch, finding))

    def _answered(self, watch: RunProbe, finding: Finding) -> None:
        if self._is_over or not watch.is_asking:
            return
        watch.is_asking, is_due, watch.is_due = False, watch.is_due, False
        watch.answer_listeners(finding)
        if is_due:
            self._take(watch, finding)

    def _take(self, watch: RunProbe, finding: Finding) -> None:
        """An answer that counts, or may."""
        probe, before, plan = watch.probe, watch.tally, watch.plan
        is_first_pass = finding.is_passed and not watch.has_passed
        watch.has_passed = watch.has_passed or finding.is_passed
        watch.plan = health.following(
            probe,
            plan,
            self._now(),
            self._environment.random(),
            has_passed=watch.has_passed,
            is_first_pass=is_first_pass,
        )
        if finding.is_passed or plan.is_counted:
            watch.tally = health.count(probe, before, is_passed=finding.is_passed)
        if finding.is_passed:
            if before.failures:
                self._tell(Kind.HEALTH_PASSED, watch, finding)
            self._log_pass(finding)
        elif plan.is_counted:
            seconds = self._now() - watch.told_at
            if health.is_told(before, watch.tally, seconds=seconds):
                self._tell(Kind.HEALTH_FAILED, watch, finding, failures=watch.tally.failures)
            else:
                watch.untold += 1
        if not (watch.is_told_once and watch.tally.verdict is True):
            self._arm(watch)
        self._conclude(watch, before, finding)

    # Consequences

    def _conclude(self, watch: RunProbe, before: Tally, finding: Finding) -> None:
        self._judge(watch, finding)
        if self._is_over:
            return
        if self.runner.condition.is_started is not False:
            for it in self.watches:
                if "startup" in it.probe.roles:
                    it.cancel()
            self._begin_due()
        after = watch.tally
        if after.verdict is False and before.verdict is not False:
            self.runner.tell_unready(finding.reason)
        cause = health.sentence(watch.probe, before, after)
        if cause is not None and not self._is_stopping:
            recover(self.runner, cause, _reason(watch, finding))

    def _judge(self, watch: RunProbe | None = None, finding: Finding | None = None) -> None:
        before, after = self.runner.condition, self._condition()
        if before == after:
            return
        facts = self._facts(watch, finding)
        if before.health != after.health and None not in (before.health, after.health):
            words = {"from": before.health, "to": after.health}
            self._event(Kind.HEALTH_CHANGED, what="health", **words, **facts)
        if before.is_ready and after.is_ready is False:
            words = {"from": "ready", "to": "not ready"}
            self._event(Kind.HEALTH_CHANGED, what="readiness", **words, **facts)
        elif after.is_overdue and not before.is_overdue and _asks_readiness_only(watch):
            words = {"from": "unknown", "to": "not ready"}
            self._event(Kind.HEALTH_CHANGED, what="readiness", **words, **facts)
        self.runner.judge(after)
        if after.is_ready and before.is_ready is False:
            seconds = round(self._now() - self.run.started_mono, 3)
            self._event(Kind.SERVICE_READY, after=seconds)

    def _condition(self) -> Condition:
        return health.condition([(it.probe, it.tally) for it in self.watches], self._said)

    # What the service says

    def hear(self, message: Message) -> None:
        """Something that it said over its socket."""
        if self._is_over:
            return
        if message.status is not None and message.status != self._said:
            self._said = message.status or None
            if self._said_timer is None:
                self._said_timer = self._environment.call_later(SAID_SECONDS, self._pass_on)
        if message.is_stopping:
            self._is_stopping = True
        if message.extend_seconds is not None:
            self._extend(message.extend_seconds)
        if message.is_ready is not None:
            self._hear_ready(message)
        self._hear_sign(message)

    @property
    def has_said_ready(self) -> bool:
        return self._has_said_ready

    def _pass_on(self) -> None:
        self._said_timer = None
        if not self._is_over:
            self._judge()

    def _hear_ready(self, message: Message) -> None:
        self._has_said_ready = bool(message.is_ready)
        self._last_sign = self._now()
        for watch in self.watches:
            if watch.probe.kind != "notify" or "liveness" in watch.probe.roles:
                continue
            if message.is_ready:
                if watch.tally.verdict is not True and watch.is_begun:
                    self._ask(watch)
            elif "readiness" in watch.probe.roles and watch.tally.verdict is not None:
                why = "it says that it " + ("stops" if message.is_stopping else "reloads")
                watch.tally, watch.has_passed = Tally(), False
                watch.plan = health.first(watch.probe, self._now(), self._environment.random())
                self._arm(watch)
                self._judge(watch, Finding(False, why))

    def _hear_sign(self, message: Message) -> None:
        if message.watchdog is None and message.watchdog_seconds is None:
            return
        self._last_sign = self._now()
        for watch in self.watches:
            if not watch.is_watchdog:
                continue
            if message.watchdog_seconds is not None:
                watch.probe = _with_interval(watch.probe, message.watchdog_seconds)
                watch.plan = health.at(self._last_sign + message.watchdog_seconds)
                self._arm(watch)
            if message.watchdog is False:
                watch.plan = health.at(self._last_sign)
                self._take(watch, Finding(False, "it asked for help with WATCHDOG=trigger"))
            elif message.watchdog and (watch.tally.verdict is not True or watch.tally.failures):
                self._take(watch, Finding(True, "it said WATCHDOG=1"))

    def sign_of_life(self, watch: RunProbe) -> Finding:
        seconds = self._now() - self._last_sign
        if seconds < watch.probe.interval - 0.001:
            return Finding(True, f"its last sign of life is {seconds:.1f} s old")
        return Finding(False, f"no WATCHDOG=1 within {watch.probe.interval:g} s")

    def _has_sign(self, watch: RunProbe) -> bool:
        """Whether it said in time that it lives; the next look is when it would not have."""
        is_awaited = any(it.is_told_once and it.probe.kind == "notify" for it in self._asked())
        if is_awaited:
            self._last_sign = self._now()
        left = self._last_sign + watch.probe.interval - self._now()
        if left <= 0.001:
            return False
        watch.plan = health.at(self._now() + left)
        self._arm(watch)
        return True

    def _extend(self, seconds: float) -> None:
        """It needs more time to start up."""
        for watch in self._asked():
            if "startup" in watch.probe.roles:
                watch.plan = health.postponed(watch.plan, self._now() + seconds)
                self._arm(watch)

    # Small things

    def _now(self) -> float:
        return self._environment.clock.monotonic()

    def _event(self, kind: Kind, **data: Any) -> None:
        self._environment.recorder.event(kind, self.runner.name, self.run.run_id, **data)

    def _tell(self, kind: Kind, watch: RunProbe, finding: Finding, **facts: Any) -> None:
        untold = {"untold": watch.untold} if watch.untold else {}
        self._event(kind, **self._facts(watch, finding), **facts, **untold)
        watch.told_at, watch.untold = self._now(), 0

    def _facts(self, watch: RunProbe | None, finding: Finding | None) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if watch is not None:
            facts = {"probe": watch.probe.name, "check": watch.probe.kind}
        if finding is not None:
            facts.update(reason=finding.reason, duration=round(finding.seconds, 4))
        return facts

    def _log_pass(self, finding: Finding) -> None:
        if _log.isEnabledFor(10):
            uptime = round(self._now() - self.run.started_mono, 1)
            facts = {"service": self.runner.name, "pid": self.run.pid, "uptime": uptime}
            _log.debug("Service health check passed: %s", finding.reason, extra=facts)


def probes_of(runner: Runner) -> tuple[ProbeSpec, ...]:
    """What is asked of the live run: what is declared now, unless that needs other ways to speak
    than the run was started with."""
    declared = runner.declaration.spec
    launched = runner.launched or declared
    probes = declared.probes if declared.notify == launched.notify else launched.probes
    ports = runner.ports
    return tuple(fill_probe(probe, ports) for probe in probes) if ports else probes


class _Told:
    """The answer is what the service has said already."""

    def __init__(self, of: RunHealth, watch: RunProbe) -> None:
        self._of = of
        self._watch = watch

    def begin(self) -> None:
        if self._of.has_said_ready and self._watch.is_told_once:
            self._of._ask(self._watch)

    def ask(self, then: Then) -> None:
        if self._watch.is_watchdog:
            then(self._of.sign_of_life(self._watch))
        elif self._of.has_said_ready:
            then(Finding(True, "it said READY=1"))
        else:
            then(Finding(False, "it has not said READY=1"))

    def drop(self) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Nothing is open."""


def _asks_readiness_only(watch: RunProbe | None) -> bool:
    """Whether nobody else tells that it fails: liveness and startup end the run."""
    return watch is not None and set(watch.probe.roles) == {"readiness"}


def _with_interval(probe: ProbeSpec, seconds: float) -> ProbeSpec:
    import msgspec

    return msgspec.structs.replace(probe, interval=seconds)


def _reason(watch: RunProbe, finding: Finding) -> str:
    if watch.is_watchdog:
        return f"watchdog missed: {finding.reason}"
    what = "startup" if "startup" in watch.probe.roles else "liveness"
    times = watch.tally.failures
    how = f"{times} checks in a row failed" if times > 1 else "the check failed"
    return f"{what} ({watch.probe.kind}): {how}; last: {finding.reason}"
