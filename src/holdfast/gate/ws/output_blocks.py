"""Output as it goes to viewers: read from the log in blocks that end between characters, with
secrets covered, and written as frames, once for all viewers who take a block whole.

Reading blocks: it is done in threads, by one at a time. Owns no place of any viewer.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.gate.ws.frames import BINARY, STDERR, STDOUT, STREAM_NAMES, now_ms
from holdfast.logbook import cursors
from holdfast.logbook.covering import Part, StreamCover
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import STREAMS, Chunk, Note
from holdfast.logbook.lookback import look_back
from holdfast.logbook.reader import Reader
from holdfast.secrets.redaction import hider

MOST_FRAMES = 32
"""Frames of a block before the two streams are told one after the other."""
_KINDS = (STDOUT, STDERR)
_encode = msgspec.json.Encoder().encode


class Piece(NamedTuple):
    """Bytes of one stream that follow each other. `after` is the place behind them."""

    stream: int
    time: float | None
    position: int
    data: bytes
    after: Cursor


class Told(NamedTuple):
    """Something about the log itself."""

    note: Note
    before: Cursor
    after: Cursor


Item = Piece | Told


class Tail(NamedTuple):
    """A text frame behind the name of the session."""

    event: str
    text: str


class Block:
    """What was read at once. Never changes; its frames are made when first wanted."""

    __slots__ = ("_tails", "end", "is_anew", "items", "size", "start")

    def __init__(self, start: Cursor, end: Cursor, items: list[Item]) -> None:
        self.start = start
        self.end = end
        self.items = items
        self.size = sum(len(item.data) for item in items if isinstance(item, Piece))
        self.is_anew = any(isinstance(it, Told) and it.note.kind == "anew" for it in items)
        self._tails: list[Tail] | None = None

    def tails(self) -> list[Tail]:
        """Its text frames, but for the session's name at their beginning."""
        if self._tails is None:
            self._tails = tails_of(self.items, self.start)
        return self._tails


class Reading:
    """A way through a log, to its present end and on; secrets are covered."""

    def __init__(
        self, directory: str, service: str, place: Cursor, *, is_terminal: bool = False
    ) -> None:
        self.place = place
        self._from = place
        self._walked = max(place)
        self._reader = Reader(directory, service)
        self._walk = self._reader.chunks(place)
        self._is_terminal = is_terminal
        self._covers: list[StreamCover] = []
        self._rest: Chunk | None = None
        self.is_at_end = False
        """Whether the last reading came to the present end."""

    @property
    def holds(self) -> bool:
        """Whether the beginning of a character, or of a line, waits for its end."""
        return any(cover.held is not None for cover in self._covers)

    def read(self, limit: int, *, is_last: bool = False) -> Block | None:
        """What comes next, about so many bytes; None at the present end. `is_last`: also what
        waits for an end that did not come."""
        if not self._covers:
            self._covers = [self._cover(stream) for stream in range(len(STREAMS))]
        start, items = self.place, list[Item]()
        size = 0
        while size < limit or not items:
            item = self._rest or self._walk.step()
            self._rest = None
            self.is_at_end = item is None
            if item is None:
                items += self._let_go(self._walked) if is_last else ()
                break
            if isinstance(item, Chunk):
                item = self._shortened(item, max(1, limit - size))
                pieces = self._pieces(item)
                size += sum(len(piece.data) for piece in pieces)
                items += pieces
                continue
            items += self._let_go(item.position)
            for cover in self._covers:
                cover.pass_note(item)
            if item.kind == "anew":
                start = self._from = cursors.at(item.position)
            before, self.place = self.place, self._at(item.position)
            items.append(Told(item, before, self.place))
            size += 1
        return Block(start, self.place, items) if items else None

    def close(self) -> None:
        self._walk.close()

    def _cover(self, stream: int) -> StreamCover:
        # Whoever begins in the middle of a line or a key is shown no half of it.
        before = look_back(self._reader, self._from[stream], STREAMS[stream], hider())
        return StreamCover(hider, before, is_terminal=self._is_terminal)

    def _shortened(self, chunk: Chunk, most: int) -> Chunk:
        if len(chunk.data) <= most:
            return chunk
        self._rest = chunk._replace(data=chunk.data[most:], position=chunk.position + most)
        return chunk._replace(data=chunk.data[:most])

    def _pieces(self, chunk: Chunk) -> list[Piece]:
        stream = STREAMS.index(chunk.stream)
        told = self._covers[stream].feed(chunk)
        self._walked = chunk.end
        self.place = self._at(chunk.end)
        return self._placed(stream, told, chunk.end)

    def _let_go(self, position: int) -> list[Item]:
        found: list[Item] = []
        for stream, cover in enumerate(self._covers):
            if told := cover.rest():
                self.place = self._at(position)
                found += self._placed(stream, told, position)
        return found

    def _placed(self, stream: int, told: list[Part], end: int) -> list[Piece]:
        """Each with the place behind it, where its viewer goes on without loss."""
        return [
            Piece(
                stream,
                part.time,
                part.position,
                part.data,
                self.place if number == len(told) else self._behind(stream, told[number], end),
            )
            for number, part in enumerate(told, start=1)
        ]

    def _behind(self, stream: int, following: Part, end: int) -> Cursor:
        """The place at which this part comes next in its stream, with all of the other stream told
        up to the end."""
        places = list(self._at(end))
        places[stream] = following.position
        return Cursor(*places)

    def _at(self, position: int) -> Cursor:
        # A reader may come with one stream read further than the other.
        out, err = (
            max(position, known) if cover.held is None else cover.held
            for cover, known in zip(self._covers, self._from, strict=True)
        )
        return Cursor(out, err)


