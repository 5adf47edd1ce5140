"""Following a log as it grows: whoever is told that it grew calls `wake` and reads on.

Owns no clock and no thread: nothing here polls or waits. A slow follower costs nobody
anything, because the log itself is the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Chunk, Line, Note, Stream
from holdfast.logbook.lines import LineAssembler
from holdfast.logbook.reader import Reader


class ChunkFollower:
    """New chunks after each wake."""

    def __init__(self, reader: Reader, cursor: Cursor, stream: Stream | None = None) -> None:
        self._walk = reader.chunks(cursor, stream)

    def wake(self) -> Iterator[Chunk | Note]:
        """What was added since; may be left half-way and called again."""
        yield from self._walk

    def close(self) -> None:
        self._walk.close()


class LineFollower:
    """New lines after each wake; an unfinished line is held back until its end comes."""

    def __init__(self, reader: Reader, cursor: Cursor, stream: Stream | None = None) -> None:
        self._walk = reader.chunks(cursor, stream)
        self._assembler = LineAssembler(cursor)
        self._cursor = cursor

    @property
    def cursor(self) -> Cursor:
        """Where another follower would go on without loss or repetition."""
        return self._cursor

    def wake(self) -> Iterator[Line | Note]:
        """What was added since; run it to its end before waking again."""
        for item in self._walk:
            for entry in self._assembler.feed(item):
                if isinstance(entry, Line):
                    self._cursor = entry.cursor
                yield entry

    def finish(self) -> Iterator[Line]:
        """What is unfinished, as partial lines: for the end of following."""
        for line in self._assembler.finish():
            self._cursor = line.cursor
            yield line

    def unfinished(self) -> list[Line]:
        """What is unfinished now, and may go on."""
        return self._assembler.unfinished()

    def close(self) -> None:
        self._walk.close()
