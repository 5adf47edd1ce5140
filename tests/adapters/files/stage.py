"""A folder with files, offered to be read and changed, and a store outside of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.adapters.files.beneath import Opener, best, by_steps
from holdfast.adapters.files.changer import ChangeOrigin
from holdfast.adapters.files.files import Files
from holdfast.vocabulary.files import (
    ApplyPatch,
    ChangesResult,
    Edit,
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
from holdfast.vocabulary.specs.files import BackupSpec, FilesSpec, RootSpec

DEFAULT_BACKUPS = BackupSpec()
OPENERS: dict[str, Opener] = {"kernel": best(), "steps": by_steps}


class Stage:
    """Commands on a tree, without a supervisor."""

    def __init__(
        self,
        folder: Path,
        opener: Opener | None = None,
        *,
        write: bool = True,
        deny: Sequence[str] = (),
        backups: BackupSpec = DEFAULT_BACKUPS,
    ) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir(exist_ok=True)
        self.state = folder / "state"
        root = RootSpec(name="tree", path=str(self.tree), write=write)
        self.spec = FilesSpec(roots=(root,), deny=tuple(deny), backups=backups)
        never = [(str(self.tree / "holdfast.yaml"), "it is Holdfast's configuration")]
        self.files = Files(
            str(self.state), str(self.tree), lambda: self.spec, lambda: never, opener
        )
        self.about = ChangeOrigin("test", "somebody")

    def put(self, path: str, data: bytes | str) -> Path:
        place = self.tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        return place

    def read(self, path: str, **more: Any) -> FileContent:
        """At once where that is possible, as the handler does."""
        command = ReadFile(path=path, **more)
        return self.files.read_at_once(command) or self.files.read(command)

    def look(self, path: str = "", **more: Any) -> FileListing:
        return self.files.list_files(ListFiles(path=path, **more))

    def write(self, path: str, content: str, **more: Any) -> FileWritten:
        return self.files.write(WriteFile(path=path, content=content, **more), self.about)

    def edit(self, path: str, old: str, new: str, **more: Any) -> FileEdited:
        edits = [Edit(old=old, new=new)]
        return self.files.edit(EditFile(path=path, edits=edits, **more), self.about)

    def patch(self, patch: str, **more: Any) -> PatchResult:
        return self.files.patch(ApplyPatch(patch=patch, **more), self.about)

    def undo(self, **more: Any) -> UndoResult:
        return self.files.undo(UndoFiles(**more), self.about._replace(command="undo"))

    def changes(self, **more: Any) -> ChangesResult:
        return self.files.list_changes(FileChanges(**more))

    def names(self) -> set[str]:
        """Everything that is in the tree."""
        return {
            os.path.relpath(os.path.join(folder, name), self.tree)
            for folder, folders, files in os.walk(self.tree)
            for name in (*folders, *files)
        }
