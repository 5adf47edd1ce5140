"""Decides what is done about a service in trouble, by cause. Pure; no clock, no I/O.

A cause is found in a live run (unhealthy, memory, timeout) or when a run ends (crash,
start_failure, suppressed). By default a cause in a live run ends it as a failure. After both
kinds the restart policy decides.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from holdfast.rules.lifecycle import restart
from holdfast.rules.lifecycle.restart import Decision, Ending, NoRestart
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import RecoverySpec

LIVE_CAUSES = ("unhealthy", "memory", "timeout")
ENDING_CAUSES = ("crash", "start_failure", "suppressed")
RESTART = RecoverySpec(action="restart")


class Remedy(msgspec.Struct, frozen=True):
    """Something to do in addition to what the restart policy does."""

    cause: str
    recovery: RecoverySpec


def action_for(spec: ServiceSpec, cause: str) -> RecoverySpec:
    """What the service declares for a cause in its live run."""
    return spec.recovery.get(cause, RESTART)


def after_ending(
    spec: ServiceSpec, ending: Ending, decision: Decision
) -> tuple[Decision, Remedy | None]:
    """Change the decision after a run's end by what the service declares about recovery."""
    cause = _cause_of(spec, ending, decision)
    recovery = spec.recovery.get(cause) if cause is not None else None
    if cause is None or recovery is None or recovery.action == "restart":
        return decision, None
    if recovery.action == "stop" and not isinstance(decision, NoRestart):
        reason = f"{decision.reason}; not started again (recovery of {cause}: stop)"
        counters = replace(decision.counters, restarts=max(0, decision.counters.restarts - 1))
        decision = NoRestart(counters, reason)
    return decision, Remedy(cause, recovery)


def _cause_of(spec: ServiceSpec, ending: Ending, decision: Decision) -> str | None:
    """The cause of an ending; of several, the worst that the service declares something for."""
    if restart.is_success(spec, ending):
        return None
    if isinstance(decision, NoRestart) and decision.is_suppressed and "suppressed" in spec.recovery:
        return "suppressed"
    if ending.verdict is not None and ending.cause not in ENDING_CAUSES:
        return None  # the cause was found while it lived, and handled then
    return "start_failure" if restart.is_start_failure(spec, ending) else "crash"
