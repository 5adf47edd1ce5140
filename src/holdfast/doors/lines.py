"""Bytes of a connection cut into lines. Owns the bound of a line; knows no command."""

from __future__ import annotations

from holdfast.vocabulary.errors import UsageError

MAX_LINE = 8 * 1024 * 1024


class Lines:
    """Bytes in, whole lines out; holds at most one line that is not finished."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now; raises UsageError for one that never ends."""
        if b"\n" not in data:
            self._hold(data)
            return []
        lines = b"".join([*self._pieces, data]).split(b"\n")
        self._pieces, self._size = [], 0
        self._hold(lines.pop())
        return [line for line in lines if line and not line.isspace()]

    def _hold(self, rest: bytes) -> None:
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._longest:
            raise UsageError("the line is too long", f"at most {self._longest} bytes a line")

    def rest(self) -> bytes:
        """What came after the last line, when nothing more will."""
        rest, self._pieces, self._size = b"".join(self._pieces), [], 0
        return b"" if rest.isspace() else rest
