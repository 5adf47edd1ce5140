"""Files as commands ask for them: read, list, write, edit, patch, undo.

A few threads read, one thread changes, in the order of the requests, so two changes never mix.
Everything here may block and runs in those threads.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, TypeVar

from holdfast.adapters.files import reading
from holdfast.adapters.files import undo as changes
from holdfast.adapters.files.beneath import Opener, best
from holdfast.adapters.files.change_store import ChangeStore, FileRecord, Record
from holdfast.adapters.files.changer import ChangeOrigin, Changer, WantedFile
from holdfast.adapters.files.listing import Lister, ListingQuery
from holdfast.adapters.files.page_cache import PageCacheReader
from holdfast.adapters.files.patch_plan import PatchPlanner
from holdfast.adapters.files.reading import etag_of
from holdfast.adapters.files.replacement import FileSnapshot
from holdfast.adapters.files.roots import CurrentRoots, Never, Roots
from holdfast.adapters.own_log import logger
from holdfast.rules.files import LocatedPath, locate
from holdfast.rules.text import differences, edits, encoding
from holdfast.vocabulary.errors import Conflict, NotFound, Refused, ResourceExceeded, UsageError
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
from holdfast.vocabulary.specs.files import FilesSpec

_log = logger("files")
READERS = 4
MOST_WAITING = 256
"""So many requests may wait for a thread; more are refused."""
ANY_ETAG = "*"
MOST_CHANGES_TOLD = 500
T = TypeVar("T")


class Files:
    """The files of one Holdfast."""

    def __init__(
        self,
        state: str,
        project: str,
        settings: Callable[[], FilesSpec],
        never: Never = tuple,
        opener: Opener | None = None,
    ) -> None:
        self.project = os.path.realpath(project)
        self._opener = opener or best()
        self._settings = settings
        self._roots = CurrentRoots(settings, self.project, never, self._opener)
        self.foresee = self._roots.foresee
        self._store = ChangeStore(os.path.join(state, "files"))
        self._changer = Changer(self._store)
        self._denial: Callable[[LocatedPath], str | None] | None = None
        self._in_memory = PageCacheReader(self._opener)
        self._readers = ThreadPoolExecutor(READERS, "files")
        self._writer = ThreadPoolExecutor(1, "file-changes")
        self._waiting = 0
        self._settling: asyncio.Future[list[Record]] | None = None

    @property
    def roots(self) -> Roots:
        """Return the roots of the present settings. May block unless they are ready."""
        return self._roots.now().denying(self._denial)

    def denying(self, reason: Callable[[LocatedPath], str | None] | None) -> Files:
        """Return the same files for a caller to whom more is denied.

        The copy only reads and changes: the original counts the waiting requests.
        """
        if reason is None:
            return self
        files = copy(self)
        files._denial = reason
        return files

    async def made_roots(self) -> Roots:
        """Return the roots without blocking the loop."""
        made = self._roots.made()
        return await self._in(self._readers, self._roots.now) if made is None else made

    async def settle(self) -> list[Record]:
        """Roll back what a dead supervisor had begun; readers wait for it."""
        self._settling = asyncio.ensure_future(self.write_in_turn(self.recover))
        try:
            return await self._settling
        finally:
            self._settling = None

    async def read_in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call a function that changes nothing, in parallel with other readers."""
        if self._settling is not None:
            await asyncio.wait([self._settling])
        return await self._in(self._readers, call, *arguments)

    async def write_in_turn(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call a function that changes files, after all earlier changes."""
        return await self._in(self._writer, call, *arguments)

    async def _in(self, threads: ThreadPoolExecutor, call: Callable[..., T], *arguments: Any) -> T:
        if self._waiting >= MOST_WAITING:
            raise ResourceExceeded("too many requests about files wait", "ask again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, call, *arguments)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown(wait=False, cancel_futures=True)

    def recover(self) -> list[Record]:
        """Roll back what a dead supervisor had begun."""
        return changes.recover(self._store, self._opener)

    def read(self, command: ReadFile) -> FileContent:
        roots = self.roots
        located = roots.locate(command.path, command.root)
        with roots.opened(located) as (descriptor, facts):
            part = reading.read(descriptor, facts, _wanted(command))
            self._in_memory.learn(descriptor, facts)
        return _content_of(roots, located, part, facts)

    def read_at_once(self, command: ReadFile) -> FileContent | None:
        """Read without waiting, on the loop, if the file is in memory; None otherwise."""
        if self._settling is not None or (made := self._roots.made()) is None:
            return None
        roots = made.denying(self._denial)
        located = roots.locate(command.path, command.root)
        found = self._in_memory.read(located.root.path, located.parts)
        if found is None:
            return None
        data, facts = found
        part = reading.read(-1, facts, _wanted(command), data)
        return _content_of(roots, located, part, facts)

    def list_files(self, command: ListFiles) -> FileListing:
        roots = self.roots
        folder = roots.locate(command.path, command.root)
        after = None
        if command.cursor is not None:
            place = locate(roots.roots, command.cursor)
            after = place.parts[len(folder.parts) :]
            if place.root != folder.root or place.parts[: len(folder.parts)] != folder.parts:
                raise UsageError("this cursor is of another folder")
        look = ListingQuery(command.depth, command.hidden, command.ignored, command.limit, after)
        listed = Lister(roots, folder, look).look()
        cursor = None
        if listed.last is not None:
            cursor = roots.told(LocatedPath(folder.root, (*folder.parts, *listed.last)))
        return FileListing(
            path=roots.told(folder),
            root=folder.root.name,
            entries=listed.entries,
            ignored=listed.ignored,
            truncated=cursor is not None,
            cursor=cursor,
        )

    def write(self, command: WriteFile, about: ChangeOrigin) -> FileWritten:
        roots = self.roots
        located = self._to_change(roots, command.path, command.root)
        seen = self._changer.see(roots, located)
        data, form = self._content(command, seen)
        is_same = seen is not None and seen.data == data
        if not is_same:  # writing the same content once more does no harm
            self._check_etag(roots, located, seen, command.etag, is_needed=True)
        before = None if seen is None else etag_of(seen.data)
        outcome = "created" if seen is None else "replaced"
        change = None
        if is_same:
            outcome = "unchanged"
        elif not command.dry_run:
            change = self._carry_out(roots, [WantedFile(located, seen, data)], about).id
        return FileWritten(
            path=roots.told(located),
            outcome=outcome,
            etag=etag_of(data),
            etag_before=before,
            bytes=len(data),
            encoding=form.encoding if form else "base64",
            line_ending=form.ending if form else None,
            change=change,
            dry_run=command.dry_run,
        )

    def _content(
        self, command: WriteFile, seen: FileSnapshot | None
    ) -> tuple[bytes, encoding.Form | None]:
        if command.encoding == "base64":
            try:
                return base64.b64decode(command.content, validate=True), None
            except (binascii.Error, ValueError):
                raise UsageError("content is no base64") from None
        form = encoding.Form()
        if seen is not None:
            try:
                form = encoding.decode(seen.data)[1]
            except encoding.NotText:
                pass
        text = encoding.in_form_of(command.content, form)
        if form.mark:
            text = text.removeprefix("\ufeff")
        return encoding.encode(text, form), form._replace(ending=encoding.ending_of(text))

    def edit(self, command: EditFile, about: ChangeOrigin) -> FileEdited:
        roots = self.roots
        located = self._to_change(roots, command.path, command.root)
        seen = self._existing(roots, located)
        self._check_etag(roots, located, seen, command.etag, is_needed=False)
        try:
            text, form = encoding.decode(seen.data)
        except encoding.NotText as error:
            raise Refused(f'"{roots.shown(located)}" is no text: {error}') from None
        edited = edits.apply(text, form, command.edits)
        data = encoding.encode(edited.text, form)
        change = None
        if not command.dry_run:
            change = self._carry_out(roots, [WantedFile(located, seen, data)], about).id
        path = roots.told(located)
        return FileEdited(
            path=path,
            etag=etag_of(data),
            etag_before=etag_of(seen.data),
            bytes=len(data),
            replaced=edited.replaced,
            diff=differences.unified(text, edited.text, path),
            change=change,
            dry_run=command.dry_run,
        )

    def patch(self, command: ApplyPatch, about: ChangeOrigin) -> PatchResult:
        roots = self.roots
        planned = PatchPlanner(roots, self._changer, command.root).plan(command.patch)
        change = None
        if not command.dry_run:
            change = self._carry_out(roots, planned.wanted, about).id
        return PatchResult(files=planned.files, change=change, dry_run=command.dry_run)

    def undo(self, command: UndoFiles, about: ChangeOrigin) -> UndoResult:
        roots = self.roots
        located = None
        if command.path is not None:
            located = self._to_change(roots, command.path, command.root)
        record, entries = self._to_undo(command.change, located, about.session)
        found = [self._undone(roots, entry, is_forced=command.force) for entry in entries]
        wanted = [one for one in found if one is not None]
        change = None
        if not command.dry_run and wanted:
            change = self._carry_out(roots, wanted, about._replace(undoes=record.id)).id
            self._remove_folders(roots, entries)
        files = [
            changes.changed_file(
                FileRecord(
                    root=entry.root,
                    folder=entry.folder,
                    path=entry.path,
                    before=entry.after,
                    after=entry.before,
                ),
                self._path_of(roots, entry),
            )
            for entry in entries
        ]
        return UndoResult(undone=record.id, files=files, change=change, dry_run=command.dry_run)

    def _remove_folders(self, roots: Roots, entries: list[FileRecord]) -> None:
        """Remove the folders that were made for files which are gone again."""
        for entry in entries:
            if entry.before is None and entry.made:
                located = changes.located_of(entry)
                with roots.opened_root(located.root) as root:
                    changes.remove_folders(root, located.parts, entry.made, self._opener)

    def _to_undo(
        self, change: str | None, located: LocatedPath | None, session: str | None
    ) -> tuple[Record, list[FileRecord]]:
        if change is None:
            found = changes.newest_to_undo(self._store, located, session)
            if found is None:
                raise NotFound("there is no change to undo", "`file_changes` tells them")
            return found
        record = self._store.record(change)
        if record is None:
            raise NotFound(f'no change "{change}" is kept', "`file_changes` tells them")
        if record.state == "rolled_back":
            raise Conflict(f"{change} was taken back already, when Holdfast died in the middle")
        entries = [e for e in record.entries if located is None or changes.is_of(e, located)]
        if not entries:
            raise NotFound(f"{change} did not change that file")
        return record, entries

    def _undone(self, roots: Roots, entry: FileRecord, *, is_forced: bool) -> WantedFile | None:
        kept = changes.located_of(entry)
        root = next((root for root in roots.roots if root.path == entry.folder), None)
        if root is None:
            raise Refused(f'"{entry.root}" ({entry.folder}) is no root any more')
        located = LocatedPath(root, kept.parts)
        roots.admit_change(located)
        seen = self._changer.see(roots, located)
        if changes.is_as(seen, entry.before, entry.after):
            return None  # it is so already
        if not is_forced and not changes.is_as(seen, entry.after):
            raise Conflict(
                f'"{roots.shown(located)}" was changed since; nothing was undone',
                "look at it first; `force` undoes it all the same",
                {"path": roots.told(located)},
            )
        if entry.before is None:
            return WantedFile(located, seen, None)
        data = self._store.get(entry.before.hash)
        if data is None:
            raise NotFound(f'what "{roots.shown(located)}" was before is not kept any more')
        return WantedFile(located, seen, data, like=entry.before)

    def list_changes(self, command: FileChanges) -> ChangesResult:
        roots = self.roots
        located = None
        if command.path is not None:
            located = roots.locate(command.path, command.root)
        limit = max(1, min(command.limit, MOST_CHANGES_TOLD))
        found, is_cut = changes.list_changes(
            self._store,
            located,
            limit,
            lambda entry: self._path_of(roots, entry),
            lambda entry: roots.denials.reason(changes.located_of(entry)) is None,
        )
        return ChangesResult(changes=found, truncated=is_cut)

    def _path_of(self, roots: Roots, entry: FileRecord) -> str:
        return roots.told(changes.located_of(entry))

    def _carry_out(self, roots: Roots, wanted: list[WantedFile], about: ChangeOrigin) -> Record:
        record = self._changer.carry_out(roots, wanted, about)
        try:
            with self._store.locked():
                self._store.prune(self._settings().backups)
        except OSError as error:  # the change is done all the same
            _log.warning("old backups cannot be removed: %s", error)
        return record

    def _to_change(self, roots: Roots, path: str, root: str | None) -> LocatedPath:
        located = locate(roots.roots, path, root)
        roots.admit_change(located)
        return located

    def _existing(self, roots: Roots, located: LocatedPath) -> FileSnapshot:
        seen = self._changer.see(roots, located)
        if seen is None:
            raise roots.error_of(FileNotFoundError(2, "No such file"), located)
        return seen

    def _check_etag(
        self,
        roots: Roots,
        located: LocatedPath,
        seen: FileSnapshot | None,
        etag: str | None,
        *,
        is_needed: bool,
    ) -> None:
        if etag == ANY_ETAG or (etag is None and (seen is None or not is_needed)):
            return
        now = None if seen is None else etag_of(seen.data)
        if now == etag:
            return
        about = {"path": roots.told(located), "etag": now}
        if etag is None:
            raise Conflict(
                f'"{roots.shown(located)}" is there already',
                'read it and give its etag, or etag: "*" to replace whatever it is',
                about,
            )
        is_gone = "is gone" if seen is None else "is not the one that was read"
        raise Conflict(f'"{roots.shown(located)}" {is_gone}', "read it again", about)


def _wanted(command: ReadFile) -> reading.WantedPart:
    return reading.WantedPart(
        command.offset,
        command.limit,
        command.tail,
        command.from_byte,
        command.max_bytes,
        command.encoding == "base64",
    )


def _content_of(
    roots: Roots, located: LocatedPath, part: reading.FileExcerpt, facts: os.stat_result
) -> FileContent:
    return FileContent(
        path=roots.told(located),
        root=located.root.name,
        etag=part.etag,
        size=part.size,
        modified=facts.st_mtime,
        content=part.content,
        bytes=part.taken,
        encoding=part.encoding,
        lossy=part.is_lossy,
        bom=part.has_mark,
        line_ending=part.ending,
        first_line=part.first_line,
        lines=part.lines,
        total_lines=part.total_lines,
        truncated=part.next_byte is not None,
        next_offset=part.next_offset,
        next_byte=part.next_byte,
    )
