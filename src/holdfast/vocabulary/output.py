"""What services print and read: commands and their answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.command import Command, Done, Door, Effect, Permission, Result


class LogLine(Result, frozen=True, kw_only=True):
    """A line of output. `encoding` says whether `text` is utf8 or base64."""

    time: float
    stream: str
    run: int
    text: str
    encoding: Literal["utf8", "base64"] = "utf8"
    partial: bool = False
    note: str | None = None


class LogsResult(Result, frozen=True, kw_only=True):
    service: str
    lines: list[LogLine]
    cursor: str
    """Where to read on."""
    more: bool = False
    """Whether something is there already."""
    unfinished: int | msgspec.UnsetType = msgspec.UNSET
    """How many of the last lines have no end yet. The cursor is before them: they come again."""


class OutputGrant(Result, frozen=True, kw_only=True):
    """Where the log of a service lies and how far it reaches, and how the service is now."""

    service: str
    directory: str
    beginning: str
    """The cursor of the oldest byte that is kept."""
    end: str
    terminal: bool
    status: str
    exit_code: int | None
    signal: str | None
    reason: str | None
    seq: int
    """Events with larger numbers tell what changed since."""
    hides: int = 0  # another number when other values must be hidden in what is read
    size: tuple[int, int] | None = None
    """Columns and rows of its terminal, while it runs and the system tells."""


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must agree; without anything, the whole log up to now is meant."""

    cursor: str | None = None
    """From here on, as an answer gave it."""
    until_cursor: str | None = None
    """Up to here."""
    since: float | None = None
    """Unix seconds: what was printed from then on."""
    until: float | None = None
    """Unix seconds: what was printed before."""
    run: int | None = None
    """Of this run only; -1 is the last."""
    tail: int | None = None
    """The last lines only."""
    stream: Literal["out", "err"] | None = None
    format: Literal["raw", "text"] = "raw"
    """raw: the bytes as they were printed; text: without control sequences."""


class Logs(Command, frozen=True, kw_only=True):
    """Read lines of a service's output, from a cursor, a time, or the end.

    The answer's `cursor` says where to read on; it stays valid over rotation and restarts.
    An answer has at most 10,000 lines and 8 MiB of text; `more` says that the cursor leads on.
    With `max_bytes`, no more than so much text is told: of a tail the newest lines, else the
    oldest; a note says if lines were left out, and a longer line is cut. `tail` with a cursor,
    a run or a time is the newest of that; `run` -1 is the newest; with a
    cursor it reads on in this run only. `grep` is a regular expression for lines as they are shown,
    without colours and control sequences; with `raw`, for their bytes. With it, `tail` counts lines
    that match, and without a cursor, a run or a time the whole log is looked through.
    """

    name = "logs"
    toolset = "process"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = LogsResult
    route = ("GET", "/api/services/{service}/logs")
    reads_content = True
    service: str
    cursor: str | None = None
    tail: int | None = None
    since: float | None = None
    stream: Literal["out", "err"] | None = None
    run: int | None = None
    grep: str | None = None
    raw: bool = False
    limit: int = 1000
    max_bytes: int | None = None


class OpenOutput(Command, frozen=True, kw_only=True):
    """Be granted to follow a service: its output, read from the files of its log, and its state.

    For programs of this machine that read the log themselves, as the gate does for viewers:
    asked once for each of them. `watch` tells when there is more. With `hold` the only item names
    the service, and the request stays open for as long as the caller may follow it: it ends with a
    refusal when a lockdown, a revoked token or another setting takes that right away.
    """

    name = "open_output"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = OutputGrant
    doors = frozenset({Door.CLI, Door.WEBSOCKET, Door.REST, Door.MCP})
    reads_content = True
    streams = True
    service: str
    hold: bool = False


class Watch(Command, frozen=True, kw_only=True):
    """Be told when services have printed more: `{service, position}`, coalesced.

    The first item of each service comes when the watch is in force: a client that reads the log
    at every item misses nothing. `exited: true` is added when a run's output is complete.
    Without names, all services are watched, those that come later too. With `own_log`,
    `{own_log: true}` tells that Holdfast's own log grew, first when that is in force; its
    lines are in the file, for everybody who may read that.
    """

    name = "watch"
    permission = Permission.VIEW
    effect = Effect.READS
    streams = True
    services: list[str] = []
    own_log: bool = False


class SendInput(Command, frozen=True, kw_only=True):
    """Write to a service's terminal or standard input; `data` is base64."""

    name = "send_input"
    toolset = "process"
    mcp_setting = "send"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Done
    route = ("POST", "/api/services/{service}/input")
    masked = frozenset({"data"})
    service: str
    data: str = ""
    eof: bool = False


class Resize(Command, frozen=True, kw_only=True):
    """Set the size of a service's terminal."""

    name = "resize"
    toolset = "process"
    mcp_setting = "send"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Done
    route = ("POST", "/api/services/{service}/size")
    service: str
    cols: int
    rows: int
