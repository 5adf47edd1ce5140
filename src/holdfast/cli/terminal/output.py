"""Shows what services printed: prefixes, times, colours, JSON, several services interleaved.

Reads through the logbook and writes bytes. It never waits (`follow` does) and asks nobody.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.cli.terminal.screen import PREFIX_COLOURS, Paint
from holdfast.logbook import cursors, segments
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Entry, Line, LineBlock, Note, Stream
from holdfast.logbook.line_pattern import LinePattern
from holdfast.logbook.lines import LineFollower
from holdfast.logbook.plain_text import coloured
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.vocabulary.names import OWN_NAMES
from holdfast.vocabulary.printable import printable_colours

HIDDEN_NOTES = frozenset({"run"})
LOST_NOTES = frozenset({"gap", "missing"})
_END_OF_COLOURS = b"\x1b[0m\n"
"""A colour that the service left on must not reach our next prefix."""


def log_ends(directory: str) -> dict[str, Cursor]:
    """The end of each log now; everything after it is new."""
    return {name: Reader(directory, name).end() for name in segments.list_all(directory)}


class Style:
    """How lines are shown."""

    __slots__ = ("is_json", "only_colours", "paint", "pattern", "prefix", "run", "timestamps")

    def __init__(
        self,
        paint: Paint,
        *,
        prefix: bool,
        timestamps: bool = False,
        is_json: bool = False,
        pattern: LinePattern | None = None,
        run: int | None = None,
        only_colours: bool = False,
    ) -> None:
        """`only_colours`: no other control sequence passes, so that no service clears a screen that
        it shares with others."""
        self.only_colours = only_colours
        self.paint = paint
        self.prefix = prefix
        self.timestamps = timestamps
        self.is_json = is_json
        self.pattern = pattern
        self.run = run


class Printer:
    """Writes lines of services to standard output. A very long line is written piece by piece."""

    def __init__(self, style: Style, names: Iterable[str] = ()) -> None:
        self.style = style
        self._out = sys.stdout.buffer
        self._open: tuple[str, Stream, int] | None = None
        self._end = b""
        self._colours: dict[str, str] = {}
        self._width = max((len(name) for name in names), default=0)
        for name in sorted(names):
            self._colour(name)

    def matches(self, entry: Entry) -> bool:
        """Return whether an entry is shown at all. Of a block, all lines match already."""
        if isinstance(entry, Note):
            return entry.kind not in HIDDEN_NOTES
        if self.style.run not in (None, entry.run):
            return False
        pattern = self.style.pattern
        return pattern is None or isinstance(entry, LineBlock) or pattern.matches(entry.data)

    def show(self, service: str, entry: Entry) -> None:
        if not self.matches(entry):
            return
        if isinstance(entry, LineBlock):
            self._show_block(service, entry)
        elif self.style.is_json:
            self._out.write(_json_line(service, entry))
        elif isinstance(entry, Note):
            self._show_note(service, entry)
        else:
            self._show_line(service, entry)

    def _show_note(self, service: str, note: Note) -> None:
        """Say what is missing here on standard error, because no service printed it."""
        self.end_line()
        self.flush()
        text = self.style.paint(f"-- {note_text(note)} --", "dim")
        sys.stderr.buffer.write(self._head(service, note.time) + text.encode() + b"\n")
        sys.stderr.buffer.flush()

    def _show_block(self, service: str, block: LineBlock) -> None:
        source = (service, block.stream, block.run)
        if self._open == source or self.style.is_json:
            for data in block.lines():
                cursor = cursors.at(block.end)
                self.show(service, Line(block.time, block.stream, data, cursor, block.run, False))
            return
        self.end_line()
        text = coloured(block.data) if self.style.only_colours else block.data
        if self.style.paint.is_on and b"\x1b" in text:
            text = b"".join(
                line + (_END_OF_COLOURS if b"\x1b" in line else b"\n")
                for line in text[:-1].split(b"\n")
            )
        if head := self._head(service, block.time):
            text = head + text[:-1].replace(b"\n", b"\n" + head) + b"\n"
        self._out.write(text)

    def _show_line(self, service: str, line: Line) -> None:
        head, end = b"", b"\n"
        if self._open != (source := (service, line.stream, line.run)):
            self.end_line()
            head = self._head(service, line.time)
        else:
            end = self._end
        if self.style.paint.is_on and b"\x1b" in line.data:
            end = _END_OF_COLOURS
        # Pieces that match a pattern may come from different places: each is shown as a line.
        if line.is_partial and self.style.pattern is None:
            self._open, self._end, end = source, end, b""
        else:
            self._open = None
        data = coloured(line.data) if self.style.only_colours else line.data
        self._out.write(head + data + end)

    def end_line(self, service: str | None = None) -> None:
        """End an unfinished line of this service, or of any service."""
        if self._open is not None and service in (None, self._open[0]):
            self._out.write(self._end)
            self._open = None

    def say(self, service: str, text: str, time: float | None, colour: str = "dim") -> None:
        """Write a remark of Holdfast about a service, between its lines."""
        sys.stdout.flush()
        self.end_line()
        mark = printable_colours(self.style.paint(f"-- {text}", colour))
        self._out.write(self._head(service, time) + mark.encode() + b"\n")

    def flush(self) -> None:
        self._out.flush()

    def _head(self, service: str, time: float | None) -> bytes:
        head = ""
        if self.style.prefix:
            self._width = max(self._width, len(service))
            name = f"{service:<{self._width}} |"
            head = self.style.paint(name, self._colour(service)) + " "
        if self.style.timestamps:
            head += self.style.paint(_timestamp(time), "dim") + " "
        return head.encode()

    def _colour(self, service: str) -> str:
        chosen = PREFIX_COLOURS[len(self._colours) % len(PREFIX_COLOURS)]
        return self._colours.setdefault(service, chosen)


class LogFollower:
    """Follows the logs of several services, each at its own cursor."""

    def __init__(
        self,
        directory: str,
        printer: Printer,
        only: list[str],
        stream: Stream | None = None,
    ) -> None:
        self._directory = directory
        self._only = only
        self._printer = printer
        self._stream = stream
        self._followers: dict[str, LineFollower] = {}
        self._redactors: dict[str, LineRedactor] = {}
        self._starts: dict[str, Cursor] = {}
        """Where each log begins to be shown, until it is read for the first time."""

    def follows(self, service: str) -> bool:
        """Return whether a service is shown: the chosen ones, or all except Holdfast's own."""
        return service in self._only if self._only else not service.startswith(OWN_NAMES)

    def add(self, service: str, cursor: Cursor = cursors.BEGINNING) -> None:
        reader = Reader(self._directory, service)
        self._followers[service] = LineFollower(reader, cursor, self._stream)
        self._redactors[service] = LineRedactor()
        self._starts[service] = cursor

    def wake(self, service: str) -> None:
        """Show what a service has printed since the last time."""
        if service not in self._followers:
            if not self.follows(service):
                return
            self.add(service)
        for entry in self._new_entries(service):
            self._printer.show(service, entry)
        self._printer.flush()

    def wake_all(self) -> None:
        """Show what all services have printed since, interleaved by time; new services, too."""
        for service in segments.list_all(self._directory):
            if service not in self._followers and self.follows(service):
                self.add(service)
        sources = [
            _with_service(service, self._new_entries(service)) for service in self._followers
        ]
        for service, entry in interleave(sources):
            self._printer.show(service, entry)
        self._printer.flush()

    def finish(self, service: str) -> None:
        """Show the unfinished line that a run left."""
        self.wake(service)
        if service not in self._followers:
            return
        for line in self._redactors[service].redact_all(self._followers[service].finish()):
            self._printer.show(service, line)
        self._printer.end_line(service)
        self._printer.flush()

    def _new_entries(self, service: str) -> Iterator[Entry]:
        line_redactor = self._redactors[service]
        start = self._starts.pop(service, cursors.BEGINNING)
        if start != cursors.BEGINNING:
            line_redactor.begin_at(Reader(self._directory, service), start)
        return line_redactor.redact_all(self._followers[service].wake())

    def finish_all(self) -> None:
        self.wake_all()
        for service in list(self._followers):
            self.finish(service)

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()


