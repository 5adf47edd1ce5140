"""Handlers that look at services: their status, their process trees."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable

import msgspec

import holdfast
from holdfast.adapters import processes
from holdfast.app.context import Context
from holdfast.engine.runner import views
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.services import Ps, PsResult, Status, SupervisorStatus, WrittenStatus


def status(context: Context, command: Status) -> WrittenStatus | Awaitable[WrittenStatus]:
    if context.log_sizes.is_fresh():
        return _status(context, command)
    return _refreshed_status(context, command)


async def _refreshed_status(context: Context, command: Status) -> WrittenStatus:
    await context.log_sizes.refresh()
    return _status(context, command)


def _status(context: Context, command: Status) -> WrittenStatus:
    roster, now = context.roster, time.monotonic()
    runners = map(roster.runners.__getitem__, roster.names(command.services))
    return WrittenStatus(
        supervisor=SupervisorStatus(
            status="running",
            uptime=round(now - context.started_mono, 3),
            managed_services=len(roster.runners),
            pid=os.getpid(),
            keeper_pid=context.link.keeper_pid,
            version=holdfast.__version__,
            project=context.project,
            config=context.config,
            selectors=roster.labels() or msgspec.UNSET,
            alerts=context.alerting.alerts.counts() or msgspec.UNSET,
            doors=context.doors,
            **context.authority.status(),
            door_notes=door_notes(context) or msgspec.UNSET,
            fingerprint=context.gate.door.fingerprint or msgspec.UNSET,
            unclaimed=context.log_sizes.unclaimed or msgspec.UNSET,
            unrecorded=context.store.database.failing or msgspec.UNSET,
        ),
        services=views.written(runners, now),
    )


def door_notes(context: Context) -> dict[str, str]:
    """What there is to say of the doors as things are now."""
    if not context.door_notes:
        return {}
    from holdfast.engine.gate.port_conflicts import notes_now

    return notes_now(context.door_notes)


async def ps(context: Context, command: Ps) -> PsResult:
    trees: dict[str, list[dict[str, object]]] = {}
    for name in context.roster.names(command.services):
        runner = context.roster.get(name)
        if runner.run is None:
            trees[name] = []
            continue
        try:
            answer = await context.link.ask({"do": "tree", "run_id": runner.run.run_id})
            trees[name] = answer.get("processes") or []
        except Failed:
            trees[name] = []
    described = {
        name: await context.in_thread(processes.describe, found) if found else []
        for name, found in trees.items()
    }
    return PsResult(services=described)
