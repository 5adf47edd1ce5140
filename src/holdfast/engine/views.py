"""What others see of a service: its status, the outcome of a verb, its record on disk.

Reads a service, never changes one. Status is asked often: nothing here waits or looks up.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import force_setattr

from holdfast.adapters.state_tables import ServiceRecord
from holdfast.engine.declaration import Overrides
from holdfast.engine.live_run import LiveRun
from holdfast.engine.ports import Clock
from holdfast.rules.health import Condition
from holdfast.vocabulary.errors import ResourceExceeded
from holdfast.vocabulary.results import Outcome, ServiceStatus
from holdfast.vocabulary.secrets import redact, redact_arguments
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.states import LABEL, Desired, ErrorType, State

if TYPE_CHECKING:
    from holdfast.engine.service import Service

NOT_ASKED = Condition()


class StatusView:
    """A service's status, built anew only when something but time has changed."""

    __slots__ = ("_built", "_key")

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._built: ServiceStatus | None = None

    def of(self, service: Service, clock: Clock) -> ServiceStatus:
        run = service.run
        is_up = run is not None and run.pid is not None and not run.main_gone
        key = (
            service.state, service.desired, run, is_up, service.counters, service.reason,
            service.since, service.number, service.last_run_id, service.last_exit,
            service.overrides, service.declaration, service.condition, service.waiting_for,
            service.scaled, service.owner, service.ports, service.error_type,
            service.overlap and service.overlap.facts(), run and run.usage,
            service.next_scheduled,
        )  # fmt: skip
        built = self._built
        if built is None or key != self._key:
            self._key, self._built = key, (built := _build(service, run if is_up else None))
        if run is not None and is_up:
            status = copy(built)
            # As `round` to three places, which takes four times as long.
            uptime = int((clock.monotonic() - run.started_mono) * 1000 + 0.5) / 1000
            force_setattr(status, "uptime", uptime)
            force_setattr(status, "log_bytes", run.log_bytes)
            return status
        if service.next_start_at is not None:
            status = copy(built)
            remaining = max(0.0, service.due_mono - clock.monotonic())
            force_setattr(status, "next_start_in", round(remaining, 3))
            return status
        return built


def _build(service: Service, run: LiveRun | None) -> ServiceStatus:
    """All but what changes with time."""
    state, last, spec = service.state, service.last_exit, service.declaration.spec
    return ServiceStatus(
        status=state.value,
        desired=service.desired.value,
        pid=run.pid if run else None,
        uptime=None,
        restart_count=service.counters.restarts,
        run_id=service.last_run_id,
        run=(run.number if run else service.number) or None,
        exit_code=None if run else last.code,
        signal=None if run else last.signal,
        reason=_told(service.reason),
        duration=last.seconds,
        log_bytes=last.log_bytes,
        since=service.since,
        started_at=run.started_at if run else None,
        start_failures=service.counters.start_failures,
        terminal=spec.terminal,
        adopted=run.adopted if run else False,
        paused=state is State.PAUSED,
        label=LABEL[state],
        origin=spec.origin,
        waiting_for=list(service.waiting_for) if service.waiting_for else msgspec.UNSET,
        beside=service.overlap.facts() if service.overlap else msgspec.UNSET,
        scaled=service.scaled or msgspec.UNSET,
        ports=service.ports or msgspec.UNSET,
        owner=_owner(service.owner) if service.owner else msgspec.UNSET,
        error_type=service.error_type.value if service.error_type else msgspec.UNSET,
        memory_mb=round(run.usage.memory / 1e6, 1) if run and run.usage else msgspec.UNSET,
        cpu_percent=round(run.usage.cpu_percent, 1) if run and run.usage else msgspec.UNSET,
        next_scheduled=_next_scheduled(service),
        overrides=shown(service.overrides),
        **(_judged(service.condition) if run and service.condition != NOT_ASKED else {}),
    )


def _judged(condition: Condition) -> dict[str, Any]:
    """What the probes say; nothing about what nobody asks."""
    facts = {
        "ready": condition.is_ready,
        "health": condition.health,
        "said": condition.said,
        "consecutive_failures": condition.failures,
    }
    return {name: value for name, value in facts.items() if value is not None}


def outcome_of(
    service: Service, verb: str, reason: str | None, report: list[dict[str, Any]] | None
) -> Outcome:
    run = service.run if service.run is not None and not service.run.main_gone else None
    error = service.error_type if verb == "failed" and run is None else None
    return Outcome(
        outcome=verb,
        status=service.state.value,
        pid=run.pid if run else None,
        run_id=service.last_run_id,
        reason=_told(reason or (None if run else service.reason)),
        exit_code=None if run else service.last_exit.code,
        report=report,
        error_type=error.value if error is not None else msgspec.UNSET,
        code=ResourceExceeded.code if error is ErrorType.RESOURCE_EXCEEDED else msgspec.UNSET,
    )


def record_of(service: Service) -> ServiceRecord:
    """What a later supervisor has to know."""
    return ServiceRecord(
        desired=service.desired,
        state=service.state,
        since=service.since,
        reason=_told(service.reason),
        restarts=service.counters.restarts,
        failures=service.counters.failures,
        start_failures=service.counters.start_failures,
        next_start_at=service.next_start_at,
        number=service.number,
        run_id=service.last_run_id,
        code=service.last_exit.code,
        signal=service.last_exit.signal,
        seconds=service.last_exit.seconds,
        log_bytes=service.last_exit.log_bytes,
        accounted=service.accounted,
        scheduled_until=service.scheduled_until,
        error_type=service.error_type,
    )


def _owner(owner: Owner) -> dict[str, Any]:
    """Nothing is said of what is not so."""
    facts: dict[str, Any] = msgspec.to_builtins(owner)
    return {name: value for name, value in facts.items() if value}


def _next_scheduled(service: Service) -> float | msgspec.UnsetType:
    following = service.next_scheduled if service.desired is Desired.RUNNING else None
    return msgspec.UNSET if following is None else following


def shown(overrides: Overrides | None) -> dict[str, Any] | None:
    """Names of variables, never their values."""
    if overrides is None:
        return None
    shown: dict[str, Any] = {"env_vars": sorted(overrides.env_vars)}
    if overrides.args is not None:
        shown["args"] = redact_arguments(overrides.args)
    return shown


def _told(reason: str | None) -> str | None:
    """A reason may repeat what a program or a probe said."""
    return None if reason is None else redact(reason)
