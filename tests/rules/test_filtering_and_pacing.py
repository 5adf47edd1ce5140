"""What arguments may be, and how often one may ask."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.authority.filters import objection
from holdfast.system.token_bucket import Bucket, is_full, take
from holdfast.vocabulary.specs.policies import FilterSpec, RateLimit

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


@given(
    st.floats(0.1, 1000),
    st.integers(1, 100),
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
def test_never_more_than_the_burst_and_the_rate(
    rate: float, burst: int, pauses: list[float]
) -> None:
    """In any stretch of time; and who has to wait may pass after it."""
    limit = RateLimit(requests_per_second=rate, burst=burst)
    bucket: Bucket | None = None
    now, passed = 0.0, 0
    for pause in pauses:
        now += pause
        bucket, seconds = take(bucket, limit, now)
        passed += not seconds
        if seconds:
            assert take(bucket, limit, now + seconds * 1.0001 + 1e-6)[1] == 0.0
    assert passed <= burst + rate * sum(pauses[1:]) + 1e-6
    assert bucket is not None
    assert is_full(bucket, limit, now + burst / rate + 1)


def test_a_clock_that_goes_back_gives_nothing() -> None:
    """And takes nothing."""
    limit = RateLimit(requests_per_second=1, burst=2)
    bucket, _ = take(None, limit, 100.0)
    bucket, seconds = take(bucket, limit, 50.0)
    assert not seconds
    assert take(bucket, limit, 50.0)[1] > 0
