"""Readiness and health: the command and its answer."""

from __future__ import annotations

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class CheckResult(Result, frozen=True, kw_only=True):
    """The finding of one probe, and how many seconds it took."""

    probe: str
    """startup, readiness, liveness, health_check; process where nothing else is asked"""
    check: str
    """http, tcp, exec, log, notify or process"""
    passed: bool
    reason: str
    duration: float


class ServiceHealth(Result, frozen=True, kw_only=True):
    """A service's health as known before, and what its probes found now."""

    status: str
    ready: bool | None
    health: str | None
    consecutive_failures: int
    checks: list[CheckResult]


class HealthResult(Result, frozen=True, kw_only=True):
    services: dict[str, ServiceHealth]


class HealthCheck(Command, frozen=True, kw_only=True):
    """Ask the probes of services now, and tell what each found and how long it took.

    Nothing of it counts: no service is restarted for it. A check that is under way is joined.
    Without names, all services are asked.
    """

    name = "health_check"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = HealthResult
    route = ("POST", "/api/services/health")
    services: list[str] = []
