"""What services printed, as lines: reads the logbook. Blocking: call it in a thread."""

from __future__ import annotations

import base64
import re
from typing import Any

from holdfast.logbook import cursors
from holdfast.logbook.cursors import CursorError
from holdfast.logbook.entries import Line, Note
from holdfast.logbook.follow import LineFollower
from holdfast.logbook.lines import LineAssembler
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.commands.output import Logs
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.results import LogLine, LogsResult

_MOST_LINES = 10_000


def pattern(text: str) -> re.Pattern[bytes]:
    """A regular expression over the bytes of a line; raises UsageError."""
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise UsageError(f'"{text}" is no regular expression: {error}') from None


def read_lines(directory: str, command: Logs) -> LogsResult:
    """The lines that the command asks for, and where to read on."""
    reader = Reader(directory, command.service)
    matches = pattern(command.grep) if command.grep else None
    until: int | None = None
    if command.cursor is not None:
        try:
            start = cursors.decode(command.cursor)
        except CursorError as error:
            raise UsageError(str(error), "use a cursor that an answer gave") from None
    elif command.run is not None:
        span = reader.run(command.run)
        if span is None:
            end = cursors.encode(reader.end())
            return LogsResult(service=command.service, lines=[], cursor=end)
        start, until = span.start, span.end
    elif command.since is not None:
        start = reader.since(command.since)
    else:
        start = reader.tail(command.tail if command.tail is not None else 100, command.stream)
    limit = max(1, min(command.limit, _MOST_LINES))
    lines: list[LogLine] = []
    assembler = LineAssembler()
    place = start
    with reader.chunks(start, command.stream, until) as walk:
        for item in walk:
            for entry in assembler.feed(item):
                if isinstance(entry, Line):
                    place = entry.cursor
                    if matches is None or matches.search(entry.data):
                        lines.append(log_line(entry))
                elif entry.kind != "run":
                    lines.append(note_line(entry))
                if len(lines) >= limit:
                    return _result(command.service, lines, place)
    # A line that is not finished yet is shown, but read again with its end.
    place = assembler.cursor() if lines or place != start else start
    lines += [
        log_line(line)
        for line in assembler.finish()
        if matches is None or matches.search(line.data)
    ]
    return _result(command.service, lines, place)


def ends_of(directory: str, services: list[str]) -> dict[str, int]:
    """How far each log reaches now."""
    return {service: max(Reader(directory, service).end()) for service in services}


def last_lines(directory: str, service: str, run: int | None, count: int) -> list[str]:
    """The newest lines of a run, for an answer that has to say why it failed."""
    reader = Reader(directory, service)
    found: list[str] = []
    assembler = LineAssembler()
    with reader.chunks(reader.tail(count)) as walk:
        for item in walk:
            found += _texts(assembler.feed(item), run)
    found += _texts(assembler.finish(), run)
    return found[-count:]


class LineSearch:
    """Looks for the first matching line of a run as the log grows."""

    def __init__(self, directory: str, service: str, run: int, expression: str) -> None:
        self._pattern = pattern(expression)
        self._run = run
        reader = Reader(directory, service)
        span = reader.run(run)
        start = span.start if span is not None else reader.end()
        self._follower = LineFollower(reader, start)

    def next_match(self, *, is_last: bool = False) -> str | None:
        """The first match in what was added since the last call."""
        entries: list[Line | Note] = []
        for entry in self._follower.wake():
            if isinstance(entry, Line) and self._is_match(entry):
                return entry.text
        if is_last:
            entries.extend(self._follower.finish())
        for entry in entries:
            if isinstance(entry, Line) and self._is_match(entry):
                return entry.text
        return None

    def _is_match(self, line: Line) -> bool:
        return line.run >= self._run and self._pattern.search(line.data) is not None

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


def _result(service: str, lines: list[LogLine], place: cursors.Cursor) -> LogsResult:
    return LogsResult(service=service, lines=lines, cursor=cursors.encode(place))
