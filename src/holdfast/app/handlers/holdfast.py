"""Handlers of commands about Holdfast itself."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

import holdfast
from holdfast.adapters import keeper_memory
from holdfast.app.context import Context
from holdfast.rules.authority.tokens import is_given as is_given_to
from holdfast.rules.secrets import may_read_values
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Done
from holdfast.vocabulary.errors import Refused
from holdfast.vocabulary.holdfast import (
    Hello,
    HelloResult,
    Prune,
    PruneResult,
    Shutdown,
    ShutdownResult,
    Upgrade,
)

PROTOCOL = 1


def hello(context: Context, command: Hello, actor: Actor) -> HelloResult:
    """Everybody who is known is told who they are; where Holdfast lives and listens, only those
    whose limits leave them this command."""
    door = context.settings.now.door
    is_given = is_given_to(actor, command.name, None if door is None else door.allowed_commands)
    return HelloResult(
        version=holdfast.__version__,
        protocol=PROTOCOL,
        pid=os.getpid() if is_given else 0,
        keeper_pid=context.link.keeper_pid if is_given else 0,
        keeper_version=str(context.link.facts.get("version") or ""),
        project=context.project if is_given else "",
        state=context.state if is_given else "",
        actor=actor.name,
        role=actor.role.value,
        runtime_mode=context.authority.modes.now,
        lockdown=context.authority.told_lockdown(),
        doors=context.doors if is_given else {},
        fingerprint=context.gate.door.fingerprint,
        no_assistants=context.gate.shut,
        hidden=_hidden(context) if command.secrets and may_read_values(actor) else msgspec.UNSET,
    )


def _hidden(context: Context) -> dict[str, Any]:
    """For who reads the files of logs itself, and must not show these."""
    return {"number": context.secrets.number, "values": context.secrets.values}


async def prune(context: Context, command: Prune) -> PruneResult:
    names = context.roster.names(command.services)
    before = time.time() - command.older_than
    runs = await context.store.prune_runs(names, before)
    deleted = 0
    for name in names:
        answer = await context.link.ask({"do": "prune", "service": name, "before": before})
        deleted += int(answer.get("deleted_bytes") or 0)
    return PruneResult(deleted_bytes=deleted, deleted_runs=runs, services=names)


async def upgrade(context: Context, command: Upgrade) -> Done:
    for one in context.workflows.under_way():
        raise Refused(
            f"{one.name} is under way ({one.what}), and an upgrade would break it off",
            f"wait for it, or end it: holdfast workflow --cancel {one.id}",
        )
    context.link.keep(keeper_memory.UPGRADE_FROM, holdfast.__version__)
    await context.store.written()
    try:
        answer = await context.link.ask(
            {
                "do": "upgrade",
                "argv_prefix": command.argv_prefix,
                "package": command.package,
                "import_path": command.import_path,
            }
        )
    except BaseException:
        context.link.keep(keeper_memory.UPGRADE_FROM, None)
        raise
    return Done(message=f"the keeper is version {answer.get('version', 'unknown')} now")


async def shutdown(context: Context, command: Shutdown) -> ShutdownResult:
    return await context.shutdown.begin(
        keep_running=command.keep_running, now=command.now, why="asked by a user"
    )
