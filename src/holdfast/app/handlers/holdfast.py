"""Handlers of commands about Holdfast itself, and of those that bring services into it."""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

import msgspec

import holdfast
from holdfast.adapters import keeper_memory, processes
from holdfast.adapters.run_ids import new_run_id
from holdfast.app.authority import approved_configuration
from holdfast.app.authority.path_scopes import confine
from holdfast.app.context import Context
from holdfast.app.handlers.configuration import (
    check_removes_by_words,
    read_configuration,
    use_settings,
)
from holdfast.app.handlers.instances import fit_instances
from holdfast.app.handlers.services import claim, with_last_lines
from holdfast.app.registry import handles
from holdfast.engine import caller
from holdfast.engine.caller import UpEnvironment
from holdfast.engine.runner.declaration import (
    Declaration,
    environ_digest,
    log_settings,
    stop_settings,
)
from holdfast.engine.runner.runner import Runner
from holdfast.engine.selectors import Selectors
from holdfast.rules.authority.tokens import is_given as is_given_to
from holdfast.rules.secrets import may_read_values
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Done, Door
from holdfast.vocabulary.errors import Failed, HoldfastError, Refused, UsageError
from holdfast.vocabulary.holdfast import (
    Adopt,
    Hello,
    HelloResult,
    Prune,
    PruneResult,
    Run,
    RunResult,
    Shutdown,
    ShutdownResult,
    Up,
    Upgrade,
    UpResult,
)
from holdfast.vocabulary.names import SERVICE_NAME_RULE, is_service_name
from holdfast.vocabulary.services import Outcomes
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import Configuration

PROTOCOL = 1


@handles(Hello)
def hello(context: Context, command: Hello, actor: Actor) -> HelloResult:
    """Tell every known caller who they are. Only a caller whose limits allow this command learns
    where Holdfast lives and listens."""
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
        session=actor.session,
        role=actor.role.value,
        runtime_mode=context.authority.modes.now,
        lockdown=context.authority.lockdown_facts(),
        doors=context.doors if is_given else {},
        fingerprint=context.gate.door.fingerprint,
        no_assistants=context.gate.shut,
        offer=context.settings.now.mcp.offer() if is_given else None,
        hidden=_hidden(context) if command.secrets and may_read_values(actor) else msgspec.UNSET,
    )


def _hidden(context: Context) -> dict[str, Any]:
    """Return the values that a reader of log files must not show."""
    return {"number": context.secrets.number, "values": context.secrets.values}


@handles(Prune)
async def prune(context: Context, command: Prune) -> PruneResult:
    names = context.roster.names(command.services)
    before = time.time() - command.older_than
    runs = await context.store.prune_runs(names, before)
    deleted = 0
    for name in names:
        answer = await context.link.ask({"do": "prune", "service": name, "before": before})
        deleted += int(answer.get("deleted_bytes") or 0)
    return PruneResult(deleted_bytes=deleted, deleted_runs=runs, services=names)


@handles(Upgrade)
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


@handles(Shutdown)
async def shutdown(context: Context, command: Shutdown) -> ShutdownResult:
    return await context.shutdown.begin(
        keep_running=command.keep_running, now=command.now, why="asked by a user"
    )


EVERY_CODE = tuple(range(256))


@handles(Up)
async def up(context: Context, command: Up, actor: Actor) -> UpResult:
    context.shutdown.check_not_begun()
    if command.unless_stopped and command.services:
        raise UsageError("what is named is started", "--unless-stopped is for `up` without names")
    said = UpEnvironment(environment=command.environment, settings=command.settings)
    async with context.changes:
        configuration = await context.in_thread(read_configuration, context, command.config, said)
        check_removes_by_words(context, configuration)
        known = {name: runner.declaration.spec for name, runner in context.roster.runners.items()}
        groups = configuration.settings.groups
        asked = Selectors({**known, **configuration.services}, groups).names(command.services)
        added, changed, removed = _apply(context, configuration, command.environment)
        use_settings(context, configuration)
        approved_configuration.approve(context, configuration.sources)
        caller.remember(context.link, said)
        declared = list(configuration.services)
        runners = context.roster.runners
        adopted = await context.survivors.settle(declared)
        changed += [name for name in adopted if runners[name].is_outdated]
        await context.survivors.settle_strangers()
        await fit_instances(context)
    names = asked or [
        name for name, spec in configuration.services.items() if spec.autostart and spec.enabled
    ]
    off: list[str] = []
    if command.unless_stopped:
        off = [name for name in names if context.roster.runners[name].stopped_by_hand]
        names = [name for name in names if name not in off]
    scheduled = {} if command.services else context.schedules.arm_all(names)
    names = [name for name in names if name not in scheduled]
    claim(context, names, actor)
    started = await context.roster.start(names, wait=command.wait, seconds=command.timeout)
    outcomes = {**started, **scheduled}
    if command.wait:
        # So that `up` can tell where HTTP is, if somebody has its port.
        await context.gate.door.settled()
    return UpResult(
        services=await with_last_lines(context, outcomes),
        added=added,
        changed=changed,
        removed=removed,
        stays_stopped=[name for name in off if name not in outcomes],
        warnings=list(configuration.warnings),
        is_level_given=configuration.is_level_given,
    )


def _apply(
    context: Context, configuration: Configuration, environment: dict[str, str]
) -> tuple[list[str], list[str], list[str]]:
    """Make the declared services known, and leave running ones alone."""
    roster = context.roster
    added, changed, removed = [], [], []
    key = environ_digest(environment)
    for spec in configuration.services.values():
        _, is_new, is_changed = roster.declare(Declaration(spec, environment, key))
        if is_new:
            added.append(spec.name)
        elif is_changed:
            changed.append(spec.name)
    for name, runner in list(roster.runners.items()):
        spec = runner.declaration.spec
        if spec.origin == "config" and name not in configuration.services:
            if spec.template in configuration.settings.templates:
                continue  # one instance too many: it is stopped in a moment
            removed.append(name)
            if not runner.has_processes:
                roster.remove(name)
    roster.forget_environments()
    return added, changed, removed


