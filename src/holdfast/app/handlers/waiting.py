"""The handler of `wait`: until a service is somewhere, or has printed something."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from holdfast.adapters.output import RunLines
from holdfast.adapters.search.matcher import Matcher, check_expression
from holdfast.app.context import Context
from holdfast.engine.output.subscriptions import SILENCE_SECONDS, Subscription
from holdfast.engine.runner.runner import Runner
from holdfast.logbook.entries import Line, Note
from holdfast.rules.health import HEALTHY
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.services import Wait, WaitResult
from holdfast.vocabulary.states import State

_ENDED = (State.EXITED, State.FAILED, State.STOPPED, State.BACKOFF)
_LONGEST_SILENCE = 3600.0
_LOOK_SECONDS = 0.05
"""Who does not want to wait at all is told what is so now."""


async def wait(context: Context, command: Wait) -> WaitResult:
    """Of several services, until all have met it; the answer is about one that has not."""
    names = context.roster.names([command.service])
    runners = [context.roster.runners[name] for name in names]
    results = await asyncio.gather(*(_wait(context, runner, command) for runner in runners))
    return min(results, key=lambda result: (result.met, -result.seconds))


async def _wait(context: Context, runner: Runner, command: Wait) -> WaitResult:
    began = time.monotonic()
    is_met, line = False, None
    try:
        waiting = _until_met(context, runner, command.condition)
        is_met, line = await asyncio.wait_for(waiting, max(_LOOK_SECONDS, command.timeout))
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


async def _until_met(context: Context, runner: Runner, condition: str) -> tuple[bool, str | None]:
    if condition == "running":
        return await _until(runner, (State.RUNNING,), give_up=(State.FAILED,)), None
    if condition in ("ready", "healthy"):
        return await _until_judged(runner, condition), None
    if condition == "exited":
        return await _until(runner, _ENDED), None
    if condition.startswith("log:"):
        line = await _until_line(context, runner, condition[4:])
        return line is not None, line
    if condition.startswith("silent:"):
        return await _until_silent(context, runner, _seconds(condition[7:])), None
    hint = "running, ready, healthy, exited, log:REGEX or silent:SECONDS"
    raise UsageError(f'no condition "{condition}"', hint)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_SILENCE:
        raise UsageError(f'"{text}" is no number of seconds', "for example silent:2.5")
    return seconds


async def _until_silent(context: Context, runner: Runner, seconds: float) -> bool:
    """Until it has printed nothing for so long; a service that ended is silent."""
    subscription = context.subscriptions.subscribe([runner.name])
    try:
        while runner.state not in _ENDED:
            try:
                await asyncio.wait_for(_either(runner, subscription), seconds)
            except asyncio.TimeoutError:
                return True
        return True
    finally:
        subscription.close()


async def _until(
    runner: Runner, states: tuple[State, ...], give_up: tuple[State, ...] = ()
) -> bool:
    while runner.state not in states:
        if runner.state in give_up or runner.is_removed:
            return False
        await runner.next_change()
    return True


async def _until_judged(runner: Runner, condition: str) -> bool:
    """Until its probes say so; without probes, until it runs."""
    while not is_met(runner, condition):
        if runner.state is State.FAILED or runner.is_removed:
            return False
        await runner.next_change()
    return True


def is_met(runner: Runner, condition: str) -> bool:
    if runner.state is not State.RUNNING:
        return False
    if condition == "ready":
        return runner.condition.is_ready is not False
    known = runner.condition.health
    return known == HEALTHY or (known is None and runner.condition.is_ready is not False)


async def _until_line(context: Context, runner: Runner, expression: str) -> str | None:
    """Read on whenever the log grew, from the start of the current run; in a silence, try the
    line that is unfinished."""
    check_expression(expression)
    number = max(runner.number, 1)
    lines = await context.in_thread(RunLines, context.logs, runner.name, number)
    subscription = context.subscriptions.subscribe([runner.name])
    line_redactor = LineRedactor()
    is_silent = False
    try:
        async with context.searches, Matcher(context.link, expression) as matcher:
            while True:
                is_over = runner.state in _ENDED and runner.state is not State.BACKOFF
                # Redacted first: nobody can find out a secret by asking what it matches.
                added: list[Line | Note] = [*await context.in_thread(lines.batch, is_over)]
                is_all, rest = not added, lines.unfinished()
                is_silent = is_silent and is_all
                shown = line_redactor.preview(rest) if is_silent else line_redactor.redact(added)
                batch = [line for line in shown if isinstance(line, Line)]
                if found := await matcher.matches([line.data for line in batch]):
                    return batch[found[0]].text
                if is_all and runner.is_removed:
                    return None
                if is_all:
                    wait_seconds = SILENCE_SECONDS if rest and not is_silent else None
                    is_silent = not await _either(runner, subscription, wait_seconds)
    finally:
        subscription.close()
        lines.close()


async def _either(runner: Runner, subscription: Subscription, seconds: float | None = None) -> bool:
    """Whether the service changed or printed more, in time."""
    change: asyncio.Future[Any] = runner.next_change()
    more: asyncio.Future[Any] = asyncio.ensure_future(subscription.next())
    try:
        ways = [change, more]
        done, _ = await asyncio.wait(ways, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        change.cancel()
        more.cancel()
