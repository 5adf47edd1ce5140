"""Tokens that a person wrote: which are too easy to guess."""

from __future__ import annotations

import secrets
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.authority.tokens import SHORTEST, why_weak


@pytest.mark.parametrize(
    "token",
    [
        "", "1234", "password", "hunter2", "admin-token", "a" * 64, "ab" * 32, "1234567890" * 4,
        "abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba", "password" * 5,
        "changeme-changeme-changeme", "00000000-0000-0000-0000-000000000000",
    ],
)  # fmt: skip
def test_weak(token: str) -> None:
    """Short ones, repetitions and rows; the reason does not repeat the token."""
    reason = why_weak(token)
    assert reason is not None
    assert len(token) < 2 or token not in reason


@pytest.mark.parametrize(
    "token",
    [
        "correct horse battery staple",
        "3f6c1de2-9b0a-4c57-8e1d-2a7f0b9c6d54",
        "Kq3-vT9x_Zr7mWp2Lc8Y",
        *(secrets.token_hex(16) for _ in range(50)),
        *(secrets.token_urlsafe(32) for _ in range(50)),
    ],
    ids=lambda _: "",
)
def test_strong(token: str) -> None:
    """What a generator makes, and a phrase of several words."""
    assert why_weak(token) is None


@given(st.text(string.printable, max_size=SHORTEST - 1))
def test_short_is_weak(token: str) -> None:
    """Whatever it is made of."""
    assert why_weak(token) is not None
