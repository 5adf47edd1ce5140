"""Handlers of plan and reload: find out what a changed configuration does, and do exactly that."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.adapters import keeper_memory, own_log
from holdfast.app.authority import approved_configuration
from holdfast.app.context import Context
from holdfast.app.handlers.services import stop_and_forget, with_last_lines
from holdfast.app.registry import handles
from holdfast.engine import caller
from holdfast.engine.caller import UpEnvironment
from holdfast.engine.instances.rolling import LOCKED
from holdfast.engine.roster import Roster
from holdfast.engine.runner import views
from holdfast.engine.runner.declaration import Declaration, environ_digest
from holdfast.engine.runner.runner import Runner
from holdfast.engine.selectors import Selectors
from holdfast.rules import plan as plans
from holdfast.rules.admission import ordering
from holdfast.rules.plan import Action, CurrentService
from holdfast.rules.secrets import may_read_values
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.configuration import (
    Config,
    ConfigResult,
    ConfigValue,
    Plan,
    PlanResult,
    PlanStep,
    Reload,
    ReloadResult,
)
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.specs.settings import Configuration
from holdfast.vocabulary.states import Desired, State

LAYER_SECONDS = 30.0
"""A service that is not up by then no longer holds back those that depend on it."""
UP_OR_TRYING = (State.STARTING, State.RUNNING, State.PAUSED, State.BACKOFF, State.FAILED)
OF_CONFIGURATIONS = ("config", "target")
Steps = dict[str, PlanStep]


@handles(Config)
async def config(context: Context, command: Config, actor: Actor) -> ConfigResult:
    said = _last_up(context)
    path = context.workspace.configuration_path
    is_owner = may_read_values(actor)
    configuration, values = await context.in_thread(
        _resolve, path, said, context.project, command.defaults, is_owner
    )
    if command.services:
        asked = Selectors(configuration.services, configuration.settings.groups)
        names = {name.partition("@")[0] for name in asked.names(command.services)}
        values = [each for each in values if each.path[0] == "services" and each.path[1] in names]
    return ConfigResult(config=configuration.path, files=list(configuration.sources), values=values)


def _resolve(
    path: str | None, said: UpEnvironment, project: str, with_defaults: bool, is_owner: bool
) -> tuple[Configuration, list[ConfigValue]]:
    """Blocks: call it in a thread."""
    from holdfast.adapters.config import resolve_project

    return resolve_project(
        path,
        said.environment,
        said.settings,
        cwd=project,
        with_defaults=with_defaults,
        is_owner=is_owner,
    )


@handles(Plan)
async def plan(context: Context, command: Plan) -> PlanResult:
    configuration, _ = await _load(context, command.config)
    made = _plan(context, configuration)
    if command.services:
        known = {name: runner.declaration.spec for name, runner in context.roster.runners.items()}
        asked = Selectors({**known, **configuration.services}, configuration.settings.groups)
        made = made.about(asked.names(command.services))
    return PlanResult(
        config=configuration.path,
        services=_steps_of(context, made),
        settings=list(made.settings),
        scaled=context.scaling.held(configuration.settings.templates),
        changes=not made.is_empty,
    )


@handles(Reload)
async def reload(context: Context, command: Reload, actor: Actor) -> ReloadResult:
    async with context.changes:
        configuration, said = await _load(context, command.config)
        approves = approved_configuration.check(context, actor, configuration.sources)
        made = _plan(context, configuration)
        told = _steps_of(context, made)
        removed = made.names(Action.REMOVE)
        outcomes = await stop_and_forget(context, removed, delete_logs=command.delete_logs)
        _declare(context, configuration, said, set(made.names(Action.ADD)))
        use_settings(context, configuration)
        if approves:
            approved_configuration.approve(context, configuration.sources)
        await context.survivors.settle(made.names(Action.ADD))
        if not made.is_empty:
            _announce(context, configuration, made)
    for name in made.names(Action.CHANGE):
        if name in context.roster.runners:
            outcomes[name] = context.roster.runners[name].outcome("changed")
    with context.rolling.sparing_dependents(made.replaced()):
        started = await _start(context, made, wait=command.wait)
    outcomes.update(await with_last_lines(context, started))
    return ReloadResult(
        config=configuration.path,
        plan=told,
        services=outcomes,
        settings=list(made.settings),
        changes=not made.is_empty,
    )


def use_settings(context: Context, configuration: Configuration) -> None:
    """Apply everything of a configuration except its services."""
    context.settings.apply(configuration.settings)
    context.scaling.settle(configuration.settings.templates)
    own_log.set_file(configuration.log_file)
    context.link.keep(keeper_memory.LOG_FILE, configuration.log_file)
    own_log.set_level(configuration.log_level)
    context.link.keep(keeper_memory.LOG_LEVEL, configuration.log_level)
    own_log.set_style(configuration.log_format)
    context.link.keep(keeper_memory.LOG_FORMAT, configuration.log_format)
    context.link.keep(keeper_memory.CONFIGURATION, configuration.path)


# Planning


async def _load(context: Context, path: str | None) -> tuple[Configuration, UpEnvironment]:
    """Return the configuration as the last `up` would read it now; raise with all its problems."""
    said = _last_up(context)
    config = context.workspace.configuration_path
    if path is not None:
        config = os.path.join(context.project, path)
    configuration = await context.in_thread(read_configuration, context, config, said)
    if configuration.declares == "nothing" and not configuration.services:
        _refuse_silence(configuration)
    check_removes_by_words(context, configuration)
    return configuration, said


def _last_up(context: Context) -> UpEnvironment:
    said = caller.recall(context.link.kept)
    if said is None:
        raise ConfigError("no configuration is in use yet", "`holdfast up` reads one")
    return said


def read_configuration(context: Context, path: str | None, said: UpEnvironment) -> Configuration:
    """Read a configuration. Blocks: call it in a thread."""
    from holdfast.adapters.config import load_instances, load_project

    configuration = load_project(path, said.environment, said.settings, cwd=context.project)
    context.workspace.prepare_roots(configuration)
    load = partial(load_instances, sources=configuration.sources)
    return context.scaling.fitted(configuration, said.environment, load)


def check_removes_by_words(context: Context, configuration: Configuration) -> None:
    """Raise ConfigError for a file without services: it may be half written, and must not remove
    every service."""
    if configuration.declares != "services" and any(
        runner.declaration.spec.origin == "config" and name not in configuration.services
        for name, runner in context.roster.runners.items()
    ):
        _refuse_silence(configuration)


def _refuse_silence(configuration: Configuration) -> None:
    if configuration.path is not None:
        raise ConfigError(
            f"{configuration.path} declares no services",
            "write `services: {}` to remove every service",
        )


def _plan(context: Context, configuration: Configuration) -> plans.ReloadPlan:
    wanted = configuration.services
    known = {
        name: _current_service(runner)
        for name, runner in context.roster.runners.items()
        if name in wanted or runner.declaration.spec.origin in OF_CONFIGURATIONS
    }
    now, then = context.settings.now, configuration.settings
    # How a template is written is no setting: its instances are compared one by one.
    settings = [name for name in plans.struct_differences(now, then) if name != "templates"]
    kept = context.link.kept
    settings += [
        name
        for name in ("log_level", "log_format")
        if kept.get(name) not in (None, getattr(configuration, name))
    ]
    return plans.make(known, wanted, settings)


def _current_service(runner: Runner) -> CurrentService:
    is_wanted_up = runner.desired is Desired.RUNNING and runner.state in UP_OR_TRYING
    return CurrentService(
        spec=runner.declaration.spec,
        launched=runner.launched if runner.run is not None else None,
        is_wanted_up=is_wanted_up,
        is_overridden=runner.overrides is not None,
        trace=runner.trace if runner.run is not None else None,
    )


def _steps_of(context: Context, made: plans.ReloadPlan) -> Steps:
    runners = context.roster.runners
    return {
        step.service: PlanStep(
            action=step.action.value,
            fields=list(step.fields),
            at_next_start=step.at_next_start,
            overrides=views.describe_overrides(runners[step.service].overrides)
            if step.is_overridden
            else None,
            follows=list(step.follows),
        )
        for step in made.steps
    }


# Applying


def _declare(
    context: Context, configuration: Configuration, said: UpEnvironment, added: set[str]
) -> None:
    """Declare all services in one turn of the loop, so that a killed supervisor leaves the old or
    the new configuration and no mixture. New services are wanted from here on, because a later
    reload would not start them."""
    key = environ_digest(said.environment)
    for name, spec in configuration.services.items():
        runner = context.roster.runners.get(name)
        known = runner.declaration if runner is not None else None
        if known is None or (known.spec, known.environ_key) != (spec, key):
            context.roster.declare(Declaration(spec, said.environment, key))
        if name in added and spec.autostart and spec.enabled:
            context.roster.runners[name].want_as_declared()
    context.roster.forget_environments()


def _announce(context: Context, configuration: Configuration, made: plans.ReloadPlan) -> None:
    touched: dict[str, Any] = {
        "added": made.names(Action.ADD),
        "removed": made.names(Action.REMOVE),
        "restarted": made.names(Action.RESTART),
        "changed": made.names(Action.CHANGE),
        "settings": list(made.settings),
    }
    facts = {name: names for name, names in touched.items() if names}
    facts["unchanged"] = len(made.names(Action.UNCHANGED))
    context.store.event(EventKind.CONFIG_RELOADED, config=configuration.path, **facts)


async def _start(context: Context, made: plans.ReloadPlan, *, wait: bool) -> dict[str, Outcome]:
    """Restart changed services and their followers, and start new ones, in layers of dependency. A
    service that is restarted for its own changes is not restarted again for its dependencies."""
    roster = context.roster
    renewed = set(made.replaced())
    actions, added = {step.service: step.action for step in made.steps}, made.names(Action.ADD)
    outcomes: dict[str, Outcome] = {}
    futures: dict[str, asyncio.Future[Outcome]] = {}
    for name in added:
        spec = roster.runners[name].declaration.spec if name in roster.runners else None
        if spec is not None and not (spec.autostart and spec.enabled):
            outcomes[name] = roster.runners[name].outcome("added")
    outcomes |= context.schedules.arm_all([name for name in added if name not in outcomes])
    for layer in ordering.start_layers(roster.needs()):
        for turn in _turns(roster, [name for name in layer if name in renewed - set(outcomes)]):
            here = {}
            for name in turn:
                runner = roster.runners.get(name)
                if runner is None:  # scaled away while others had their turn
                    continue
                why = _held_back(context, runner, actions[name], futures)
                if why is not None:
                    outcomes[name] = _left_out(runner, actions[name], why)
                    continue
                if (future := _renew(context, runner, actions[name], wait)) is not None:
                    here[name] = future
                roster.remember(runner)
            if here:
                await asyncio.wait(here.values(), timeout=LAYER_SECONDS)
            futures |= here
    for name, future in futures.items():
        if future.done():
            outcomes[name] = _unless_stopped_since(roster.runners.get(name), future.result())
        elif (late := roster.runners.get(name)) is not None:
            outcomes[name] = late.unfinished()
    return outcomes


def _unless_stopped_since(runner: Runner | None, outcome: Outcome) -> Outcome:
    """Return the outcome; a service that somebody stopped or scaled away meanwhile did not fail."""
    is_off = runner is None or runner.desired is Desired.STOPPED
    if outcome.outcome != "failed" or not is_off or outcome.status == State.FAILED.value:
        return outcome
    return replace(outcome, outcome="not_restarted")


def _turns(roster: Roster, names: list[str]) -> list[list[str]]:
    """Group services that are renewed at the same time, but instances of a service one by one."""
    turns: list[list[str]] = []
    seen: dict[str, int] = {}
    for name in names:
        if name in roster.runners:
            template = roster.runners[name].declaration.spec.template or name
            number = seen[template] = seen.get(template, -1) + 1
            if number == len(turns):
                turns.append([])
            turns[number].append(name)
    return turns


def _held_back(
    context: Context,
    runner: Runner,
    action: Action,
    futures: dict[str, asyncio.Future[Outcome]],
) -> str | None:
    """Return why a service stays as it is: somebody stopped it, a lockdown, or an instance before
    it that did not come up."""
    if _is_stopped(runner, action):
        return "it was stopped meanwhile"
    if context.authority.lockdown.now is not None:
        return LOCKED
    template = runner.declaration.spec.template
    if template is None or runner.run is None:
        return None
    for name, future in futures.items():
        is_sibling = name.partition("@")[0] == template
        if is_sibling and future.done() and future.result().outcome == "failed":
            return f"{name} failed with the new declaration"
    return None


def _is_stopped(runner: Runner, action: Action) -> bool:
    if action is Action.ADD:
        return runner.stopped_by_hand  # that a survivor of it was ended is another matter
    return action is Action.RESTART and runner.desired is Desired.STOPPED


def _left_out(runner: Runner, action: Action, why: str) -> Outcome:
    if action is Action.ADD and runner.run is None:
        runner.stop()  # nor does a later supervisor start it
    return runner.outcome("not_restarted", why)


def _renew(
    context: Context, runner: Runner, action: Action, wait: bool
) -> asyncio.Future[Outcome] | None:
    """Begin the action of the plan; None: the service that it follows is not there yet."""
    if action is Action.ADD:
        return runner.start(wait=wait)
    if action is not Action.RESTART:
        return context.rolling.follow(runner.name, wait=wait)
    if runner.declaration.spec.overlap and runner.state is State.RUNNING:
        return runner.replace_run(ready_seconds=LAYER_SECONDS)
    return runner.restart(wait=wait, cause="reload")
