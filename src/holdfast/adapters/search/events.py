"""Reads the output of `rg --json`, event by event, in bounded memory.

A line of a file may have any length, and so may its event. Of an event that is too long, only the
beginning is kept, and the part that says where the match is.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

LONGEST_EVENT = 256 * 1024
_HEAD_BYTES = 64 * 1024
_FACTS_BYTES = 8 * 1024
_MARK = b',"line_number":'
"""Quotes in a text are escaped, so this occurs only after the text of the line."""
_FACTS = re.compile(
    rb',"line_number":(?P<line>\d+|null),"absolute_offset":(?P<offset>\d+),"submatches":\['
    rb'(?:\{"match":\{"(?P<kind>text|bytes)":"(?P<match>(?:[^"\\]|\\.)*)"\},"start":(?P<start>\d+))?',
    re.DOTALL,
)
_LINES = re.compile(rb'"lines":\{"(?P<kind>text|bytes)":"')


class _TextOrBytes(msgspec.Struct):
    text: str | None = None
    encoded: str | None = msgspec.field(default=None, name="bytes")

    def raw(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        return base64.b64decode(self.encoded or "")


class _Submatch(msgspec.Struct):
    start: int
    end: int


class _Body(msgspec.Struct):
    path: _TextOrBytes | None = None
    lines: _TextOrBytes | None = None
    line_number: int | None = None
    absolute_offset: int = 0
    submatches: list[_Submatch] = []


class _Event(msgspec.Struct):
    type: str
    data: _Body


class RipgrepEvent(NamedTuple):
    """One event; `kind` is begin, end, match, context or summary."""

    kind: str
    path: str
    line: int = 0
    offset: int = 0
    """Where the line begins in its file."""
    data: bytes = b""
    start: int | None = None
    """Where the first match begins in the line."""
    is_whole: bool = True
    """Whether `data` is the whole line; otherwise it is the beginning."""
    match: bytes = b""
    """The text that matched, if the line is not whole."""
    spans: tuple[tuple[int, int], ...] = ()
    """Where each match begins and ends, if the line is whole."""


_decoder = msgspec.json.Decoder(_Event)


class EventReader:
    """Takes bytes and yields events."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._long: _Long | None = None

    def feed(self, data: bytes) -> Iterator[RipgrepEvent]:
        at = 0
        while True:
            end = data.find(b"\n", at)
            piece = data[at:] if end < 0 else data[at:end]
            if self._long is not None:
                self._long.feed(piece)
            elif len(self._buffer) + len(piece) > LONGEST_EVENT:
                self._long = _Long()
                self._long.feed(bytes(self._buffer))
                self._long.feed(piece)
                self._buffer.clear()
            else:
                self._buffer += piece
            if end < 0:
                return
            if (event := self._finish()) is not None:
                yield event
            at = end + 1

    def _finish(self) -> RipgrepEvent | None:
        if self._long is not None:
            long, self._long = self._long, None
            return long.event()
        line = bytes(self._buffer)
        self._buffer.clear()
        if not line:
            return None
        try:
            event = _decoder.decode(line)
        except msgspec.MsgspecError:
            return None
        body = event.data
        path = _name(body.path.raw()) if body.path is not None else ""
        if body.lines is None:
            return RipgrepEvent(event.type, path)
        start = body.submatches[0].start if body.submatches else None
        number, offset = body.line_number or 0, body.absolute_offset
        spans = tuple((found.start, found.end) for found in body.submatches)
        return RipgrepEvent(event.type, path, number, offset, body.lines.raw(), start, spans=spans)


class _Long:
    """An event that is too long to be kept."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._facts = bytearray()
        self._rest = b""
        self._is_found = False

    def feed(self, data: bytes) -> None:
        if len(self._head) < _HEAD_BYTES:
            self._head += data[: _HEAD_BYTES - len(self._head)]
        if not self._is_found:
            window = self._rest + data
            place = window.find(_MARK)
            if place < 0:
                self._rest = window[-(len(_MARK) - 1) :]
                return
            self._is_found = True
            data = window[place:]
        if len(self._facts) < _FACTS_BYTES:
            self._facts += data[: _FACTS_BYTES - len(self._facts)]

    def event(self) -> RipgrepEvent | None:
        head = bytes(self._head)
        kind = "match" if head.startswith(b'{"type":"match"') else "context"
        lines, facts = _LINES.search(head), _FACTS.match(self._facts)
        path = _path_in(head)
        if lines is None or facts is None or path is None:
            return None
        text = _beginning(head[lines.end() :], lines["kind"])
        number = int(facts["line"]) if facts["line"] != b"null" else 0
        start = int(facts["start"]) if facts["start"] is not None else None
        match = _beginning(facts["match"] or b"", facts["kind"] or b"text")
        return RipgrepEvent(kind, path, number, int(facts["offset"]), text, start, False, match)


def _path_in(head: bytes) -> str | None:
    place = head.find(b'"path":')
    if place < 0:
        return None
    try:
        text = head[place + len(b'"path":') :].decode("utf-8", "replace")
        found, _ = json.JSONDecoder().raw_decode(text)
        return _name(msgspec.convert(found, _TextOrBytes).raw())
    except (ValueError, msgspec.MsgspecError):
        return None


def _beginning(data: bytes, kind: bytes) -> bytes:
    """Decode as much of a text as is there; its end may be cut off."""
    end = re.match(rb'(?:[^"\\]|\\.)*', data, re.DOTALL)
    data = end[0] if end is not None else b""
    if kind == b"bytes":
        whole = len(data) - len(data) % 4
        return base64.b64decode(data[:whole])
    for back in range(12):
        try:
            text = json.loads(b'"' + data[: len(data) - back] + b'"', strict=False)
        except ValueError:
            continue
        return str(text).encode("utf-8", "replace")
    return b""


def _name(raw: bytes) -> str:
    text = raw.decode("utf-8", "surrogateescape")
    return text.removeprefix("./")
