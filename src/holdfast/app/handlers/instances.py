"""Handlers of scale and rolling_restart, and how `up` fits the number of instances."""

from __future__ import annotations

from typing import Any

from holdfast.adapters.own_log import logger
from holdfast.app.authority import approved_configuration
from holdfast.app.context import Context
from holdfast.app.handlers.services import stop_and_forget, with_last_lines
from holdfast.app.registry import handles
from holdfast.engine import caller
from holdfast.engine.runner.declaration import Declaration, environ_digest
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.errors import Refused, UnknownService, UsageError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.instances import RollingRestart, RollingResult, Scale, ScaleResult
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.specs.services import MOST_INSTANCES, ServiceSpec
from holdfast.vocabulary.states import Desired

_log = logger("instances")


@handles(Scale)
async def scale(context: Context, command: Scale, actor: Actor) -> ScaleResult:
    if not command.instances:
        raise UsageError("say how many of which service", "holdfast scale web=4")
    for name, count in command.instances.items():
        _check(context, name, count)
    outcomes: dict[str, Outcome] = {}
    started: list[str] = []
    async with context.changes:
        for name, count in command.instances.items():
            await _load(context, name, count, actor)  # refused before anything is begun
        for name, count in command.instances.items():
            configured = context.settings.now.templates[name].instances
            context.scaling.begin(name, configured, count)
            outcomes.update(await shrink(context, name, count))
            added = await _grow(context, name, count, actor)
            outcomes.update({name: context.roster.runners[name].outcome("added") for name in added})
            started += added
            context.scaling.finish(name)
        context.roster.forget_environments()
        await context.store.written()
    wanted = [name for name in started if _is_wanted(context, name, started)]
    begun = await context.roster.start(wanted, wait=command.wait)
    outcomes.update({name: outcome for name, outcome in begun.items() if name in started})
    told = await with_last_lines(context, outcomes)
    return ScaleResult(services=told, instances=dict(command.instances))


@handles(RollingRestart)
async def rolling_restart(context: Context, command: RollingRestart) -> RollingResult:
    if not command.services:
        known = ", ".join(context.roster.runners)
        raise UsageError("name at least one service", f"known: {known}")
    names = context.roster.names(command.services)
    for name in names:
        runner = context.roster.runners[name]
        context.store.event(
            EventKind.REQUESTED, name, runner.last_run_id, request="restart", rolling=True
        )
    result = await context.rolling.restart(
        names,
        ready_seconds=max(0.0, command.timeout),
        is_held=lambda: context.authority.lockdown.now is not None,
    )
    told = await with_last_lines(context, result.services)
    return RollingResult(services=told, remaining=result.remaining, reason=result.reason)


async def fit_instances(context: Context) -> None:
    """Stop and forget instances that a configuration does not want any more."""
    for name, template in context.settings.now.templates.items():
        count = context.scaling.wanted(name, template)
        if context.scaling.surplus(name, count):
            context.scaling.begin(name, template.instances, count)
            await shrink(context, name, count)
            context.scaling.finish(name)


async def resume_scaling(context: Context) -> None:
    """Finish the scaling that an earlier supervisor could not finish."""
    for name, count in context.scaling.unfinished().items():
        async with context.changes:
            await shrink(context, name, count)
            try:
                added = await _grow(context, name, count, None)
            except Refused as error:
                _log.warning("%s is not scaled to %s yet: %s", name, count, error.message)
                continue
            context.scaling.finish(name)
        await context.roster.start(added, wait=False)


async def shrink(context: Context, name: str, count: int) -> dict[str, Outcome]:
    """Stop and forget the instances above a number; their logs stay."""
    surplus = context.scaling.surplus(name, count)
    if not surplus:
        return {}
    before = count + len(surplus)
    outcomes = await stop_and_forget(context, surplus, delete_logs=False)
    _record_scaled(context, name, before, count)
    return outcomes


async def _grow(context: Context, name: str, count: int, actor: Actor | None) -> list[str]:
    """Make the missing instances known, and return their names."""
    missing = _missing(context, name, count)
    specs = await _load(context, name, count, actor)
    environ = _environ(context)
    key = environ_digest(environ)
    if not missing:
        return []
    for instance in missing:
        context.roster.declare(Declaration(specs[instance], environ, key))
    await context.survivors.settle(missing)
    _record_scaled(context, name, count - len(missing), count)
    context.scaling.settle(context.settings.now.templates)
    return missing


async def _load(
    context: Context, name: str, count: int, actor: Actor | None
) -> dict[str, ServiceSpec]:
    """Return the declarations of this number of instances if one is missing. Files of variables are
    read again for them. Raises Refused if those were changed since an admin loaded them, unless an
    admin asks."""
    from holdfast.adapters.config import load_instances

    if not _missing(context, name, count):
        return {}
    template, sources = context.settings.now.templates[name], dict[str, str]()
    specs: dict[str, ServiceSpec] = await context.in_thread(
        load_instances, template, name, count, _environ(context), sources
    )
    approved_configuration.check(context, actor, sources)
    return specs


def _missing(context: Context, name: str, count: int) -> list[str]:
    wanted = [f"{name}@{index}" for index in range(1, count + 1)]
    return [instance for instance in wanted if instance not in context.roster.runners]


def _environ(context: Context) -> dict[str, str]:
    said = caller.recall(context.link.kept)
    return said.environment if said is not None else {}


def _record_scaled(context: Context, name: str, before: int, after: int) -> None:
    facts: dict[str, Any] = {"from": before, "to": after}
    context.store.event(EventKind.SERVICE_SCALED, name, **facts)


def _is_wanted(context: Context, name: str, added: list[str]) -> bool:
    """Return whether its siblings run; without siblings, whether `up` would start it."""
    spec = context.roster.runners[name].declaration.spec
    siblings = [
        runner.desired is Desired.RUNNING
        for runner in context.roster.runners.values()
        if runner.declaration.spec.template == spec.template and runner.name not in added
    ]
    return any(siblings) if siblings else spec.autostart and spec.enabled


def _check(context: Context, name: str, count: int) -> None:
    templates = context.settings.now.templates
    if not 0 <= count <= MOST_INSTANCES:
        raise UsageError(f"{name}={count}: not between 0 and {MOST_INSTANCES} instances")
    if name in templates:
        return
    runner = context.roster.runners.get(name)
    if runner is None:
        raise UnknownService.named(name, [*templates, *context.roster.runners])
    template = runner.declaration.spec.template
    if template is not None:
        raise UsageError(f"{name} is one instance", f"holdfast scale {template}={count}")
    raise UsageError(
        f"{name} has no instances, so it cannot be scaled",
        f"write `instances: 1` below {name} in the configuration, then `holdfast reload`",
    )
