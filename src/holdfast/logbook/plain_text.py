"""Plain text out of terminal output: control sequences are removed.

`shown` is what every pattern over output matches and what every answer shows, of whole lines.
`PlainText` does it for a stream, however that is cut into chunks, and its bytes become characters.
It owns the parser's state: one number and at most three bytes of a character. So an escape sequence
without an end uses no memory.
"""

from __future__ import annotations

import codecs
import re
from enum import Enum, auto

from holdfast.system.patterns import pattern

LONGEST_SEQUENCE = 4096
_CONTROLS = bytes([*range(0x09), *range(0x0B, 0x20), 0x7F])
# Sequences that move a cursor or set a colour, strings for the terminal, other escapes, and single
# control characters. Those of one byte above 0x7f are two bytes in UTF-8.
# The set of first bytes stands alone before all else: it makes the search quick.
_HIDDEN = pattern(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xc2](?:"
    rb"(?:(?<=\x1b)\[|(?<=\xc2)\x9b)[0-?]*[ -/]*[@-~]?"
    rb"|(?:(?<=\x1b)[\]PX^_]|(?<=\xc2)[\x90\x98\x9d-\x9f])(?:[^\x07\x1b\n\xc2]|\xc2(?!\x9c))*"
    rb"(?:\x07|\x1b\\|\xc2\x9c)?"
    rb"|(?<=\x1b)[ -/]*[0-~]?|(?<=\xc2)[\x80-\x9f]|(?<=[^\x1b\xc2]))"
)

_COLOUR = pattern(rb"\x1b\[[0-9;:]*m")


def is_shown_whole(data: bytes) -> bool:
    """Return whether nothing in these bytes is hidden by `shown`. Costs little."""
    return len(data.translate(None, _CONTROLS)) == len(data) and b"\xc2" not in data


def shown(data: bytes) -> bytes:
    """Return lines as a screen would show them: without control sequences, and each in the last
    state of those that it was written over with. Tabs and line ends stay."""
    if is_shown_whole(data):
        return data
    text = _HIDDEN.sub(b"", data).replace(b"\r\n", b"\n")
    if b"\r" in text:
        text = b"\n".join(map(_last_state, text.split(b"\n")))
    return text


def coloured(data: bytes) -> bytes:
    """Return lines as `shown` does, but with their colours."""
    if is_shown_whole(data):
        return data
    text = _HIDDEN.sub(_only_colour, data).replace(b"\r\n", b"\n")
    if b"\r" in text:
        text = b"\n".join(map(_last_state, text.split(b"\n")))
    return text


def _only_colour(found: re.Match[bytes]) -> bytes:
    return found[0] if _COLOUR.fullmatch(found[0]) else b""


def _last_state(line: bytes) -> bytes:
    if b"\r" not in line:
        return line
    return next((part for part in reversed(line.split(b"\r")) if part.strip()), b"")


class _State(Enum):
    TEXT = auto()
    ESCAPE = auto()
    INTERMEDIATE = auto()
    CONTROL = auto()
    STRING = auto()
    STRING_ESCAPE = auto()


_KEPT = frozenset("\t\n")


class PlainText:
    """Feed it one stream in pieces; the text that a person would read comes out. Tabs and line ends
    stay. Bytes that are not UTF-8 become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = _State.TEXT
        self._length = 0

    def feed(self, data: bytes, *, is_last: bool = False) -> str:
        """Add the next piece, and return its text."""
        text = self._decoder.decode(data, is_last)
        if self._state is _State.TEXT and text.isprintable():
            return text
        kept: list[str] = []
        for character in text:
            self._step(character, kept)
        return "".join(kept)

    def _step(self, character: str, kept: list[str]) -> None:
        if self._state is _State.TEXT:
            self._text(character, kept)
            return
        self._length += 1
        if self._length > LONGEST_SEQUENCE or character in "\x18\x1a":
            self._state = _State.TEXT
        elif character == "\n":
            self._state = _State.TEXT
            kept.append(character)
        elif character == "\x1b" and self._state is not _State.STRING:
            self._state = _State.ESCAPE
        else:
            self._state = self._after(character)

    def _after(self, character: str) -> _State:
        match self._state:
            case _State.ESCAPE:
                if character == "[":
                    return _State.CONTROL
                if character in "]PX^_":
                    return _State.STRING
                return _State.INTERMEDIATE if " " <= character <= "/" else _State.TEXT
            case _State.INTERMEDIATE:
                return _State.INTERMEDIATE if " " <= character <= "/" else _State.TEXT
            case _State.CONTROL:
                return _State.TEXT if "@" <= character <= "~" else _State.CONTROL
            case _State.STRING:
                if character in "\x07\x9c":
                    return _State.TEXT
                return _State.STRING_ESCAPE if character == "\x1b" else _State.STRING
            case _State.STRING_ESCAPE:
                return _State.TEXT if character == "\\" else _State.STRING
            case _State.TEXT:
                return _State.TEXT

    def _text(self, character: str, kept: list[str]) -> None:
        if character == "\x1b":
            self._begin(_State.ESCAPE)
        elif character == "\x9b":
            self._begin(_State.CONTROL)
        elif character in "\x90\x98\x9d\x9e\x9f":
            self._begin(_State.STRING)
        elif (character >= " " and not "\x7f" <= character <= "\x9f") or character in _KEPT:
            kept.append(character)

    def _begin(self, state: _State) -> None:
        self._state = state
        self._length = 0
