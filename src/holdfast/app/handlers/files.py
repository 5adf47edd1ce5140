"""Handlers of commands about files: each is done in a thread, changes one after the other.

Only what the kernel has in memory is read at once.
"""

from __future__ import annotations

from collections.abc import Awaitable

from holdfast.adapters.files.changer import ChangeOrigin
from holdfast.adapters.files.files import Files
from holdfast.adapters.files.undo import located_of
from holdfast.app.authority.path_scopes import denial
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.rules.authority.path_scopes import shown
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.files import (
    ApplyPatch,
    ChangesResult,
    EditFile,
    FileChanges,
    FileContent,
    FileEdited,
    FileListing,
    FileWritten,
    ListFiles,
    PatchResult,
    ReadFile,
    UndoFiles,
    UndoResult,
    WriteFile,
)


@handles(ReadFile)
def read_file(
    context: Context, command: ReadFile, actor: Actor
) -> FileContent | Awaitable[FileContent]:
    files = _files(context, command, actor)
    found = files.read_at_once(command)
    return context.workspace.files.read_in_thread(files.read, command) if found is None else found


@handles(ListFiles)
async def list_files(context: Context, command: ListFiles, actor: Actor) -> FileListing:
    return await context.workspace.files.read_in_thread(
        _files(context, command, actor).list_files, command
    )


@handles(FileChanges)
async def file_changes(context: Context, command: FileChanges, actor: Actor) -> ChangesResult:
    return await context.workspace.files.read_in_thread(
        _files(context, command, actor).list_changes, command
    )


@handles(WriteFile)
async def write_file(context: Context, command: WriteFile, actor: Actor) -> FileWritten:
    files = _files(context, command, actor)
    return await context.workspace.files.write_in_turn(files.write, command, _about(command, actor))


@handles(EditFile)
async def edit_file(context: Context, command: EditFile, actor: Actor) -> FileEdited:
    files = _files(context, command, actor)
    return await context.workspace.files.write_in_turn(files.edit, command, _about(command, actor))


@handles(ApplyPatch)
async def apply_patch(context: Context, command: ApplyPatch, actor: Actor) -> PatchResult:
    files = _files(context, command, actor)
    return await context.workspace.files.write_in_turn(files.patch, command, _about(command, actor))


@handles(UndoFiles)
async def undo_files(context: Context, command: UndoFiles, actor: Actor) -> UndoResult:
    files = _files(context, command, actor)
    return await context.workspace.files.write_in_turn(files.undo, command, _about(command, actor))


async def settle(context: Context) -> None:
    """Take back changes during which an earlier supervisor died, before files are read."""
    for record in await context.workspace.files.settle():
        context.store.event(
            EventKind.FILES_TAKEN_BACK,
            change=record.id,
            paths=[shown(located_of(entry).relative) for entry in record.entries],
            left=list(record.left),
        )


def _files(context: Context, command: Command, actor: Actor) -> Files:
    """Return the files as this caller may see and change them."""
    return context.workspace.files.denying(denial(context, actor, command))


def _about(command: Command, actor: Actor) -> ChangeOrigin:
    return ChangeOrigin(command.name, actor.name, actor.session)
