"""What others see of a runner: its status, the outcome of a verb, its record on disk.

Reads a runner, never changes one. Status is asked often: nothing here waits or looks up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.adapters.state_store import ServiceRecord
from holdfast.engine.declaration import Overrides
from holdfast.engine.ports import Clock
from holdfast.vocabulary.results import Outcome, ServiceStatus
from holdfast.vocabulary.states import LABEL, State

if TYPE_CHECKING:
    from holdfast.engine.service_runner import ServiceRunner


def status_of(runner: ServiceRunner, clock: Clock) -> ServiceStatus:
    state, last = runner.state, runner.last_exit
    run = runner.run if runner.run is not None and runner.run.is_up else None
    next_start = None
    if runner.next_start_at is not None:
        next_start = round(max(0.0, runner.next_start_at - clock.time()), 3)
    spec = runner.declaration.spec
    return ServiceStatus(
        status=state.value,
        desired=runner.desired.value,
        pid=run.pid if run else None,
        uptime=round(clock.monotonic() - run.started_mono, 3) if run else None,
        restart_count=runner.counters.restarts,
        run_id=runner.last_run_id,
        run=runner.number or None,
        exit_code=None if run else last.code,
        signal=None if run else last.signal,
        reason=runner.reason,
        duration=last.seconds,
        log_bytes=run.log_bytes if run else last.log_bytes,
        since=runner.since,
        started_at=run.started_at if run else None,
        next_start_in=next_start,
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
