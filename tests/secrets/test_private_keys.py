"""A private key of several lines is hidden wherever reading begins, and however it is cut."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.logbook.cursors import Cursor, at
from holdfast.logbook.entries import STREAMS, Chunk, Line, Stream
from holdfast.logbook.lines import lines
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_redaction import LineRedactor, StreamMask, state_at
from holdfast.secrets.redaction import Redactor
from tests.logbook.stage import Stage
from tests.secrets.private_keys import KEYS, body, told

REDACTOR = Redactor()
PLAIN = "\n".join(
    f"request {number} was answered in 12 ms by worker {number % 5}" for number in range(30)
)
TEXTS = {name: "\n".join([PLAIN, *key, PLAIN, ""]).encode() for name, key in KEYS.items()}


def by_lines(reader: Reader, start: Cursor) -> bytes:
    line_redactor = LineRedactor()
    line_redactor.begin_at(reader, start)
    found = line_redactor.redact_all(lines(reader, start))
    return b"\n".join(entry.data for entry in found if isinstance(entry, Line))


def by_bytes(reader: Reader, start: Cursor, size: int, *, is_terminal: bool = False) -> bytes:
    """Every chunk in pieces of this size."""
    shown = b""
    masks = {
        stream: StreamMask(state_at(reader, place, stream), is_terminal=is_terminal)
        for stream, place in zip(STREAMS, start, strict=True)
    }
    with reader.chunks(start) as walk:
        for item in walk:
            if not isinstance(item, Chunk):
                for mask in masks.values():
                    mask.pass_note(item)
                continue
            for first in range(0, len(item.data), size):
                piece = item._replace(
                    data=item.data[first : first + size], position=item.position + first
                )
                shown += b"".join(part.data for part in masks[item.stream].feed(piece))
    return shown + b"".join(part.data for mask in masks.values() for part in mask.flush())


@pytest.mark.parametrize("name", KEYS)
def test_wherever_reading_begins(stage: Stage, name: str) -> None:
    """By lines, by bytes and in a terminal: no piece of the key, and nothing else is missing."""
    text = TEXTS[name]
    stage.say(text)
    stage.recorder.flush()
    whole = by_lines(stage.reader, at(0))
    assert not told(whole)
    assert whole.startswith(PLAIN.encode())
    assert whole.rstrip().endswith(PLAIN.encode()[-200:])
    begin = text.index(b"request 29 was") + 40
    for place in range(begin, text.rindex(b"request 0 was") + 10, 23):
        assert not told(by_lines(stage.reader, at(place))), place
        for is_terminal in (False, True):
            shown = by_bytes(stage.reader, at(place), 1000, is_terminal=is_terminal)
            assert not told(shown), place
            assert len(shown) == len(text) - place


@given(
    st.sampled_from(sorted(KEYS)),
    st.lists(st.integers(1, 300), min_size=1, max_size=30),
    st.booleans(),
)
def test_however_it_is_cut(name: str, sizes: list[int], impatient: bool) -> None:
    """The same is masked as in one piece; who cannot wait for the end of a line sees no more."""
    mask, text = StreamMask(), TEXTS[name]
    shown, place = b"", 0
    for size in [*sizes, len(text)]:
        piece = text[place : place + size]
        shown += b"".join(part.data for part in mask.feed(Chunk(1.0, "out", piece, place, 1)))
        shown += b"".join(part.data for part in mask.flush()) if impatient else b""
        place += len(piece)
    shown += b"".join(part.data for part in mask.flush())
    assert not told(shown)
    if not impatient:
        assert shown == REDACTOR.mask(text)


@pytest.mark.parametrize("name", ["rsa", "prefix", "json"])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_over_batches_of_lines(stage: Stage, name: str, size: int) -> None:
    """Lines that are looked at a few at a time are hidden as all together."""
    stage.say(TEXTS[name])
    stage.recorder.flush()
    entries = list(lines(stage.reader))
    line_redactor, shown = LineRedactor(), list[bytes]()
    for first in range(0, len(entries), size):
        some = line_redactor.redact(entries[first : first + size])
        shown += [one.data for one in some if isinstance(one, Line)]
    assert b"\n".join(shown) == by_lines(stage.reader, at(0))


@pytest.mark.parametrize("stream", STREAMS)
def test_each_stream_by_itself(stage: Stage, stream: Stream) -> None:
    """However much the other stream printed between two lines of the key."""
    other: Stream = "err" if stream == "out" else "out"
    for line in KEYS["pkcs8"]:
        stage.say(line.encode() + b"\n", stream)
        stage.say((PLAIN + "\n").encode() * 4, other)
    stage.recorder.flush()
    end = max(stage.reader.end())
    for place in range(0, end, end // 24):
        assert not told(by_lines(stage.reader, at(place))), place
        assert not told(by_bytes(stage.reader, at(place), 5000)), place
    assert by_lines(stage.reader, at(0)).count(b"request 7 was") == 4 * len(KEYS["pkcs8"])


def test_over_a_change_of_segments(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A key that one segment begins and the next one ends."""
    stage = Stage(str(tmp_path_factory.mktemp("logs")), max_size=4096)
    try:
        for line in [*PLAIN.split("\n"), *KEYS["openssh"], *PLAIN.split("\n")] * 4:
            stage.say(line.encode() + b"\n")
        stage.recorder.flush()
        end = max(stage.reader.end())
        for place in range(0, end, 97):
            assert not told(by_lines(stage.reader, at(place))), place
    finally:
        stage.close()


