"""Handlers of commands about services: look at them, start and stop them, wait for them.

The last part is shared with other subjects: which services are meant, how a request is recorded,
how services are forgotten, and what a failed service printed last."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

import holdfast
from holdfast.adapters import processes
from holdfast.adapters.output import RunLines, parse_cursor
from holdfast.adapters.own_log import logger
from holdfast.adapters.search.matcher import Matcher, check_expression
from holdfast.app.context import Context
from holdfast.app.handlers.banners import current_banners
from holdfast.app.registry import handles
from holdfast.engine.output.subscriptions import SILENCE_SECONDS, OutputSubscription
from holdfast.engine.ports import pass_ports
from holdfast.engine.runner import views
from holdfast.engine.runner.declaration import Overrides, spawn_message
from holdfast.engine.runner.runner import Runner
from holdfast.logbook.plain_text import shown
from holdfast.rules.health import HEALTHY
from holdfast.rules.secrets import may_read_values
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.secrets.redaction import shown_environment
from holdfast.system import deadlines
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.errors import Failed, HoldfastError, Refused, UsageError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.quantities import parse_signal, signal_name
from holdfast.vocabulary.services import (
    Environment,
    EnvironmentResult,
    Outcome,
    Outcomes,
    Pause,
    Ps,
    PsResult,
    Remove,
    Restart,
    Resume,
    Signal,
    Start,
    Status,
    Stop,
    SupervisorStatus,
    Variable,
    Wait,
    WaitResult,
    WrittenStatus,
)
from holdfast.vocabulary.states import Desired, State


@handles(Status)
def status(context: Context, command: Status) -> WrittenStatus | Awaitable[WrittenStatus]:
    if context.log_sizes.is_fresh():
        return _status(context, command)
    return _refreshed_status(context, command)


async def _refreshed_status(context: Context, command: Status) -> WrittenStatus:
    await asyncio.gather(context.log_sizes.refresh(), context.edited_configuration.refresh())
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
            config=context.workspace.configuration_path,
            selectors=roster.labels() or msgspec.UNSET,
            alerts=context.alerting.alerts.counts() or msgspec.UNSET,
            banners=current_banners(context) or msgspec.UNSET,
            doors=context.doors,
            **context.authority.status(),
            door_notes=door_notes(context) or msgspec.UNSET,
            fingerprint=context.gate.door.fingerprint or msgspec.UNSET,
            unclaimed=context.log_sizes.unclaimed or msgspec.UNSET,
            unrecorded=context.store.database.failing or msgspec.UNSET,
        ),
        services=views.encode_statuses(runners, now),
    )


def door_notes(context: Context) -> dict[str, str]:
    """Return the notes about doors that still hold."""
    if not context.door_notes:
        return {}
    from holdfast.engine.gate.port_conflicts import notes_now

    return notes_now(context.door_notes)


@handles(Ps)
async def ps(context: Context, command: Ps) -> PsResult:
    trees: dict[str, list[dict[str, object]]] = {}
    for name in context.roster.names(command.services):
        runner = context.roster.get(name)
        if runner.run is None:
            trees[name] = []
            continue
        try:
            answer = await context.link.ask({"do": "tree", "run_id": runner.run.run_id})
            trees[name] = [{**process} for process in answer.get("processes") or ()]
        except Failed:
            trees[name] = []
    described = {
        name: await context.in_thread(processes.describe, found) if found else []
        for name, found in trees.items()
    }
    return PsResult(services=described)


@handles(Environment)
def environment(context: Context, command: Environment, actor: Actor) -> EnvironmentResult:
    if command.reveal and not (may_read_values(actor) and actor.door is Door.CLI):
        raise Refused(
            "only the owner, at this machine, is told the values of variables",
            f"holdfast exec --service {command.service} -- COMMAND runs a command with them, "
            "as far as `commands:` allows it",
        )
    runner = context.roster.get(command.service)
    declaration, spec = runner.declaration, runner.declaration.spec
    message = spawn_message(declaration, runner.overrides, "", 0)
    declared = set(message["env"])
    others = {
        name: other.ports or other.declaration.spec.ports
        for name, other in context.roster.runners.items()
    }
    pass_ports(message, runner.ports or {}, others)
    inherited = declaration.environ if spec.environment == "inherit" else {}
    added = runner.overrides.env_vars if runner.overrides is not None else {}
    values = {**inherited, **message["env"]}
    shown = values if command.reveal else shown_environment(values)

    def source(name: str) -> Literal["up", "configuration", "port", "restart", "holdfast"]:
        if name in added:
            return "restart"
        if name in spec.env:
            return "configuration"
        if name in declared:
            return "holdfast"
        return "port" if name in message["env"] else "up"

    return EnvironmentResult(
        service=runner.name,
        working_dir=spec.working_dir,
        user=spec.user,
        umask=spec.umask,
        variables=[
            Variable(name=name, value=shown[name], source=source(name)) for name in sorted(values)
        ],
    )


@handles(Start)
async def start(context: Context, command: Start, actor: Actor) -> Outcomes:
    names = _names(context, command)
    record_start(context, names, "start", actor, keep=command.keep)
    is_all = not command.services and not command.default
    if not is_all:
        context.survivors.dismiss_doubts(names)
    scheduled = context.schedules.arm_all(names) if is_all else {}
    names = [name for name in names if name not in scheduled]
    started = await context.roster.start(names, wait=command.wait, seconds=command.timeout)
    outcomes = {**started, **scheduled}
    return Outcomes(services=await with_last_lines(context, outcomes))


@handles(Stop)
async def stop(context: Context, command: Stop) -> Outcomes:
    if command.grace is not None and command.grace < 0:
        raise UsageError(f"stop: {command.grace:g} s is no grace", "0 kills at once")
    names = _names(context, command)
    record_request(context, names, "stop")
    return Outcomes(services=await context.roster.stop(names, grace=command.grace, by_hand=True))


@handles(Restart)
async def restart(context: Context, command: Restart, actor: Actor) -> Outcomes:
    roster = context.roster
    wanted = [*command.services, *([command.service] if command.service else [])]
    if not wanted:
        wanted = [choose_service(context, None, "restart").name]
    overrides = None
    if command.args is not None or command.env_vars:
        args = None if command.args is None else tuple(command.args)
        overrides = Overrides(args=args, env_vars=command.env_vars or {})
    runners = [roster.runners[name] for name in roster.names(wanted)]
    names = [runner.name for runner in runners]
    record_start(context, names, "restart", actor, keep=command.keep)
    context.survivors.dismiss_doubts([runner.name for runner in runners])
    futures = {
        runner.name: runner.restart(wait=command.wait, overrides=overrides) for runner in runners
    }
    for runner in runners:
        roster.remember(runner)
    outcomes = await roster.outcomes(futures, command.timeout)
    for runner in runners:
        roster.remember(runner)
    return Outcomes(services=await with_last_lines(context, outcomes))


@handles(Remove)
async def remove(context: Context, command: Remove) -> Outcomes:
    async with context.changes:
        names = [runner.name for runner in find_services(context, command.services)]
        outcomes = await stop_and_forget(context, names, delete_logs=not command.keep_logs)
        context.roster.forget_environments()
        await context.store.written()
    return Outcomes(services=outcomes)


def _names(context: Context, command: Start | Stop) -> list[str]:
    if command.default and not command.services:
        return [choose_service(context, None, command.name).name]
    return context.roster.names(command.services)


@handles(Pause)
async def pause(context: Context, command: Pause) -> Outcomes:
    return await _of_each(find_services(context, command.services), lambda runner: runner.pause())


@handles(Resume)
async def resume(context: Context, command: Resume) -> Outcomes:
    return await _of_each(find_services(context, command.services), lambda runner: runner.resume())


@handles(Signal)
async def signal(context: Context, command: Signal) -> Outcomes:
    if command.to not in ("main", "group", "tree"):
        raise UsageError(f'to: "{command.to}" is none of main, group, tree')
    try:
        number = parse_signal(command.signal)
    except ValueError:
        hint = "for example SIGHUP, USR1 or 15"
        raise UsageError(f'no signal "{command.signal}"', hint) from None

    async def send(runner: Runner) -> Outcome:
        run_id = runner.live_run_id()
        await context.link.ask(
            {"do": "signal", "run_id": run_id, "signal": number, "to": command.to}
        )
        facts = {"signal": signal_name(number), "to": command.to}
        context.store.event(EventKind.SIGNAL_SENT, runner.name, runner.last_run_id, **facts)
        return runner.outcome("signalled")

    return await _of_each(find_services(context, command.services), send)


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
        services={runner.name: outcome for runner, outcome in zip(runners, outcomes, strict=True)}
    )


_ENDED = (State.EXITED, State.FAILED, State.STOPPED, State.BACKOFF)
_LONGEST_SILENCE = 3600.0
_LOOK_SECONDS = 0.05
"""A wait takes at least this long, so that a timeout of 0 still answers the current state."""


@handles(Wait)
async def wait(context: Context, command: Wait) -> WaitResult:
    """Wait until all services meet the condition. The answer is about one that does not, if any."""
    names = context.roster.names([command.service])
    runners = [context.roster.runners[name] for name in names]
    results = await asyncio.gather(*(_wait(context, runner, command) for runner in runners))
    return min(results, key=lambda result: (result.met, -result.seconds))


async def _wait(context: Context, runner: Runner, command: Wait) -> WaitResult:
    began = time.monotonic()
    is_met, line = False, None
    try:
        waiting = _until_met(context, runner, command)
        is_met, line = await deadlines.wait_for(waiting, max(_LOOK_SECONDS, command.timeout))
    except TimeoutError:
        pass
    return WaitResult(
        service=runner.name,
        met=is_met,
        status=runner.state.value,
        exit_code=runner.last_exit.code if runner.state in _ENDED else None,
        line=line,
        seconds=round(time.monotonic() - began, 3),
    )


async def _until_met(context: Context, runner: Runner, command: Wait) -> tuple[bool, str | None]:
    condition = command.condition
    if condition == "running":
        return await _until(runner, (State.RUNNING,), give_up=(State.FAILED,)), None
    if condition in ("ready", "healthy"):
        return await _until_judged(runner, condition), None
    if condition == "exited":
        return await _until(runner, _ENDED), None
    if condition == "gone":
        return await _until_gone(runner), None
    if condition.startswith("log:"):
        line = await _until_line(context, runner, condition[4:], command)
        return line is not None, line
    if condition.startswith("silent:"):
        return await _until_silent(context, runner, _seconds(condition[7:])), None
    hint = "running, ready, healthy, exited, gone, log:REGEX or silent:SECONDS"
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
    """Wait until it has printed nothing for this long. A service that ended is silent."""
    subscription = context.subscriptions.subscribe([runner.name])
    try:
        while runner.state not in _ENDED:
            try:
                await deadlines.wait_for(_either(runner, subscription), seconds)
            except TimeoutError:
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


async def _until_gone(runner: Runner) -> bool:
    """Wait until no process of it is left, in the background neither."""
    while runner.has_processes and not runner.is_removed:
        await runner.next_change()
    return True


async def _until_judged(runner: Runner, condition: str) -> bool:
    """Wait until its probes say so; without probes, until it runs."""
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


async def _until_line(
    context: Context, runner: Runner, expression: str, command: Wait
) -> str | None:
    """Return the first line that matches, from the start of the current run or the cursor on.
    Reads on whenever the log grew. When nothing comes, tries the unfinished line."""
    check_expression(expression)
    is_raw, number = command.raw, max(runner.number, 1)
    # Redacted first: nobody can find out a secret by asking what it matches.
    place = (context.logs, runner.name, number, expression)
    start = None if command.cursor is None else parse_cursor(command.cursor)
    lines = await context.in_thread(RunLines, *place, LineRedactor(), start)
    subscription = context.subscriptions.subscribe([runner.name])
    is_silent = False
    try:
        async with context.searches, Matcher(context.link, expression) as matcher:
            while True:
                is_over = runner.state in _ENDED and runner.state is not State.BACKOFF
                added: list[bytes] = await context.in_thread(lines.batch, is_over)
                is_all, rest = lines.is_at_end and not added, lines.unfinished()
                is_silent = is_silent and is_all
                batch = await context.in_thread(lines.preview) if is_silent else added
                batch = batch if is_raw else [shown(line) for line in batch]
                if found := await matcher.matches(batch):
                    return batch[found[0]].decode("utf-8", "replace")
                if is_all and runner.is_removed:
                    return None
                if is_all:
                    wait_seconds = SILENCE_SECONDS if rest and not is_silent else None
                    is_silent = not await _either(runner, subscription, wait_seconds)
    finally:
        subscription.close()
        lines.close()


async def _either(
    runner: Runner, subscription: OutputSubscription, seconds: float | None = None
) -> bool:
    """Return whether the service changed or printed more within the time."""
    change: asyncio.Future[Any] = runner.next_change()
    more: asyncio.Future[Any] = asyncio.ensure_future(subscription.next())
    try:
        ways = [change, more]
        done, _ = await asyncio.wait(ways, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        change.cancel()
        more.cancel()


def choose_service(context: Context, name: str | None, verb: str) -> Runner:
    """Return the named service, the default one or the only one; else raise UsageError."""
    roster = context.roster
    name = name or context.settings.now.default_service
    if name is not None:
        return roster.get(name)
    if len(roster.runners) == 1:
        return next(iter(roster.runners.values()))
    known = ", ".join(roster.runners) or "none"
    raise UsageError(
        f"{verb} needs the name of a service",
        f"known: {known}; `default_service:` in the configuration names one for good",
    )


def find_services(context: Context, names: list[str]) -> list[Runner]:
    """Return the services that the names stand for. Without names raise UsageError."""
    if not names:
        raise UsageError("name at least one service", f"known: {', '.join(context.roster.runners)}")
    return [context.roster.runners[name] for name in context.roster.names(names)]


def record_start(
    context: Context, names: list[str], request: str, actor: Actor, *, keep: bool
) -> None:
    """Record a request to start or restart services, and for which session it is."""
    record_request(context, names, request)
    if request == "restart":
        owner = None if keep else context.sessions.owner_for(actor)
        context.sessions.ownership.claim(names, owner)
    else:
        claim(context, names, actor, keep=keep)


def claim(context: Context, names: list[str], actor: Actor, *, keep: bool = False) -> None:
    """Note for whom these services and their dependencies are started: the session, or the user,
    to whom a session leaves them with `keep`."""
    order = context.roster.start_order(names)
    owner = None if keep else context.sessions.owner_for(actor)
    context.sessions.ownership.claim(order, owner)


def record_request(context: Context, names: Iterable[str], request: str) -> None:
    """Record in the history what users ask of services, unless it is so already."""
    for name in names:
        runner = context.roster.get(name)
        is_so = request == ("stop" if runner.desired is Desired.STOPPED else "start")
        if request == "restart" or not is_so or (runner.run is None) is (request == "start"):
            context.store.event(EventKind.REQUESTED, name, runner.last_run_id, request=request)


async def stop_and_forget(
    context: Context, names: list[str], *, delete_logs: bool
) -> dict[str, Outcome]:
    """Stop services in reverse order of dependency, and forget those without a process.

    Call it while `context.changes` is held.
    """
    leaving = [context.roster.runners[name] for name in names]
    for runner in leaving:
        runner.set_leaving(True)
    try:
        return await _stop_and_forget(context, names, delete_logs=delete_logs)
    finally:
        # Services that are still there stay, also if this was cancelled.
        for runner in leaving:
            runner.set_leaving(False)


async def _stop_and_forget(
    context: Context, names: list[str], *, delete_logs: bool
) -> dict[str, Outcome]:
    roster = context.roster
    outcomes = await roster.stop(names, grace=None)
    for name in names:
        runner = roster.runners.get(name)
        if runner is None:
            continue
        if runner.has_processes:
            if outcomes[name].outcome != "failed":
                outcomes[name] = runner.outcome("failed", "it was started again meanwhile")
            continue
        # Before anything is awaited: a service that is being forgotten must not be started.
        roster.remove(name)
        outcomes[name] = runner.outcome("removed")
        if delete_logs:
            await context.link.ask({"do": "prune", "service": name, "all": True})
    return outcomes


_log = logger("last_lines")
LAST_LINES = 10
LONGEST_LINE = 1000


def shown_lines(
    logs: str, service: str, number: int, stream: Literal["out", "err"] | None = None
) -> list[str]:
    from holdfast.adapters.output import last_lines

    lines = last_lines(logs, service, number, LAST_LINES, stream)
    return [line[:LONGEST_LINE] for line in lines]


async def with_last_lines(context: Context, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Add to each failure the last lines that the service printed."""
    told = {}
    for name, outcome in outcomes.items():
        runner = context.roster.runners.get(name)
        is_told = outcome.outcome == "failed" and runner is not None and not runner.waiting_for
        if is_told and runner is not None and runner.number:
            number = runner.number
            if runner.run is not None and runner.run.pid is None:
                number -= 1
            try:
                lines = await context.in_thread(shown_lines, context.logs, name, number)
            except OSError as error:
                # The outcome is the same, although the last lines cannot be shown.
                _log.warning("the last lines of %s cannot be read: %s", name, error)
            else:
                outcome = msgspec.structs.replace(outcome, last_lines=lines)
        told[name] = outcome
    return told
