"""Secrets are redacted in what is read, wherever it is cut, and every byte keeps its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.logbook.cursors import BEGINNING, at
from holdfast.logbook.entries import Chunk, Line
from holdfast.logbook.lines import lines
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_redaction import (
    EMPTY,
    HELD_BYTES,
    LineRedactor,
    StreamMask,
    StreamState,
    state_at,
)
from holdfast.secrets.redaction import Redactor
from tests.logbook.stage import SERVICE, Stage

VALUE = "hunter2-is-the-one"
REDACTOR = Redactor([VALUE])


def current() -> Redactor:
    return REDACTOR


TOLD = [
    b"hello\n",
    VALUE.encode(),
    b"\n",
    b"API_KEY=0123456789\n",
    b"wor",
    b"ld ",
    "größer".encode(),
]
TEXT = st.lists(st.sampled_from(TOLD), max_size=12).map(b"".join)


def fed(mask: StreamMask, data: bytes, cuts: list[int], *, impatient: bool = False) -> bytes:
    """What comes out when it is fed in pieces; positions must be those that went in."""
    out, place = b"", 0
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    for end in ends:
        if end > place:
            for part in mask.feed(Chunk(1.0, "out", data[place:end], place, 1)):
                assert part.position == len(out)
                out += part.data
            place = end
        if impatient:
            out += b"".join(part.data for part in mask.flush())
    return out + b"".join(part.data for part in mask.flush())


@given(TEXT, st.lists(st.integers(0, 200), max_size=20))
def test_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    """The same is masked as if it were read in one piece."""
    assert fed(StreamMask(current=current), data, cuts) == REDACTOR.mask(data)


@given(TEXT, st.lists(st.integers(0, 200), max_size=20))
def test_a_terminal_waits_for_values_only(data: bytes, cuts: list[int]) -> None:
    """And they are never told, in whatever pieces they come."""
    out = fed(StreamMask(is_terminal=True, current=current), data, cuts)
    assert len(out) == len(data)
    assert VALUE.encode() not in out


@given(st.lists(st.integers(0, 40), max_size=20))
def test_what_was_let_go_is_remembered(cuts: list[int]) -> None:
    """Who cannot wait tells the beginning of a secret, but never its rest."""
    data = b"API_KEY=0123456789abcdef end\n"
    out = fed(StreamMask(current=current), data, cuts, impatient=True)
    assert out[: len(b"API_KEY=")] == b"API_KEY="
    assert out.endswith(b" end\n")
    assert b"0123456789abcdef" not in out
    assert not any(bytes([byte]) in out[8:24] for byte in b"0123456789")


def test_what_waits_is_bounded() -> None:
    """A line without an end goes on after a while."""
    mask = StreamMask(current=current)
    told = b"".join(p.data for p in mask.feed(Chunk(1.0, "out", b"x" * 3 * HELD_BYTES, 0, 1)))
    assert len(told) == 2 * HELD_BYTES


@pytest.mark.parametrize("place", range(0, 30, 3))
def test_who_begins_within_a_line_sees_no_half_of_a_secret(stage: Stage, place: int) -> None:
    """By lines; whatever the cursor is."""
    text = f"plain\nkey {VALUE} end\n".encode()
    stage.say(text)
    stage.recorder.flush()
    reader = Reader(str(stage.directory), SERVICE)
    line_redactor = LineRedactor(current)
    line_redactor.begin_at(reader, at(place))
    shown = [
        it for it in line_redactor.redact_all(lines(reader, at(place))) if isinstance(it, Line)
    ]
    told = b"\n".join(line.data for line in shown)
    for size in range(4, len(VALUE)):
        assert VALUE[-size:].encode() not in told
    assert told.endswith(b" end") or place > 24


def test_a_key_over_many_batches(stage: Stage) -> None:
    """Lines of a private key are hidden although they are looked at apart."""
    key = [b"-----BEGIN PRIVATE KEY-----", b"MIIEvQIBADANBg", b"kqhkiG9w0BAQ"]
    key += [b"-----END PRIVATE KEY-----", b"after: it"]
    stage.say(b"\n".join(key) + b"\n")
    stage.recorder.flush()
    line_redactor = LineRedactor(current)
    found = list(lines(Reader(str(stage.directory), SERVICE), BEGINNING))
    shown = [it.data for one in found for it in line_redactor.redact([one]) if isinstance(it, Line)]
    assert shown[-1] == b"after: it"
    assert not any(b"MII" in line or b"kqhk" in line for line in shown)


def test_before_a_place_that_is_not_there(stage: Stage) -> None:
    """A cursor of another log costs nothing."""
    stage.say(b"x" * 100)
    stage.recorder.flush()
    reader = Reader(str(stage.directory), SERVICE)
    assert state_at(reader, 1 << 40, "out") == EMPTY
    assert state_at(reader, 50, "out") == StreamState(b"x" * 50)
    assert state_at(reader, 50, "err") == EMPTY