def test_where_the_beginning_of_the_key_is_gone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The oldest segments were removed, and the log begins in the middle of a key."""
    for many in range(0, 60, 6):
        stage = Stage(str(tmp_path_factory.mktemp("logs")), max_size=4096, total_size=4 * 4096)
        try:
            text = [*["x" * 50] * many, *(["plain words here"] * 9 + KEYS["rsa"]) * 20]
            for line in text:
                stage.say(line.encode() + b"\n")
            stage.recorder.flush()
            assert stage.reader.beginning().out > 0
            for start in (at(0), stage.reader.beginning(), at(stage.reader.beginning().out + 200)):
                assert not told(by_lines(stage.reader, start))
                assert not told(by_bytes(stage.reader, start, 700))
        finally:
            stage.close()


def test_a_run_begins_anew(stage: Stage) -> None:
    """What a run left without an end hides nothing of the next one."""
    stage.recorder.begin_run(1)
    stage.say(b"bad key:\n-----BEGIN PRIVATE KEY-----\n")
    stage.recorder.begin_run(2)
    stage.recorder.flush()
    place = max(stage.reader.end())
    stage.say(b"hello again\n")
    stage.recorder.flush()
    for start in (at(0), at(place)):
        assert by_lines(stage.reader, start).endswith(b"hello again")
        assert by_bytes(stage.reader, start, 10).endswith(b"hello again\n")


def test_a_key_without_an_end_hides_no_more_than_it_must() -> None:
    """A block ends by itself, at the latest after 64 KiB."""
    log = b"".join(b"request %d was answered\n" % number for number in range(9000))
    for begun in (b"-----BEGIN PRIVATE KEY-----\n", "\n".join(KEYS["unfinished"]).encode() + b"\n"):
        shown = REDACTOR.mask(begun + log)
        assert not told(shown)
        assert shown.endswith(log[2000:])
    keys = "\n".join(body(99, 300_000)).encode()
    shown = REDACTOR.mask(b"-----BEGIN PRIVATE KEY-----\n" + keys)
    assert shown.endswith(keys[65 * 1024 :])
    assert keys[60 * 1024 : 60 * 1024 + 70] not in shown


@pytest.mark.parametrize(
    "line",
    [
        "expected -----BEGIN PRIVATE KEY----- in server.pem",
        'no "-----BEGIN RSA PRIVATE KEY-----" found',
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "BEGIN; SELECT private_keys FROM t; END",
        "-" * 200,
    ],
)
def test_what_only_speaks_of_keys(line: str) -> None:
    """Opens no block: what follows stays, also if it looks like a key."""
    following = "\n".join(body(98)).encode() + b"\n"
    assert REDACTOR.mask(line.encode() + b"\n" + following).endswith(following)


def test_looking_back_is_bounded(stage: Stage) -> None:
    """It reads a part of a large log, whatever is in it."""
    stage.say(b"-----BEGIN PRIVATE KEY-----\n" + random.Random(3).randbytes(1 << 19) + b"\n")
    stage.recorder.flush()
    end = max(stage.reader.end())
    assert state_at(stage.reader, end, "out").block is None
