"""Edits are exact: once or all, every one or none, line ends as the file has them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.text import edits, encoding
from holdfast.vocabulary.errors import Conflict, Refused, UsageError
from holdfast.vocabulary.files import Edit


def edited(text: str, *given: tuple[str, str] | Edit) -> str:
    listed = [one if isinstance(one, Edit) else Edit(old=one[0], new=one[1]) for one in given]
    return edits.apply(text, encoding.Form(ending=encoding.ending_of(text)), listed).text


def test_edits_follow_each_other() -> None:
    """Each sees what the one before made."""
    assert edited("a b", ("a", "x y"), ("y b", "z")) == "x z"


def test_two_places_are_refused_with_their_lines() -> None:
    """Nobody guesses which one was meant."""
    with pytest.raises(Conflict, match="lines 1, 3") as caught:
        edited("one\ntwo\none\n", ("one", "1"))
    assert caught.value.details["lines"] == [1, 3]
    assert edited("one\ntwo\none\n", Edit(old="one", new="1", all=True)) == "1\ntwo\n1\n"


def test_no_edit_makes_a_text_without_bounds() -> None:
    """Neither in one step nor in several, however often a piece is there."""
    with pytest.raises(Refused, match="edit 1 makes the file larger than 16 MiB"):
        edited("a" * 1_000_000, Edit(old="a", new="a" * 1_000_000, all=True))
    doubling = [Edit(old="a", new="aa", all=True)] * 40
    with pytest.raises(Refused, match="edit 25 makes"):
        edited("a", *doubling)


def test_edits_do_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all of them pass over is bounded."""
    monkeypatch.setattr(edits, "MOST_PASSED", 10_000)
    with pytest.raises(Refused, match="take too long"):
        edited("x" * 5_000 + "ab", *[("a", "b"), ("b" * 2, "a")] * 10)


def test_overlapping_places_are_two() -> None:
    """`aa` is twice in `aaa`."""
    with pytest.raises(Conflict, match="2 places"):
        edited("aaa", ("aa", "b"))


@pytest.mark.parametrize(
    ("old", "why", "first"),
    [
        ("def f():\n  return 1\n", "white space", 2),
        ("DEF F():\n    RETURN 1", "upper and lower case", 2),
        ("def f():\n    return 2\n", "nearest", 2),
        ("    retrun 1", "nearest", 3),
    ],
)
def test_a_miss_shows_the_nearest_region(old: str, why: str, first: int) -> None:
    """With line numbers, and what is different."""
    with pytest.raises(Conflict, match=why) as caught:
        edited("import os\ndef f():\n    return 1\nend\n", (old, "x"))
    details: dict[str, Any] = caught.value.details
    assert details["first_line"] == first
    assert "return 1" in details["nearest"]


def test_what_makes_no_sense_is_a_usage_error() -> None:
    """Nothing to find, nothing to change, no edit at all."""
    for wrong in ([("", "x")], [("a", "a")], []):
        with pytest.raises(UsageError):
            edited("a", *wrong)


def test_line_ends_are_those_of_the_file() -> None:
    """Who writes an edit need not know them."""
    assert edited("a\r\nb\r\nc\r\n", ("a\nb\n", "x\ny\n")) == "x\r\ny\r\nc\r\n"
    assert edited("a\r\nb\r\n", ("b", "1\n2")) == "a\r\n1\r\n2\r\n"
    assert edited("a\r\nb\nc\r\n", ("a\nb", "x\ny")) == "x\r\ny\nc\r\n"
    assert edited("a\nb\n", ("a\nb", "x\r\ny")) == "x\r\ny\n"


@given(st.text(), st.text(), st.text(min_size=1), st.text())
def test_a_unique_piece_is_replaced_and_nothing_else(
    before: str, after: str, old: str, new: str
) -> None:
    """The text around it stays as it was."""
    text = before + old + after
    if old == new or text.count(old) != 1 or len(edits._places(text, old, 3)) != 1:
        return
    if encoding.ending_of(text) in (None, "lf"):
        assert edited(text, (old, new)) == before + new + after


def test_a_miss_in_a_large_file_is_told_soon() -> None:
    """Lines that are all alike do not make it slow."""
    text = "".join(f"value_{n} = compute(some, arguments, {n})\n" for n in range(100_000))
    began = time.monotonic()
    with pytest.raises(Conflict):
        edited(text, ("value = compute(some, argument, x)", "y"))
    assert time.monotonic() - began < 20
