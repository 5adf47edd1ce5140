"""No text of somebody else's controls a terminal, or a line of our log."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.terminal.screen import Paint
from holdfast.vocabulary.printable import (
    json_text,
    printable,
    printable_colours,
    printable_lines,
)

HOSTILE = (
    st.text(alphabet=st.sampled_from("\x1b[]0;2Jm\x07\x9b\r\n\t\x7f\u202eab31é\u2028")) | st.text()
)


def controls(text: str) -> set[str]:
    return {it for it in text if unicodedata.category(it) == "Cc" or "\u2028" <= it <= "\u202e"}


@given(HOSTILE)
def test_nothing_controls_a_terminal(text: str) -> None:
    """Neither in one line nor in several."""
    assert controls(printable(text)) == set()
    assert controls(printable_lines(text)) <= {"\n", "\t"}
    assert printable(printable(text)) == printable(text)


@given(HOSTILE, HOSTILE)
def test_only_colours_of_ours(before: str, inside: str) -> None:
    """What we paint stays painted; what others paint is at most a colour."""
    painted = printable_colours(before + Paint(is_on=True)(inside, "red"))
    if inside:
        assert painted.endswith("\x1b[0m")
    for part in painted.split("\x1b")[1:]:
        code = part.partition("m")[0]
        assert code in {"[0", "[1", "[2", *(f"[{n}" for n in range(31, 37))}
    assert controls(painted) <= {"\n", "\t", "\x1b"}


@given(HOSTILE)
def test_json_means_the_same(text: str) -> None:
    """Escaped where a terminal would listen, and read as it was."""
    written = json_text(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(written) == {"text": text}
    assert controls(written) == set()


def test_plain_text_is_left_alone() -> None:
    """Whatever its language."""
    for text in ("größer", "日本語", "👩‍💻 works", ""):
        assert printable(text) == text
