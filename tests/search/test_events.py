"""Pieces of texts and of ripgrep's words: nothing depends on where they are cut."""

from __future__ import annotations

import base64
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.search import events
from holdfast.adapters.search.events import EventReader
from holdfast.rules import search
from holdfast.rules.text import excerpts
from holdfast.rules.text.excerpts import Excerpt, Place

PIECES = st.lists(st.integers(1, 50), min_size=1, max_size=20)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    found: list[bytes] = []
    at = 0
    while at < len(data):
        size = sizes[len(found) % len(sizes)]
        found.append(data[at : at + size])
        at += size
    return found


def said(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode()}


def match(path: bytes, line: int, offset: int, data: bytes, start: int, size: int) -> bytes:
    return (
        json.dumps(
            {
                "type": "match",
                "data": {
                    "path": said(path),
                    "lines": said(data),
                    "line_number": line,
                    "absolute_offset": offset,
                    "submatches": [
                        {
                            "match": said(data[start : start + size]),
                            "start": start,
                            "end": start + size,
                        }
                    ],
                },
            },
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode()
        + b"\n"
    )


@given(st.lists(st.binary(max_size=200), max_size=6), PIECES)
def test_events_do_not_depend_on_how_they_arrive(lines: list[bytes], sizes: list[int]) -> None:
    """Byte by byte or at once."""
    data = b"".join(
        match(b"./a/\xff.txt", number, 7 * number, line, 0, len(line))
        for number, line in enumerate(lines)
    )
    reader = EventReader()
    found = [event for piece in cut(data, sizes) for event in reader.feed(piece)]
    assert [(one.line, one.data, one.offset) for one in found] == [
        (number, line, 7 * number) for number, line in enumerate(lines)
    ]
    assert all(one.path == "a/\udcff.txt" for one in found)


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=60), st.integers(0, 3000), st.integers(0, 400), PIECES, st.booleans(),
    st.sampled_from([b'","line_number":5', b"\\", b'"', b"\xff", "é\n\t".encode(), b"x"]),
)  # fmt: skip
def test_long_events_keep_what_matters(
    head: bytes, start: int, size: int, sizes: list[int], is_text: bool, filler: bytes
) -> None:
    """Path, line, place of the match and the beginning; whatever stands in the line."""
    line = (head + filler * 5000)[:9000]
    if is_text:
        line = line.decode("utf-8", "ignore").encode()
    start, size = min(start, len(line)), min(size, 100)
    data = match(b"x.txt", 12, 345, line, start, size)
    longest, head_bytes = events.LONGEST_EVENT, events._HEAD_BYTES
    events.LONGEST_EVENT, events._HEAD_BYTES = 1000, 600
    try:
        reader = EventReader()
        found = [event for piece in cut(data, sizes) for event in reader.feed(piece)]
        after = list(reader.feed(match(b"y.txt", 1, 0, b"short", 0, 5)))
    finally:
        events.LONGEST_EVENT, events._HEAD_BYTES = longest, head_bytes
    (one,) = found
    assert (one.path, one.line, one.offset) == ("x.txt", 12, 345)
    assert one.start == start
    assert line.startswith(one.data)
    assert line[start : start + size].startswith(one.match)
    assert [event.data for event in after] == [b"short"]


@given(st.binary(max_size=3000), st.integers(0, 3000), st.integers(30, 500))
def test_a_line_is_cut_around_the_place(line: bytes, start: int, most: int) -> None:
    """Never longer than asked, and with the place in it."""
    shown = search.shown_line(line, min(start, len(line)), most)
    assert len(shown.text) <= most + 2
    assert shown.is_cut == (len(line.rstrip(b"\r\n")) > most)


@given(st.binary(max_size=2000), PIECES, st.integers(1, 300))
def test_pieces_of_a_text_make_the_text(text: bytes, sizes: list[int], most: int) -> None:
    """However it arrives; each is bounded, and ends with a line where it can."""
    told, place, steps = b"", Place(), 0
    while True:
        excerpt = Excerpt(place, max(most, 4))
        for piece in cut(text, sizes):
            if excerpt.feed(piece):
                break
        assert not excerpt.is_stale
        data, after = excerpt.piece()
        assert len(data) <= max(most, 4)
        told += data
        steps += 1
        if after is None:
            break
        assert data
        if b"\n" in data:
            assert data.endswith(b"\n")
        place = excerpts.decode(after.encode())
    assert told == text


@given(st.binary(min_size=200, max_size=500), st.integers(0, 99))
def test_another_text_is_noticed(text: bytes, where: int) -> None:
    """A byte that was told and is another one by now."""
    excerpt = Excerpt(Place(), 100)
    excerpt.feed(text)
    _, after = excerpt.piece()
    assert after is not None
    where = min(where, after.offset - 1)
    other = bytearray(text)
    other[where] ^= 1
    again = Excerpt(after, 100)
    again.feed(bytes(other))
    assert again.is_stale


@given(st.text(max_size=50), st.integers(0, 2**40))
def test_places_survive_being_written(path: str, line: int) -> None:
    """A cursor gives back what was put into it."""
    path = path.encode("utf-8", "ignore").decode()
    assert search.file_place(search.FilePlace(path, line).encode()) == (path, line)
    assert search.log_place(search.LogPlace(path, line).encode()) == (path, line)
