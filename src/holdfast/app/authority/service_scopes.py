"""Which services a command is about, and what a caller with a limited token may be told.

A token may be limited to some services. A command of its owner must name only those, is narrowed to
them where it names none, and its answer leaves out the names and numbers of all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.adapters.queue.store import template_of
from holdfast.app.registry import Answer
from holdfast.engine.roster import Roster
from holdfast.vocabulary.actors import Actor, Target
from holdfast.vocabulary.banners import Banner
from holdfast.vocabulary.command import Command, Permission, Result
from holdfast.vocabulary.errors import Refused, UnknownService

if TYPE_CHECKING:
    from holdfast.app.context import Context

_FOR_EVERYBODY = ("lockdown", "switch", "restart")
"""Kinds of banners that name no other service."""
JOB_TARGET = "job:"
"""Before the name of a template, where limits and policies name services."""
MaySee = Callable[[str], bool]
"""Whether the caller may see the service of this name."""


def is_limited(actor: Actor) -> bool:
    """Return whether the actor, or the actor that opened its session, is limited to services."""
    is_some = actor.scopes.services is not None or actor.scopes.tags is not None
    return is_some or (actor.behind is not None and is_limited(actor.behind))


def limiting_targets(context: Context, actor: Actor, command: Command) -> tuple[Target, ...]:
    """Return the services that a command names if its actor is limited to some, else nothing."""
    if not is_limited(actor):
        return ()
    return _targets(context.roster, _names_in(context, command))


def all_targets(context: Context, command: Command) -> tuple[Target, ...]:
    """Return every service that a command is about: all services if it could name some and names
    none."""
    roster, names = context.roster, _names_in(context, command)
    if names:
        return _targets(roster, names)
    every = roster.runners if _is_about_services(command) else ()
    return tuple(target_of(roster, name) for name in every)


def target_of(roster: Roster, name: str) -> Target:
    runner = roster.runners.get(name)
    if runner is None:
        return Target(name)
    spec = runner.declaration.spec
    return Target(name, tuple(spec.tags), template=spec.template)


def narrow(
    context: Context, actor: Actor, command: Command, may_see: Callable[[Target], bool]
) -> Command:
    """Return the command about the services that a limited actor may see, if it reads about all."""
    is_about_all = getattr(command, "services", None) == [] and not _names_in(context, command)
    if not is_limited(actor) or not is_about_all or command.permission is not Permission.VIEW:
        return command
    roster = context.roster
    visible = [name for name in roster.runners if may_see(target_of(roster, name))]
    if not visible:
        raise Refused("there is no service that this token may see", "ask the owner")
    return msgspec.structs.replace(command, services=visible)


def limit_answer(answer: Answer, may_see: MaySee, session: str | None) -> Answer:
    """Return the answer without what a limited caller may not see; `session` is the caller's."""
    if isinstance(answer, Result):
        return limit_result(answer, may_see, session)
    if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future):
        return _limit_awaited(answer, may_see, session)
    return answer  # the command was narrowed, so the stream is about visible services only


