"""Lines as they may be shown: without what must not be told.

What that is, is known to who reads, and told by a `Hides`. Owns what has to be remembered from
one line to the next: a private key that is not complete, the beginning of a very long line, and
what stands before the place where somebody begins to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import LONGEST_LINE_BYTES, STREAMS, Line, Note, Stream
from holdfast.logbook.lookback import BEFORE_BYTES, Hides, look_back
from holdfast.logbook.reader import Reader

_BATCH_LINES = 256
_BATCH_BYTES = 128 * 1024
_LEAST_HIDDEN = 4


class LineCover:
    """Covers the lines of one reading, which come in order."""

    def __init__(self, hides: Hides) -> None:
        self.hides = hides
        self._before: dict[Stream, bytes] = {}
        """The beginning of the line that comes next."""
        self._blocks: dict[Stream, Any] = {}
        """A private key whose end has not come, as it is at the beginning of that line."""

    def begin_at(self, reader: Reader, start: Cursor) -> None:
        """Look at what precedes the place: it may be in the middle of a line or of a key."""
        for stream, place in zip(STREAMS, start, strict=True):
            before = look_back(reader, place, stream, self.hides)
            self._remember(stream, before.line, before.block)

    def cover(self, entries: list[Line | Note]) -> list[Line | Note]:
        if not self._before and not self._blocks and self._is_plain(entries):
            return entries
        shown: list[Line | Note] = []
        lines: list[Line] = []
        for entry in entries:
            if isinstance(entry, Line):
                lines.append(entry)
                continue
            if entry.kind != "replaced":
                shown += self._covered_lines(lines)
                lines = []
                self._pass(entry)
            elif lines:
                shown += self._covered_lines(lines)
                lines = []
            shown.append(entry)
        return shown + self._covered_lines(lines)

    def glimpse(self, lines: Sequence[Line]) -> list[Line | Note]:
        """Lines that may still go on, covered as they are now; nothing is remembered."""
        before, blocks = dict(self._before), dict(self._blocks)
        try:
            return self.cover(list(lines))
        finally:
            self._before, self._blocks = before, blocks

    def _is_plain(self, entries: list[Line | Note]) -> bool:
        """Whether there is nothing to hide at all, as nearly always: looked at in one piece."""
        lines = [entry for entry in entries if type(entry) is Line]
        if len(lines) < len(entries) and any(
            isinstance(entry, Note) and entry.is_hole for entry in entries
        ):
            return False
        if any(line.is_partial for line in lines):
            return False
        joined = b"\n".join([line.data for line in lines])
        return self.hides.mask(joined) is joined

    def _pass(self, note: Note) -> None:
        """Where a run begins, nothing goes on. Behind a hole, a key may."""
        self._before.clear()
        for stream in STREAMS:
            block = self._blocks.pop(stream, None)
            if note.is_hole:
                self._blocks[stream] = self.hides.behind_hole(block)

    def _covered_lines(self, lines: list[Line]) -> list[Line]:
        """Lines of both streams, each stream by itself."""
        shown: dict[int, Line] = {}
        for stream in STREAMS:
            places = [place for place, line in enumerate(lines) if line.stream == stream]
            if places:
                own = [lines[place] for place in places]
                shown.update(zip(places, self._covered(stream, own), strict=True))
        return [shown[place] for place in range(len(lines))]

    def _covered(self, stream: Stream, lines: list[Line]) -> Iterator[Line]:
        before, block = self._before.pop(stream, b""), self._blocks.pop(stream, None)
        texts = [line.data for line in lines]
        shown = self._shown(before, texts, block)
        last = lines[-1]
        if last.is_partial:
            tail = self.hides.beginning(texts[-1])
            if tail >= _LEAST_HIDDEN and shown[-1].endswith(texts[-1][-tail:]):
                shown[-1] = shown[-1][:-tail] + b"*" * tail
        for line, data in zip(lines, shown, strict=True):
            yield line if data is line.data else line._replace(data=data)
        is_long = last.is_partial and len(last.data) >= LONGEST_LINE_BYTES // 2
        text = before + b"\n".join([*texts, *([] if is_long else [b""])])
        first = max(text.rfind(b"\n") + 1, len(text) - BEFORE_BYTES)
        first, block = self.hides.open_block(text, first, block)
        self._remember(stream, text[first:], block)

    def _shown(self, before: bytes, texts: list[bytes], block: Any) -> list[bytes]:
        if not before:
            return self.hides.lines(texts, block)
        # Only where the rest of a line is wanted; as long as it was, but for what is hidden.
        first = before + texts[0]
        covered = self.hides.shortened(self.hides.mask(first, block=block)[len(before) :])
        if len(texts) == 1:
            return [covered]
        ended = first + b"\n"
        _, block = self.hides.open_block(ended, len(ended), block)
        return [covered, *self.hides.lines(texts[1:], block)]

    def _remember(self, stream: Stream, before: bytes, block: Any) -> None:
        if before:
            self._before[stream] = before
        if block is not None:
            self._blocks[stream] = block


def covered(entries: Iterable[Line | Note], cover: LineCover) -> Iterator[Line | Note]:
    """The same entries, looked at many at a time."""
    batch: list[Line | Note] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.data) if isinstance(entry, Line) else 0
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_LINES:
            yield from cover.cover(batch)
            batch, size = [], 0
    yield from cover.cover(batch)
