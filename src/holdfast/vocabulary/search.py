"""Searching files and logs: commands and their answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.command import Command, Effect, Permission, Result


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


Case = Literal["smart", "sensitive", "ignore"]
MOST_HITS = 1000
MOST_CONTEXT = 20
DEFAULT_BYTES = 8_000
MOST_BYTES = 64_000
LONGEST_PATTERN = 4_000


def check_bounds(limit: int, max_bytes: int) -> None:
    if not 1 <= limit <= MOST_HITS:
        raise ValueError(f"`limit` lies between 1 and {MOST_HITS}")
    if not 1 <= max_bytes <= MOST_BYTES:
        raise ValueError(f"`max_bytes` lies between 1 and {MOST_BYTES}")


def check_pattern(pattern: str) -> None:
    if not pattern:
        raise ValueError("the pattern is empty")
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"the pattern is longer than {LONGEST_PATTERN} characters")
    if any(letter in pattern for letter in "\0\n"):
        raise ValueError("a pattern is one line of text")


class Search(Command, frozen=True, kw_only=True):
    """Search in files below the roots, with ripgrep.

    `pattern` is a regular expression (the syntax of Rust's regex), or with `literal` the very
    text. `path` is a folder or a file; without it the first root is searched. `glob` and `type`
    choose files, as ripgrep does: `*.py`, `!tests/**`; `py`, `rust`. Ignore files are honoured,
    hidden files left out unless `hidden`; symbolic links are not followed, and what the
    configuration denies is not searched. `mode` says what is told: the lines (`content`), only
    the `files`, or how many lines of each match (`count`). A long line is cut around the match.
    """

    name = "search"
    toolset = "search"
    is_recursive = True
    leaves_out = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = SearchResult
    route = ("GET", "/api/search")
    reads_content = True
    about_files = True
    pattern: str
    path: str | None = None
    glob: list[str] = []
    type: list[str] = []
    mode: Literal["content", "files", "count"] = "content"
    context: int = 0
    literal: bool = False
    case: Case = "smart"
    hidden: bool = False
    limit: int = 50
    max_bytes: int = DEFAULT_BYTES
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        check_bounds(self.limit, self.max_bytes)
        if not 0 <= self.context <= MOST_CONTEXT:
            raise ValueError(f"`context` lies between 0 and {MOST_CONTEXT}")
        if len(self.glob) > 50 or any(
            not one or len(one) > 500 or "\0" in one or "\n" in one for one in self.glob
        ):
            raise ValueError("`glob` is a list of at most 50 patterns of one line each")
        if len(self.type) > 50 or any(not _is_type(one) for one in self.type):
            raise ValueError("`type` is a list of names such as py, rust, md")


class SearchLogs(Command, frozen=True, kw_only=True):
    """Search in what services printed, with ripgrep, by time if wanted.

    Without `services`, all are searched. `since` and `until` are unix times, `until` exclusive.
    The pattern is as in `search`, and for lines as they are shown, without colours and control
    sequences; with `raw`, for their bytes. `cursor` goes on where the last answer ended; it stays
    valid while services print more.
    """

    name = "search_logs"
    toolset = "search"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = LogSearchResult
    route = ("GET", "/api/logs/search")
    reads_content = True
    pattern: str
    services: list[str] = []
    since: float | None = None
    until: float | None = None
    stream: Literal["out", "err"] | None = None
    literal: bool = False
    raw: bool = False
    case: Case = "smart"
    limit: int = 50
    max_bytes: int = DEFAULT_BYTES
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        check_bounds(self.limit, self.max_bytes)


def _is_type(text: str) -> bool:
    return 0 < len(text) <= 40 and text[0].isalnum() and text.replace("-", "").isalnum()
