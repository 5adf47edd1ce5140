"""Reading a log: lines, notes, tail, since, run, follow and search."""

from __future__ import annotations

import os
import random
import time

import pytest

from holdfast.logbook import cursors, segments
from holdfast.logbook.entries import Chunk, Line, Note
from holdfast.logbook.lines import LineFollower
from tests.logbook.stage import SERVICE, Stage


def test_an_empty_log(stage: Stage) -> None:
    """Before the first byte there is nothing, and nothing fails."""
    assert stage.entries() == []
    assert stage.reader.tail(5) == stage.reader.end() == cursors.BEGINNING
    assert stage.reader.run(-1) is None
    assert stage.reader.since(0) == cursors.BEGINNING


def test_lines_of_two_streams_in_order(stage: Stage) -> None:
    """Lines come in the order in which they were finished, each of its own stream."""
    stage.recorder.begin_run(3)
    stage.say(b"one\ntw")
    stage.say(b"bad\n", "err")
    stage.say(b"o\n")
    stage.recorder.flush()
    found = [e for e in stage.entries() if isinstance(e, Line)]
    assert [(line.stream, line.data, line.run) for line in found] == [
        ("out", b"one", 3),
        ("err", b"bad", 3),
        ("out", b"two", 3),
    ]
    assert all(line.time and abs(line.time - time.time()) < 60 for line in found)


def test_a_cursor_between_two_streams(stage: Stage) -> None:
    """Going on after a line loses nothing of the other stream's unfinished one."""
    stage.say(b"half ")
    stage.say(b"bad\nworse\n", "err")
    stage.say(b"whole\n")
    stage.recorder.flush()
    first = next(e for e in stage.entries() if isinstance(e, Line))
    text = cursors.encode(first.cursor)
    assert stage.lines(cursors.decode(text)) == [b"worse", b"half whole"]


