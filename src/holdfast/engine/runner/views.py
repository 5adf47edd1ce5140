"""What others see of a service: its status, the outcome of a verb, its record on disk.

Reads a service, and changes none of its facts. Status is asked often: nothing here waits or looks
up, and what was built is kept with the service until a fact changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import force_setattr

from holdfast.adapters.store.state_tables import ServiceRecord
from holdfast.engine.runner.declaration import Overrides
from holdfast.engine.runner.live_run import LiveRun
from holdfast.rules.health import Condition
from holdfast.rules.plan import Trace
from holdfast.secrets.redaction import redact, redact_arguments
from holdfast.vocabulary import codec
from holdfast.vocabulary.errors import ResourceExceeded
from holdfast.vocabulary.services import Outcome, ServiceStatus
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.states import LABEL, Desired, ErrorType, State

if TYPE_CHECKING:
    from holdfast.engine.runner.service import Service

NOT_ASKED = Condition()


class Shown:
    """A service's status but for what changes by itself; built anew when a fact has changed."""

    __slots__ = ("pieces", "run", "status", "usage")

    def __init__(self, service: Service, run: LiveRun | None) -> None:
        self.status = _build(service, run)
        self.run = run
        """The one that is up."""
        self.usage = run.usage if run else None
        self.pieces: Sequence[bytes] = ()
        """Its JSON, with its name and a comma after it, cut where `_by_itself` belongs."""

    def cut(self, name: str) -> Sequence[bytes]:
        pieces, rest = [codec.encode(name) + b":"], codec.encode(self.status) + b","
        for field in _BY_ITSELF:
            # The first of its name is the status' own: what users name comes after these.
            head, key, rest = rest.partition(b'"%b":' % field.encode())
            pieces[-1] += head + key
            rest = rest[rest.index(b",") :]
            pieces += [b"", b""]
        self.pieces = (*pieces[:-1], rest)
        return self.pieces


_BY_ITSELF = ("uptime", "log_bytes", "next_start_in")
_STEP = 2 * len(_BY_ITSELF) + 1


def _by_itself(
    service: Service, run: LiveRun | None, now: float
) -> tuple[float | None, int, float | None]:
    """What changes while no fact does."""
    if run is not None:
        # As `round` to three places, which takes four times as long.
        return int((now - run.started_mono) * 1000 + 0.5) / 1000, run.log_bytes, None
    log_bytes = service.last_exit.log_bytes
    if service.next_start_at is None:
        return None, log_bytes, None
    return None, log_bytes, round(max(0.0, service.due_mono - now), 3)


def status_of(service: Service, now: float) -> ServiceStatus:
    shown = _shown(service)
    status = copy(shown.status)
    for field, value in zip(_BY_ITSELF, _by_itself(service, shown.run, now), strict=True):
        force_setattr(status, field, value)
    return status


def written(services: Iterable[Service], now: float) -> msgspec.Raw:
    """The same of many, by name, as JSON. Of a hundred services, to build and to encode each
    takes longer than all else that a status does: only what changes by itself is put in."""
    pieces: list[bytes] = []
    values: list[float | None] = []
    for service in services:
        shown, run = service.shown, service.run
        # As `_shown` says, of nearly all nearly always; without the call, which is half the work.
        if (
            shown is None
            or run is None
            or shown.run is not run
            or run.main_gone
            or shown.usage is not run.usage
            or service.overlap is not None
        ):
            shown = _shown(service)
        pieces += shown.pieces or shown.cut(service.name)
        values += _by_itself(service, shown.run, now)
    if not pieces:
        return msgspec.Raw(b"{}")
    told = msgspec.json.encode(values)[1:-1].split(b",")
    for place in range(len(_BY_ITSELF)):
        pieces[2 * place + 1 :: _STEP] = told[place :: len(_BY_ITSELF)]
    pieces[0], pieces[-1] = b"{" + pieces[0], pieces[-1][:-1] + b"}"
    return msgspec.Raw(b"".join(pieces))


def _shown(service: Service) -> Shown:
    shown, run = service.shown, service.run
    if run is not None and not run.is_up:
        run = None
    if (
        shown is None
        or shown.run is not run
        or (run is not None and shown.usage is not run.usage)
        or service.overlap is not None
    ):
        service.shown = shown = Shown(service, run)
    return shown


def _build(service: Service, run: LiveRun | None) -> ServiceStatus:
    """All but what changes by itself."""
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
        log_bytes=0,
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
        stopped_by_hand=service.stopped_by_hand,
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
        trace=_trace(service),
    )


def _trace(service: Service) -> Trace | None:
    """Of what the live run was started with."""
    run = service.run
    if run is None or service.launched is None:
        return service.trace
    if run.trace is None:
        run.trace = Trace.of(run.run_id, service.launched)
    return run.trace


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
