"""Handlers of the commands about checkpoints, and the automatic checkpoint of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import msgspec

from holdfast.app.context import Context
from holdfast.app.handlers.git.reading import chosen, files_told, named
from holdfast.app.registry import Handler, handles
from holdfast.engine.git.git import NoGit
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command, Result
from holdfast.vocabulary.errors import Failed, HoldfastError, NotFound, Refused, UsageError
from holdfast.vocabulary.git import (
    Checkpoint,
    Checkpoints,
    CheckpointsResult,
    MakeCheckpoint,
    RestoreCheckpoint,
    RestoredResult,
)


@handles(MakeCheckpoint)
async def checkpoint(context: Context, command: MakeCheckpoint, actor: Actor) -> Checkpoint:
    async with (
        chosen(context, command.repository) as repository,
        context.workspace.git.turn(repository),
    ):
        made = await context.workspace.checkpoints.make(repository, command.note, actor.session)
    return msgspec.structs.replace(made, repository=named(context, repository))


@handles(Checkpoints)
async def checkpoints(context: Context, command: Checkpoints) -> CheckpointsResult:
    async with chosen(context, command.repository) as repository:
        known = await context.workspace.checkpoints.known(repository)
    where = named(context, repository)
    found = [
        msgspec.structs.replace(one, repository=where)
        for one in known
        if command.session in (None, one.session)
    ]
    return CheckpointsResult(checkpoints=found[: max(1, command.limit)])


@handles(RestoreCheckpoint)
async def restore_checkpoint(
    context: Context, command: RestoreCheckpoint, actor: Actor
) -> RestoredResult:
    async with (
        chosen(context, command.repository, is_changed=not command.dry_run) as repository,
        context.workspace.git.turn(repository),
    ):
        found = await context.workspace.checkpoints.find(
            repository, command.checkpoint, actor.session
        )
        saved, files = await context.workspace.checkpoints.restore(
            repository, found, actor.session, is_dry=command.dry_run
        )
    words = "would change" if command.dry_run else "changed"
    return RestoredResult(
        restored=found,
        saved=saved,
        changed=bool(files),
        dry_run=command.dry_run,
        files=files_told(context, repository, files[:200]),
        message=f"{len(files)} files {words}" if files else "all files are as they were",
    )


def checkpointed(handler: Handler, session: str) -> Callable[[Context, Command], Awaitable[Result]]:
    """Return a handler that makes a checkpoint before the first change of a session."""

    async def handle(context: Context, command: Command) -> Result:
        await _before_change(context, command, session)
        answer = handler(context, command)
        result: Result = answer if isinstance(answer, Result) else await answer
        return result

    return handle


async def _before_change(context: Context, command: Command, session: str) -> None:
    if not context.settings.now.git.checkpoints or getattr(command, "dry_run", False):
        return
    name = getattr(command, "repository", None) or getattr(command, "path", None)
    async with AsyncExitStack() as stack:
        try:
            opening = chosen(context, name, may_be_missing=True)
            repository = await stack.enter_async_context(opening)
        except (NotFound, Refused, UsageError):
            return  # not in a repository, or the command itself will report the problem
        try:
            await context.workspace.checkpoints.ensure(repository, session)
        except NoGit:
            return
        except HoldfastError as error:
            raise Failed(
                f"nothing was changed, because no checkpoint could be made: {error.message}",
                "`git: {checkpoints: false}` does without",
            ) from error
