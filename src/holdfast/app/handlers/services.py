"""Handlers of commands that do something to services."""

from __future__ import annotations

from holdfast.app.context import Context
from holdfast.app.handlers.chosen import the_service
from holdfast.app.handlers.last_lines import with_last_lines
from holdfast.app.handlers.requests import note_request, note_stop
from holdfast.engine.declaration import Overrides
from holdfast.engine.service_runner import ServiceRunner
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands.services import (
    Pause,
    Remove,
    Restart,
    Resume,
    Signal,
    Start,
    Stop,
)
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.quantities import parse_signal, signal_name
from holdfast.vocabulary.results import Outcome, Outcomes


async def start(context: Context, command: Start, actor: Actor) -> Outcomes:
    names = _names(context, command)
    note_request(context, names, "start", actor)
    is_all = not command.services and not command.default
    scheduled = context.schedules.arm_all(names) if is_all else {}
    names = [name for name in names if name not in scheduled]
    started = await context.roster.start(names, wait=command.wait, seconds=command.timeout)
    outcomes = {**started, **scheduled}
    return Outcomes(services=await with_last_lines(context, outcomes))


async def stop(context: Context, command: Stop) -> Outcomes:
    names = _names(context, command)
    note_stop(context, names)
    return Outcomes(services=await context.roster.stop(names, grace=command.grace))


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
    futures = {it.name: it.restart(wait=command.wait, overrides=overrides) for it in runners}
    for runner in runners:
        roster.remember(runner)
    outcomes = await roster.outcomes(futures, command.timeout)
    for runner in runners:
        roster.remember(runner)
    return Outcomes(services=await with_last_lines(context, outcomes))


async def pause(context: Context, command: Pause) -> Outcomes:
    runners = _named(context, command.services)
    futures = [(runner.name, runner.pause()) for runner in runners]
    return Outcomes(services={name: await future for name, future in futures})


async def resume(context: Context, command: Resume) -> Outcomes:
    runners = _named(context, command.services)
    futures = [(runner.name, runner.resume()) for runner in runners]
    return Outcomes(services={name: await future for name, future in futures})


async def signal(context: Context, command: Signal) -> Outcomes:
    if command.to not in ("main", "group", "tree"):
        raise UsageError(f'to: "{command.to}" is none of main, group, tree')
    try:
        number = parse_signal(command.signal)
    except ValueError:
        hint = "for example SIGHUP, USR1 or 15"
        raise UsageError(f'no signal "{command.signal}"', hint) from None
    outcomes: dict[str, Outcome] = {}
    for runner in _named(context, command.services):
        message = {"do": "signal", "run_id": runner.live_run_id(), "signal": number}
        await context.link.ask({**message, "to": command.to})
        facts = {"signal": signal_name(number), "to": command.to}
        context.store.event(Kind.SIGNAL_SENT, runner.name, runner.last_run_id, **facts)
        outcomes[runner.name] = runner.outcome("signalled")
    return Outcomes(services=outcomes)


async def remove(context: Context, command: Remove) -> Outcomes:
    names = [runner.name for runner in _named(context, command.services)]
    async with context.changes:
        outcomes = await context.roster.stop(names, grace=None)
        for name in names:
            runner = context.roster.get(name)
            if runner.run is not None:
                continue
            if not command.keep_logs:
                await context.link.ask({"do": "prune", "service": name, "all": True})
            context.roster.remove(name)
            outcomes[name] = runner.outcome("removed")
        context.roster.forget_environments()
        await context.store.written()
    return Outcomes(services=outcomes)


def _names(context: Context, command: Start | Stop) -> list[str]:
    if command.default and not command.services:
        return [the_service(context, None, command.name).name]
    return context.roster.names(command.services)


def _named(context: Context, names: list[str]) -> list[ServiceRunner]:
    if not names:
        raise UsageError("name at least one service", f"known: {', '.join(context.roster.runners)}")
    return [context.roster.runners[name] for name in context.roster.names(names)]
