"""Handlers of commands about the history: events and runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from typing import Any

import msgspec

from holdfast.adapters.store.state_store import SHORT_SECONDS
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.vocabulary.errors import UnknownService
from holdfast.vocabulary.events import known_place
from holdfast.vocabulary.history import Events, EventsResult, RunRecord, Runs, RunsResult

_BATCH = 500
_MOST = 10_000


@handles(Events)
def events(
    context: Context, command: Events
) -> Awaitable[EventsResult] | AsyncGenerator[dict[str, Any], None]:
    since = command.since
    if since is not None:
        since = known_place(since, context.bus.last_seq)
    names = _names(context, command.services)
    command = msgspec.structs.replace(command, services=names, since=since)
    if command.follow:
        return _follow(context, command)
    return _read_events(context, command)


def _names(context: Context, wanted: list[str]) -> list[str]:
    """Return the services that are meant. A name without a service may have had events once."""
    names: dict[str, None] = {}
    for selector in wanted:
        try:
            names.update(dict.fromkeys(context.roster.names([selector])))
        except UnknownService:
            names[selector] = None
    return list(names)


async def _read_events(context: Context, command: Events) -> EventsResult:
    limit = max(0, min(command.limit, _MOST))
    if not limit:
        return EventsResult(events=[], last=_place(context, command))
    await context.store.written(SHORT_SECONDS)
    if command.since is None:
        found = await context.store.newest_events(limit, command.services)
    else:
        found = await context.store.events_after(command.since, limit, command.services)
    last = found[-1]["seq"] if found and len(found) >= limit else context.bus.last_seq
    return EventsResult(events=found, last=max(last, found[-1]["seq"] if found else 0))


def _place(context: Context, command: Events) -> int:
    return context.bus.last_seq if command.since is None else command.since


async def _follow(context: Context, command: Events) -> AsyncGenerator[dict[str, Any], None]:
    """Every stored event once and in order, from memory or, for a slow reader, from disk."""
    if command.since is None:
        limit = max(0, min(command.limit, _MOST))
        place = context.bus.last_seq
        found = await context.store.newest_events(limit, command.services) if limit else []
        for event in found:
            if event["seq"] <= place:
                yield event
    else:
        place = command.since
    wanted = frozenset(command.services)
    while True:
        newest = context.bus.last_seq
        recent = context.bus.after(place, _BATCH)
        if recent is not None:
            batch = [msgspec.structs.asdict(event) for event in recent]
        else:
            batch = await context.store.events_after(place, _BATCH, command.services)
            if len(batch) < _BATCH:
                place = max(place, newest)
        for event in batch:
            place = max(place, event["seq"])
            if not wanted or event["service"] in wanted:
                yield event
        if not batch:
            await context.bus.newer_than(place)


def _is_uncounted(run: RunRecord) -> bool:
    return run.unknown and run.ended_at is not None and not run.log_bytes


@handles(Runs)
async def runs(context: Context, command: Runs) -> RunsResult:
    names = context.roster.names([command.service])
    await context.store.written()
    await context.log_sizes.refresh()
    limit = max(0, min(command.limit, 1000))
    stored = [run for name in names for run in await context.store.runs_of(name, limit)]
    lives = [context.roster.runners[name].run for name in names if name in context.roster.runners]
    # The size of a live run's output is stored only when it ends.
    printed = {live.run_id: live.log_bytes for live in lives if live is not None}
    found = [
        msgspec.structs.replace(run, log_bytes=printed[run.run_id])
        if run.run_id in printed
        else run
        for run in stored
    ]
    # The end of these runs was not seen, so their output was not counted: their log knows.
    for name in names:
        unseen = [run.number for run in found if run.service == name and _is_uncounted(run)]
        if unseen:
            from holdfast.adapters.output import printed_by

            counted = await context.in_thread(printed_by, context.logs, name, unseen)
            found = [
                msgspec.structs.replace(run, log_bytes=counted.get(run.number, 0))
                if run.service == name and _is_uncounted(run)
                else run
                for run in found
            ]
    if len(names) > 1:
        found = sorted(found, key=lambda run: run.started_at, reverse=True)[:limit]
    return RunsResult(runs=found)
