"""Shows long texts piece by piece: where a piece ends, and where the next begins. Pure.

A cursor holds how many bytes were shown and a digest of them, so that a text that changed meanwhile
is noticed.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from holdfast.vocabulary.errors import UsageError

_LONGEST_CURSOR = 200


class Place(NamedTuple):
    """How far a text was shown."""

    offset: int = 0
    digest: str = ""

    def encode(self) -> str:
        return f"{self.offset:x}.{self.digest}"


def decode(text: str | None) -> Place:
    if text is None:
        return Place()
    offset, _, digest = text.partition(".")
    try:
        if len(text) > _LONGEST_CURSOR or not (offset.isalnum() and digest.isalnum()):
            raise ValueError
        return Place(int(offset, 16), digest)
    except ValueError:
        raise UsageError("this is no cursor", "use the one that an answer gave") from None


class Excerpt:
    """Takes a text as it comes and keeps the wanted piece. Bounded, whatever comes."""

    def __init__(self, place: Place, most: int) -> None:
        self._place = place
        self._most = most
        self._seen = 0
        self._hash = blake2b(digest_size=8)
        self._before: str | None = "" if place.offset == 0 else None
        self._piece = bytearray()
        self.is_full = False

    def feed(self, data: bytes) -> bool:
        """Take more; return whether it is enough."""
        if self.is_full:
            return True
        skipped = max(0, min(len(data), self._place.offset - self._seen))
        if skipped:
            self._hash.update(data[:skipped])
        self._seen += len(data)
        if self._before is None and self._seen >= self._place.offset:
            self._before = self._hash.hexdigest()
            if self._before != self._place.digest:
                self.is_full = True
                return True
        self._piece += data[skipped : skipped + self._most + 1 - len(self._piece)]
        self.is_full = len(self._piece) > self._most
        return self.is_full

    @property
    def is_stale(self) -> bool:
        """Whether the text before the place has changed, or is shorter."""
        return self._place.offset > 0 and self._before != self._place.digest

    def piece(self) -> tuple[bytes, Place | None]:
        """Return the piece, cut at the end of a line, and where to continue; None: that is all."""
        if len(self._piece) <= self._most:
            return bytes(self._piece), None
        cut = self._piece.rfind(b"\n", 0, self._most) + 1
        told = bytes(self._piece[: cut or self._most])
        if not cut:
            told = told[: _end_of_text(told)]
        self._hash.update(told)
        return told, Place(self._place.offset + len(told), self._hash.hexdigest())


def _end_of_text(data: bytes) -> int:
    """Return the length without an incomplete character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if length > back else len(data)
    return len(data)
