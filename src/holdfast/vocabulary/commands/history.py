"""Commands about what happened."""

from __future__ import annotations

from typing import ClassVar

from holdfast.vocabulary.commands.command import Command, Effect, Permission


class Events(Command, frozen=True, kw_only=True):
    """Replay events after the sequence number `since`; with `follow`, go on with new ones.

    Without `since`, the newest `limit` are told.
    """

    name: ClassVar = "events"
    permission: ClassVar = Permission.VIEW
    effect: ClassVar = Effect.READS
    route: ClassVar = ("GET", "/api/events")
    streams: ClassVar = True
    since: int | None = None
    limit: int = 100
    follow: bool = False
    services: list[str] = []


class Runs(Command, frozen=True, kw_only=True):
    """List the newest runs of a service, with how each ended."""

    name: ClassVar = "runs"
    permission: ClassVar = Permission.VIEW
    effect: ClassVar = Effect.READS
    route: ClassVar = ("GET", "/api/services/{service}/runs")
    service: str
    limit: int = 20
