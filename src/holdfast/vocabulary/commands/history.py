"""Commands about what happened."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.results import EventsResult, RunsResult


class Events(Command, frozen=True, kw_only=True):
    """Replay events after the sequence number `since`; with `follow`, go on with new ones.

    Without `since`, the newest `limit` are told.
    """

    name = "events"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = EventsResult
    route = ("GET", "/api/events")
    streams = True
    since: int | None = None
    limit: int = 100
    follow: bool = False
    services: list[str] = []


class Runs(Command, frozen=True, kw_only=True):
    """List the newest runs of a service, with how each ended; of several if it stands for them."""

    name = "runs"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = RunsResult
    route = ("GET", "/api/services/{service}/runs")
    service: str
    limit: int = 20
