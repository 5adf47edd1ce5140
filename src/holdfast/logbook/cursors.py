"""Places in a log. To clients a cursor is an opaque string. Here it has one position for each
stream, because a line of one stream may begin before a line of the other ends.

Owns the string form. Positions count the recorded bytes of a service over all its runs and
segments, so a cursor stays valid after rotation, restarts and recovery.
"""

from __future__ import annotations

from typing import NamedTuple

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LARGEST = 1 << 63


class CursorError(ValueError):
    """The string is not a cursor that Holdfast has given out."""

    code = "invalid_cursor"


class Cursor(NamedTuple):
    """The positions from which on each stream is still to be read."""

    out: int
    err: int

    @property
    def start(self) -> int:
        return min(self.out, self.err)


BEGINNING = Cursor(0, 0)


def at(position: int) -> Cursor:
    return Cursor(position, position)


def later(one: Cursor, other: Cursor) -> Cursor:
    """Return the later place of two, for each stream."""
    return Cursor(max(one.out, other.out), max(one.err, other.err))


def encode(cursor: Cursor) -> str:
    if cursor.out == cursor.err:
        return f"P{_base36(cursor.out)}"
    return f"P{_base36(cursor.out)}.{_base36(cursor.err)}"


def decode(text: str) -> Cursor:
    numbers = text[1:].split(".")
    if not text.startswith("P") or len(text) > 32 or len(numbers) > 2:
        raise CursorError(f"not a cursor: {text[:40]!r}")
    positions = [_position(number, text) for number in numbers]
    return Cursor(positions[0], positions[-1])


def _position(number: str, text: str) -> int:
    if not number or not all(digit in _DIGITS for digit in number):
        raise CursorError(f"not a cursor: {text[:40]!r}")
    position = int(number, 36)
    if position >= _LARGEST:
        raise CursorError(f"not a cursor: {text[:40]!r}")
    return position


def _base36(number: int) -> str:
    """Return a position as text. Positions are never negative; for one that is, the loop would not
    end."""
    number = max(0, number)
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
