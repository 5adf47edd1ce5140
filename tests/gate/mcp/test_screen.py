"""The screen of a terminal as text, and the bytes of keys."""

from __future__ import annotations

import pytest

from holdfast.gate.mcp.keys import bytes_of
from holdfast.gate.mcp.screen import draw, has_application_keys, is_full_screen, takes_pastes
from holdfast.vocabulary.errors import UsageError

SIZE = (20, 5)
GREETING = (
    # What full-screen programs of today ask and set at their start.
    b"\x1b[>4;?m\x1b[?2026$p\x1b[?u\x1b[>1u\x1b[<u\x1b[c\x1b[6n\x1b]11;?\x07\x1bP+q544e\x1b\\"
    b"\x1b_Gi=31,s=1;AAAA\x1b\\\x1b]0;a title\x07\x1b[2 q\x1b[?2004h\x1b[?1h\x1b=\x1b(B"
)


def lines(data: bytes, size: tuple[int, int] = SIZE) -> list[str]:
    return draw(data, size).lines


def test_text_is_where_a_person_sees_it() -> None:
    """Written to places, over each other, with colours, erased, and scrolled."""
    data = b"\x1b[2J\x1b[3;5Hthree\x1b[1;1H\x1b[1;31mone\x1b[0m\x1b[3;5HTHREE\x1b[2;1Hgone\x1b[2K"
    drawn = draw(data, SIZE)
    assert drawn.lines == ["one", "", "    THREE"]
    assert (drawn.row, drawn.column) == (2, 5)
    assert lines(b"1\r\n2\r\n3\r\n4\r\n5\r\n6") == ["2", "3", "4", "5", "6"]
    assert lines(b"1\r\n2\r\n3\x1b[S") == ["2", "3"]
    assert lines(b"1\r\n2\x1b[T") == ["", "1", "2"]
    assert lines(b"a\x1b[3bb") == ["aaaab"]
    assert lines("日本\x1b[1;5Hx".encode()) == ["日本x"]


def test_what_terminals_are_asked_is_not_text() -> None:
    """Queries, titles, keyboard protocols: none of them leaves a letter on the screen."""
    assert lines(GREETING + b"hello") == ["hello"]


def test_the_second_screen_is_apart() -> None:
    """While a program shows it, it is what is seen; afterwards, what was there before."""
    before = b"shell$ vi\r\n\x1b[?1049h\x1b[2J\x1b[Hfile"
    assert lines(before) == ["file"]
    assert lines(before + b"\x1b[?1049lshell$ ") == ["shell$ vi", "shell$"]
    assert lines(b"rest of it\x1b[?1049lshell$ ") == ["shell$"]
    assert is_full_screen(before)
    assert not is_full_screen(b"$ ls\r\n\x1b[32ma\x1b[0m\r\n$ \x1b[K")


def test_a_cut_beginning_is_no_reason_to_fail() -> None:
    """Any byte may be the first, and any bytes may come."""
    data = GREETING + b"\x1b[2J\x1b[1;1Hx\x1b[38:2::1:2:3my\xff\xc3"
    for place in range(len(data)):
        draw(data[place:], SIZE)
    draw(bytes(range(256)) * 4, SIZE)
    assert lines(b"x" * 100_000, (10, 2)) == ["x" * 10] * 2


def test_modes_are_those_set_last() -> None:
    """Cursor keys of applications, and pastes in brackets."""
    assert has_application_keys(GREETING)
    assert not has_application_keys(GREETING + b"\x1b[?1l")
    assert has_application_keys(b"\x1b[?1;25h")
    assert not has_application_keys(b"\x1b[?12h\x1b[?2004h")
    assert takes_pastes(GREETING)
    assert not takes_pastes(b"")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("enter", "\r"),
        ("Up", "\x1b[A"),
        ("arrow-left", "\x1b[D"),
        ("ctrl-c", "\x03"),
        ("Ctrl+R", "\x12"),
        ("control_x", "\x18"),
        ("alt-x", "\x1bx"),
        ("shift-tab", "\x1b[Z"),
        ("ctrl-right", "\x1b[1;5C"),
        ("Page Down", "\x1b[6~"),
        ("page_up", "\x1b[5~"),
        ("f1", "\x1bOP"),
        ("F12", "\x1b[24~"),
        ("backspace", "\x7f"),
        ("q", "q"),
        ("Q", "Q"),
        ("-", "-"),
    ],
)
def test_a_key_is_what_a_terminal_sends(key: str, expected: str) -> None:
    """However it is written."""
    assert bytes_of(key) == expected


def test_cursor_keys_of_applications() -> None:
    """Programs that ask for them get another form, of these keys only."""
    assert bytes_of("up", is_application=True) == "\x1bOA"
    assert bytes_of("home", is_application=True) == "\x1bOH"
    assert bytes_of("enter", is_application=True) == "\r"
    with pytest.raises(UsageError, match="no key"):
        bytes_of("hyper-x")
