"""The screen of a terminal as text, drawn from the bytes that were printed last.

pyte draws. It knows no second screen, takes some sequences for others and raises on a few that
today's full-screen programs send, so only what moves text reaches it. Drawing costs about a second
for each 200 kB, so it happens in a thread and of a bounded piece; pyte is imported by the first
screen that is asked for.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

MOST_BYTES = 96 * 1024
DEFAULT_SIZE = (80, 24)
_LARGEST = (500, 300)
_STRINGS = re.compile(
    rb"\x1b[P^_X][^\x1b]*(?:\x1b(?!\\)[^\x1b]*)*\x1b\\|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
)
"""Strings for the terminal itself: titles, clipboards, queries."""
_MOVES_NOTHING = re.compile(
    rb"\x1b\[[0-?]*[ -/]+[@-~]"  # cursor shapes, queries of modes
    rb"|\x1b\[[<=>][0-?]*[@-~]"  # keyboard protocols
    rb"|\x1b\[\?[0-?]*[^0-?hlJK]"  # answers of terminals
    rb"|\x1b\[[0-?]*[mnctsu]"  # colours, reports, window sizes, marked places
    rb"|\x1b[=>]|\x1b[()*+][0-9A-B]"
)
_REPEATED = re.compile(r"(.)\x1b\[(\d+)b", re.DOTALL)
_SECOND = re.compile(rb"\x1b\[\?(?:\d+;)*(?:1049|1047|47)(?:;\d+)*([hl])")
_CLEARS = re.compile(rb"\x1b\[[23]J|\x1bc")
_MOVES = re.compile(rb"\x1b\[\d*(?:;\d*)?[HfABdJ]|\x1b\[\?(?:1049|1047|47)h")
_MODE = rb"\x1b\[\?(?:\d+;)*%d(?:;\d+)*([hl])"
_CURSOR_KEYS, _PASTE = re.compile(_MODE % 1), re.compile(_MODE % 2004)


class Screen(NamedTuple):
    """What a person would see."""

    lines: list[str]
    """Without the empty ones at the end."""
    row: int
    """Of the cursor, from 1."""
    column: int


def is_full_screen(data: bytes) -> bool:
    """Return whether a program writes to places of the screen, so that its lines say little."""
    return len(_MOVES.findall(data)) > 1


def has_application_keys(data: bytes) -> bool:
    """Return whether the program has asked for cursor keys in the form of applications."""
    return _last_is_on(_CURSOR_KEYS, data)


def takes_pastes(data: bytes) -> bool:
    """Return whether the program wants to know what is pasted and what is typed."""
    return _last_is_on(_PASTE, data)


def _last_is_on(mode: re.Pattern[bytes], data: bytes) -> bool:
    found = mode.findall(data)
    return bool(found) and found[-1] == b"h"


def draw(data: bytes, size: tuple[int, int]) -> Screen:
    """Return the screen, `size` columns and rows, after these bytes."""
    columns, rows = (max(1, min(*pair)) for pair in zip(size, _LARGEST, strict=True))
    text = _text_of(_shown_screen(data))
    drawn, stream = _new_screen(columns, rows)
    stream.feed(text)
    lines = [line.rstrip() for line in drawn.display]
    while lines and not lines[-1]:
        lines.pop()
    return Screen(lines, drawn.cursor.y + 1, min(drawn.cursor.x, columns - 1) + 1)


def _shown_screen(data: bytes) -> bytes:
    """Return what was written to the screen that is shown: the second one, which full-screen
    programs switch to, or the first one without what was written to the second."""
    parts: list[bytes] = []
    place, is_second = 0, False
    for switch in _SECOND.finditer(data):
        is_on = switch[1] == b"h"
        if is_on == is_second:
            if not is_on:
                parts = []  # the beginning of these bytes was on the second screen
            place = switch.end()
            continue
        if is_on:
            parts.append(data[place : switch.start()])
        place, is_second = switch.end(), is_on
    rest = data[place:] if is_second else b"".join([*parts, data[place:]])
    clears = list(_CLEARS.finditer(rest))
    return rest[clears[-1].start() :] if clears else rest


def _text_of(data: bytes) -> str:
    """Return text with those sequences that pyte draws rightly."""
    plain = _MOVES_NOTHING.sub(b"", _STRINGS.sub(b"", data))
    text = plain.decode("utf-8", "replace")
    return _REPEATED.sub(lambda found: found[1] * (1 + min(int(found[2]), 500)), text)


def _new_screen(columns: int, rows: int) -> tuple[Any, Any]:
    import pyte

    class Drawn(pyte.Screen):
        """With the scrolling that pyte does not know."""

        def scroll_up(self, count: int = 1, **_: Any) -> None:
            self._scroll(self.delete_lines, count)

        def scroll_down(self, count: int = 1, **_: Any) -> None:
            self._scroll(self.insert_lines, count)

        def _scroll(self, move: Any, count: int) -> None:
            row, column = self.cursor.y, self.cursor.x
            self.cursor.y = self.margins.top if self.margins else 0
            move(count)
            self.cursor.y, self.cursor.x = row, column

    class Stream(pyte.Stream):
        csi = {**pyte.Stream.csi, "S": "scroll_up", "T": "scroll_down"}
        events = pyte.Stream.events | {"scroll_up", "scroll_down"}

    drawn = Drawn(columns, rows)
    return drawn, Stream(drawn, strict=False)
