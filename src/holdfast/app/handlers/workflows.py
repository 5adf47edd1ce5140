"""Handlers of the commands that run commands: custom restarts, single commands, workflows.

What may be run was decided before they are called; they say what is to be done, in which
order, and its listeners.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from holdfast.app.authority.path_scopes import confine
from holdfast.app.context import Context
from holdfast.app.handlers.services import choose_service
from holdfast.app.registry import handler_for, handles
from holdfast.app.streams import FollowedWork
from holdfast.engine import caller
from holdfast.engine.workflows.steps import CommandContext, CommandStep, OwnStep, WorkflowStep
from holdfast.engine.workflows.workflows import Activity, Procedure, ProgressQueue
from holdfast.rules import workflows as rules
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command, Done, Result
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import CommandFailed, UsageError
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.services import Restart
from holdfast.vocabulary.specs.settings import Settings
from holdfast.vocabulary.specs.workflows import StepSpec
from holdfast.vocabulary.workflows import (
    CancelWorkflow,
    CustomCommand,
    CustomRestart,
    ExecuteCommand,
    FollowWorkflow,
    RunWorkflow,
    WorkflowInfo,
    WorkflowResult,
    Workflows,
    WorkflowsResult,
)

Answer = Awaitable[WorkflowResult] | FollowedWork


@handles(CustomRestart)
def custom_restart(context: Context, command: CustomRestart, actor: Actor) -> Answer:
    runner = choose_service(context, command.service, command.name)
    around, settings = CommandContext.of(runner), context.settings.now
    words = command.start_args if command.start_args is not None else command.args
    restart = Restart(service=runner.name, args=words, env_vars=command.env_vars)

    def step(asked: CustomCommand, part: str) -> WorkflowStep:
        beneath = _confined(context, actor, around, asked.working_dir)
        prepared = rules.prepare(asked, settings)
        return CommandStep(context.tasks, prepared, around, part=part, beneath=beneath)

    steps: list[WorkflowStep] = [step(one, "pre") for one in command.pre_commands or ()]
    steps.append(OwnStep(_perform(context, actor), restart, f"restart {runner.name}", "restart"))
    steps += [step(one, "post") for one in command.post_commands or ()]
    procedure = Procedure(
        name=f"custom restart of {runner.name}",
        steps=steps,
        by=actor.name,
        service=runner.name,
        key=f"restart:{runner.name}",
        timeout=command.seconds,
    )
    activity = context.workflows.begin(procedure)
    return _answer(context, activity, is_followed=command.follow)


@handles(ExecuteCommand)
def execute_command(context: Context, command: ExecuteCommand, actor: Actor) -> Answer:
    prepared = rules.prepare(command.asked, context.settings.now, command.timeout_seconds)
    if command.service is not None:
        around = CommandContext.of(context.roster.get(command.service))
    else:
        around = _project(context)
        if command.environment is not None:
            around = replace(around, env=command.environment)
        if command.working_dir is not None:
            around = replace(around, working_dir=command.working_dir)
    beneath = _confined(context, actor, around, command.asked.working_dir)
    procedure = Procedure(
        name="command",
        steps=[CommandStep(context.tasks, prepared, around, beneath=beneath)],
        by=actor.name,
        service=command.service,
        is_single=True,
    )
    activity = context.workflows.begin(procedure)
    return _answer(context, activity, is_followed=command.follow, is_owned=True)


@handles(RunWorkflow)
def run_workflow(context: Context, command: RunWorkflow, actor: Actor) -> Answer:
    workflows = context.settings.now.workflows
    spec = workflows.get(command.workflow)
    if spec is None:
        guess = closest(command.workflow, list(workflows))
        meant = f'; did you mean "{guess}"?' if guess else ""
        known = ", ".join(workflows) or "none; write them under `workflows:`"
        raise UsageError(f'no workflow "{command.workflow}"{meant}', f"known: {known}")
    procedure = Procedure(
        name=f"workflow {command.workflow}",
        steps=[_step(context, step, actor) for step in spec.steps],
        by=actor.name,
        key=f"workflow:{command.workflow}",
        stops_on_failure=spec.on_failure == "stop",
        timeout=spec.timeout,
    )
    activity = context.workflows.begin(procedure)
    return _answer(context, activity, is_followed=command.follow)


@handles(CancelWorkflow)
async def cancel_workflow(context: Context, command: CancelWorkflow) -> Done:
    activity = context.workflows.cancel(command.workflow)
    result = await asyncio.shield(activity.result)
    return Done(message=f"{result.name}: {result.outcome}")


@handles(FollowWorkflow)
def follow_workflow(
    context: Context, command: FollowWorkflow
) -> Awaitable[WorkflowResult] | AsyncGenerator[dict[str, Any], None]:
    activity = context.workflows.find(command.workflow)
    if not command.follow:
        return asyncio.shield(activity.result)
    return _follow(context, activity, context.workflows.follow(activity), is_owned=False)


@handles(Workflows)
def workflows(context: Context, command: Workflows) -> WorkflowsResult:
    settings = context.settings.now
    return WorkflowsResult(
        workflows={
            name: WorkflowInfo(
                description=spec.description,
                steps=[_step_name(step, settings) for step in spec.steps],
                timeout=spec.timeout,
            )
            for name, spec in settings.workflows.items()
        },
        commands={
            name: rules.prepare_spec(spec, settings).what
            for name, spec in settings.commands.items()
        },
        under_way=context.workflows.under_way(),
    )


def _step(context: Context, spec: StepSpec, actor: Actor) -> WorkflowStep:
    settings = context.settings.now
    command = spec.run
    if spec.command is not None:
        command = settings.commands[spec.command]
    if command is not None:
        prepared = rules.prepare_spec(command, settings, spec.timeout)
        prepared = prepared._replace(what=_step_name(spec, settings))
        return CommandStep(context.tasks, prepared, _project(context))
    fields: dict[str, Any] = {"services": list(spec.services)}
    if spec.action == "wait":
        fields = {"service": spec.services[0], "condition": spec.condition}
        if spec.timeout is not None:
            fields["timeout"] = spec.timeout
    return OwnStep(
        _perform(context, actor), COMMANDS[spec.action](**fields), _step_name(spec, settings)
    )


def _step_name(spec: StepSpec, settings: Settings) -> str:
    """Return the name of a step in progress messages."""
    if spec.description:
        return spec.description
    command = settings.commands[spec.command] if spec.command is not None else spec.run
    if command is not None:
        return rules.prepare_spec(command, settings).what
    names = ", ".join(spec.services)
    if spec.action == "wait":
        kind, _, what = spec.condition.partition(":")
        words = {"log": f'prints "{what}"', "silent": f"prints nothing for {what} s"}
        return f"wait until {names} {words.get(kind, f'is {kind}')}"
    return f"{spec.action.replace('_', ' ')} {names}"


def _confined(
    context: Context, actor: Actor, around: CommandContext, working_dir: str | None
) -> str | None:
    """Return the folder that a command must run below if its caller chose another than usual. The
    owner may choose any."""
    if working_dir is None or actor.role is Role.OWNER:
        return None
    return confine(context, working_dir, around.working_dir)


def _project(context: Context) -> CommandContext:
    """Return where a command without a service runs: the folder and the environment of `up`."""
    said = caller.recall(context.link.kept)
    return CommandContext(context.project or "/", said.environment if said is not None else {})


def _perform(context: Context, actor: Actor) -> Callable[[Command], Awaitable[Result]]:
    """Return a function that answers a command for this actor."""

    async def perform(command: Command) -> Result:
        answer = handler_for(command, actor)(context, command)
        result: Result = answer if isinstance(answer, Result) else await answer
        return result

    return perform


def _answer(
    context: Context, activity: Activity, *, is_followed: bool, is_owned: bool = False
) -> Answer:
    if is_followed:
        follower = context.workflows.follow(activity)
        stream = _follow(context, activity, follower, is_owned=is_owned)
        return FollowedWork(stream, cast("asyncio.Future[Result]", activity.result))
    return _wait(context, activity)


async def _wait(context: Context, activity: Activity) -> WorkflowResult:
    """Return how it went; raise CommandFailed with the same inside unless all of it was done."""
    result = _complete(context, await asyncio.shield(activity.result))
    if result.outcome == "done":
        return result
    what = result.steps[0].what if activity.procedure.is_single else result.name
    skipped = sum(step.outcome == "skipped" for step in result.steps)
    left = f"; {skipped} further steps were not begun" if skipped else ""
    raise CommandFailed(
        f"{what} {'failed' if result.outcome == 'failed' else 'was cancelled'}"
        + (f": {result.reason}" if result.reason else ""),
        f"`details` tells what each step printed{left}",
        msgspec.to_builtins(result),
    )


async def _follow(
    context: Context, activity: Activity, follower: ProgressQueue, *, is_owned: bool
) -> AsyncGenerator[dict[str, Any], None]:
    try:
        while (item := await follower.next())["kind"] != "finished":
            yield item
        yield {"kind": "finished", "result": _complete(context, activity.result.result())}
    finally:
        activity.followers.discard(follower)
        if is_owned:
            activity.cancel()


def _complete(context: Context, result: WorkflowResult) -> WorkflowResult:
    """Add the current status of the service."""
    runner = context.roster.runners.get(result.service or "")
    if runner is None:
        return result
    return msgspec.structs.replace(result, status=runner.status())
