"""Files below the configured roots: commands and their answers.

A path is relative to the first root, or `NAME:path`, or absolute below a root. A path whose bytes
are not UTF-8 is written `uri:` and percent-encoded. No link is followed, and `..` is refused.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class FileResult(Result, frozen=True, kw_only=True):
    """An answer about one file."""

    audited: ClassVar[tuple[str, ...]] = ("path", "etag", "etag_before", "bytes", "change")
    """Fields that go on record; content never does."""
    path: str


class FileContent(FileResult, frozen=True, kw_only=True):
    """Lines of a file, or bytes of it."""

    audited: ClassVar[tuple[str, ...]] = ("path", "etag", "bytes")
    root: str
    etag: str
    size: int
    modified: float
    content: str
    bytes: int
    """How many of the file's bytes the content is."""
    encoding: str
    """utf-8, utf-16-le …; base64 if bytes were asked for; binary: the content is not told."""
    lossy: bool = False
    """Whether bytes that are no text were replaced by U+FFFD in the content."""
    bom: bool = False
    line_ending: str | None = None
    """lf, crlf, mixed; nothing: there is no line end in what was looked at."""
    first_line: int | None = None
    """The number of the first line told, from 1; nothing: too far in to be counted."""
    lines: int = 0
    """How many lines the content is, the last one perhaps cut."""
    total_lines: int | None = None
    """Nothing for a large file that was not read to its end."""
    truncated: bool = False
    """Whether the file goes on behind what was told."""
    next_offset: int | None = None
    """The `offset` to go on with; nothing: at the end, or in the middle of a line."""
    next_byte: int | None = None
    """The `from_byte` to go on with."""


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing in a folder."""

    path: str
    kind: str
    """file, directory, link, other"""
    size: int | None = None
    modified: float | None = None
    target: str | None = None
    """Where a link leads; links are not followed."""
    denied: bool = False
    """Whether it may not be opened."""


class FileListing(FileResult, frozen=True, kw_only=True):
    """The entries of a folder, in order."""

    audited: ClassVar[tuple[str, ...]] = ("path",)
    root: str
    entries: list[FileEntry]
    ignored: int = 0
    """How many things ignore files left out."""
    truncated: bool = False
    cursor: str | None = None
    """The value to give to go on."""


class FileWritten(FileResult, frozen=True, kw_only=True):
    """A file was made or replaced."""

    outcome: str
    """created, replaced, unchanged"""
    etag: str
    etag_before: str | None = None
    bytes: int
    encoding: str
    line_ending: str | None = None
    change: str | None = None
    dry_run: bool = False


class FileEdited(FileResult, frozen=True, kw_only=True):
    """A file was edited, or would be."""

    etag: str
    etag_before: str
    bytes: int
    replaced: list[int]
    """How many places each edit changed."""
    diff: str
    """The change as a unified diff; cut if it is long."""
    change: str | None = None
    dry_run: bool = False


class PatchedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effect of a patch on one file."""

    path: str
    outcome: str
    """created, changed, deleted, renamed, copied"""
    previous_path: str | None = None
    added: int = 0
    removed: int = 0
    etag: str | None = None
    etag_before: str | None = None
    bytes: int = 0
    offset: int = 0
    """How many lines away from where the patch says a part of it fitted, at most."""


class PatchResult(Result, frozen=True, kw_only=True):
    """The effect of a patch on every file, done or planned."""

    audited: ClassVar[tuple[str, ...]] = ("files", "change")
    files: list[PatchedFile]
    change: str | None = None
    dry_run: bool = False


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a change."""

    path: str
    outcome: str
    """created, replaced, deleted"""
    etag: str | None = None
    etag_before: str | None = None
    bytes: int = 0
    bytes_before: int = 0
    undone: bool = False


class FileChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of one or more files, by one command."""

    change: str
    time: float
    command: str
    actor: str
    session: str | None = None
    files: list[ChangedFile]
    undoes: str | None = None
    state: str = "done"
    """done; rolled_back: Holdfast died in the middle of it, and the change was taken back;
    unclear: some of its files were changed by others meanwhile and were left as they are."""
    left: list[str] = []
    """The files that were left as they are."""


class ChangesResult(Result, frozen=True, kw_only=True):
    """The newest changes, newest first."""

    changes: list[FileChange]
    truncated: bool = False


class UndoResult(Result, frozen=True, kw_only=True):
    """The changes that were undone, or would be."""

    audited: ClassVar[tuple[str, ...]] = ("undone", "files", "change")
    undone: str
    """The change that was undone."""
    files: list[ChangedFile]
    change: str | None = None
    """The change that undoing is; undo it to have everything back."""
    dry_run: bool = False


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
    toolset = "files"
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
    toolset = "files"
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
    toolset = "files"
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
    toolset = "files"
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
    toolset = "files"
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
    """Bring files back to their content before a change.

    Without `change` the newest one that is not undone, of `path` if that is given; in a session,
    of that session. With `path` only that file of it. A file that is no longer as the change
    left it is refused, unless `force`. Undoing is a change, too, and can be undone.
    """

    name = "undo_files"
    toolset = "files"
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
    toolset = "files"
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
