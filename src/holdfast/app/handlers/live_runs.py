"""Handlers of commands about the processes of services that run: pause, resume, signal.

What cannot be done to one of several keeps none of the others from it; each has its outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.app.context import Context
from holdfast.app.handlers.chosen import named
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.errors import HoldfastError, UsageError
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.quantities import parse_signal, signal_name
from holdfast.vocabulary.services import Outcome, Outcomes, Pause, Resume, Signal


async def pause(context: Context, command: Pause) -> Outcomes:
    return await _of_each(named(context, command.services), lambda runner: runner.pause())


async def resume(context: Context, command: Resume) -> Outcomes:
    return await _of_each(named(context, command.services), lambda runner: runner.resume())


async def signal(context: Context, command: Signal) -> Outcomes:
    if command.to not in ("main", "group", "tree"):
        raise UsageError(f'to: "{command.to}" is none of main, group, tree')
    try:
        number = parse_signal(command.signal)
    except ValueError:
        hint = "for example SIGHUP, USR1 or 15"
        raise UsageError(f'no signal "{command.signal}"', hint) from None

    async def send(runner: Runner) -> Outcome:
        message = {"do": "signal", "run_id": runner.live_run_id(), "signal": number}
        await context.link.ask({**message, "to": command.to})
        facts = {"signal": signal_name(number), "to": command.to}
        context.store.event(Kind.SIGNAL_SENT, runner.name, runner.last_run_id, **facts)
        return runner.outcome("signalled")

    return await _of_each(named(context, command.services), send)


async def _of_each(
    runners: Sequence[Runner], act: Callable[[Runner], Awaitable[Outcome]]
) -> Outcomes:
    async def one(runner: Runner) -> Outcome:
        try:
            return await act(runner)
        except HoldfastError as error:
            if len(runners) == 1:
                raise
            return runner.outcome("failed", error.message)

    outcomes = await asyncio.gather(*(one(runner) for runner in runners))
    return Outcomes(
        services={it.name: outcome for it, outcome in zip(runners, outcomes, strict=True)}
    )
