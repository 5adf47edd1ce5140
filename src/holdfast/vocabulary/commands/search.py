"""Commands that search: in files, and in what services printed."""

from __future__ import annotations

from typing import Literal

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.search_results import LogSearchResult, SearchResult

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
    The pattern is as in `search`. `cursor` goes on where the last answer ended; it stays valid
    while services print more.
    """

    name = "search_logs"
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
    case: Case = "smart"
    limit: int = 50
    max_bytes: int = DEFAULT_BYTES
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        check_bounds(self.limit, self.max_bytes)


def _is_type(text: str) -> bool:
    return 0 < len(text) <= 40 and text[0].isalnum() and text.replace("-", "").isalnum()
