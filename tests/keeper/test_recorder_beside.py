"""Two runs of one service at once: every line is whole and carries the number of its run."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.logbook import cursors
from holdfast.logbook.entries import Line
from holdfast.logbook.lines import lines
from tests.logbook.stage import PLENTY, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(str(tmp_path))
    yield stage
    stage.close()


class Beside:
    """A run with a pipe of its own."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.track = stage.recorder.begin_run(number)
        self.write, self.source = stage.attach()

    def say(self, data: bytes) -> None:
        os.write(self.write, data)
        self.source.drain(PLENTY)

    def end(self) -> None:
        self.stage.close_fd(self.write)
        self.source.drain(PLENTY)


def told(stage: Stage, run: int | None = None) -> list[tuple[int, bytes, bool]]:
    stage.recorder.flush()
    span = stage.reader.run(run) if run is not None else None
    start, end = (span.start, span.end) if span else (cursors.BEGINNING, None)
    found = lines(stage.reader, start, until=end, run=run)
    return [(it.run, it.data, it.is_partial) for it in found if isinstance(it, Line)]


def test_lines_of_two_runs_are_not_mixed_up(stage: Stage) -> None:
    """A line that is torn by the other run's output is put together again."""
    old = Beside(stage, 1)
    old.say(b"old 1\nold ")
    new = Beside(stage, 2)
    new.say(b"new 1\nne")
    old.say(b"2\n")
    new.say(b"w 2\n")
    old.say(b"bye")
    old.end()
    new.say(b"new 3\n")
    assert told(stage) == [
        (1, b"old 1", False),
        (2, b"new 1", False),
        (1, b"old 2", False),
        (2, b"new 2", False),
        (2, b"new 3", False),
        (1, b"bye", True),
    ]
    assert told(stage, 1) == [(1, b"old 1", False), (1, b"old 2", False), (1, b"bye", True)]
    assert told(stage, 2) == [(2, b"new 1", False), (2, b"new 2", False), (2, b"new 3", False)]
    assert (old.track.bytes, new.track.bytes) == (15, 18)
    assert [span.run for span in stage.reader.runs()] == [2, 1]


def test_a_run_after_an_overlap_is_one_alone(stage: Stage) -> None:
    """What the overlap left unfinished is cut where the next run begins."""
    old, new = Beside(stage, 1), Beside(stage, 2)
    old.say(b"a\n")
    new.say(b"b")
    old.end()
    new.end()
    third = Beside(stage, 3)
    third.say(b"c\n")
    assert told(stage) == [(1, b"a", False), (2, b"b", True), (3, b"c", False)]


def test_a_new_program_image_goes_on_with_both(stage: Stage) -> None:
    """An upgrade in the middle of an overlap mixes up nothing."""
    old, new = Beside(stage, 1), Beside(stage, 2)
    old.say(b"a\n")
    new.say(b"b\n")
    old.say(b"c\n")
    state = stage.recorder.state()
    stage.lose_keeper()
    stage.recorder = stage.new_recorder(state)
    assert stage.recorder.resume_run(2, new.track.bytes).bytes == 2
    first = stage.recorder.resume_run(1, old.track.bytes)
    assert first.bytes == 4
    write, source = stage.attach()
    os.write(write, b"d\n")
    source.drain(PLENTY)
    assert told(stage)[-1] == (2, b"d", False)
    assert told(stage, 1) == [(1, b"a", False), (1, b"c", False)]


@pytest.mark.parametrize("seed", range(20))
def test_any_interleaving(stage: Stage, seed: int) -> None:
    """Whatever the pieces and the order, each run's own output reads as it was printed."""
    choose = random.Random(seed)
    runs = [Beside(stage, 1), Beside(stage, 2)]
    printed = [b"", b""]
    for number in range(200):
        which = choose.randrange(2)
        text = b"%d:%d %s" % (which, number, b"x" * choose.randrange(200))
        piece = text + choose.choice([b"", b"\n", b"\n\n"])
        runs[which].say(piece)
        printed[which] += piece
    for which in (0, 1):
        own = [data for run, data, _ in told(stage) if run == which + 1]
        expected = printed[which].split(b"\n")
        assert own == (expected if expected[-1] else expected[:-1])
        assert [data for _, data, _ in told(stage, which + 1)] == own
        span = stage.reader.run(which + 1)
        assert span is not None
        raw = b"".join(stage.reader.raw(span.start, until=span.end, run=which + 1))
        assert raw == printed[which]
