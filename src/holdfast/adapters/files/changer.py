"""Carries out one change of one or more files: all of it or none, even if Holdfast dies.

In order: the old contents go to the store, the change is recorded, and the new content of each file
is written beside it. Then each file is checked once more and replaced, and the record is closed.
Until then everything can be rolled back, by this supervisor or the next.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple
from urllib.parse import quote_from_bytes

import msgspec

from holdfast.adapters.files import replacement
from holdfast.adapters.files.beneath import FOLDER, Opener
from holdfast.adapters.files.change_store import ChangeStore, FileRecord, FileState, Record
from holdfast.adapters.files.reading import WHOLE
from holdfast.adapters.files.replacement import FileSnapshot
from holdfast.adapters.files.roots import Roots
from holdfast.adapters.files.undo import StepProgress, roll_back
from holdfast.adapters.own_log import logger
from holdfast.rules.files import LocatedPath
from holdfast.vocabulary.errors import Conflict, Failed, Refused

MOST_FOLDERS = 500
"""So many folders may be open until the change is done."""
_log = logger("files")


class ChangeOrigin(NamedTuple):
    """The command and the actor behind a change."""

    command: str
    actor: str
    session: str | None = None
    undoes: str | None = None


class WantedFile(NamedTuple):
    """What one file is to become."""

    located: LocatedPath
    seen: FileSnapshot | None
    """The file when this was decided; None: there was none."""
    data: bytes | None
    """None: the file is deleted."""
    like: FileState | None = None
    """The mode and owner that it gets; None: its own, or those of a new file."""
    executable: bool | None = None


class ChangeStep:
    """One file of a change under way."""

    def __init__(self, wanted: WantedFile, entry: FileRecord) -> None:
        self.wanted = wanted
        self.entry = entry
        self.folder = -1
        """The descriptor of its folder."""
        self.is_touched = False

    @property
    def name(self) -> str:
        return self.wanted.located.parts[-1]


class Changer:
    """Carries out changes; used by one thread at a time."""

    def __init__(self, store: ChangeStore) -> None:
        self._store = store

    def see(self, roots: Roots, located: LocatedPath) -> FileSnapshot | None:
        """Return the file to be changed; None if there is none."""
        with roots.opened_root(located.root) as root, roots.explained(located):
            try:
                folder = roots.opener(root, located.parts[:-1], FOLDER)
            except FileNotFoundError:
                return None
            try:
                return replacement.see(roots.opener, folder, located.parts[-1])
            finally:
                os.close(folder)

    def carry_out(self, roots: Roots, wanted: Sequence[WantedFile], about: ChangeOrigin) -> Record:
        """Carry out a change; raises, with nothing changed, if any part of it cannot be done."""
        change = self._store.new_id()
        steps = [self._step(roots, one, change, n) for n, one in enumerate(wanted)]
        record = Record(
            id=change,
            time=time.time(),
            command=about.command,
            actor=about.actor,
            session=about.session,
            undoes=about.undoes,
            entries=tuple(step.entry for step in steps),
        )
        with self._store.locked(), ExitStack() as opened:
            for step in steps:
                if step.wanted.seen is not None:
                    self._store.put(step.wanted.seen.data)
            self._store.begin(record)
            try:
                self._replace(roots, steps, opened)
                self._store.finish(record)
            except BaseException as error:
                self._take_back(record, error, roots.opener, steps)
                raise
        return record

    def _step(self, roots: Roots, wanted: WantedFile, change: str, number: int) -> ChangeStep:
        located = wanted.located
        roots.admit_change(located)
        if wanted.data is not None and len(wanted.data) > WHOLE:
            raise Refused(f"a file of more than {WHOLE // 1024**2} MiB is not written")
        before = None if wanted.seen is None else wanted.seen.state
        digits = int(change[-8:], 16)
        entry = FileRecord(
            root=located.root.name,
            folder=located.root.path,
            path=quote_from_bytes(os.fsencode(located.relative), safe="/"),
            before=before,
            after=None if wanted.data is None else _after(wanted, before),
            temporary=f".holdfast.tmp.{digits}{number:04}",
            made=0 if before is not None or wanted.data is None else self._missing(roots, located),
        )
        return ChangeStep(wanted, entry)

    def _missing(self, roots: Roots, located: LocatedPath) -> int:
        """Return how many folders of the path do not exist yet."""
        with roots.opened_root(located.root) as root, roots.explained(located):
            for count in range(len(located.parts)):
                try:
                    os.close(roots.opener(root, located.parts[: -1 - count], FOLDER))
                except FileNotFoundError:
                    continue
                return count
        return 0

    def _replace(self, roots: Roots, steps: list[ChangeStep], opened: ExitStack) -> None:
        folders: dict[tuple[str, ...], int] = {}
        for step in steps:
            located, wanted = step.wanted.located, step.wanted
            with roots.explained(located):
                key = (located.root.path, *located.parts[:-1])
                if key not in folders:
                    if len(folders) == MOST_FOLDERS:
                        raise Refused(f"a change touches at most {MOST_FOLDERS} folders")
                    with roots.opened_root(located.root) as root:
                        parts = located.parts[:-1]
                        folders[key] = self._folder(roots, root, parts, step.entry.made)
                    opened.callback(os.close, folders[key])
                step.folder = folders[key]
                if wanted.data is not None:
                    replacement.prepare(
                        step.folder,
                        step.entry.temporary,
                        wanted.data,
                        _dressed(wanted),
                        None if wanted.seen is None else step.name,
                        executable=wanted.executable,
                    )
        for step in steps:
            if not replacement.is_still(step.folder, step.name, step.wanted.seen):
                raise changed_meanwhile(roots, step.wanted.located)
        for step in steps:
            with roots.explained(step.wanted.located):
                self._put(roots, step)
        for folder in folders.values():
            replacement.sync(folder)

    def _put(self, roots: Roots, step: ChangeStep) -> None:
        step.is_touched = True
        if step.wanted.data is None:
            os.unlink(step.name, dir_fd=step.folder)
        elif step.wanted.seen is not None:
            replacement.put_over(step.folder, step.entry.temporary, step.name)
        else:
            try:
                replacement.put_new(step.folder, step.entry.temporary, step.name)
            except FileExistsError:
                step.is_touched = False
                raise changed_meanwhile(roots, step.wanted.located) from None

    def _folder(self, roots: Roots, root: int, parts: tuple[str, ...], made: int) -> int:
        """Open the folder of a file, and make the missing folders of its path."""
        for depth in range(len(parts) - made, len(parts)):
            above = roots.opener(root, parts[:depth], FOLDER)
            try:
                with suppress(FileExistsError):
                    os.mkdir(parts[depth], 0o777, dir_fd=above)
            finally:
                os.close(above)
        return roots.opener(root, parts, FOLDER)

    def _take_back(
        self, record: Record, error: BaseException, opener: Opener, steps: list[ChangeStep]
    ) -> None:
        under_way = [StepProgress(step.folder, step.is_touched) for step in steps]
        left = roll_back(record, self._store, opener, under_way)
        if not left:
            self._store.abandon(record)
            return
        _log.error("a change could not be taken back as a whole: %s: %s", record.id, left)
        self._store.settle(msgspec.structs.replace(record, state="unclear", left=tuple(left)))
        raise Failed(
            f"it failed ({error}), and these files could not be given back: {', '.join(left)}",
            f"`holdfast files changes` tells about {record.id}",
        ) from error


def _after(wanted: WantedFile, before: FileState | None) -> FileState:
    assert wanted.data is not None
    like = wanted.like or before
    hashed = hashlib.sha256(wanted.data).hexdigest()
    if like is None:
        return FileState(hashed, len(wanted.data), 0, 0, 0)
    mode = like.mode & 0o777
    if wanted.executable is not None:
        mode = replacement.with_executable(mode, is_executable=wanted.executable)
    return FileState(hashed, len(wanted.data), mode, like.uid, like.gid)


def _dressed(wanted: WantedFile) -> FileState | None:
    """Return the state whose mode and owner a file gets."""
    return wanted.like or (None if wanted.seen is None else wanted.seen.state)


def changed_meanwhile(roots: Roots, located: LocatedPath) -> Conflict:
    return Conflict(
        f'"{roots.shown(located)}" was changed meanwhile; nothing was done',
        "read it again",
        {"path": roots.told(located)},
    )