ServiceEntry = tuple[str, Entry]


def last_entries(entries: Iterable[Entry], count: int) -> Iterator[Entry]:
    """Yield the last so many lines and notes."""
    kept: deque[tuple[int, Entry]] = deque()
    total = 0
    for entry in entries:
        size = entry.data.count(b"\n") if isinstance(entry, LineBlock) else 1
        kept.append((size, entry))
        total += size
        while total - kept[0][0] >= max(1, count):
            total -= kept.popleft()[0]
    for size, entry in kept if count > 0 else ():
        surplus, total = total - count, total - size
        if surplus > 0 and isinstance(entry, LineBlock):
            lines = entry.lines()[surplus:]
            entry = entry._replace(data=b"\n".join([*lines, b""]))
        yield entry


def _with_service(service: str, entries: Iterator[Entry]) -> Iterator[ServiceEntry]:
    for entry in entries:
        yield service, entry


def interleave(sources: list[Iterator[ServiceEntry]]) -> Iterator[ServiceEntry]:
    """Merge by time. An entry without a time stays after the one before it."""
    if len(sources) == 1:
        return sources[0]
    import heapq

    merged = heapq.merge(*(_with_time(source) for source in sources), key=lambda item: item[0])
    return (named for _, named in merged)


def _with_time(source: Iterator[ServiceEntry]) -> Iterator[tuple[float, ServiceEntry]]:
    last = 0.0
    for named in source:
        last = named[1].time or last
        yield last, named


def note_text(note: Note) -> str:
    return f"lost: {note.text}" if note.kind in LOST_NOTES else note.text


def _timestamp(time: float | None) -> str:
    if time is None:
        return "-" * 23
    from datetime import datetime

    local = datetime.fromtimestamp(time).astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03}"


def _json_line(service: str, entry: Line | Note) -> bytes:
    import json

    fields: dict[str, Any] = {"service": service, "time": entry.time, "run": entry.run}
    if isinstance(entry, Note):
        fields.update(text="", note=note_text(entry), lost=entry.lost)
    else:
        fields.update(stream=entry.stream, partial=entry.is_partial)
        try:
            fields.update(text=entry.data.decode(), encoding="utf8")
        except UnicodeDecodeError:
            import base64

            fields.update(text=base64.b64encode(entry.data).decode(), encoding="base64")
        fields["cursor"] = cursors.encode(entry.cursor)
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
