"""A pattern selects the lines that its regular expression matches, whatever is tried first."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.logbook.line_pattern import LinePattern, required_texts
from holdfast.logbook.plain_text import shown

PARTS = (
    "a", "B", "er", "ERROR", "ü", "ſ", "K", r"\.", r"\d", r"\w+", r"\s", r"\b", "[ab]", "[^]x]",
    "[]a]", "(a|b)", "(?:er|B)", "(?=a)", "(?!B)", "(?<=a)", "a*", "B+", "er?", "a{2}", "B{,3}",
    "{", "}", "{x}", "a{0,1}?", ".", "^", "$", "|", "-", "]", "x", " ", r"\|", r"\\", "(?P<n>a)",
)  # fmt: skip
LINES = (
    b"a", b"B", b"er", b"ERROR", "ü".encode(), "ſ".encode(), "\u212a".encode(), b".", b"7", b" ",
    b"\t", b"{", b"}", b"{x}", b"-", b"]", b"x", b"|", b"\\", b"\x1b[31m", b"\x1b]0;a\x07", b"\r",
    b"\xff", b"\xc3", b"\xc2\x9b", b"\x00", b"error", b"\n", b"\n", b"\n",
)  # fmt: skip


@given(
    st.sampled_from(("", "", "(?i)")),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=7).map("".join),
    st.lists(st.sampled_from(LINES), max_size=40).map(b"".join),
)
def test_every_line_that_matches(flags: str, expression: str, lines: bytes) -> None:
    """And no other one: as if the expression were tried on each line by itself."""
    try:
        search = re.compile(flags + expression).search
    except re.error:
        assume(False)
    pattern = LinePattern(flags + expression)
    lines += b"\n"
    every = lines[:-1].split(b"\n")
    wanted = [line for line in every if search(shown(line).decode("utf-8", "replace"))]
    assert pattern.select(lines) == b"".join(line + b"\n" for line in wanted)
    assert [line for line in every if pattern.matches(line)] == wanted


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("ERROR", ["ERROR"]),
        ("ERROR|WARN", ["ERROR", "WARN"]),
        (r"took \d+ms", ["took "]),
        (r"^GET /api/(users|carts) 50\d$", ["GET /api/"]),
        (r"(?i)Timeout after", ["timeout after"]),
        (r'\{"level":"error"', ['{"level":"error"']),
        ('{"level":"error"', ['{"level":"error"']),
        ("colou?r", ["colo"]),
        (r"\d+", None),
        ("(?s)a.b", None),
        ("(?x) a b", None),
        ("a|", None),
        (r"\x41BC", None),
    ],
)
def test_texts_of_usual_patterns(expression: str, texts: list[str] | None) -> None:
    """What is looked for first, of expressions as people write them."""
    found = required_texts(expression)
    assert (None if found is None else found.texts) == texts
