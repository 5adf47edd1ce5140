"""What a search answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.results import Result


class Hit(Result, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a file; a long one is cut around what matches."""

    path: str
    line: int
    text: str
    column: int | None = None
    """Where the first match begins in the whole line, counted in bytes from 1; none on lines
    that are shown for context."""
    cut: bool = False
    """Whether the line is longer than what is shown."""


class FileCount(Result, frozen=True, kw_only=True):
    path: str
    count: int
    """Lines that match."""


class SearchResult(Result, frozen=True, kw_only=True):
    """What was found, in the order of paths and lines."""

    mode: Literal["content", "files", "count"]
    hits: list[Hit] = []
    files: list[str] = []
    counts: list[FileCount] = []
    complete: bool
    """Whether this is all there is after the cursor that was given."""
    cursor: str | None = None
    """Where to go on, unless it is complete."""
    notes: list[str] = []
    """What could not be searched, and why the answer ends where it does."""


class LogHit(Result, frozen=True, kw_only=True):
    """One line that a service printed."""

    service: str
    time: float | None
    """None: not known, for lines that were being written."""
    stream: Literal["out", "err"]
    run: int
    text: str
    cursor: str
    """The place of the line in the log, for `logs` of this service."""
    cut: bool | msgspec.UnsetType = msgspec.UNSET


class LogSearchResult(Result, frozen=True, kw_only=True):
    """Lines of logs, service by service, each in the order in which it was printed."""

    hits: list[LogHit]
    complete: bool
    cursor: str | None = None
    notes: list[str] = []