def limit_result(result: Result, may_see: MaySee, session: str | None) -> Result:
    from holdfast.vocabulary.agents import AgentsResult, BackendsResult
    from holdfast.vocabulary.alerts import AlertsResult
    from holdfast.vocabulary.banners import BannersResult
    from holdfast.vocabulary.dependencies import DependenciesResult
    from holdfast.vocabulary.jobs import JobsResult, JobStatsResult
    from holdfast.vocabulary.ports import PortsResult
    from holdfast.vocabulary.services import StatusResult, WrittenStatus
    from holdfast.vocabulary.sessions import SessionsResult
    from holdfast.vocabulary.workflows import WorkflowsResult

    match result:
        case WrittenStatus():
            return limit_result(result.read(), may_see, session)
        case StatusResult():
            supervisor = replace(
                result.supervisor,
                managed_services=len(result.services),
                selectors=msgspec.UNSET,
                alerts=msgspec.UNSET,
                unclaimed=msgspec.UNSET,
                banners=_visible_banners(result.supervisor.banners or [], may_see) or msgspec.UNSET,
            )
            return replace(result, supervisor=supervisor)
        case AlertsResult():
            return replace(result, targets=[])
        case WorkflowsResult():
            # Workflows and commands of the configuration are about all services.
            return replace(result, workflows={}, commands={}, under_way=[])
        case BannersResult():
            return replace(result, banners=_visible_banners(result.banners, may_see))
        case DependenciesResult():
            return result.only(may_see)
        case PortsResult():
            visible = [port for port in result.ports if port.service and may_see(port.service)]
            return replace(result, ports=visible)
        case AgentsResult():
            seen = [one for one in result.agents if may_see(one.service)]
            return replace(result, agents=seen)
        case BackendsResult():
            known = [replace(one, sessions=[]) for one in result.backends]
            return replace(result, backends=known)
        case JobsResult():
            return replace(
                result,
                jobs=[one for one in result.jobs if may_see(f"{JOB_TARGET}{one.template}")],
                repeats=[one for one in result.repeats if may_see(f"{JOB_TARGET}{one.template}")],
                counts={},
            )
        case JobStatsResult():
            visible_jobs = {
                name: count
                for name, count in result.templates.items()
                if may_see(f"{JOB_TARGET}{name}")
            }
            return replace(result, templates=visible_jobs, counts={}, totals={})
        case SessionsResult():
            own = [info for info in result.sessions if info.session == session]
            return replace(result, sessions=own)
    return result


def _visible_banners(found: list[Banner], may_see: MaySee) -> list[Banner]:
    """Return the banners about visible services, and those that concern every caller."""
    return [
        one
        for one in found
        if (one.kind in _FOR_EVERYBODY if one.service is None else may_see(one.service))
    ]


def without_suggestions(error: UnknownService) -> UnknownService:
    """Return the error without the names of other services."""
    name = str(error.details.get("service", ""))
    return UnknownService(f'no service "{name}"', "", {"service": name})


async def _limit_awaited(answer: Awaitable[Result], may_see: MaySee, session: str | None) -> Result:
    try:
        return limit_result(await answer, may_see, session)
    except UnknownService as error:
        raise without_suggestions(error) from None


def _names_in(context: Context, command: Command) -> list[str]:
    if command.name == "create_token":
        return []  # its `services` are the limits of the new token
    one: Any = getattr(command, "service", None)
    several: Any = getattr(command, "services", None)
    counts: Any = getattr(command, "instances", None)
    names = [*([one] if isinstance(one, str) else ()), *(several or ()), *(counts or ())]
    return names + _jobs_in(command) + _agents_in(context, command)


def _agents_in(context: Context, command: Command) -> list[str]:
    """Return the service of the agent's session that a command is about. What is no session stays
    as it is, so that a limited caller does not learn which there are."""
    asked: Any = getattr(command, "session", None)
    if not command.about_agents or not isinstance(asked, str):
        return []
    found = context.agents.find(asked)
    return [asked if found is None else found.record.service]


def _jobs_in(command: Command) -> list[str]:
    """Return the templates of jobs that a command is about, as names that limits may give. The id
    of a job begins with its template."""
    template: Any = getattr(command, "template", None)
    several: Any = getattr(command, "templates", None)
    job: Any = getattr(command, "job", None)
    names = [*([template] if isinstance(template, str) else ()), *(several or ())]
    if isinstance(job, str):
        names.append(template_of(job))
    elif (
        command.name == "add_job" and template is None and getattr(command, "service", None) is None
    ):
        names.append("")
    return [f"{JOB_TARGET}{name}" for name in names]


def _targets(roster: Roster, wanted: list[str]) -> tuple[Target, ...]:
    found: dict[str, Target] = {}
    for selector in wanted:
        try:
            is_job = selector.startswith(JOB_TARGET)
            names = [selector] if is_job else roster.names([selector])
        except UnknownService:
            # The error would suggest names that the caller may not see.
            names = [selector]
        found.update({name: replace(target_of(roster, name), asked=selector) for name in names})
    return tuple(found.values())


def _is_about_services(command: Command) -> bool:
    if command.name in ("shutdown", "create_token"):
        return command.name == "shutdown"
    return bool({"service", "services"} & set(command.__struct_fields__))