@handles(Run)
async def run(context: Context, command: Run, actor: Actor) -> RunResult:
    if not command.argv:
        raise UsageError("there is no command to run", "holdfast run -- COMMAND ARG…")
    name = command.service or _free_name(context, command)
    if not is_service_name(name):
        raise UsageError(f'"{name}" cannot be the name of a service', SERVICE_NAME_RULE)
    context.shutdown.check_not_begun()
    runner = context.roster.runners.get(name)
    if runner is not None:
        _check_the_name_is_free(runner, command, actor)
    if runner is None or runner.run is None:
        confined_to = None
        if actor.door is not Door.CLI:
            confined_to = await context.in_thread(confine, context, command.working_dir)
        as_task: dict[str, Any] = {"start_seconds": 0.0, "success_exit_codes": EVERY_CODE}
        spec = ServiceSpec(
            name=name,
            argv=tuple(command.argv),
            working_dir=os.path.join(context.project or "/", command.working_dir),
            confined_to=confined_to,
            restart_policy="never" if command.task else command.restart_policy,
            terminal=command.terminal,
            stdin=command.stdin if command.input is None else "pipe",
            origin="run",
            **(as_task if command.task else {}),
        )
        async with context.changes:
            context.roster.declare(Declaration(spec, _environment(context, command, actor)))
            await context.survivors.settle([name])
            await context.survivors.settle_strangers()
    claim(context, [name], actor, keep=command.keep)
    outcomes = await context.roster.start([name], wait=command.wait)
    if command.input is not None and outcomes[name].outcome != "already_running":
        await _give_input(context, name, command.input)
    told = await with_last_lines(context, outcomes)
    return RunResult(service=name, outcome=told[name])


async def _give_input(context: Context, name: str, data: str) -> None:
    """Write to its standard input and end that. What has ended already wanted none."""
    run = context.roster.runners[name].run
    if run is None:
        return
    try:
        await context.link.ask({"do": "write", "run_id": run.run_id, "data": data, "eof": True})
    except HoldfastError:
        if context.roster.runners[name].run is run:
            raise


def _check_the_name_is_free(runner: Runner, command: Run, actor: Actor) -> None:
    """Raise an error if the name belongs to a declared service or to another program that runs.
    Only the owner may replace an adopted process."""
    spec = runner.declaration.spec
    if spec.origin != "run" and not (spec.origin == "adopted" and actor.door is Door.CLI):
        raise Refused(
            f"{runner.name} is a service of the configuration",
            "start it, or choose another name",
        )
    if runner.run is not None and spec.argv != tuple(command.argv):
        raise Failed(
            f"{runner.name} runs another program",
            "choose another name, or stop it first",
        )


def _environment(context: Context, command: Run, actor: Actor) -> dict[str, str]:
    """Return the environment of the caller. A caller who has no shell of the user gets that of `up`
    below it."""
    if actor.door is Door.CLI:
        return command.environment
    said = caller.recall(context.link.kept)
    return {**(said.environment if said is not None else {}), **command.environment}


def _free_name(context: Context, command: Run) -> str:
    """Return a name for what nobody named: its own, with a number if something else has that.
    What runs already is found under its name."""
    from holdfast.rules.run_names import name_of, numbered

    base = name_of(command.argv)
    names = (numbered(base, number) for number in itertools.count(1))
    return next(name for name in names if _may_have(context, command, name))


def _may_have(context: Context, command: Run, name: str) -> bool:
    runner = context.roster.runners.get(name)
    if runner is None:
        return True
    spec = runner.declaration.spec
    if spec.origin != "run":
        return False
    folder = os.path.join(context.project or "/", command.working_dir)
    is_same = (spec.argv, spec.working_dir) == (tuple(command.argv), folder)
    return is_same or runner.run is None


@handles(Adopt)
async def adopt(context: Context, command: Adopt) -> Outcomes:
    name = command.service
    if not is_service_name(name):
        raise UsageError(f'"{name}" cannot be the name of a service', SERVICE_NAME_RULE)
    known = context.roster.runners.get(name)
    found = await context.in_thread(processes.find, command.pid, command.pidfile, command.port)
    if known is not None and known.run is not None:
        if known.run.pid == found.pid:
            return Outcomes(services={name: known.outcome("already_running")})
        raise Failed(f"{name} runs already", "adopt under another name, or stop it first")
    try:
        "".join((*found.argv, found.working_dir)).encode()
    except UnicodeEncodeError:
        message = f"the command or the folder of process {found.pid} is not UTF-8"
        raise Failed(message, "what is adopted must have a name that can be told") from None
    spec = ServiceSpec(
        name=name,
        argv=found.argv,
        working_dir=found.working_dir,
        restart_policy="never",
        origin="adopted",
    )
    async with context.changes:
        number = known.number + 1 if known is not None else 1
        run = await context.link.ask(
            {
                "do": "adopt",
                "run_id": new_run_id(),
                "service": name,
                "number": number,
                "pid": found.pid,
                "log": log_settings(spec),
                "stop": stop_settings(spec),
            }
        )
        runner, _, _ = context.roster.declare(Declaration(spec))
        runner.adopt(run, is_survivor=False)
        context.roster.remember(runner)
        await context.survivors.settle_strangers()
    return Outcomes(services={name: runner.outcome("adopted")})
