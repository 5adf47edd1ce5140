"""Lines out of bytes that come in pieces, as from a socket or a growing file.

Owns at most one unfinished line, whose length is bounded. Standard library only.
"""

from __future__ import annotations


class LineTooLong(ValueError):
    """A line has no end within the bound."""


class LineBuffer:
    """Splits bytes into lines, which come out without their ends."""

    __slots__ = ("_longest", "_pieces", "size")

    def __init__(self, longest: int | None = None) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self.size = 0
        """Bytes of the unfinished line."""

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the lines that are complete now; raises LineTooLong."""
        if b"\n" not in data:
            self._hold(data)
            return []
        if self._pieces:
            data = b"".join([*self._pieces, data])
            self._pieces, self.size = [], 0
        lines = data.split(b"\n")
        self._hold(lines.pop())
        return lines

    @property
    def unfinished(self) -> bytes:
        """The beginning of the line whose end has not come."""
        return b"".join(self._pieces)

    def clear(self) -> bytes:
        """Forget the unfinished line, and return it."""
        rest = b"".join(self._pieces)
        self._pieces, self.size = [], 0
        return rest

    def _hold(self, rest: bytes) -> None:
        if rest:
            self._pieces.append(rest)
            self.size += len(rest)
            if self._longest is not None and self.size > self._longest:
                raise LineTooLong(f"a line has more than {self._longest} bytes")
