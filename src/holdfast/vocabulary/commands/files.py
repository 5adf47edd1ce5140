"""Commands about files below the configured roots.

A path is relative to the first root, or `NAME:path`, or absolute below a root; one whose bytes
are no text is `uri:` and percent-encoded. No link is followed, and `..` is refused.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.file_results import (
    ChangesResult,
    FileContent,
    FileEdited,
    FileListing,
    FileWritten,
    PatchResult,
    UndoResult,
)


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One replacement: `old` must be there exactly once, unless `all` are meant."""

    old: str
    new: str
    all: bool = False


class ReadFile(Command, frozen=True, kw_only=True):
    """Read a file, or some lines of it.

    `offset` is the number of the first line wanted, from 1, `limit` how many; `tail` are the
    last lines instead. `from_byte` begins at a byte. At most `max_bytes` are told; what is cut
    says how to go on. `encoding: base64` reads bytes as they are. A file that looks binary is
    described, not told. A folder is listed by `list_files`.
    """

    name = "read_file"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = FileContent
    reads_content = True
    about_files = True
    route = ("GET", "/api/files/content")
    path: str
    root: str | None = None
    offset: int | None = None
    limit: int | None = None
    tail: int | None = None
    from_byte: int | None = None
    max_bytes: int = 65536
    encoding: Literal["text", "base64"] = "text"


class ListFiles(Command, frozen=True, kw_only=True):
    """List a folder, `depth` folders deep, without what ignore files name.

    `.gitignore` and `.ignore` count unless `ignored` is asked for, too; names that begin with a
    dot are `hidden`. `cursor` goes on where a cut answer ended.
    """

    name = "list_files"
    is_recursive = True
    leaves_out = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = FileListing
    reads_content = True
    about_files = True
    route = ("GET", "/api/files")
    path: str = ""
    root: str | None = None
    depth: int = 1
    hidden: bool = False
    ignored: bool = False
    limit: int = 1000
    cursor: str | None = None


class WriteFile(Command, frozen=True, kw_only=True):
    """Make a file, or replace it as a whole, atomically.

    To replace one, give the `etag` that it had when it was read, or `*` for whatever is there.
    Text takes over encoding, byte order mark and line ends of the file that it replaces; base64
    is written as it is. Mode and owner stay. What was there before can be had back with
    `undo_files`. Missing folders are made.
    """

    name = "write_file"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    changes_files = True
    answers = FileWritten
    about_files = True
    masked = frozenset({"content"})
    route = ("POST", "/api/files/write")
    path: str
    content: str
    root: str | None = None
    encoding: Literal["utf8", "base64"] = "utf8"
    etag: str | None = None
    dry_run: bool = False


class EditFile(Command, frozen=True, kw_only=True):
    """Replace pieces of a file: all of the edits, in order, or none.

    `old` must be in the file exactly once, or `all` be true; otherwise the answer says where the
    nearest piece is, or which lines match. With an `etag` the file must still be that one.
    `dry_run` only shows the difference. Line ends and byte order mark stay as they are.
    """

    name = "edit_file"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    changes_files = True
    answers = FileEdited
    about_files = True
    masked = frozenset({"edits"})
    route = ("POST", "/api/files/edit")
    path: str
    edits: list[Edit]
    root: str | None = None
    etag: str | None = None
    dry_run: bool = False


class ApplyPatch(Command, frozen=True, kw_only=True):
    """Apply a unified diff to all of its files, or to none.

    It may change, make, delete, rename and copy files. Every line of context must be there; a
    part may stand at another line if it fits at only one. Otherwise every reason is told and
    nothing is changed. Paths are relative to the `root`, with or without git's `a/` and `b/`.
    """

    name = "apply_patch"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    changes_files = True
    answers = PatchResult
    about_files = True
    masked = frozenset({"patch"})
    route = ("POST", "/api/files/patch")
    patch: str
    root: str | None = None
    dry_run: bool = False


class UndoFiles(Command, frozen=True, kw_only=True):
    """Give files back what they were before a change.

    Without `change` the newest one that is not undone, of `path` if that is given; in a session,
    of that session. With `path` only that file of it. A file that is no longer as the change
    left it is refused, unless `force`. Undoing is a change, too, and can be undone.
    """

    name = "undo_files"
    is_recursive = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    changes_files = True
    answers = UndoResult
    about_files = True
    route = ("POST", "/api/files/undo")
    change: str | None = None
    path: str | None = None
    root: str | None = None
    force: bool = False
    dry_run: bool = False


class FileChanges(Command, frozen=True, kw_only=True):
    """Tell the newest changes that were made through Holdfast, of one file or of all."""

    name = "file_changes"
    is_recursive = True
    leaves_out = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = ChangesResult
    about_files = True
    route = ("GET", "/api/files/changes")
    path: str | None = None
    root: str | None = None
    limit: int = 20
