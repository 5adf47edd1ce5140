"""Every file's bytes come back as they were."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.text import encoding as texts


@given(st.binary())
def test_what_is_decoded_is_encoded_the_same(data: bytes) -> None:
    """Also what is no valid text."""
    try:
        text, form = texts.decode(data)
    except texts.NotText:
        return
    assert texts.encode(text, form) == data


@pytest.mark.parametrize(
    ("data", "encoding", "ending"),
    [
        (b"a\nb\n", "utf-8", "lf"),
        (b"a\r\nb\r\n", "utf-8", "crlf"),
        (b"a\r\nb\n", "utf-8", "mixed"),
        (b"a", "utf-8", None),
        (codecs.BOM_UTF8 + b"a\n", "utf-8", "lf"),
        (codecs.BOM_UTF16_LE + "a\r\n".encode("utf-16-le"), "utf-16-le", "crlf"),
        (codecs.BOM_UTF32_BE + "a\n".encode("utf-32-be"), "utf-32-be", "lf"),
        (b"\xff\xfe\xfd"[2:] + b"\n", "utf-8", "lf"),
    ],
)
def test_the_form_is_recognised(data: bytes, encoding: str, ending: str | None) -> None:
    """Encoding by its mark, line ends by counting."""
    text, form = texts.decode(data)
    assert (form.encoding, form.ending) == (encoding, ending)
    assert not text.startswith("\ufeff")


def test_what_has_a_nul_is_binary() -> None:
    """As git decides it; UTF-16 has a mark."""
    assert texts.is_binary(b"a\0b")
    assert not texts.is_binary(codecs.BOM_UTF16_LE + b"a\0")


@given(st.text())
def test_lines_join_to_the_text(text: str) -> None:
    """Cut at line feeds and nowhere else."""
    assert "".join(texts.lines_of(text)) == text
