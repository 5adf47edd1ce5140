"""Bytes of a log on their way to viewers: what must not be told is covered, byte for byte.

As many bytes come out as go in, at the same positions, so that every cursor and offset stays
true. The end of a stream waits a little where it may be the beginning of a secret: who feeds
decides how long. What was let go is remembered to the end of its line, so that the rest of a
secret is covered even if its beginning was told. Of a private key that takes several lines, only
its state is remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.logbook.entries import Chunk, Note
from holdfast.logbook.lookback import BEFORE_BYTES, NOTHING, Before, Hides

HELD_BYTES = 4096
"""How much of an unfinished line may wait for its end."""
_LONGEST_CHARACTER = 4


class Part(NamedTuple):
    """Bytes of one stream."""

    time: float | None
    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)


class StreamCover:
    """One stream of one reading."""

    def __init__(
        self, hides: Callable[[], Hides], before: Before = NOTHING, *, is_terminal: bool = False
    ) -> None:
        self._hides = hides
        self._before, self._block = before
        self._is_terminal = is_terminal
        self._held: list[Part] = []

    @property
    def held(self) -> int | None:
        """The position of the first byte that waits; None if none does."""
        return self._held[0].position if self._held else None

    def feed(self, chunk: Chunk) -> list[Part]:
        """What can be told now."""
        self._held.append(Part(chunk.time, chunk.position, chunk.data))
        text = self._before + b"".join([part.data for part in self._held])
        return self._let_go(text, len(text) - self._undecided(text))

    def rest(self) -> list[Part]:
        """What waits, whatever it is the beginning of."""
        if not self._held:
            return []
        text = self._before + b"".join([part.data for part in self._held])
        return self._let_go(text, len(text))

    def pass_note(self, note: Note) -> None:
        """What comes next belongs to no line that has begun; behind a hole, a key may go on."""
        if note.kind != "replaced":
            self._before = b""
            self._block = self._hides().behind_hole(self._block) if note.is_hole else None

    def _undecided(self, text: bytes) -> int:
        """How many bytes at the end may be the beginning of something."""
        torn = unfinished(text)
        if self._is_terminal:
            return max(torn, min(self._hides().beginning(text), HELD_BYTES))
        return max(torn, min(len(text) - text.rfind(b"\n") - 1, HELD_BYTES))

    def _let_go(self, text: bytes, end: int) -> list[Part]:
        hides, known = self._hides(), len(self._before)
        if end < len(text):
            end -= unfinished(text[:end])
        if end <= known:
            return []
        covered = hides.mask(text, is_terminal=self._is_terminal, block=self._block)
        covered = covered[known:end]
        told: list[Part] = []
        place = 0
        held, self._held = self._held, []
        for part in held:
            here = min(len(part.data), max(0, len(covered) - place))
            if here:
                told.append(part._replace(data=covered[place : place + here]))
            if here < len(part.data):
                rest = part._replace(position=part.position + here, data=part.data[here:])
                self._held.append(rest)
            place += len(part.data)
        first = max(text.rfind(b"\n", 0, end) + 1, end - BEFORE_BYTES)
        first, self._block = hides.open_block(text, first, self._block)
        self._before = text[first:end]
        return told


def unfinished(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character."""
    for count in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-count]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return count if count < needed and byte < 0xF8 else 0
    return 0