def beyond(items: Iterable[Item], place: Cursor, stream: int | None = None) -> list[Item]:
    """What of these lies behind a place, and is of the stream, if one is wanted."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Told):
            if item.after.start >= place.start:
                found.append(item)
            continue
        known = place[item.stream] - item.position
        if known >= len(item.data) or stream not in (None, item.stream):
            continue
        if known > 0:
            item = item._replace(position=item.position + known, data=item.data[known:])
        found.append(item)
    return found


def tails_of(items: list[Item], start: Cursor) -> list[Tail]:
    groups = list(_groups(items))
    if len(groups) > MOST_FRAMES and not any(isinstance(item, Told) for item in items):
        groups = _by_stream(items, start)
    return [_told(group) if isinstance(group, Told) else _tail(group) for group in groups]


def _groups(items: list[Item]) -> Iterator[list[Piece] | Told]:
    group: list[Piece] = []
    for item in items:
        if group and (isinstance(item, Told) or item.stream != group[0].stream):
            yield group
            group = []
        if isinstance(item, Told):
            if item.note.kind != "run":
                yield item
        else:
            group.append(item)
    if group:
        yield group


def _by_stream(items: list[Item], start: Cursor) -> list[list[Piece] | Told]:
    pieces = [item for item in items if isinstance(item, Piece)]
    out, err = ([piece for piece in pieces if piece.stream == it] for it in (0, 1))
    between = Cursor(out[-1].after.out, start.err)
    out[-1] = out[-1]._replace(after=between)
    err[-1] = err[-1]._replace(after=pieces[-1].after)
    return [out, err]


def _tail(group: list[Piece]) -> Tail:
    data = b"".join([piece.data for piece in group]) if len(group) > 1 else group[0].data
    shown = hider().shortened(data)
    try:
        content, encoding = shown.decode(), "utf8"
    except UnicodeDecodeError:
        content, encoding = base64.b64encode(shown).decode(), "base64"
    moment = group[0].time
    stamp = int(moment * 1000) if moment is not None else now_ms()
    text = (
        f'"timestamp":{stamp},"data":{{"stream":"{STREAM_NAMES[group[0].stream]}","content":'
        f'{_encode(content).decode()},"encoding":"{encoding}"}},'
        f'"cursor":"{cursors.encode(group[-1].after)}","bytes":{len(data)}}}}}'
    )
    return Tail("output", text)


def _told(item: Told) -> Tail:
    """A note of the log: bytes that are not there, or that it goes on otherwise."""
    return gap(item.before, item.after, item.note.lost, item.note.kind, item.note.text)


def gap(before: Cursor, after: Cursor, lost: int | None, reason: str, text: str) -> Tail:
    data = {
        "timestamp": now_ms(),
        "from": cursors.encode(before),
        "to": cursors.encode(after),
        "bytes": lost,
        "offset": {"stdout": after.out, "stderr": after.err},
        "reason": reason,
        "message": text,
    }
    return Tail("output:gap", _encode(data)[1:].decode() + "}")


def binary(items: Iterable[Item], number: int) -> Iterator[bytes]:
    """Binary frames; in each, bytes follow each other without a hole."""
    group: list[bytes] = []
    first = following = kind = 0
    for item in items:
        if isinstance(item, Told):
            continue
        if group and (_KINDS[item.stream] != kind or item.position != following):
            yield BINARY.pack(kind, number, first) + b"".join(group)
            group = []
        if not group:
            kind, first = _KINDS[item.stream], item.position
        group.append(item.data)
        following = item.position + len(item.data)
    if group:
        yield BINARY.pack(kind, number, first) + b"".join(group)
