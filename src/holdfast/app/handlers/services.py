"""Handlers of commands about services."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from typing import Any

import holdfast
from holdfast.adapters import processes
from holdfast.adapters.output import LineSearch, last_lines
from holdfast.app.context import Context
from holdfast.engine.declaration import Overrides, signal_number
from holdfast.engine.service_runner import ServiceRunner
from holdfast.engine.watches import Subscription
from holdfast.vocabulary.commands.services import (
    Pause,
    Ps,
    Remove,
    Restart,
    Resume,
    Signal,
    Start,
    Status,
    Stop,
    Wait,
)
from holdfast.vocabulary.errors import Failed, UsageError
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.results import (
    Outcome,
    Outcomes,
    PsResult,
    StatusResult,
    SupervisorStatus,
    WaitResult,
)
from holdfast.vocabulary.states import State

LAST_LINES = 10
_ENDED = (State.EXITED, State.FAILED, State.STOPPED, State.BACKOFF)


def status(context: Context, command: Status) -> StatusResult | Awaitable[StatusResult]:
    if context.recorded.is_fresh() or not context.roster.runners:
        return _status(context, command)
    return _refreshed_status(context, command)


async def _refreshed_status(context: Context, command: Status) -> StatusResult:
    await context.recorded.refresh()
    return _status(context, command)


def _status(context: Context, command: Status) -> StatusResult:
    roster = context.roster
    runners = [roster.get(name) for name in command.services] or list(roster.runners.values())
    return StatusResult(
        supervisor=SupervisorStatus(
            status="running",
            uptime=round(time.monotonic() - context.started_mono, 3),
            managed_services=len(roster.runners),
            pid=os.getpid(),
            keeper_pid=context.link.keeper_pid,
            version=holdfast.__version__,
            project=context.project,
            config=context.config,
        ),
        services={runner.name: runner.status() for runner in runners},
    )


async def start(context: Context, command: Start) -> Outcomes:
    names = context.roster.names(command.services)
    outcomes = await context.roster.start(names, wait=command.wait)
    return Outcomes(services=await with_last_lines(context, outcomes))


async def stop(context: Context, command: Stop) -> Outcomes:
    names = context.roster.names(command.services)
    return Outcomes(services=await context.roster.stop(names, grace=command.grace))


async def restart(context: Context, command: Restart) -> Outcomes:
    roster = context.roster
    wanted = [*command.services, *([command.service] if command.service else [])]
    if not wanted:
        if len(roster.runners) != 1:
            known = ", ".join(roster.runners) or "none"
            raise UsageError("restart needs the name of a service", f"known: {known}")
        wanted = list(roster.runners)
    overrides = None
    if command.args is not None or command.env_vars:
        args = None if command.args is None else tuple(command.args)
        overrides = Overrides(args=args, env_vars=command.env_vars or {})
    runners = [roster.get(name) for name in dict.fromkeys(wanted)]
    futures = [runner.restart(wait=command.wait, overrides=overrides) for runner in runners]
    for runner in runners:
        roster.remember(runner)
    outcomes = {runner.name: await future for runner, future in zip(runners, futures, strict=True)}
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
        number = signal_number(command.signal)
    except ValueError as error:
        raise UsageError(str(error), "for example SIGHUP, USR1 or 15") from None
    outcomes: dict[str, Outcome] = {}
    for runner in _named(context, command.services):
        message = {"do": "signal", "run_id": runner.live_run_id(), "signal": int(number)}
        await context.link.ask({**message, "to": command.to})
        context.store.event(
            Kind.SIGNAL_SENT, runner.name, runner.last_run_id, signal=number.name, to=command.to
        )
        outcomes[runner.name] = runner.outcome("signalled")
    return Outcomes(services=outcomes)


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


async def wait(context: Context, command: Wait) -> WaitResult:
    runner = context.roster.get(command.service)
    began = time.monotonic()
    is_met, line = False, None
    try:
        waiting = _until_met(context, runner, command.condition)
        is_met, line = await asyncio.wait_for(waiting, max(0.0, command.timeout))
    except asyncio.TimeoutError:
        pass
    return WaitResult(
        service=runner.name,
        met=is_met,
        status=runner.state.value,
        exit_code=runner.last_exit.code if runner.state in _ENDED else None,
        line=line,
        seconds=round(time.monotonic() - began, 3),
    )


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


async def with_last_lines(context: Context, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Let failures say what the service printed last."""
    told = {}
    for name, outcome in outcomes.items():
        runner = context.roster.runners.get(name)
        if outcome.outcome == "failed" and runner is not None and runner.number:
            number = runner.number
            if runner.run is not None and runner.run.pid is None:
                number -= 1
            lines = await context.in_thread(last_lines, context.logs, name, number, LAST_LINES)
            outcome = Outcome(
                outcome=outcome.outcome,
                status=outcome.status,
                pid=outcome.pid,
                run_id=outcome.run_id,
                reason=outcome.reason,
                exit_code=outcome.exit_code,
                last_lines=lines,
                report=outcome.report,
            )
        told[name] = outcome
    return told


def _named(context: Context, names: list[str]) -> list[ServiceRunner]:
    if not names:
        raise UsageError("name at least one service", f"known: {', '.join(context.roster.runners)}")
    return [context.roster.get(name) for name in dict.fromkeys(names)]


async def _until_met(
    context: Context, runner: ServiceRunner, condition: str
) -> tuple[bool, str | None]:
    if condition == "running":
        return await _until(runner, (State.RUNNING,), give_up=(State.FAILED,)), None
    if condition == "exited":
        return await _until(runner, _ENDED), None
    if condition.startswith("log:"):
        line = await _until_line(context, runner, condition[4:])
        return line is not None, line
    raise UsageError(f'no condition "{condition}"', "running, exited or log:REGEX")


async def _until(
    runner: ServiceRunner, states: tuple[State, ...], give_up: tuple[State, ...] = ()
) -> bool:
    while runner.state not in states:
        if runner.state in give_up:
            return False
        await runner.next_change()
    return True


async def _until_line(context: Context, runner: ServiceRunner, expression: str) -> str | None:
    """Read on whenever the log grew, from the start of the current run."""
    subscription = context.watches.subscribe([runner.name])
    number = max(runner.number, 1)
    search = await context.in_thread(LineSearch, context.logs, runner.name, number, expression)
    try:
        while True:
            has_ended = runner.state in _ENDED and runner.state is not State.BACKOFF
            line: str | None = await context.in_thread(
                lambda is_last: search.next_match(is_last=is_last), has_ended
            )
            if line is not None:
                return line
            await _either(runner, subscription)
    finally:
        subscription.close()
        search.close()


async def _either(runner: ServiceRunner, subscription: Subscription) -> None:
    """Return when the service changed or printed more."""
    change: asyncio.Future[Any] = runner.next_change()
    more: asyncio.Future[Any] = asyncio.ensure_future(subscription.next())
    try:
        await asyncio.wait([change, more], return_when=asyncio.FIRST_COMPLETED)
    finally:
        more.cancel()
