"""The entries that readers of a log yield: chunks of bytes, lines, and notes about the log.

Values only. Nothing here reads a file.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.logbook.cursors import Cursor

Stream = Literal["out", "err"]
NoteKind = Literal["run", "gap", "removed", "missing", "replaced", "anew"]

STREAMS: tuple[Stream, Stream] = ("out", "err")
LONGEST_LINE_BYTES = 1 << 20


class Chunk(NamedTuple):
    """Bytes of one stream as a run printed them. `time` is None if it is unknown, as for bytes that
    a keeper wrote but could not index before it died."""

    time: float | None
    stream: Stream
    data: bytes
    position: int
    run: int

    @property
    def end(self) -> int:
        """The position to read on from."""
        return self.position + len(self.data)


class Line(NamedTuple):
    """One line without its end. `cursor` is the place after it. A partial line has no line end: it
    is a piece of a very long line, or text that a run left unfinished."""

    time: float | None
    stream: Stream
    data: bytes
    cursor: Cursor
    run: int
    is_partial: bool

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class LineBlock(NamedTuple):
    """Whole lines of one stream of one run, each with its line end. `position` is the place of the
    first one, `end` the place behind the last one. The time is that of the first one."""

    time: float | None
    stream: Stream
    data: bytes
    position: int
    end: int
    run: int

    def lines(self) -> list[bytes]:
        """Return the lines without their ends."""
        return self.data[:-1].split(b"\n")


class Note(NamedTuple):
    """A fact about the log itself at this place. `lost` counts missing bytes; None if unknown.
    `is_damaged` tells that a gap comes from a damaged index."""

    kind: NoteKind
    time: float | None
    position: int
    run: int
    lost: int | None = 0
    is_damaged: bool = False

    @property
    def is_hole(self) -> bool:
        """Whether bytes are missing here."""
        return self.kind in ("gap", "removed", "missing")

    @property
    def text(self) -> str:
        match self.kind:
            case "run":
                return f"run {self.run} starts"
            case "gap" if self.is_damaged:
                return (
                    "the log's index was damaged here: time and order of what follows may be "
                    "unknown, and an unknown number of bytes may be missing"
                )
            case "gap":
                count = "an unknown number of" if self.lost is None else self.lost
                return f"{count} bytes were not recorded"
            case "removed":
                return f"{self.lost} bytes removed by the size limit or by prune"
            case "missing":
                return f"{self.lost} bytes are missing from the log's files"
            case "replaced":
                return "the keeper was replaced; time and order of what follows may be unknown"
            case "anew":
                return "the log was begun anew"


Entry = Line | LineBlock | Note
