"""The lines of a log that match a pattern, redacted. Only lines that can match are redacted.

A pattern is for lines as they are shown, so for redacted ones. Where the pattern contains a text
that redaction never makes, only lines with this text are redacted. Whether they are in a private
key is found by looking back. The result is the same as if every line were redacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.logbook.entries import STREAMS, Entry, Line, LineBlock, Note, Stream
from holdfast.logbook.line_pattern import LineTexts
from holdfast.logbook.reader import Reader
from holdfast.secrets import private_keys
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.secrets.redaction import HIDDEN

_OF_MASKS = frozenset(b"[]*")


class MatchingLines:
    """Finds the lines of one reading, which come in order. Notes are passed on."""

    def __init__(self, reader: Reader, line_redactor: LineRedactor, pattern: LineTexts) -> None:
        self._reader = reader
        self._redactor = line_redactor
        self._pattern = pattern
        self._passed: dict[Stream, int] = {}
        """Of a stream whose last lines were not redacted: the position behind them."""

    def find(self, entries: Iterable[Entry], *, is_whole: bool = True) -> Iterator[Entry]:
        """`is_whole` tells that the entries are all that the log has there."""
        if not is_whole or not survives_redaction(self._pattern.texts):
            yield from self._select(self._redactor.redact_all(entries))
            return
        for entry in entries:
            if isinstance(entry, LineBlock):
                yield from self._find_in_block(entry)
            elif isinstance(entry, Note):
                for stream in STREAMS:
                    self._return_to(stream)
                yield from self._redactor.redact([entry])
            elif not self._pass(entry):
                self._return_to(entry.stream)
                yield from self._select(self._redactor.redact([entry]))

    def preview(self, lines: Iterable[Line]) -> list[Line]:
        """Return lines that are not finished, redacted, and remember nothing of them."""
        for stream in STREAMS:
            self._return_to(stream)
        told = self._redactor.preview(list(lines))
        return [entry for entry in told if isinstance(entry, Line)]

    def _find_in_block(self, block: LineBlock) -> Iterator[Entry]:
        candidates = self._pattern.candidates(block.data)
        if not candidates and (block.stream in self._passed or self._is_plain(block.stream)):
            self._passed[block.stream] = block.end
            return
        self._return_to(block.stream)
        # Lines depend on each other only where a private key is.
        if self._is_plain(block.stream) and not private_keys.may_hold(block.data):
            block = block._replace(data=candidates)
        yield from self._select([self._redactor.redact_block(block)])

    def _select(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if isinstance(entry, LineBlock):
                if found := self._pattern.select(entry.data):
                    yield entry._replace(data=found)
            elif isinstance(entry, Note) or self._pattern.matches(entry.data):
                yield entry

    def _pass(self, line: Line) -> bool:
        """Return whether the line cannot matter."""
        if line.is_partial or self._pattern.candidates(line.data + b"\n"):
            return False
        if line.stream in self._passed:
            self._passed[line.stream] = line.cursor[STREAMS.index(line.stream)]
            return True
        return self._is_plain(line.stream) and not private_keys.may_hold(line.data)

    def _is_plain(self, stream: Stream) -> bool:
        return self._redactor.is_plain(stream)

    def _return_to(self, stream: Stream) -> None:
        """Learn the state of a stream behind the lines that were passed."""
        place = self._passed.pop(stream, None)
        if place is not None:
            self._redactor.go_to(self._reader, place, stream)


def survives_redaction(texts: list[bytes]) -> bool:
    """Return whether each of these texts can be in redacted lines only where it was before."""
    return bool(texts) and not any(
        text.lower() in HIDDEN.encode() or _OF_MASKS.intersection(text) for text in texts
    )
