"""Lines out of chunks, with bounded memory, once or while a log grows.

Owns where a line begins and ends. Lines are assembled for each stream of each run by itself. A line
of more than 1 MiB comes in pieces that are marked as partial and cut between characters, always at
the same places. Text that a run left unfinished is marked as partial, too. Nothing here polls or
waits: the log itself is the buffer, so a slow follower costs nobody anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import (
    LONGEST_LINE_BYTES,
    STREAMS,
    Chunk,
    Entry,
    Line,
    LineBlock,
    Note,
    Stream,
)
from holdfast.logbook.reader import Reader

_LEAST_BLOCK_BYTES = 1024
"""Shorter texts come line by line."""


def lines(
    reader: Reader,
    cursor: Cursor = cursors.BEGINNING,
    stream: Stream | None = None,
    until: int | None = None,
    run: int | None = None,
) -> Iterator[Line | Note]:
    """Yield lines and notes from the cursor to the present end of the log. Unfinished lines come
    last, as partial ones."""
    assembler = LineAssembler(cursor)
    with reader.chunks(cursor, stream, until, run) as walk:
        for item in walk:
            yield from assembler.feed(item)
    yield from assembler.finish()


def blocks(
    reader: Reader,
    cursor: Cursor = cursors.BEGINNING,
    stream: Stream | None = None,
    until: int | None = None,
    run: int | None = None,
    *,
    is_joined: bool = False,
) -> Iterator[Entry]:
    """Like `lines`, but with many lines at a time where possible. With `is_joined`, the lines of a
    block may have been printed at different times."""
    assembler = LineAssembler(cursor)
    with reader.chunks(cursor, stream, until, run, is_joined=is_joined) as walk:
        for item in walk:
            yield from assembler.feed_block(item)
    yield from assembler.finish()


class LineFollower:
    """Follows a log: new lines after each wake. An unfinished line is held back until its end
    comes."""

    def __init__(
        self,
        reader: Reader,
        cursor: Cursor,
        stream: Stream | None = None,
        *,
        is_joined: bool = False,
    ) -> None:
        self._walk = reader.chunks(cursor, stream, is_joined=is_joined)
        self._assembler = LineAssembler(cursor)
        self._cursor = cursor

    @property
    def cursor(self) -> Cursor:
        """Where another follower would go on without loss or repetition."""
        return self._cursor

    def wake(self) -> Iterator[Line | Note]:
        """Yield what was added since. Run it to its end before the next call."""
        for item in self._walk:
            for entry in self._assembler.feed(item):
                if isinstance(entry, Line):
                    self._cursor = entry.cursor
                yield entry

    def wake_blocks(self) -> Iterator[Entry]:
        """Like `wake`, but with many lines at a time where possible."""
        for item in self._walk:
            for entry in self._assembler.feed_block(item):
                if isinstance(entry, Line):
                    self._cursor = entry.cursor
                elif isinstance(entry, LineBlock):
                    self._cursor = self._assembler.cursor()
                yield entry

    def finish(self) -> Iterator[Line]:
        """Yield unfinished lines as partial ones, at the end of following."""
        for line in self._assembler.finish():
            self._cursor = line.cursor
            yield line

    def unfinished(self) -> list[Line]:
        """Return the lines that are unfinished now and may go on."""
        return self._assembler.unfinished()

    def close(self) -> None:
        self._walk.close()


class LineAssembler:
    """Feed it chunks and notes in order; lines and notes come out in order."""

    def __init__(self, cursor: Cursor = cursors.BEGINNING) -> None:
        # By run as well: two runs print at once while one replaces the other.
        self._unfinished: dict[tuple[Stream, int], _UnfinishedLine] = {}
        self._read_already: dict[Stream, int] = {"out": cursor.out, "err": cursor.err}
        self._position = cursor.start

    def feed(self, item: Chunk | Note) -> Iterator[Line | Note]:
        """Add the next chunk or note, and yield what is complete."""
        if isinstance(item, Note):
            self._position = max(self._position, item.position)
            if item.kind == "anew":
                self._position = item.position
                self._read_already = {"out": 0, "err": 0}
            if item.kind != "replaced":
                yield from self.finish()
            yield item
            return
        *ends, rest = item.data.split(b"\n")
        place = item.position
        for data in ends:
            pieces, left = self._cut(item, data, place)
            yield from pieces
            place += len(data) + 1
            yield self._finish_line(item, left, place)
        self._position = item.end
        if rest:
            pieces, rest = self._cut(item, rest, place)
            yield from pieces
            unfinished = self._unfinished.get((item.stream, item.run))
            if unfinished is None:
                unfinished = _UnfinishedLine(item, place)
                self._unfinished[item.stream, item.run] = unfinished
            unfinished.add(rest)

    def feed_block(self, item: Chunk | Note) -> Iterator[Entry]:
        """Like `feed`, but many whole lines come as one block."""
        if isinstance(item, Note):
            yield from self.feed(item)
            return
        goes_on = (item.stream, item.run) in self._unfinished
        first = item.data.find(b"\n") + 1 if goes_on else 0
        end = item.data.rfind(b"\n") + 1
        if end - first < _LEAST_BLOCK_BYTES or (goes_on and not first):
            yield from self.feed(item)
            return
        if first:
            yield from self.feed(item._replace(data=item.data[:first]))
        data = item.data[first:end]
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        place = self._position = item.position + end
        yield LineBlock(item.time, item.stream, data, item.position + first, place, item.run)
        if rest := item.data[end:]:
            yield from self.feed(item._replace(data=rest, position=place))

    def finish(self) -> Iterator[Line]:
        """Yield unfinished lines as partial ones; nothing of them is kept."""
        for key in sorted(self._unfinished, key=lambda key: (STREAMS.index(key[0]), key[1])):
            stream, unfinished = key[0], self._unfinished.pop(key)
            data = b"".join(unfinished.parts)
            cursor = self._cursor(stream, self._position)
            yield Line(unfinished.time, stream, data, cursor, unfinished.run, True)

    def unfinished(self) -> list[Line]:
        """Return unfinished lines as they are now; they go on."""
        kept = dict(self._unfinished)
        found = list(self.finish())
        self._unfinished = kept
        return found

    def cursor(self) -> Cursor:
        """Return where another assembler must begin to see what is still to come."""
        return Cursor(self._place("out", self._position), self._place("err", self._position))

    def _finish_line(self, chunk: Chunk, data: bytes, end: int) -> Line:
        stream = chunk.stream
        time = chunk.time
        unfinished = self._unfinished.pop((stream, chunk.run), None)
        if unfinished is not None:
            unfinished.add(data)
            data = b"".join(unfinished.parts)
            time = unfinished.time
        if data.endswith(b"\r"):
            data = data[:-1]
        return Line(time, stream, data, self._cursor(stream, end), chunk.run, False)

    def _cut(self, chunk: Chunk, data: bytes, place: int) -> tuple[list[Line], bytes]:
        """Return the pieces of a line that these bytes at this place make too long, and the bytes
        that are left."""
        pieces: list[Line] = []
        key, end = (chunk.stream, chunk.run), place + len(data)
        while True:
            unfinished = self._unfinished.get(key)
            room = LONGEST_LINE_BYTES - (unfinished.size if unfinished else 0)
            if len(data) <= room:
                return pieces, data
            if unfinished is None:
                unfinished = self._unfinished[key] = _UnfinishedLine(chunk, end - len(data))
            text = b"".join((*unfinished.parts, data[:room]))
            whole = len(text) - torn_bytes(text)
            data = text[whole:] + data[room:]
            unfinished.parts, unfinished.size, unfinished.start = [], 0, end - len(data)
            cursor = self._cursor(chunk.stream, unfinished.start)
            piece = Line(unfinished.time, chunk.stream, text[:whole], cursor, chunk.run, True)
            pieces.append(piece)

    def _cursor(self, stream: Stream, end: int) -> Cursor:
        if stream == "out":
            return Cursor(end, self._place("err", end))
        return Cursor(self._place("out", end), end)

    def _place(self, stream: Stream, end: int) -> int:
        starts = [line.start for (of, _), line in self._unfinished.items() if of == stream]
        return min(starts) if starts else max(end, self._read_already[stream])


class _UnfinishedLine:
    """The beginning of a line whose end has not come yet."""

    __slots__ = ("parts", "run", "size", "start", "time")

    def __init__(self, chunk: Chunk, start: int) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.start = start
        self.time = chunk.time
        self.run = chunk.run

    def add(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)


def torn_bytes(data: bytes) -> int:
    """Return how many bytes at the end belong to an incomplete UTF-8 character."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            need = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if need > back and byte < 0xF8 else 0
    return 0
