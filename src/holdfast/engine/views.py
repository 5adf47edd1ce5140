"""What others see of a runner: its status, the outcome of a verb, its record on disk.

Reads a runner, never changes one. Status is asked often: nothing here waits or looks up.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from holdfast.adapters.state_store import ServiceRecord
from holdfast.engine.declaration import Overrides
from holdfast.engine.live_run import LiveRun
from holdfast.engine.ports import Clock
from holdfast.vocabulary.results import Outcome, ServiceStatus
from holdfast.vocabulary.states import LABEL, State

if TYPE_CHECKING:
    from holdfast.engine.service_runner import ServiceRunner


class StatusView:
    """A runner's status, built anew only when something but time has changed."""

    __slots__ = ("_built", "_key")

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._built: ServiceStatus | None = None

    def of(self, runner: ServiceRunner, clock: Clock) -> ServiceStatus:
        run = runner.run
        is_up = run is not None and run.pid is not None and not run.main_gone
        key = (
            runner.state, runner.desired, run, is_up, runner.counters, runner.reason,
            runner.since, runner.number, runner.last_run_id, runner.last_exit, runner.overrides,
            runner.declaration,
        )  # fmt: skip
        built = self._built
        if built is None or key != self._key:
            self._key, self._built = key, (built := _build(runner, run if is_up else None))
        if run is not None and is_up:
            status = copy(built)
            force_setattr(status, "uptime", round(clock.monotonic() - run.started_mono, 3))
            force_setattr(status, "log_bytes", run.log_bytes)
            return status
        if runner.next_start_at is not None:
            status = copy(built)
            remaining = max(0.0, runner.next_start_at - clock.time())
            force_setattr(status, "next_start_in", round(remaining, 3))
            return status
        return built


def _build(runner: ServiceRunner, run: LiveRun | None) -> ServiceStatus:
    """All but what changes with time."""
    state, last, spec = runner.state, runner.last_exit, runner.declaration.spec
    return ServiceStatus(
        status=state.value,
        desired=runner.desired.value,
        pid=run.pid if run else None,
        uptime=None,
        restart_count=runner.counters.restarts,
        run_id=runner.last_run_id,
        run=runner.number or None,
        exit_code=None if run else last.code,
        signal=None if run else last.signal,
        reason=runner.reason,
        duration=last.seconds,
        log_bytes=last.log_bytes,
        since=runner.since,
        started_at=run.started_at if run else None,
        start_failures=runner.counters.start_failures,
        terminal=spec.terminal,
        adopted=run.adopted if run else False,
        paused=state is State.PAUSED,
        label=LABEL[state],
        origin=spec.origin,
        overrides=_shown(runner.overrides),
    )


def outcome_of(
    runner: ServiceRunner, verb: str, reason: str | None, report: list[dict[str, Any]] | None
) -> Outcome:
    run = runner.run if runner.run is not None and not runner.run.main_gone else None
    return Outcome(
        outcome=verb,
        status=runner.state.value,
        pid=run.pid if run else None,
        run_id=runner.last_run_id,
        reason=reason or (None if run else runner.reason),
        exit_code=None if run else runner.last_exit.code,
        report=report,
    )


def record_of(runner: ServiceRunner) -> ServiceRecord:
    """What a later supervisor has to know."""
    return ServiceRecord(
        desired=runner.desired.value,
        state=runner.state.value,
        since=runner.since,
        reason=runner.reason,
        restarts=runner.counters.restarts,
        failures=runner.counters.failures,
        start_failures=runner.counters.start_failures,
        next_start_at=runner.next_start_at,
        number=runner.number,
        run_id=runner.last_run_id,
        code=runner.last_exit.code,
        signal=runner.last_exit.signal,
        seconds=runner.last_exit.seconds,
        log_bytes=runner.last_exit.log_bytes,
        accounted=runner.accounted,
    )


def _shown(overrides: Overrides | None) -> dict[str, Any] | None:
    """Names of variables, never their values."""
    if overrides is None:
        return None
    shown: dict[str, Any] = {"env_vars": sorted(overrides.env_vars)}
    if overrides.args is not None:
        shown["args"] = list(overrides.args)
    return shown
