"""What arguments may be."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.authority.filters import objection
from holdfast.vocabulary.specs.policies import FilterSpec

STRICT = FilterSpec(max_length=10, control_characters=False, forbid=("*rm -rf*", "*../*"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"reason": "short"}, None),
        ({"reason": "two\nlines"}, None),
        ({"reason": "much too long"}, "the argument reason is longer than 10 characters"),
        ({"reason": "\x1b[2J"}, "the argument reason has control characters"),
        ({"args": ["a", "RM -RF /"]}, "the argument args matches the forbidden *rm -rf*"),
        ({"env": {"a": {"b": "../x"}}}, "the argument env matches the forbidden *../*"),
        ({"env": {"\x00": 1}}, "the argument env has control characters"),
        ({"count": 5, "none": None}, None),
        ({"argv": ["rm", "-rf", "/"]}, "the argument argv matches the forbidden *rm -rf*"),
        ({"argv": ["rm", "-r"], "x": "f"}, None),
        (
            {"command": {"command": "rm", "args": ["-rf", "/"]}},
            "the argument command matches the forbidden *rm -rf*",
        ),
        (
            {"pre": [{"command": "env", "args": ["rm", "-rf"]}]},
            "the argument pre matches the forbidden *rm -rf*",
        ),
        ({"reason": 'r"m"  -rf'}, "the argument reason matches the forbidden *rm -rf*"),
        ({"args": ["a\nrm", "-rf"]}, "the argument args matches the forbidden *rm -rf*"),
        ({"args": ["rm$IFS-rf"]}, "the argument args matches the forbidden *rm -rf*"),
    ],
)
def test_what_is_wrong_is_said_and_not_repeated(
    arguments: dict[str, object], why: str | None
) -> None:
    """By the name of the argument, wherever in it the text is."""
    assert objection(STRICT, arguments) == why


def test_a_field_that_may_hold_anything() -> None:
    """A file's content is long and may hold control characters, but not what is forbidden."""
    masked = frozenset({"content"})
    assert objection(STRICT, {"content": "\x1b" * 100}, masked) is None
    assert objection(STRICT, {"content": "rm -rf /"}, masked) is not None
    typed = base64.b64encode(b"rm -rf /\n").decode()
    assert objection(STRICT, {"content": typed}, masked) is not None


@given(st.dictionaries(st.text(), st.recursive(st.text(), st.lists), max_size=3))
def test_no_filter_objects_to_nothing(arguments: dict[str, object]) -> None:
    """What is not said is no limit."""
    assert objection(FilterSpec(), arguments) is None
