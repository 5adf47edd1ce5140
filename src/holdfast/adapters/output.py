"""Reads what services printed, as lines without secrets, from the logbook.

Blocking: use a thread.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor, CursorError
from holdfast.logbook.entries import Chunk, Entry, Line, LineBlock, Note, Stream
from holdfast.logbook.line_pattern import LineTexts
from holdfast.logbook.lines import LineAssembler, LineFollower
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_matching import MatchingLines, survives_redaction
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.output import LogLine, Logs

_BATCH_LINES = 5_000
_BATCH_BYTES = 512 * 1024
_MOST_READ_BYTES = 4 * 1024 * 1024


def parse_cursor(text: str) -> Cursor:
    try:
        return cursors.decode(text)
    except CursorError as error:
        raise UsageError(str(error), "use a cursor that an answer gave") from None


class LogQuery:
    """What a `logs` command asks for, read in bounded batches."""

    def __init__(self, directory: str, command: Logs) -> None:
        reader = Reader(directory, command.service)
        span = reader.run(command.run) if command.run is not None else None
        until = span.end if span is not None else None
        self.is_done = command.run is not None and span is None
        if command.cursor is not None:
            start = parse_cursor(command.cursor)
        elif command.run is not None:
            start = span.start if span is not None else reader.start_of(command.run)
        elif command.since is not None:
            start = reader.since(command.since)
        elif command.grep is not None:
            start = reader.beginning()
        else:
            start = reader.tail(command.tail if command.tail is not None else 100, command.stream)
        is_tail = command.tail is not None and command.grep is None
        if is_tail and (until is None or until >= max(reader.end())):
            # Only the newest part is asked for: older parts need not be read.
            newest = reader.tail(command.tail or 0, command.stream)
            start = Cursor(*map(max, start, newest))
        self.place = start
        """Where to read on after the last batch."""
        self._assembler = LineAssembler(start)
        self._redactor = LineRedactor()
        self._redactor.begin_at(reader, start)
        only = span.run if span is not None else None
        self._walk = reader.chunks(start, command.stream, until, only)
        self._texts = LineTexts(command.grep) if command.grep is not None else None
        self._matching: MatchingLines | None = None
        if self._texts is not None and only is None and survives_redaction(self._texts.texts):
            self._matching = MatchingLines(reader, self._redactor, self._texts)

    def batch(self) -> list[Line | Note]:
        """Return the next lines and notes, and set `is_done` at the present end of the log. Lines
        that cannot match may be left out."""
        found: list[Line | Note] = []
        size = 0
        most = _BATCH_BYTES if self._matching is None else _MOST_READ_BYTES
        for item in self._walk:
            found += self._assembler.feed(item) if self._matching is None else self._matched(item)
            size += 0 if isinstance(item, Note) else len(item.data)
            if size >= most or len(found) >= _BATCH_LINES:
                self.place = self._assembler.cursor()
                return self._redacted(found)
        self.is_done = True
        self.place = self._assembler.cursor()
        return self._redacted(found)

    def _matched(self, item: Chunk | Note) -> Iterator[Line | Note]:
        """Yield what may match, redacted. Lines come one by one where one of them may match, since
        each needs its place."""
        assert self._matching is not None
        assert self._texts is not None
        may_match = isinstance(item, Chunk) and self._texts.candidates(item.data + b"\n")
        entries = (self._assembler.feed if may_match else self._assembler.feed_block)(item)
        for entry in self._matching.find(entries):
            assert not isinstance(entry, LineBlock), "a block without a line that may match"
            yield entry

    def _redacted(self, found: list[Line | Note]) -> list[Line | Note]:
        return self._redactor.redact(found) if self._matching is None else found

    def unfinished(self) -> list[Line | Note]:
        """Return lines without their end. They are shown, and read again when their end comes."""
        rest = self._assembler.finish()
        if self._matching is None:
            return self._redactor.redact(list(rest))
        return [entry for entry in self._matching.find(rest) if not isinstance(entry, LineBlock)]

    def close(self) -> None:
        self._walk.close()


def ends_of(directory: str, services: list[str]) -> dict[str, int]:
    """Return how far each log reaches now."""
    return {service: max(Reader(directory, service).end()) for service in services}


def printed_by(directory: str, service: str, runs: list[int]) -> dict[int, int]:
    """Return how many bytes the log holds of each of these runs.

    While two runs overlapped, the bytes of both count for each.
    """
    reader = Reader(directory, service)
    end = reader.end().start
    wanted = set(runs)
    return {
        span.run: max(0, (end if span.end is None else span.end) - span.start.start)
        for span in reader.runs()
        if span.run in wanted
    }


def bounds_of(directory: str, service: str) -> tuple[Cursor, Cursor]:
    """Return where a log begins and ends now."""
    reader = Reader(directory, service)
    return reader.beginning(), reader.end()


def last_lines(
    directory: str, service: str, run: int | None, count: int, stream: Stream | None = None
) -> list[str]:
    """Return the newest lines of a run, for an answer that explains a failure."""
    reader = Reader(directory, service)
    found: list[str] = []
    assembler, line_redactor = LineAssembler(), LineRedactor()
    start = reader.tail(count, stream)
    line_redactor.begin_at(reader, start)
    with reader.chunks(start, stream) as walk:
        for item in walk:
            found += _texts(line_redactor.redact(list(assembler.feed(item))), run)
    found += _texts(line_redactor.redact(list(assembler.finish())), run)
    return found[-count:]


class RunLines:
    """The lines of a run and of later runs that an expression may match, as the log grows, in
    bounded batches.

    Without a redactor they are not redacted: use them to compare, not to show.
    """

    def __init__(
        self,
        directory: str,
        service: str,
        run: int,
        expression: str,
        redactor: LineRedactor | None = None,
        start: Cursor | None = None,
    ) -> None:
        self._run = run
        reader = Reader(directory, service)
        begin = start or reader.start_of(run)
        if redactor is not None:
            redactor.begin_at(reader, begin)
        self._follower = LineFollower(reader, begin, is_joined=True)
        self._texts = LineTexts(expression)
        self._matching = None if redactor is None else MatchingLines(reader, redactor, self._texts)
        self._rest: Iterator[Entry] | None = None
        self.is_at_end = False
        """Whether the last batch reached the present end of the log."""

    def batch(self, is_last: bool) -> list[bytes]:
        """Return lines that were added. With `is_last`, include unfinished ones."""
        if self._rest is None:
            self._rest = self._follower.wake_blocks()
        found: list[bytes] = []
        read = size = 0
        self.is_at_end = False
        for entry in self._rest:
            lines = self._lines(entry)
            found += lines
            size += sum(map(len, lines))
            read += 0 if isinstance(entry, Note) else len(entry.data)
            if size >= _BATCH_BYTES or len(found) >= _BATCH_LINES or read >= _MOST_READ_BYTES:
                return found
        self._rest = None
        self.is_at_end = True
        for line in self._follower.finish() if is_last else ():
            found += self._lines(line)
        return found

    def _lines(self, entry: Entry) -> list[bytes]:
        """Return the lines of an entry that may match."""
        found = [entry] if self._matching is None else self._matching.find([entry])
        lines: list[bytes] = []
        for one in found:
            if isinstance(one, Note) or one.run < self._run:
                continue
            if isinstance(one, Line):
                lines.append(one.data)
            elif data := self._texts.candidates(one.data):
                lines += data[:-1].split(b"\n")
        return lines

    def preview(self) -> list[bytes]:
        """Return the lines without their end that were read so far, redacted as the others."""
        lines = self.unfinished()
        return [line.data for line in (self._matching.preview(lines) if self._matching else lines)]

    def unfinished(self) -> list[Line]:
        """Return the lines without their end that were read so far."""
        return [line for line in self._follower.unfinished() if line.run >= self._run]

    def close(self) -> None:
        self._follower.close()


def log_line(line: Line) -> LogLine:
    fields: dict[str, Any] = {"encoding": "utf8"}
    try:
        text = line.data.decode()
    except UnicodeDecodeError:
        text, fields["encoding"] = base64.b64encode(line.data).decode(), "base64"
    return LogLine(
        time=line.time or 0.0,
        stream=line.stream,
        run=line.run,
        text=text,
        partial=line.is_partial,
        **fields,
    )


def note_line(note: Note) -> LogLine:
    return LogLine(
        time=note.time or 0.0, stream="out", run=note.run, text=note.text, note=note.kind
    )


def _texts(entries: Any, run: int | None) -> list[str]:
    return [
        entry.text
        for entry in entries
        if isinstance(entry, Line) and (run is None or entry.run == run)
    ]
