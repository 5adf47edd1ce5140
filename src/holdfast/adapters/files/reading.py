"""Reads some lines or bytes of a file in bounded memory, and facts about the whole file.

A file up to `WHOLE` is read once completely, for its etag and its number of lines. Of a larger one
only the wanted part is read.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import NamedTuple

from holdfast.rules.text import encoding as texts
from holdfast.vocabulary.errors import UsageError

CHUNK = 256 * 1024
WHOLE = 16 * 1024 * 1024
WIDE = 4 * 1024 * 1024
"""The largest file of UTF-16 or UTF-32 that is read as text."""
MOST_BYTES = 1024 * 1024
ETAG_LENGTH = 32
LARGEST_FILE = 2**60


class WantedPart(NamedTuple):
    """Which part of a file is wanted."""

    offset: int | None = None
    limit: int | None = None
    tail: int | None = None
    from_byte: int | None = None
    max_bytes: int = 65536
    is_raw: bool = False

    def check(self) -> None:
        for name in ("offset", "limit", "tail", "max_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is at least 1")
        if self.from_byte is not None and self.from_byte < 0:
            raise UsageError("from_byte is at least 0")
        if self.from_byte is not None and self.from_byte > LARGEST_FILE:
            raise UsageError("no file is as large as from_byte")
        ways = [self.offset is not None, self.tail is not None, self.from_byte is not None]
        if sum(ways) > 1:
            raise UsageError("give one of offset, tail and from_byte")
        if self.is_raw and (self.offset or self.tail or self.limit):
            raise UsageError("base64 is read by from_byte and max_bytes, not by lines")


class FileExcerpt(NamedTuple):
    """What was read."""

    etag: str
    size: int
    content: str
    taken: int
    encoding: str
    is_lossy: bool = False
    has_mark: bool = False
    ending: str | None = None
    first_line: int | None = None
    lines: int = 0
    total_lines: int | None = None
    next_offset: int | None = None
    next_byte: int | None = None


class ByteSource:
    """The bytes of an open file, or of a text made from them."""

    def __init__(self, descriptor: int, size: int, data: bytes | None = None) -> None:
        self._descriptor = descriptor
        self._data = data
        self.size = size if data is None else len(data)
        if data is None and size <= CHUNK:
            self._data = _read(descriptor, CHUNK + 1, 0)
            self.size = len(self._data)

    def read(self, count: int, at: int) -> bytes:
        if self._data is not None:
            return self._data[at : at + count]
        return _read(self._descriptor, count, at)


def read(
    descriptor: int, facts: os.stat_result, wanted: WantedPart, data: bytes | None = None
) -> FileExcerpt:
    """Read a part; `data` is the whole file if it was read already."""
    wanted.check()
    source = ByteSource(descriptor, facts.st_size, data)
    etag, newlines, ends_open = _pass(source, facts)
    head = source.read(texts.LOOKED_AT, 0)
    mark, encoding = texts.mark_of(head)
    most = min(wanted.max_bytes, MOST_BYTES)
    if wanted.is_raw:
        data = source.read(most, wanted.from_byte or 0)
        end = (wanted.from_byte or 0) + len(data)
        told = base64.b64encode(data).decode()
        following = end if end < source.size else None
        return FileExcerpt(etag, source.size, told, len(data), "base64", next_byte=following)
    if texts.is_binary(head):
        return FileExcerpt(etag, source.size, "", 0, "binary")
    size = source.size
    if encoding != "utf-8":
        if size > WIDE:
            return FileExcerpt(etag, size, "", 0, "binary")
        try:
            text, _ = texts.decode(source.read(WIDE, 0))
        except texts.NotText:
            return FileExcerpt(etag, size, "", 0, "binary")
        source = ByteSource(-1, 0, text.encode("utf-8", "surrogatepass"))
        newlines, ends_open = text.count("\n"), bool(text) and not text.endswith("\n")
    total = None if newlines is None else newlines + ends_open
    part = _lines(source, wanted, most, total, 0 if encoding != "utf-8" else len(mark))
    return part._replace(
        etag=etag, size=size, encoding=encoding, has_mark=bool(mark), total_lines=total
    )


def _pass(source: ByteSource, facts: os.stat_result) -> tuple[str, int | None, bool]:
    """Return the etag, the number of line ends, and whether the last line has none."""
    if source.size > WHOLE:
        etag = f"stat-{facts.st_ino:x}-{facts.st_size:x}-{facts.st_mtime_ns:x}"
        return etag, None, False
    digest, newlines, at, last = hashlib.sha256(), 0, 0, b""
    while chunk := source.read(CHUNK + 1, at):
        digest.update(chunk)
        newlines += chunk.count(b"\n")
        at += len(chunk)
        last = chunk[-1:]
        if at > WHOLE:
            break
    return digest.hexdigest()[:ETAG_LENGTH], newlines, last not in (b"", b"\n")


def etag_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:ETAG_LENGTH]


def _lines(
    source: ByteSource, wanted: WantedPart, most: int, total: int | None, mark: int
) -> FileExcerpt:
    first: int | None
    if wanted.tail is not None:
        start = _start_of_tail(source, wanted.tail, most, mark)
        first = None
        limit = None
    elif wanted.from_byte is not None:
        start, first, limit = max(wanted.from_byte, mark), None, wanted.limit
    else:
        first, limit = wanted.offset or 1, wanted.limit
        start = _start_of_line(source, first, mark)
    data = source.read(most + 1, start)
    end, is_within = _cut(data, limit, most)
    data = data[:end]
    following = start + end
    count = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    if first is None and wanted.tail is not None and total is not None:
        is_whole = following >= source.size
        first = max(1, total - count + 1) if is_whole else None
    goes_on = following < source.size
    try:
        content, is_lossy = data.decode(), False
    except UnicodeDecodeError:
        content, is_lossy = data.decode("utf-8", "replace"), True
    return FileExcerpt(
        etag="",
        size=source.size,
        content=content,
        taken=len(data),
        encoding="utf-8",
        is_lossy=is_lossy,
        ending=texts.ending_of(content),
        first_line=first,
        lines=count,
        next_offset=first + count if goes_on and first is not None and not is_within else None,
        next_byte=following if goes_on else None,
    )


def _start_of_line(source: ByteSource, line: int, mark: int) -> int:
    """Return where a line begins; the end of the file if it has fewer lines."""
    if line == 1:
        return mark
    missing, at = line - 1, 0
    while chunk := source.read(CHUNK, at):
        here = chunk.count(b"\n")
        if here < missing:
            missing -= here
            at += len(chunk)
            continue
        place = -1
        for _ in range(missing):
            place = chunk.find(b"\n", place + 1)
        return at + place + 1
    return source.size


def _start_of_tail(source: ByteSource, lines: int, most: int, mark: int) -> int:
    """Return where the last lines begin, as far as they fit."""
    end = source.size
    lowest = max(mark, end - most)
    at, missing, is_end = end, lines, True
    while at > lowest:
        begin = max(lowest, at - CHUNK)
        chunk = source.read(at - begin, begin)
        place = len(chunk)
        if is_end and chunk.endswith(b"\n"):
            place -= 1  # the last line's own end
        is_end = False
        while (place := chunk.rfind(b"\n", 0, place)) >= 0:
            missing -= 1
            if not missing:
                return begin + place + 1
        at = begin
    if lowest == mark:
        return mark
    # Not all of them fit: begin with a whole line, unless it is the only one.
    chunk = source.read(most, lowest)
    place = chunk.find(b"\n")
    return lowest + place + 1 if 0 <= place < len(chunk) - 1 else lowest


def _cut(data: bytes, limit: int | None, most: int) -> tuple[int, bool]:
    """Return how many of the bytes are shown, and whether that ends within a line."""
    end = len(data)
    if limit is not None:
        place = -1
        for _ in range(limit):
            place = data.find(b"\n", place + 1)
            if place < 0:
                break
        else:
            end = place + 1
    if end <= most:
        return end, False
    whole = data.rfind(b"\n", 0, most) + 1
    if whole:
        return whole, False
    end = most
    for _ in range(3):
        if end > 1 and data[end] & 0xC0 == 0x80:
            end -= 1
    return end, True


def _read(descriptor: int, count: int, at: int) -> bytes:
    found = os.pread(descriptor, count, at)
    if len(found) in (0, count):
        return found
    pieces, size = [found], len(found)
    while size < count and (more := os.pread(descriptor, count - size, at + size)):
        pieces.append(more)
        size += len(more)
    return b"".join(pieces)
