"""Commands about what is wrong, and why."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.trouble import AlertsResult, ExplainResult


class Alerts(Command, frozen=True, kw_only=True):
    """Tell what is wrong now; with `history`, also the newest `limit` alerts that are over.

    `targets` is told too: where alerts are delivered to, and whether they arrive.
    """

    name = "alerts"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = AlertsResult
    route = ("GET", "/api/alerts")
    is_shared = True
    services: list[str] = []
    history: bool = False
    limit: int = 50


class Explain(Command, frozen=True, kw_only=True):
    """Say in words why a service is in its state, since when, what happened before and what
    comes next; with exit code, last lines, environment (no secrets) and what changed.

    Without `service`, every one that is not fine (of `services`, or of all) is told in a
    sentence.
    """

    name = "explain"
    reads_content = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = ExplainResult
    route = ("GET", "/api/services/{service}/explain")
    service: str | None = None
    services: list[str] = []
