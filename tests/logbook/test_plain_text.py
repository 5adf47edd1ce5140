"""Plain text out of terminal output."""

from __future__ import annotations

import sys

import pytest

from holdfast.logbook.plain_text import PlainText, shown

CASES = [
    (b"\x1b[1;31mred\x1b[0m\r\n", "red\n"),
    (b"\x1b]0;title\x07shown", "shown"),
    (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    (b"\x1bPq#0\x1b\\after", "after"),
    (b"\x1b(Btext\x1b7\x1b=", "text"),
    (b"a\x08b\x00c\x7f\td", "abc\td"),
    (b"\x1b[31", ""),
    (b"cut \x1b[3\nnext", "cut \nnext"),
    ("grün \u2713".encode(), "grün \u2713"),
    (b"bad \xff\xfe", "bad \ufffd\ufffd"),
    (b"\x1b\x1b[mx", "x"),
    (b"bell\x07\x1b[31mred\x08\xc2\x9b0m", "bellred"),
]


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_takes_control_sequences_away(data: bytes, expected: str) -> None:
    """A person reads what was meant to be read."""
    assert PlainText().feed(data, is_last=True) == expected


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_does_not_depend_on_the_division(data: bytes, expected: str) -> None:
    """Byte by byte gives the same text as all at once."""
    text = PlainText()
    pieces = [text.feed(data[at : at + 1]) for at in range(len(data))]
    pieces.append(text.feed(b"", is_last=True))
    assert "".join(pieces) == expected


def test_an_endless_sequence_grows_nothing() -> None:
    """A sequence without an end is given up, and no memory is kept for it."""
    text = PlainText()
    before = sum(sys.getsizeof(value) for value in vars(text).values())
    text.feed(b"\x1b]0;")
    shown = sum(len(text.feed(b"x" * 1000)) for _ in range(100))
    assert shown >= 95_000
    assert sum(sys.getsizeof(value) for value in vars(text).values()) <= before + 8


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_whole_lines_are_shown_as_a_stream_is(data: bytes, expected: str) -> None:
    """What a pattern matches is what a viewer reads."""
    assert shown(data).decode("utf-8", "replace") == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"plain\tline", b"plain\tline"),
        (b"10%\r50%\r100%", b"100%"),
        (b"one\r\ntwo\r", b"one\ntwo"),
        (b"done\r\x1b[K", b"done"),
        (b"\r\r", b""),
        ("\x9b31mred\x9b0m caf\u00e9 \u00c2".encode(), "red caf\u00e9 \u00c2".encode()),
        (b"\x1b]0;title without an end", b""),
        (b"\x1b[31m\xff\xfe", b"\xff\xfe"),
    ],
)
def test_a_line_is_shown_in_its_last_state(data: bytes, expected: bytes) -> None:
    """As a screen would show it; bytes that are no text stay."""
    assert shown(data) == expected
