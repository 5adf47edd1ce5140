"""Handlers of commands that do something to services."""

from __future__ import annotations

from holdfast.app.context import Context
from holdfast.app.handlers.chosen import named, the_service
from holdfast.app.handlers.last_lines import with_last_lines
from holdfast.app.handlers.removing import stop_and_forget
from holdfast.app.handlers.requests import note_request, note_stop
from holdfast.engine.runner.declaration import Overrides
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.services import Outcomes, Remove, Restart, Start, Stop


async def start(context: Context, command: Start, actor: Actor) -> Outcomes:
    names = _names(context, command)
    note_request(context, names, "start", actor)
    is_all = not command.services and not command.default
    if not is_all:
        context.survivors.dismiss_doubts(names)
    scheduled = context.schedules.arm_all(names) if is_all else {}
    names = [name for name in names if name not in scheduled]
    started = await context.roster.start(names, wait=command.wait, seconds=command.timeout)
    outcomes = {**started, **scheduled}
    return Outcomes(services=await with_last_lines(context, outcomes))


async def stop(context: Context, command: Stop) -> Outcomes:
    if command.grace is not None and command.grace < 0:
        raise UsageError(f"stop: {command.grace:g} s is no grace", "0 kills at once")
    names = _names(context, command)
    note_stop(context, names)
    return Outcomes(services=await context.roster.stop(names, grace=command.grace, by_hand=True))


async def restart(context: Context, command: Restart, actor: Actor) -> Outcomes:
    roster = context.roster
    wanted = [*command.services, *([command.service] if command.service else [])]
    if not wanted:
        wanted = [the_service(context, None, "restart").name]
    overrides = None
    if command.args is not None or command.env_vars:
        args = None if command.args is None else tuple(command.args)
        overrides = Overrides(args=args, env_vars=command.env_vars or {})
    runners = [roster.runners[name] for name in roster.names(wanted)]
    note_request(context, [runner.name for runner in runners], "restart", actor)
    context.survivors.dismiss_doubts([runner.name for runner in runners])
    futures = {it.name: it.restart(wait=command.wait, overrides=overrides) for it in runners}
    for runner in runners:
        roster.remember(runner)
    outcomes = await roster.outcomes(futures, command.timeout)
    for runner in runners:
        roster.remember(runner)
    return Outcomes(services=await with_last_lines(context, outcomes))


async def remove(context: Context, command: Remove) -> Outcomes:
    async with context.changes:
        names = [runner.name for runner in named(context, command.services)]
        outcomes = await stop_and_forget(context, names, delete_logs=not command.keep_logs)
        context.roster.forget_environments()
        await context.store.written()
    return Outcomes(services=outcomes)


def _names(context: Context, command: Start | Stop) -> list[str]:
    if command.default and not command.services:
        return [the_service(context, None, command.name).name]
    return context.roster.names(command.services)
