"""Private keys that take several lines: where one begins, goes on and ends.

A key is hidden by whole lines, not by its characters. Log prefixes, timestamps, colours,
indentation and lines of other threads may be mixed into its lines, and its last line may be as
short as a word. So everything from its BEGIN line on counts as part of a block:

- A block ends behind its END line. Another BEGIN line inside it needs another END line.
- A block without an END line ends by itself: at the first line end after `IDLE_BYTES` without key
  material (`FIRST_BYTES` before the first material), and after `LONGEST_BLOCK` in any case.
  Key material is a sequence of at least 40 base64 characters in both cases.
- A BEGIN line that goes on as a sentence («expected -----BEGIN PRIVATE KEY----- in x.pem») opens
  no block.
- Where the beginning of the log is gone, a key is guessed: lines of nothing but base64 characters
  are hidden until the first other line.

The block that is open at a place depends only on the last `LONGEST_BLOCK` bytes before it. A reader
that begins in the middle looks back that far, and hides the same bytes as a reader from the start.
Pure. Standard library only.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.system.patterns import pattern

LONGEST_BLOCK = 64 * 1024
IDLE_BYTES = 1024
FIRST_BYTES = 512
LONGEST_MARKER = 100
_GAP = rb"(?:[ +_]|%20)"
_KEY = rb"(?:[A-Z0-9.]{1,12}" + _GAP + rb"){0,4}(?:PRIVATE|SECRET)" + _GAP + rb"KEY"
_MARKER = _GAP + _KEY + rb"(?:" + _GAP + rb"BLOCK)? ?-{4,5}"
_PUTTY_BEGIN, _PUTTY_END = b"Private-Lines: ", b"Private-MAC: "
_BEGIN_TEXT = rb"-{4,5} ?BEGIN" + _MARKER + rb"|" + _PUTTY_BEGIN + rb"\d{1,4}"
_END_TEXT = rb"-{4,5} ?END" + _MARKER + rb"|" + _PUTTY_END + rb"[0-9a-f]{0,64}"
_BEGIN, _END = pattern(_BEGIN_TEXT), pattern(_END_TEXT)
_EITHER = pattern(rb"(?P<begin>%b)|(?P<end>%b)" % (_BEGIN_TEXT, _END_TEXT))
_MATERIAL = pattern(rb"[A-Za-z0-9+/=]{40,}")
_SENTENCE = pattern(rb"[^\s\\]{0,3} [a-z]+[,.:;!]?(?: |\s*$)")
_HEADER = pattern(rb"\s*[A-Za-z-]{3,20}: ")
_ALL_BASE64 = pattern(rb"[ \t]*(?P<run>[A-Za-z0-9+/=]*)[ \t\r]*")
_LEAST_GUESSED = 8
_LEAST_MIXED = 16
_LONGEST_SENTENCE = 300

Span = tuple[int, int]


class KeyBlock(NamedTuple):
    """A private key whose end has not been seen."""

    size: int
    """Bytes since its BEGIN line."""
    idle: int
    """Bytes since its last key material."""
    depth: int = 1
    """How many END lines are missing."""
    has_material: bool = False
    is_guess: bool = False


GUESS = KeyBlock(0, 0, is_guess=True)
"""The state behind a hole: the next byte may be in the middle of a key."""


def may_hold(data: bytes) -> bool:
    """Return whether a block may begin in these bytes."""
    return b"BEGIN" in data or _PUTTY_BEGIN in data


def scan(data: bytes, block: KeyBlock | None = None) -> tuple[list[Span], KeyBlock | None]:
    """Return the spans of these bytes that belong to blocks, and the block that is open at their
    end. `block` is the one that is open at their beginning."""
    spans: list[Span] = []
    start = place = 0
    if block is None and not may_hold(data):
        return spans, None
    while place < len(data):
        if block is None:
            found = _BEGIN.search(data, place)
            if found is None:
                break
            start, place = found.span()
            line_end = _line_end(data, place)
            if _is_sentence(data, place, line_end):
                spans.append((start, line_end))
                place = line_end
                continue
            block = KeyBlock(place - start, 0)
        if block.is_guess:
            start, place, block = _guess(data, place, block)
        else:
            place, block = _go_on(data, place, block)
        if block is None or place >= len(data):
            spans.append((start, place))
            start = place
    return [span for span in spans if span[0] < span[1]], block


def open_at(data: bytes, place: int, block: KeyBlock | None = None) -> tuple[int, KeyBlock | None]:
    """Return a place of these bytes and the block that is open there. The place is moved back to
    the beginning of a BEGIN or END marker that it would cut in two."""
    place = _uncut(data, place)
    return place, scan(data[:place], block)[1]


def behind_hole(block: KeyBlock | None) -> KeyBlock:
    """Return the block that may be open behind missing bytes."""
    return GUESS if block is None else block


def _uncut(data: bytes, place: int) -> int:
    low = max(0, place - LONGEST_MARKER)
    if b"-" not in data[low:place]:
        return place
    for found in _EITHER.finditer(data, low, place + LONGEST_MARKER):
        if found.start() < place < found.end():
            return found.start()
    return place


def _go_on(data: bytes, place: int, block: KeyBlock) -> tuple[int, KeyBlock | None]:
    """Follow an open block from a place to its end, or to the end of the bytes."""
    while place < len(data):
        line_end = _line_end(data, place)
        is_ended = data[line_end : line_end + 1] == b"\n"
        stop = min(line_end + is_ended, place + max(0, LONGEST_BLOCK - block.size))
        depth = block.depth
        for found in _EITHER.finditer(data, place, stop):
            depth += 1 if found["begin"] is not None else -1
            if depth == 0:
                return found.end(), None
        idle, has_material = block.idle + stop - place, block.has_material
        for run in _MATERIAL.finditer(data, place, stop):
            if _is_mixed(run[0]):
                idle, has_material = stop - run.end(), True
        block = KeyBlock(block.size + stop - place, idle, depth, has_material)
        place = stop
        is_idle = idle > (IDLE_BYTES if has_material else FIRST_BYTES)
        if block.size >= LONGEST_BLOCK or (is_ended and is_idle):
            return place, None
    return place, block


def _guess(data: bytes, place: int, block: KeyBlock) -> tuple[int, int, KeyBlock | None]:
    """Return where lines of nothing but base64 begin and end, and the guess if it goes on. A first
    line that is too short to reveal a key is shown, because most often it is a word. Other lines
    of the key may follow it."""
    begin = start = place
    while place < len(data):
        line_end = _line_end(data, place)
        if found := _END.search(data, place, line_end):
            return start, found.end(), None
        whole = _ALL_BASE64.fullmatch(data, place, line_end)
        follows = block.size + place > begin
        next_line = min(line_end + 1, len(data))
        if whole is not None and not follows and len(whole["run"]) < _LEAST_GUESSED:
            start = next_line
        elif whole is None or not _is_guessed(whole["run"], follows=follows):
            return start, place, None
        place = next_line
    size = block.size + place - begin
    return start, place, None if size > LONGEST_BLOCK else block._replace(size=size)


def _is_guessed(run: bytes, *, follows: bool) -> bool:
    return len(run) >= _LEAST_GUESSED and (_is_mixed(run) or (follows and len(run) < _LEAST_MIXED))


def _is_sentence(data: bytes, place: int, line_end: int) -> bool:
    """Return whether the BEGIN line only mentions a key."""
    rest = data[place : min(line_end, place + _LONGEST_SENTENCE)]
    if _HEADER.match(rest) or _END.search(rest) or any(map(_is_mixed, _MATERIAL.findall(rest))):
        return False
    return _SENTENCE.match(rest) is not None


def _is_mixed(run: bytes) -> bool:
    return run != run.lower() and run != run.upper()


def _line_end(data: bytes, place: int) -> int:
    """Return the end of the line, or the furthest place that a block may reach."""
    last = min(len(data), place + LONGEST_BLOCK)
    end = data.find(b"\n", place, last)
    return last if end < 0 else end