def test_a_run_that_begins_while_it_is_looked_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for a run that has printed nothing yet is told where it will begin, also if it
    does so in this very moment."""
    stage.recorder.begin_run(1)
    stage.say(b"old\n")
    stage.recorder.flush()

    def look_too_early(number: int) -> None:
        stage.recorder.begin_run(number)
        stage.say(b"up\n")
        stage.recorder.flush()

    monkeypatch.setattr(stage.reader, "run", look_too_early)
    assert stage.lines(stage.reader.start_of(2)) == [b"up"]
    monkeypatch.undo()
    assert stage.lines(stage.reader.start_of(2)) == [b"up"]
    assert stage.lines(stage.reader.start_of(1)) == [b"old", b"up"]
    assert stage.lines(stage.reader.start_of(3)) == []


def test_a_split_character_is_whole_in_its_line(stage: Stage) -> None:
    """A character that came in two chunks, with the other stream between, is not torn."""
    data = "grün\n".encode()
    stage.say(data[:3])
    stage.say(b"x\n", "err")
    stage.say(data[3:])
    stage.recorder.flush()
    texts = [e.text for e in stage.entries() if isinstance(e, Line)]
    assert texts == ["x", "grün"]


def test_invalid_bytes_are_kept(stage: Stage) -> None:
    """Every byte that was printed is read back as it was."""
    data = bytes(range(256)) * 3 + b"\n\xff\xfe\n"
    stage.say(data)
    stage.recorder.flush()
    assert stage.raw() == data


def test_a_very_long_line_comes_in_pieces(stage: Stage) -> None:
    """A line of 5 MB is read in bounded pieces that are marked, cut between characters."""
    data = "ü".encode() * 2_500_000
    stage.say(b"x" + data + b"\nafter\n")
    stage.recorder.flush()
    found = [e for e in stage.entries() if isinstance(e, Line)]
    pieces = found[:-1]
    assert [line.is_partial for line in pieces] == [True] * (len(pieces) - 1) + [False]
    assert b"".join(line.data for line in pieces) == b"x" + data
    assert max(len(line.data) for line in found) <= (1 << 20) + (64 << 10)
    for line in pieces:
        line.data.decode("utf-8")
    assert stage.lines(pieces[1].cursor)[-1] == b"after"


def test_unfinished_text_is_marked(stage: Stage) -> None:
    """What a run left without a line end is shown, marked, and not glued to the next run."""
    stage.recorder.begin_run(1)
    stage.say(b"prompt> ")
    stage.recorder.begin_run(2)
    stage.say(b"hello\nbye")
    stage.recorder.flush()
    found = [(e.data, e.is_partial, e.run) for e in stage.entries() if isinstance(e, Line)]
    assert found == [(b"prompt> ", True, 1), (b"hello", False, 2), (b"bye", True, 2)]
    assert stage.notes() == [("run", 1), ("run", 2)]


def test_runs(stage: Stage) -> None:
    """A run is found by its number or from the end, also over rotation."""
    stage.recorder.limits(8192, 1 << 20)
    for number in range(5, 9):
        stage.recorder.begin_run(number)
        stage.say(b"".join(b"run %d line %d\n" % (number, i) for i in range(1000)))
        time.sleep(0.002)
    stage.recorder.flush()
    assert [span.run for span in stage.reader.runs()] == [8, 7, 6, 5]
    for span in (stage.reader.run(6), stage.reader.run(-3)):
        assert span is not None
        data = b"".join(stage.reader.raw(span.start, until=span.end))
        assert data == b"".join(b"run 6 line %d\n" % i for i in range(1000))
    assert stage.reader.run(4) is None
    middle = stage.reader.run(7)
    assert middle is not None
    chunk = next(
        c for c in stage.reader.chunks(cursors.at(middle.start.out + 5000)) if isinstance(c, Chunk)
    )
    assert chunk.run == 7


def test_since(stage: Stage) -> None:
    """Output since a time begins with the first chunk of that time, over rotation."""
    stage.recorder.limits(4096, 1 << 20)
    marks = []
    for number in range(12):
        stage.say(b"%d\n" % number + b"." * 1500 + b"\n")
        stage.recorder.flush()
        time.sleep(0.003)
        marks.append(time.time())
        time.sleep(0.003)
    for number, mark in enumerate(marks[:-1]):
        assert stage.lines(stage.reader.since(mark))[0] == b"%d" % (number + 1)
    assert stage.reader.since(marks[-1]) == stage.reader.end()
    assert stage.reader.since(0) == stage.reader.beginning()


@pytest.mark.parametrize("seed", range(6))
def test_tail_is_the_end_of_all_lines(stage: Stage, seed: int) -> None:
    """The last n lines are the last n of all lines, however the chunks fell."""
    dice = random.Random(seed)
    stage.recorder.limits(4096, 1 << 24)
    stage.recorder.begin_run(1)
    for turn in range(60):
        words = b"".join(
            dice.choice([b"\n", b"word ", b"line %d\n" % turn])
            for _ in range(dice.randrange(1, 120))
        )
        stage.say(words, dice.choice(["out", "out", "err"]))
        if dice.random() < 0.1:
            stage.recorder.begin_run(turn)
    stage.recorder.flush()
    everything = stage.lines()
    for count in (0, 1, 2, 3, 10, 57, 500, len(everything), len(everything) + 5):
        assert (
            stage.lines(stage.reader.tail(count))
            == everything[len(everything) - count if count < len(everything) else 0 :]
        )
    errors = stage.lines(stream="err")
    for count in (1, 7, 100):
        assert stage.lines(stage.reader.tail(count, "err"), "err") == errors[-count:]


def test_tail_reads_little(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines of a long log cost a few reads, not the whole log."""
    stage.say(b"first\n", "err")
    for _ in range(60):
        stage.say(b"x" * 99_999 + b"\n")
    stage.recorder.flush()
    read = 0
    real = os.pread

    def counting(fd: int, length: int, offset: int) -> bytes:
        nonlocal read
        data = real(fd, length, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    stage.reader.tail(3)
    assert read < 700_000


def test_follow(stage: Stage) -> None:
    """A follower gets what was added, each time it is woken, over rotation and restart."""
    stage.recorder.limits(4096, 1 << 20)
    lines = LineFollower(stage.reader, stage.reader.end())
    chunks = stage.reader.chunks(stage.reader.end(), "out")
    got: list[bytes] = []
    raw = b""
    said = []
    for number in range(40):
        said.append(b"%d " % number + b"x" * 700)
        stage.say(said[-1] + b"\nhalf")
        stage.say(b"!\n")
        stage.recorder.flush()
        if number == 20:
            stage.recorder.close()
            stage.lose_keeper()
        got += [e.data for e in lines.wake() if isinstance(e, Line)]
        raw += b"".join(e.data for e in chunks if isinstance(e, Chunk))
    assert got == [line for text in said for line in (text, b"half!")]
    assert raw == b"".join(text + b"\nhalf!\n" for text in said)
    assert lines.cursor == stage.reader.end()
    lines.close()
    chunks.close()


def test_removed_segments_are_told(stage: Stage) -> None:
    """What the size limit took is said, with its count."""
    stage.recorder.limits(4096, 16384)
    follower = LineFollower(stage.reader, cursors.BEGINNING)
    stage.say(b"first\n")
    stage.recorder.flush()
    early = [e for e in follower.wake() if isinstance(e, Line)]
    for number in range(1000):
        stage.say(b"%099d\n" % number)
    stage.recorder.flush()
    assert segments.log_bytes(stage.directory, SERVICE) <= 16384
    base = stage.reader.beginning().out
    for late in (list(follower.wake()), stage.entries(early[0].cursor)):
        notes = [e for e in late if isinstance(e, Note)]
        lost = sum(note.lost or 0 for note in notes)
        assert {note.kind for note in notes} == {"removed"}
        data = sum(len(e.data) + (not e.is_partial) for e in late if isinstance(e, Line))
        assert 6 + lost + data == stage.recorder.position
        assert notes[-1].text == f"{notes[-1].lost} bytes removed by the size limit or by prune"
    assert base > 0
    follower.close()


def test_a_lost_beginning_is_told(stage: Stage) -> None:
    """Who asks for what the size limit took is told so, once."""
    stage.recorder.limits(4096, 16384)
    stage.recorder.begin_run(1)
    begun = time.time()
    for number in range(300):
        stage.say(b"%0998d\n" % number)
    stage.recorder.flush()
    reader, base = stage.reader, stage.reader.beginning().out
    span = reader.run(1)
    assert base > 0
    assert span is not None
    for start in (cursors.BEGINNING, span.start, reader.since(begun), reader.tail(1000)):
        first, *rest = stage.entries(start)
        assert isinstance(first, Note)
        assert (first.kind, first.lost) == ("removed", base)
        assert all(isinstance(entry, Line) for entry in rest)
    for start in (reader.beginning(), reader.tail(3), reader.since(time.time())):
        assert not any(isinstance(entry, Note) for entry in stage.entries(start))
    follower = LineFollower(reader, cursors.BEGINNING)
    assert [entry for entry in follower.wake() if isinstance(entry, Note)] == [first]
    assert follower.cursor == reader.end()
    follower.close()


def test_after_a_lost_beginning_a_run_begins_whole(stage: Stage) -> None:
    """The first line of a run is whole, whatever was removed before it."""
    stage.recorder.limits(4096, 8192)
    stage.recorder.begin_run(1)
    stage.say(b"x" * 20_000)
    stage.recorder.begin_run(2)
    stage.say(b"whole\n")
    stage.recorder.flush()
    found = stage.entries()
    assert [entry.kind for entry in found if isinstance(entry, Note)] == ["removed", "run"]
    assert [entry.is_partial for entry in found if isinstance(entry, Line)] == [True, False]


def test_segments_vanish_under_a_reader(stage: Stage) -> None:
    """A reader in the middle of a segment that is deleted goes on after a told gap."""
    stage.recorder.limits(65536, 1 << 20)
    stage.say(b"x" * 99 + b"\n")
    for _ in range(40):
        stage.say((b"x" * 99 + b"\n") * 100)
    stage.recorder.flush()
    walk = stage.reader.chunks()
    first = walk.step()
    assert isinstance(first, Chunk)
    for number in segments.numbers(stage.directory, SERVICE)[:3]:
        segments.remove(stage.directory, SERVICE, number)
    rest = list(walk)
    lost = sum(e.lost or 0 for e in rest if isinstance(e, Note))
    data = sum(len(e.data) for e in rest if isinstance(e, Chunk))
    assert len(first.data) + lost + data == stage.recorder.position
    assert lost >= 65536
    walk.close()


def test_data_shorter_than_its_index(stage: Stage) -> None:
    """Bytes that the index knows and the file has not are told, and the next go on."""
    stage.say(b"a" * 1000 + b"\n")
    stage.recorder.close()
    os.truncate(segments.path(stage.directory, SERVICE, 1, "out"), 400)
    stage.lose_keeper()
    stage.say(b"after\n")
    stage.recorder.flush()
    assert stage.lines() == [b"a" * 400, b"after"]
    assert stage.notes() == [("missing", 601)]


def test_a_log_begun_anew(stage: Stage) -> None:
    """A cursor of a log that was deleted by hand is told so, and reads what there is."""
    stage.say(b"new\n")
    stage.recorder.flush()
    assert stage.notes(cursors.at(5000)) == [("anew", 0)]
    assert stage.lines(cursors.at(5000)) == [b"new"]


def test_the_last_lines_before_a_place(stage: Stage) -> None:
    """They are whole, of both streams, and not more than asked for; without so many, it is the
    beginning."""
    for number in range(300):
        stage.say(f"line {number}\n".encode(), "err" if number % 3 == 0 else "out")
        stage.recorder._finish_chunk()
    stage.say(b"unfinished")
    stage.recorder.flush()
    places = [entry.cursor for entry in stage.entries() if isinstance(entry, Line)]
    for number in (1, 7, 150, 300):
        until = places[number - 1]
        start = stage.reader.before(until, 5)
        with stage.reader.chunks(start, until=max(until)) as walk:
            text = b"".join(item.data for item in walk if isinstance(item, Chunk))
        first = max(0, number - 5)
        assert text.decode().split() == " ".join(f"line {n}" for n in range(first, number)).split()
    assert stage.reader.before(places[4], 1000) == stage.reader.beginning()


def test_the_first_line_of_a_rare_stream_is_among_the_last(stage: Stage) -> None:
    """It is not left out because nothing of its stream precedes it."""
    for number in range(20):
        stage.say(f"line {number}\n".encode(), "err" if number == 17 else "out")
        stage.recorder._finish_chunk()
    stage.recorder.flush()
    start = stage.reader.before(stage.reader.end(), 5)
    assert (
        b"".join(stage.reader.raw(start)).split()
        == b" ".join(b"line %d" % number for number in range(15, 20)).split()
    )
