"""Handlers of commands about AI backends and their sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

from holdfast.app.authority.path_scopes import confine
from holdfast.app.context import Context
from holdfast.app.handlers.services import claim, record_request
from holdfast.app.registry import handles
from holdfast.engine.agents.conversation import Conversation
from holdfast.rules import agents as rules
from holdfast.secrets.redaction import redact
from holdfast.system import deadlines
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.agents import (
    AgentEventKind,
    AgentResult,
    AgentsResult,
    BackendInfo,
    BackendsResult,
    Delegate,
    DelegateResult,
    ForgetAgent,
    ForkAgent,
    InterruptAgent,
    ListAgents,
    ListBackends,
    PromptAgent,
    PromptResult,
    RestartAgent,
    ResumeAgent,
    StartOrAttach,
    StopAgent,
    Transcript,
    TranscriptResult,
)
from holdfast.vocabulary.command import Done, Door
from holdfast.vocabulary.errors import Conflict, Failed, UsageError

MOST_EVENTS = 10_000
LONGEST_DELEGATION = 24 * 3600.0


@handles(ListBackends)
async def list_backends(context: Context, command: ListBackends) -> BackendsResult:
    backends = context.backends
    names = command.backends or list(backends.specs)
    for name in names:
        backends.get(name)
    if command.probe:
        await asyncio.gather(*map(backends.probe, names))
    return BackendsResult(backends=[_described(context, name) for name in names])


def _described(context: Context, name: str) -> BackendInfo:
    spec = context.backends.get(name)
    found = context.backends.known(name)
    return BackendInfo(
        name=name,
        kind=spec.kind,
        mode=spec.mode,
        model=spec.model,
        path=found.path if found else None,
        version=found.version if found else None,
        capabilities=list(found.capabilities) if found else [],
        login=found.login if found else "unknown",
        failure=found.failure.value if found and found.failure else None,
        sentence=redact(found.sentence) if found and found.sentence else None,
        fix=found.fix if found and found.fix else None,
        health=found.health if found else None,
        models=list(found.models) if found else [],
        sessions=[
            conversation.record.session
            for conversation in context.agents.all.values()
            if conversation.record.backend == name
        ],
    )


@handles(ListAgents)
def list_agents(context: Context, command: ListAgents) -> AgentsResult:
    for name in command.backends:
        context.backends.get(name)
    wanted = command.backends
    return AgentsResult(
        agents=[
            context.agents.describe(conversation)
            for conversation in context.agents.all.values()
            if not wanted or conversation.record.backend in wanted
        ]
    )


@handles(StartOrAttach)
async def start_or_attach(context: Context, command: StartOrAttach, actor: Actor) -> AgentResult:
    agents = context.agents
    context.shutdown.check_not_begun()
    if command.session is not None:
        return _resume(context, agents.get(command.session), actor)
    if not command.backend:
        raise UsageError("which backend?", "`holdfast agent ls` lists them")
    folder, confined_to = await _folder_of(context, command.backend, command.working_dir, actor)
    live = agents.live_in(command.backend, folder)
    is_own = command.new or command.worktree or command.service is not None
    if live is not None and not is_own:
        return AgentResult(outcome="attached", agent=agents.describe(live))
    conversation = await _open(context, command, folder, confined_to, actor)
    _start(context, conversation, actor)
    return AgentResult(outcome="started", agent=agents.describe(conversation))


@handles(PromptAgent)
def prompt(context: Context, command: PromptAgent) -> PromptResult:
    conversation = context.agents.get(command.session)
    record = conversation.record
    after, is_queued = record.seq, conversation.is_working or not record.is_ready
    turn = conversation.prompt(command.text)
    record.is_task = False
    return PromptResult(session=record.session, turn=turn, after=after, is_queued=is_queued)


@handles(InterruptAgent)
def interrupt(context: Context, command: InterruptAgent, actor: Actor) -> AgentResult:
    conversation = context.agents.get(command.session)
    is_done = context.agents.interrupt(conversation, actor.name)
    outcome = "interrupted" if is_done else "nothing_to_interrupt"
    return AgentResult(outcome=outcome, agent=context.agents.describe(conversation))


@handles(StopAgent)
async def stop_agent(context: Context, command: StopAgent) -> AgentResult:
    conversation = context.agents.get(command.session)
    conversation.cancel_start()
    name = conversation.record.service
    if conversation.runner is not None:
        record_request(context, [name], "stop")
        await context.roster.stop([name], grace=None, by_hand=True)
    return AgentResult(outcome="stopped", agent=context.agents.describe(conversation))


@handles(RestartAgent)
def restart_agent(context: Context, command: RestartAgent, actor: Actor) -> AgentResult:
    conversation = context.agents.get(command.session)
    context.shutdown.check_not_begun()
    conversation.cancel_start()
    context.agents.restart(conversation)
    claim(context, [conversation.record.service], actor)
    return AgentResult(outcome="restarted", agent=context.agents.describe(conversation))


@handles(ResumeAgent)
def resume_agent(context: Context, command: ResumeAgent, actor: Actor) -> AgentResult:
    context.shutdown.check_not_begun()
    return _resume(context, context.agents.get(command.session), actor)


@handles(ForkAgent)
async def fork_agent(context: Context, command: ForkAgent, actor: Actor) -> AgentResult:
    original = context.agents.get(command.session).record
    if original.provider_id is None:
        raise Failed(f"{original.service} has no conversation yet", "give it a prompt first")
    conversation = await context.agents.open(
        original.backend,
        original.folder,
        actor.name,
        service=command.service,
        copy_of=original,
        worktree=original.worktree,
        repository=None,
        confined_to=original.confined_to,
    )
    _start(context, conversation, actor)
    return AgentResult(outcome="forked", agent=context.agents.describe(conversation))


@handles(ForgetAgent)
async def forget_agent(context: Context, command: ForgetAgent) -> Done:
    conversation = context.agents.get(command.session)
    record, worktree_end = conversation.record, conversation.worktree_end
    await context.agents.forget(conversation)
    said = f"{record.service} is forgotten"
    if record.worktree is not None and record.repository is not None:
        done = await context.worktrees.end(record.worktree, record.repository, worktree_end)
        said += f"; {done}"
    return Done(message=said)


@handles(Transcript)
def transcript(
    context: Context, command: Transcript
) -> Awaitable[TranscriptResult] | AsyncGenerator[dict[str, Any], None]:
    if command.format not in ("json", "markdown"):
        raise UsageError(f'no format "{command.format[:20]}"', "json or markdown")
    conversation = context.agents.get(command.session)
    if command.follow:
        return conversation.follow(command.after, command.turn)
    return _transcript(conversation, command)


async def _transcript(conversation: Conversation, command: Transcript) -> TranscriptResult:
    record = conversation.record
    is_text = command.format == "markdown"
    limit = MOST_EVENTS if is_text else min(max(1, command.limit), MOST_EVENTS)
    events, is_whole = await conversation.read(command.after, limit)
    last = events[-1]["seq"] if events else command.after
    head = {"session": record.session, "backend": record.backend, "folder": record.folder}
    return TranscriptResult(
        session=record.session,
        events=[] if is_text else events,
        markdown=rules.as_markdown(head, events) if is_text else None,
        after=last,
        is_whole=is_whole,
    )


@handles(Delegate)
async def delegate(context: Context, command: Delegate, actor: Actor) -> DelegateResult:
    context.shutdown.check_not_begun()
    if command.session is not None:
        conversation = context.agents.get(command.session)
        turn = max(1, conversation.record.turn)
    else:
        conversation = await _delegate_to(context, command, actor)
        turn = conversation.prompt(command.text)
    record = conversation.record
    seconds = min(max(0.0, command.seconds), LONGEST_DELEGATION)
    try:
        ended = await deadlines.wait_for(_end_of_turn(conversation, turn), seconds)
    except TimeoutError:
        return DelegateResult(session=record.session, reason="working", text="")
    if record.is_task and not command.keep and conversation.runner is not None:
        conversation.runner.stop(because="the task that was delegated to it is over")
    text = record.answer or str(ended.get("text") or "")
    return DelegateResult(
        session=record.session, reason=str(ended.get("reason")), text=redact(text)
    )


async def _delegate_to(context: Context, command: Delegate, actor: Actor) -> Conversation:
    """Begin the session that a task is handed to."""
    folder, confined_to = await _folder_of(context, command.backend, command.working_dir, actor)
    asker = context.agents.of_run(actor.run_id or _run_of(context, actor))
    conversation = await context.agents.open(
        command.backend,
        folder,
        actor.name,
        parent=asker.record.session if asker is not None else None,
        confined_to=confined_to,
        is_task=not command.keep,
    )
    _start(context, conversation, actor)
    return conversation


async def _end_of_turn(conversation: Conversation, turn: int) -> dict[str, Any]:
    """Wait for the end of a turn, or of a session that never becomes ready."""
    found: dict[str, Any] = {}
    async for event in conversation.follow(0, turn):
        found = event
        is_over = event["kind"] == AgentEventKind.RUN_ENDED.value
        if is_over and conversation.record.next_start_at is None:
            return {"reason": "failed", "text": event.get("sentence")}
    return found


def _run_of(context: Context, actor: Actor) -> str | None:
    """Return the run whose process opened the actor's session."""
    if actor.session is None:
        return None
    return context.sessions.get(actor.session).stored.run_id


