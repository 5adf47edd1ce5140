"""Cursors as strings."""

from __future__ import annotations

import pytest

from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor


@pytest.mark.parametrize("cursor", [Cursor(0, 0), Cursor(35, 36), Cursor(1 << 62, 7)])
def test_survives_its_string_form(cursor: Cursor) -> None:
    """A cursor that was given out means the same place when it comes back."""
    assert cursors.decode(cursors.encode(cursor)) == cursor


def test_plain_form() -> None:
    """One position for both streams is P and base 36."""
    assert cursors.encode(cursors.at(46655)) == "Pzzz"


@pytest.mark.parametrize(
    "text", ["", "P", "Q1", "P1.2.3", "P-1", "P 1", "P1.", "PZ", "P" + "z" * 40]
)
def test_refuses_what_is_not_a_cursor(text: str) -> None:
    """Nothing that was not given out is taken for a place."""
    with pytest.raises(cursors.CursorError):
        cursors.decode(text)
