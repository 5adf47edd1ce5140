"""Handler of the command that searches in what services printed.

Ripgrep reads the files of the log, or copies of them as they are shown where they have control
sequences; the index tells when each line was printed, and in which order the lines of both streams
came.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from holdfast.adapters.search import log_files, shown_log
from holdfast.adapters.search.events import EventReader, RipgrepEvent
from holdfast.adapters.search.log_files import SearchRange, Torn
from holdfast.app.context import Context
from holdfast.app.handlers.search.files import window_text
from holdfast.app.registry import handles
from holdfast.engine.search import SECONDS, SearchEnd
from holdfast.logbook import cursors
from holdfast.logbook.entries import STREAMS
from holdfast.logbook.plain_text import shown
from holdfast.logbook.reader import Reader
from holdfast.logbook.segment_view import Origin, SegmentView
from holdfast.rules import search as rules
from holdfast.rules.search import LogPlace
from holdfast.secrets import private_keys
from holdfast.secrets.log_redaction import StreamState, state_in_segment
from holdfast.secrets.private_keys import Span
from holdfast.secrets.redaction import redact, redactor, shorten_masks
from holdfast.vocabulary.search import LogHit, LogSearchResult, SearchLogs

_MOST_FILES = 16
"""At once. As many copies may be made."""
_WINDOW = 2 * rules.LONGEST_SHOWN
_HIT_OVERHEAD = 40
_PIECE_BYTES = 1 << 20


class _Found(NamedTuple):
    part: SearchRange
    event: RipgrepEvent


@handles(SearchLogs)
async def search_logs(context: Context, command: SearchLogs) -> LogSearchResult:
    names = context.roster.names(command.services) if command.services else _all(context)
    after = rules.log_place(command.cursor)
    if after is not None:
        names = names[names.index(after.service) :] if after.service in names else []
    answer = _Answer(command)
    await context.in_thread(shown_log.remove_left, context.state)
    async with context.searches:
        for name in names:
            known = after.position if after is not None and after.service == name else None
            await _search_one(context, command, name, known, answer)
            if answer.is_full or answer.is_timeout:
                break
    is_complete = not answer.is_full and not answer.is_timeout
    cursor = None if is_complete else answer.last or after
    return LogSearchResult(
        hits=answer.hits,
        complete=is_complete,
        cursor=None if cursor is None else cursor.encode(),
        notes=answer.notes,
    )


def _all(context: Context) -> list[str]:
    return sorted(context.roster.runners)


class _Answer:
    """Collects the answer, and knows how much still fits."""

    def __init__(self, command: SearchLogs) -> None:
        self.hits: list[LogHit] = []
        self.is_full = False
        self.is_timeout = False
        self.last: LogPlace | None = None
        self.notes: list[str] = []
        self._limit = command.limit
        self._left = command.max_bytes
        self._begun = time.monotonic()

    def look_at_clock(self) -> None:
        """Note that the time is used up, of all programs and copies together."""
        if not self.is_full and not self.is_timeout and time.monotonic() - self._begun > SECONDS:
            self.is_timeout = True
            self.notes += SearchEnd(is_timeout=True, unreadable=0).notes()

    @property
    def wanted(self) -> int:
        """One more than fits, to know whether there is more."""
        return self._limit - len(self.hits) + 1

    def add(self, hits: Sequence[tuple[int, LogHit]]) -> None:
        for position, hit in hits:
            self._left -= len(hit.text.encode("utf-8", "replace")) + _HIT_OVERHEAD
            if self.hits and (self._left < 0 or len(self.hits) >= self._limit):
                self.is_full = True
                return
            self.hits.append(hit)
            self.last = LogPlace(hit.service, position)


async def _search_one(
    context: Context, command: SearchLogs, name: str, after: int | None, answer: _Answer
) -> None:
    parts: list[SearchRange] = await context.in_thread(
        lambda: log_files.parts(
            context.logs,
            name,
            after=after,
            since=command.since,
            until=command.until,
            stream=command.stream,
        )
    )
    torn: list[Torn] = await context.in_thread(log_files.torn_lines, parts)
    mended = await _search_torn(context, command, torn) if torn else []
    for batch, most in _batches(parts, answer.wanted + (2 if torn else 0)):
        async with _shown(context, command, batch) as copies:
            await _search_batch(context, command, name, batch, most, copies, torn, mended, answer)
        answer.look_at_clock()
        if answer.is_full or answer.is_timeout:
            return


async def _search_batch(
    context: Context,
    command: SearchLogs,
    name: str,
    batch: list[SearchRange],
    most: int | None,
    copies: Mapping[str, str],
    torn: Sequence[Torn],
    mended: Sequence[_Found],
    answer: _Answer,
) -> None:
    paths = [copies.get(part.path, part.path) for part in batch]
    collector = _LogCollector(batch, answer.wanted, torn, copies)
    words = rules.words_for_logs(command, most, paths)
    ended = await context.workspace.ripgrep.run(words, context.logs, collector.take)
    found = collector.segments(mended)
    told = await context.in_thread(_outside_keys, context.logs, name, found)
    has_keys = told != found
    if has_keys or (collector.has_hidden and most is not None):
        # Lines that are left out have taken the place of others.
        keys = await context.in_thread(_keys_in, context.logs, name, batch) if has_keys else {}
        collector = _LogCollector(batch, answer.wanted, torn, copies, keys)
        words = rules.words_for_logs(command, None, paths)
        ended = await context.workspace.ripgrep.run(words, context.logs, collector.take)
        found = collector.segments(mended)
        told = await context.in_thread(_outside_keys, context.logs, name, found)
    answer.notes += ended.notes()
    answer.is_timeout = ended.is_timeout
    answer.add(await context.in_thread(_placed, context.logs, name, told))


@asynccontextmanager
async def _shown(
    context: Context, command: SearchLogs, batch: Sequence[SearchRange]
) -> AsyncIterator[dict[str, str]]:
    """Copies of those files that are shown otherwise than they were printed."""
    copies: dict[str, str] = {}
    if command.raw:
        yield copies
        return
    listed: list[bytes] = []

    def take(data: bytes) -> bool:
        listed.append(data)
        return False

    words = rules.words_for_controls([part.path for part in batch])
    await context.workspace.ripgrep.run(words, context.logs, take)
    try:
        for name in b"".join(listed).split(b"\0")[:-1]:
            path = os.fsdecode(name)
            copy = await context.in_thread(shown_log.write_copy, path, context.state)
            if copy is not None:
                copies[path] = copy
        yield copies
    finally:
        for copy in copies.values():
            await context.in_thread(os.unlink, copy)


async def _search_torn(context: Context, command: SearchLogs, torn: Sequence[Torn]) -> list[_Found]:
    """Return those of the lines across two segments that match as a whole."""
    lines = [line.text if command.raw else shown(line.text) for line in torn]
    path: str = await context.in_thread(_write_torn, context.state, lines)
    found: list[_Found] = []
    reader = EventReader()

    def take(data: bytes) -> bool:
        for event in reader.feed(data):
            if event.kind == "match" and 0 < event.line <= len(torn):
                line = torn[event.line - 1]
                found.append(_Found(line.part, event._replace(offset=line.offset)))
        return False

    try:
        await context.workspace.ripgrep.run(rules.words_for_logs(command, None, [path]), "/", take)
    finally:
        await context.in_thread(os.unlink, path)
    return found


def _write_torn(state: str, lines: Sequence[bytes]) -> str:
    descriptor, path = shown_log.make_file(state)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"\n".join(lines))
    return path


def _batches(parts: list[SearchRange], most: int) -> Iterator[tuple[list[SearchRange], int | None]]:
    """Files that are searched at once. Where files are wanted from their middle on, nobody can
    tell how many lines before that match; these are searched without that bound."""
    first = {part.segment for part in parts if part.first > 0}
    inner = [part for part in parts if part.segment in first]
    rest = [part for part in parts if part.segment not in first]
    if inner:
        yield inner, None
    for start in range(0, len(rest), _MOST_FILES):
        yield rest[start : start + _MOST_FILES], most


class _LogCollector:
    """Takes the lines of each file that are in its range, and no more than can matter."""

    def __init__(
        self,
        parts: Sequence[SearchRange],
        most: int,
        torn: Sequence[Torn],
        copies: Mapping[str, str],
        keys: Mapping[str, Sequence[Span]] | None = None,
    ) -> None:
        self._originals = {copy: path for path, copy in copies.items()}
        self._keys = keys or {}
        """Where private keys stand in each file, if that was looked up."""
        self._parts = {part.path: part for part in parts}
        self._most = most
        self.has_hidden = False
        self._reader = EventReader()
        self._found: dict[int, list[_Found]] = {part.segment: [] for part in parts}
        self._counts: dict[str, int] = {}
        self._ends = {line.part.path: line.offset for line in torn}
        self._begins = {line.next_path for line in torn}
        self._total = 0
        self._segment: int | None = None

    def take(self, data: bytes) -> bool:
        for event in self._reader.feed(data):
            if (path := self._originals.get(event.path)) is not None:
                if shown_log.is_filler(event.data):
                    self.has_hidden = True
                    continue
                event = event._replace(path=path)
            part = self._parts.get(event.path)
            if part is None:
                continue
            if event.kind == "begin" and part.segment != self._segment:
                # All before it is searched: are these enough already?
                if self._total >= self._most:
                    return True
                self._segment = part.segment
            elif event.kind == "match":
                self._match(part, event)
        return False

    def _match(self, part: SearchRange, event: RipgrepEvent) -> None:
        if event.offset == 0 and part.path in self._begins:
            return  # half a line
        if event.offset >= self._ends.get(part.path, event.offset + 1):
            return
        count = self._counts.get(part.path, 0)
        if not _is_meant(part, event) or count >= self._most:
            return
        if is_about_hidden(event) or self._is_in_key(event):
            self.has_hidden = True
            return
        self._counts[part.path] = count + 1
        self._total += 1
        self._found[part.segment].append(_Found(part, event))

    def _is_in_key(self, event: RipgrepEvent) -> bool:
        spans = self._keys.get(event.path, ())
        at = bisect_right(spans, (event.offset, 1 << 62)) - 1
        return at >= 0 and event.offset < spans[at][1]

    def segments(self, mended: Sequence[_Found]) -> list[tuple[int, list[_Found]]]:
        """What was found in each segment, and in lines across two segments."""
        for one in mended:
            is_meant = _is_meant(one.part, one.event) and not is_about_hidden(one.event)
            if one.part.segment in self._found and is_meant:
                self._found[one.part.segment].append(one)
        return sorted(self._found.items())


def _is_meant(part: SearchRange, event: RipgrepEvent) -> bool:
    return event.offset >= part.first and (part.last is None or event.offset < part.last)


def _outside_keys(
    directory: str, service: str, segments: Sequence[tuple[int, list[_Found]]]
) -> list[tuple[int, list[_Found]]]:
    """Return those that are not inside a private key of several lines."""
    reader = Reader(directory, service)
    left: list[tuple[int, list[_Found]]] = []
    for number, found in segments:
        view = reader.open(number) if found else None
        if view is None:
            left.append((number, found))
            continue
        try:
            told = [one for one in found if not _is_within_key(reader, view, one)]
            left.append((number, told))
        finally:
            view.close()
    return left


def _is_within_key(reader: Reader, view: SegmentView, found: _Found) -> bool:
    event = found.event
    data, place = event.data, event.offset
    if not event.is_whole:
        data, place = event.match, place + (event.start or 0)
    state = state_in_segment(reader, view, found.part.stream, place)
    if not event.is_whole:
        return _mask_behind(state, data) != data
    return state.block is not None and bool(private_keys.scan(data, state.block)[0])


def _mask_behind(state: StreamState, data: bytes) -> bytes:
    """Mask bytes that follow a place in a stream with this state."""
    return redactor().mask(state.line + data, block=state.block)[len(state.line) :]


def _keys_in(directory: str, service: str, parts: Sequence[SearchRange]) -> dict[str, list[Span]]:
    """Where private keys of several lines stand in these files."""
    reader, found = Reader(directory, service), dict[str, list[Span]]()
    for part in parts:
        view = reader.open(part.segment)
        if view is None:
            continue
        try:
            found[part.path] = _keys_of(reader, view, part)
        finally:
            view.close()
    return found


def _keys_of(reader: Reader, view: SegmentView, part: SearchRange) -> list[Span]:
    spans: list[Span] = []
    stream = STREAMS.index(part.stream)
    block = state_in_segment(reader, view, part.stream, 0).block
    place, rest = 0, b""
    while piece := view.read(stream, place + len(rest), _PIECE_BYTES):
        text = rest + piece
        end = text.rfind(b"\n") + 1 or len(text)
        some, block = private_keys.scan(text[:end], block)
        spans += [(place + start, place + stop) for start, stop in some]
        place, rest = place + end, text[end:]
    some, block = private_keys.scan(rest, block)
    return [*spans, *((place + start, place + stop) for start, stop in some)]


def _placed(
    directory: str, service: str, segments: Sequence[tuple[int, list[_Found]]]
) -> list[tuple[int, LogHit]]:
    """Lines with their time and place, in the order in which they were printed."""
    placed: list[tuple[int, LogHit]] = []
    reader = Reader(directory, service)
    for number, found in segments:
        view = reader.open(number)
        if view is None:
            continue  # removed meanwhile
        try:
            hits = []
            for part, event in found:
                origin = view.origin(STREAMS.index(part.stream), event.offset)
                if origin is not None:  # else it is being written at this moment
                    around = _around(reader, view, part, event)
                    hits.append((origin.position, _hit(service, part, event, origin, around)))
            placed += sorted(hits, key=lambda item: item[0])
        finally:
            view.close()
    return placed


def is_about_hidden(event: RipgrepEvent) -> bool:
    """Return whether everything that matches is redacted, in part or whole. Such a line is left
    out, because a caller could otherwise find out a secret piece by piece."""
    if not event.is_whole:
        return redactor().mask(event.match) != event.match
    masked = redactor().mask(event.data)
    return masked != event.data and all(
        masked[start:end] != event.data[start:end] for start, end in event.spans
    )


def _hit(
    service: str, part: SearchRange, event: RipgrepEvent, origin: Origin, around: str | None
) -> LogHit:
    line = rules.shown_line(redactor().mask(event.data), event.start or 0)
    text, is_cut = line.text, line.is_cut or not event.is_whole
    return LogHit(
        service=service,
        time=origin.time,
        stream=part.stream,
        run=origin.run,
        text=redact(shorten_masks((around or text).encode()).decode()),
        cursor=cursors.encode(cursors.at(origin.position)),
        cut=True if is_cut else msgspec.UNSET,
    )


def _around(
    reader: Reader, view: SegmentView, part: SearchRange, event: RipgrepEvent
) -> str | None:
    """The part of a very long line that matched."""
    if event.is_whole or event.start is None:
        return None
    if event.start < len(event.data) - rules.LONGEST_SHOWN:
        return None
    first = max(0, event.start - rules.LONGEST_SHOWN // 3)
    place = event.offset + first
    data = view.read(STREAMS.index(part.stream), place, _WINDOW)
    masked = _mask_behind(state_in_segment(reader, view, part.stream, place), data)
    return window_text(data, event, first, masked)
