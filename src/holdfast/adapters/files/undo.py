"""Takes changes back: interrupted ones at a start, and others on request."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from holdfast.adapters.files import replacement
from holdfast.adapters.files.beneath import FILE, FOLDER, Opener
from holdfast.adapters.files.change_store import (
    MOST_RECORDS,
    ChangeStore,
    FileRecord,
    FileState,
    Record,
)
from holdfast.adapters.files.reading import ETAG_LENGTH
from holdfast.adapters.files.replacement import FileSnapshot
from holdfast.adapters.own_log import logger
from holdfast.rules.files import LocatedPath, Root
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.files import ChangedFile, FileChange

PathOf = Callable[[FileRecord], str]
_log = logger("files")


def located_of(entry: FileRecord) -> LocatedPath:
    """Return the place of an entry, whatever the roots are now."""
    parts = tuple(os.fsdecode(unquote_to_bytes(entry.path)).split("/"))
    return LocatedPath(Root(entry.root, entry.folder, entry.folder, True), parts)


def is_of(entry: FileRecord, located: LocatedPath) -> bool:
    own = located_of(entry)
    return own.root.path == located.root.path and own.parts == located.parts


def etag_in(state: FileState | None) -> str | None:
    return None if state is None else state.hash[:ETAG_LENGTH]


def changed_file(entry: FileRecord, path: str, *, undone: bool = False) -> ChangedFile:
    before, after = entry.before, entry.after
    return ChangedFile(
        path=path,
        outcome="created" if before is None else "deleted" if after is None else "replaced",
        etag=etag_in(after),
        etag_before=etag_in(before),
        bytes=after.size if after else 0,
        bytes_before=before.size if before else 0,
        undone=undone,
    )


class UndoneFiles:
    """Which files of which changes were undone, collected by reading from the newest record on."""

    def __init__(self) -> None:
        self._by_change: dict[str, set[tuple[str, str]]] = {}

    def take(self, record: Record) -> None:
        if record.undoes is not None and record.state == "done":
            places = {(one.folder, one.path) for one in self.entries_left(record)}
            self._by_change.setdefault(record.undoes, set()).update(places)

    def has(self, record: Record, entry: FileRecord) -> bool:
        return (entry.folder, entry.path) in self._by_change.get(record.id, ())

    def entries_left(self, record: Record) -> list[FileRecord]:
        return [entry for entry in record.entries if not self.has(record, entry)]


def list_changes(
    store: ChangeStore,
    located: LocatedPath | None,
    limit: int,
    path_of: PathOf,
    is_shown: Callable[[FileRecord], bool],
) -> tuple[list[FileChange], bool]:
    """Return the newest changes of files that may be shown, and whether there are more."""
    found: list[FileChange] = []
    undone = UndoneFiles()
    for record in _recent(store):
        undone.take(record)
        meant = [e for e in record.entries if located is None or is_of(e, located)]
        entries = [e for e in meant if is_shown(e)]
        if not entries:
            continue
        if len(found) == limit:
            return found, True
        files = [changed_file(e, path_of(e), undone=undone.has(record, e)) for e in entries]
        found.append(
            FileChange(
                change=record.id,
                time=record.time,
                command=record.command,
                actor=record.actor,
                session=record.session,
                files=files,
                undoes=record.undoes,
                state=record.state,
                left=list(record.left) if len(entries) == len(meant) else [],
            )
        )
    return found, False


def newest_to_undo(
    store: ChangeStore, located: LocatedPath | None, session: str | None
) -> tuple[Record, list[FileRecord]] | None:
    """Return the newest change that is not completely undone."""
    undone = UndoneFiles()
    for record in _recent(store):
        undone.take(record)
        if record.undoes is not None or record.state != "done":
            continue
        if session is not None and record.session != session:
            continue
        left = undone.entries_left(record)
        wanted = [e for e in left if located is None or is_of(e, located)]
        if wanted:
            return record, wanted
    return None


def _recent(store: ChangeStore) -> Iterator[Record]:
    for number, record in enumerate(store.records()):
        if number == MOST_RECORDS:
            return
        yield record


def recover(store: ChangeStore, opener: Opener) -> list[Record]:
    """Roll back what a dead supervisor had begun; return what became of each change."""
    settled = []
    with store.locked():
        store.clear_unwritten()
        for record in store.interrupted():
            left = roll_back(record, store, opener)
            state = "unclear" if left else "rolled_back"
            settled.append(msgspec.structs.replace(record, state=state, left=tuple(left)))
            store.settle(settled[-1])
    return settled


class StepProgress(NamedTuple):
    """How far a change had come with a file, if its own process rolls it back."""

    folder: int
    """The open folder of the file; -1: it was not opened yet."""
    is_touched: bool


def roll_back(
    record: Record,
    store: ChangeStore,
    opener: Opener,
    under_way: Sequence[StepProgress] | None = None,
) -> list[str]:
    """Restore every file; return those that could not be restored."""
    left = []
    for number, entry in reversed(list(enumerate(record.entries))):
        located = located_of(entry)
        try:
            if under_way is None:
                is_done = _give_back(entry, located, store, opener)
            else:
                is_done = _take_back(entry, located, store, opener, under_way[number])
            if is_done:
                continue
        except (OSError, HoldfastError) as error:
            _log.error("%r cannot be given back: %s", located.absolute, error)
        left.append(os.fsencode(located.relative).decode("utf-8", "replace"))
    return left


def _take_back(
    entry: FileRecord,
    located: LocatedPath,
    store: ChangeStore,
    opener: Opener,
    under_way: StepProgress,
) -> bool:
    """Restore a file in the folder that was opened for it, wherever that is by now."""
    is_done = True
    if under_way.folder >= 0:
        _drop_prepared(entry, under_way.folder)
        if under_way.is_touched:
            is_done = _restore(entry, under_way.folder, located.parts[-1], store, opener)
    with suppress(OSError):
        root = os.open(located.root.path, FOLDER)
        try:
            remove_folders(root, located.parts, entry.made, opener)
        finally:
            os.close(root)
    return is_done


def _give_back(entry: FileRecord, located: LocatedPath, store: ChangeStore, opener: Opener) -> bool:
    """Restore a file after the death of the process that changed it; return whether it worked."""
    root = os.open(located.root.path, FOLDER)
    try:
        try:
            folder = opener(root, located.parts[:-1], FOLDER)
        except FileNotFoundError:
            is_done = entry.before is None
        else:
            try:
                _drop_prepared(entry, folder)
                is_done = _restore(entry, folder, located.parts[-1], store, opener)
            finally:
                os.close(folder)
        remove_folders(root, located.parts, entry.made, opener)
        return is_done
    finally:
        os.close(root)


def _drop_prepared(entry: FileRecord, folder: int) -> None:
    if entry.temporary:
        replacement.drop(folder, entry.temporary)


def _restore(entry: FileRecord, folder: int, name: str, store: ChangeStore, opener: Opener) -> bool:
    before, now = entry.before, replacement.see(opener, folder, name)
    if is_as(now, before):
        if before is not None and now is not None and now.state.mode != before.mode:
            opened = opener(folder, (name,), FILE)
            try:
                os.fchmod(opened, before.mode & 0o777)
            finally:
                os.close(opened)
        return True
    if not is_as(now, entry.after):
        return False  # somebody else wrote it since; it is not ours to remove
    if before is None:
        os.unlink(name, dir_fd=folder)
    else:
        data = store.get(before.hash)
        if data is None:
            return False
        temporary = entry.temporary or f".holdfast.tmp.{int(time.time() * 1000)}"
        like = None if now is None else name
        replacement.prepare(folder, temporary, data, before, like)
        put = replacement.put_new if now is None else replacement.put_over
        put(folder, temporary, name)
    replacement.sync(folder)
    return True


def is_as(
    now: FileSnapshot | None, state: FileState | None, other: FileState | None = None
) -> bool:
    """Return whether a file is in this state. The mode counts only if it is all that differs."""
    if now is None or state is None:
        return now is None and state is None
    if other is not None and other.hash == state.hash and other.mode != state.mode:
        return now.state.hash == state.hash and now.state.mode == state.mode
    return now.state.hash == state.hash


def remove_folders(root: int, parts: tuple[str, ...], count: int, opener: Opener) -> None:
    """Remove the innermost folders of a path as long as they are empty."""
    for depth in range(len(parts) - 1, len(parts) - 1 - count, -1):
        with suppress(OSError):
            above = opener(root, parts[: depth - 1], FOLDER)
            try:
                os.rmdir(parts[depth - 1], dir_fd=above)
            finally:
                os.close(above)
