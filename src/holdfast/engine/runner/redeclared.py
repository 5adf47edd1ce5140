"""What a new declaration does to a service that is known: what can apply at once does.

The rest waits for the next start. Ends no process and starts none.
"""

from __future__ import annotations

from abc import abstractmethod

from holdfast.engine.runner.declaration import Declaration, recording
from holdfast.engine.runner.live_run import LiveRun
from holdfast.engine.runner.run_endings import RunEndings
from holdfast.rules.lifecycle.table import Cause
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import ALIVE, Desired, State


class Redeclared(RunEndings):
    """A service whose declaration may change while it runs."""

    @abstractmethod
    def _await_stay(self, run: LiveRun, seconds: float) -> None:
        """Call it started when it has lived so long."""

    @abstractmethod
    def _await_stability(self, run: LiveRun, seconds: float) -> None:
        """Forget its failures when it has lived so long."""

    def declare(self, declaration: Declaration) -> bool:
        """Take a declaration; what can apply to the live run does. True if not all can."""
        before, self.declaration = self.declaration.spec, declaration
        spec, run = declaration.spec, self.run
        if self.state is State.BACKOFF and spec.restart_policy == "never":
            self._cancel_timer()
            self._move(Cause.GIVEN_UP)
            self._publish_desired(self.state.value)
        if run is not None and (spec.stop, spec.log) != (before.stop, before.log):
            adjust = {"do": "adjust", "run_id": run.run_id, **recording(spec)}
            self._environment.keeper.request(adjust, lambda reply: None)
        if run is not None and not run.main_gone:
            self._renew_timers(run, before)
        return self.is_outdated

    def await_time(self) -> None:
        """Want it at the times of its schedule; what runs goes on, and so does a stop."""
        is_off = self.run is None or self.desired is Desired.STOPPED
        self.desired, self.stopped_by_hand = Desired.RUNNING, False
        if is_off and self.state not in ALIVE:
            # Not `running`: it would be started at once, after a stop or by a new supervisor.
            self._publish_desired(State.PENDING.value)
        self.save()

    def _renew_timers(self, run: LiveRun, before: ServiceSpec) -> None:
        spec, age = self.declaration.spec, self._environment.clock.monotonic() - run.started_mono
        is_waiting = self.state is State.STARTING and run.pid is not None and not self._has_stayed
        if is_waiting and spec.start_seconds != before.start_seconds:
            self._await_stay(run, spec.start_seconds - age)
        if self._reset_timer is not None and spec.restart != before.restart:
            self._await_stability(run, spec.restart.reset_after - age)
