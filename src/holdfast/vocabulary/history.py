"""What happened: commands about events and runs, and their answers."""

from __future__ import annotations

from typing import Any

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class RunRecord(Result, frozen=True, kw_only=True):
    """A run, live or past."""

    run_id: str
    service: str
    number: int
    pid: int
    started_at: float
    ended_at: float | None
    duration: float | None
    exit_code: int | None
    signal: str | None
    unknown: bool
    reason: str | None
    log_bytes: int
    rusage: dict[str, Any] | None
    error_type: str | None = None
    changes: list[str] | None = None
    """The fields of its declaration that differ from the last good run before it; None: there was
    no such run, or nobody compared."""


class RunsResult(Result, frozen=True, kw_only=True):
    runs: list[RunRecord]


class EventsResult(Result, frozen=True, kw_only=True):
    events: list[dict[str, Any]]
    last: int
    """The newest sequence number: ask again with `since` = last."""


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
