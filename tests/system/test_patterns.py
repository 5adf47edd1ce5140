"""Expressions that are compiled later mean the same as those that are compiled at once."""

from __future__ import annotations

import re

import pytest

from holdfast.system.patterns import pattern


def test_a_later_pattern_matches_as_an_early_one() -> None:
    """Texts and bytes, with flags, again and again."""
    late = pattern(r"(a+)b", re.IGNORECASE)
    for _ in range(2):
        found = late.fullmatch("AAb")
        assert found is not None
        assert found[1] == "AA"
    assert late.sub("-", "xabx") == "x-x"
    assert late.pattern == r"(a+)b"
    assert pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_a_wrong_pattern_fails_when_it_is_used() -> None:
    """Not silently, and not before."""
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("x")
