"""Commands about readiness and health."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.results import HealthResult


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
