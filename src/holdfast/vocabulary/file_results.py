"""What commands about files answer. Paths are told as they can be given back."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from holdfast.vocabulary.results import Result


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
    """What is in a folder, in order."""

    audited: ClassVar[tuple[str, ...]] = ("path",)
    root: str
    entries: list[FileEntry]
    ignored: int = 0
    """How many things ignore files left out."""
    truncated: bool = False
    cursor: str | None = None
    """What to give to go on."""


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
    """What changed, as a unified diff; cut if it is long."""
    change: str | None = None
    dry_run: bool = False


class PatchedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a patch did to one file."""

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
    """What a patch did to every file, or would do."""

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
    """done; rolled_back: Holdfast died in the middle of it, and what it had done was taken back;
    unclear: some of its files were changed by others meanwhile and were left as they are."""
    left: list[str] = []
    """The files that were left as they are."""


class ChangesResult(Result, frozen=True, kw_only=True):
    """The newest changes, newest first."""

    changes: list[FileChange]
    truncated: bool = False


class UndoResult(Result, frozen=True, kw_only=True):
    """What was undone, or would be."""

    audited: ClassVar[tuple[str, ...]] = ("undone", "files", "change")
    undone: str
    """The change that was undone."""
    files: list[ChangedFile]
    change: str | None = None
    """The change that undoing is; undo it to have everything back."""
    dry_run: bool = False