async def _folder_of(
    context: Context, backend: str, working_dir: str, actor: Actor
) -> tuple[str, str | None]:
    """Return the folder that a session works in, and the one that it is confined to."""
    spec = context.backends.get(backend)

    def look() -> tuple[str, str | None]:
        is_free = actor.door is Door.CLI or not working_dir
        confined_to = None if is_free else confine(context, working_dir)
        folder = os.path.join(context.project or "/", working_dir or spec.working_dir or "")
        if not os.path.isdir(folder):
            raise UsageError(f"there is no folder {folder}", "name one that exists")
        return os.path.realpath(folder), confined_to

    return await context.in_thread(look)


async def _open(
    context: Context,
    command: StartOrAttach,
    folder: str,
    confined_to: str | None,
    actor: Actor,
) -> Conversation:
    service, worktree, repository = command.service, None, None
    if command.worktree:
        service = context.agents.free_name(command.backend, service)
        worktree, repository = await context.worktrees.make(folder, service)
        folder, confined_to = worktree, None
    return await context.agents.open(
        command.backend,
        folder,
        actor.name,
        service=service,
        worktree=worktree,
        repository=repository,
        confined_to=confined_to,
    )


def _start(context: Context, conversation: Conversation, actor: Actor) -> None:
    """Start its process on behalf of the caller."""
    claim(context, [conversation.record.service], actor)
    context.agents.start(conversation)


def _resume(context: Context, conversation: Conversation, actor: Actor) -> AgentResult:
    agents, record = context.agents, conversation.record
    if conversation.is_alive:
        return AgentResult(outcome="attached", agent=agents.describe(conversation))
    if conversation.runner is not None and conversation.runner.has_processes:
        raise Conflict(f"{record.service} is being stopped", "try again in a moment")
    conversation.cancel_start()
    agents.start(conversation)
    claim(context, [record.service], actor)
    outcome = "resumed" if record.provider_id is not None else "started"
    return AgentResult(outcome=outcome, agent=agents.describe(conversation))
