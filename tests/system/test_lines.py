"""Lines come out of pieces whole, in order, and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.system.lines import LineBuffer, LineTooLong


@given(st.lists(st.binary(max_size=6).map(lambda data: data.replace(b"\0", b"\n")), max_size=30))
def test_however_it_is_cut(pieces: list[bytes]) -> None:
    """The same lines come out as of all bytes at once."""
    buffer, lines = LineBuffer(), list[bytes]()
    for piece in pieces:
        lines += buffer.feed(piece)
    *whole, rest = b"".join(pieces).split(b"\n")
    assert lines == whole
    assert (buffer.unfinished, buffer.size) == (rest, len(rest))
    assert buffer.clear() == rest
    assert (buffer.unfinished, buffer.size) == (b"", 0)


@pytest.mark.parametrize("first", [b"", b"x" * 6, b"a\n" + b"x" * 6])
def test_a_line_without_an_end(first: bytes) -> None:
    """It is refused as soon as it is longer than the bound."""
    buffer = LineBuffer(10)
    buffer.feed(first)
    with pytest.raises(LineTooLong):
        buffer.feed(b"y" * (11 - buffer.size))


def test_the_bound_is_of_unfinished_lines() -> None:
    """A longer line that came whole is taken."""
    assert LineBuffer(10).feed(b"x" * 20 + b"\n") == [b"x" * 20]
