"""Lines out of chunks: assembled for each stream apart, with bounded memory.

Owns where a line begins and ends. A line of more than 1 MiB comes in pieces that are
marked partial, cut between characters; what a run left unfinished is marked too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import LONGEST_LINE_BYTES, STREAMS, Chunk, Line, Note, Stream
from holdfast.logbook.reader import Reader


class _Unfinished:
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


class LineAssembler:
    """Feed chunks and notes in order; lines and notes come out in order."""

    def __init__(self, cursor: Cursor = cursors.BEGINNING) -> None:
        # Of each run apart: two of them print at once while one relieves the other.
        self._unfinished: dict[tuple[Stream, int], _Unfinished] = {}
        self._read_already: dict[Stream, int] = {"out": cursor.out, "err": cursor.err}
        self._position = cursor.start

    def feed(self, item: Chunk | Note) -> Iterator[Line | Note]:
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
            begun = place
            place += len(data) + 1
            yield self._finish_line(item, data, begun, place)
        self._position = item.end
        if rest:
            unfinished = self._unfinished.get((item.stream, item.run))
            if unfinished is None:
                unfinished = _Unfinished(item, place)
                self._unfinished[item.stream, item.run] = unfinished
            unfinished.add(rest)
            if unfinished.size > LONGEST_LINE_BYTES:
                yield self._cut(item.stream, unfinished)

    def finish(self) -> Iterator[Line]:
        """What is unfinished now, as partial lines."""
        for key in sorted(self._unfinished, key=lambda key: (STREAMS.index(key[0]), key[1])):
            stream, unfinished = key[0], self._unfinished.pop(key)
            data = b"".join(unfinished.parts)
            cursor = self._cursor(stream, self._position)
            yield Line(unfinished.time, stream, data, cursor, unfinished.run, True)

    def unfinished(self) -> list[Line]:
        """The same, but they go on."""
        kept = dict(self._unfinished)
        found = list(self.finish())
        self._unfinished = kept
        return found

    def cursor(self) -> Cursor:
        """Where another assembler would have to begin to see what is still to come."""
        return Cursor(self._place("out", self._position), self._place("err", self._position))

    def _finish_line(self, chunk: Chunk, data: bytes, begun: int, end: int) -> Line:
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

    def _cut(self, stream: Stream, unfinished: _Unfinished) -> Line:
        data = b"".join(unfinished.parts)
        whole = len(data) - torn_bytes(data)
        rest = data[whole:]
        end = self._position - len(rest)
        unfinished.parts = [rest] if rest else []
        unfinished.size = len(rest)
        unfinished.start = end
        cursor = self._cursor(stream, end)
        return Line(unfinished.time, stream, data[:whole], cursor, unfinished.run, True)

    def _cursor(self, stream: Stream, end: int) -> Cursor:
        if stream == "out":
            return Cursor(end, self._place("err", end))
        return Cursor(self._place("out", end), end)

    def _place(self, stream: Stream, end: int) -> int:
        starts = [it.start for (of, _), it in self._unfinished.items() if of == stream]
        return min(starts) if starts else max(end, self._read_already[stream])


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


def assemble(
    items: Iterable[Chunk | Note], cursor: Cursor = cursors.BEGINNING
) -> Iterator[Line | Note]:
    """Lines of these chunks, which begin at the cursor; what is unfinished at their end
    comes last, as partial."""
    assembler = LineAssembler(cursor)
    for item in items:
        yield from assembler.feed(item)
    yield from assembler.finish()


def lines(
    reader: Reader,
    cursor: Cursor = cursors.BEGINNING,
    stream: Stream | None = None,
    until: int | None = None,
    run: int | None = None,
) -> Iterator[Line | Note]:
    """Lines and notes from the cursor to the present end of the log."""
    with reader.chunks(cursor, stream, until, run) as walk:
        yield from assemble(walk, cursor)
