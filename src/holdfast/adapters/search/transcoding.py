"""A UTF-16 file as ripgrep reads it: as UTF-8, without its byte order mark.

Decoded once, piece by piece: memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import os

MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PIECE = 1 << 20


class Transcoded:
    """The bytes of the file, for a reader that asks in ascending order."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._read = 0
        self._held, self._begin = b"", 0

    def at(self, place: int, size: int) -> bytes:
        """Return so many bytes from a place on; fewer at the end."""
        is_end = False
        while not is_end and (end := self._begin + len(self._held)) < place + size:
            data = os.pread(self._descriptor, _PIECE, self._read)
            is_end = not data
            self._read += len(data)
            kept = self._held[max(0, place - self._begin) :]
            self._begin = end - len(kept)
            self._held = kept + self._decoder.decode(data, is_end).encode()
        first = place - self._begin
        return self._held[first : first + size] if first >= 0 else b""
