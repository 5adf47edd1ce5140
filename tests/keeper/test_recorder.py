"""The recorder: real pipes, real files, the real loop."""

from __future__ import annotations

import os
import pty
import random
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.keeper.recording import intake
from holdfast.logbook import cursors, index, segments
from holdfast.logbook.entries import Chunk, Line, Stream
from holdfast.logbook.lines import lines
from tests.logbook.stage import PLENTY, SERVICE, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(str(tmp_path))
    yield stage
    stage.close()


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_aside(stage: Stage, fd: int, blocks: list[bytes]) -> threading.Thread:
    def write() -> None:
        for block in blocks:
            write_all(fd, block)
        stage.close_fd(fd)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def test_touches_nothing_before_the_first_byte(stage: Stage) -> None:
    """A run that prints nothing leaves no file; one that prints makes private ones."""
    stage.recorder.begin_run(1)
    write, source = stage.attach()
    stage.attach("err")
    source.drain(PLENTY)
    stage.recorder.flush()
    assert os.listdir(stage.directory) == []
    os.write(write, b"x")
    source.drain(PLENTY)
    stage.recorder.flush()
    names = sorted(os.listdir(stage.directory))
    assert names == ["web.000001.idx", "web.000001.out"]
    for name in names:
        assert stat.S_IMODE(os.stat(f"{stage.directory}/{name}").st_mode) == 0o600


def test_loses_and_doubles_nothing_over_rotation(stage: Stage) -> None:
    """A flood through the loop arrives whole, in segments of the right size."""
    words = [b"%07d %s\n" % (number, b"x" * (number % 300)) for number in range(60_000)]
    write, _ = stage.attach()
    data = b"".join(words)
    thread = write_aside(
        stage, write, [data[at : at + 65_000] for at in range(0, len(data), 65_000)]
    )
    stage.run_until(lambda: stage.ended == ["out"])
    thread.join()
    stage.recorder.flush()
    assert stage.raw() == data
    assert stage.recorder.position == stage.recorder.run_bytes == len(data)
    sizes = [
        os.stat(segments.path(stage.directory, SERVICE, number, "out")).st_size
        for number in segments.numbers(stage.directory, SERVICE)
    ]
    assert len(sizes) == len(data) // (1 << 20) + 1
    assert set(sizes[:-1]) == {1 << 20}


def test_small_writes_arrive_whole_and_rested(stage: Stage) -> None:
    """Many small writes are taken in few chunks, and none is lost."""
    stage.recorder.limits(1 << 24, 1 << 30)
    write, _ = stage.attach()
    words = [b"%09d\n" % number for number in range(100_000)]
    thread = write_aside(stage, write, words)
    stage.run_until(lambda: stage.ended == ["out"])
    thread.join()
    stage.recorder.flush()
    assert stage.raw() == b"".join(words)
    index_size = os.stat(segments.path(stage.directory, SERVICE, 1, "idx")).st_size
    assert index_size // index.RECORD_SIZE < 10_000


def test_the_other_stream_ends_a_rest(stage: Stage) -> None:
    """What was printed to a resting stream is recorded before what the other says later."""
    out, resting = stage.attach("out")
    err, _ = stage.attach("err")
    expected = b""
    for turn in range(20):
        stage.loop.unwatch(resting.fd)
        stage.recorder.resting = resting
        resting._rest = stage.loop.call_later(5.0, resting._on_rested)
        os.write(out, b"first %d\n" % turn)
        os.write(err, b"second %d\n" % turn)
        expected += b"first %d\nsecond %d\n" % (turn, turn)
        size = len(expected)
        stage.run_until(lambda size=size: stage.recorder.position == size)  # type: ignore[misc]
        assert stage.recorder.resting is None
    stage.recorder.flush()
    assert stage.raw() == expected


def test_the_end_is_told_once(stage: Stage) -> None:
    """on_eof comes once, after the last byte; by the loop or by a drain."""
    write, source = stage.attach()
    os.write(write, b"last words")
    stage.close_fd(write)
    assert source.drain(4) == 4
    assert stage.ended == []
    assert source.drain(PLENTY) == 6
    assert stage.ended == ["out"]
    assert source.drain(PLENTY) == 0
    source.detach()
    assert stage.ended == ["out"]
    assert stage.raw() == b"last words"
    os.fstat(source.fd)


def test_detached_is_left_alone(stage: Stage) -> None:
    """After detach nothing is taken any more, and the bytes wait in the pipe."""
    write, source = stage.attach()
    source.detach()
    os.write(write, b"waits")
    assert source.drain(PLENTY) == 0
    assert os.read(source.fd, 100) == b"waits"


@pytest.mark.parametrize("can_splice", [True, False])
def test_a_terminal(stage: Stage, monkeypatch: pytest.MonkeyPatch, can_splice: bool) -> None:
    """A terminal's output is one stream; its end is an end, not an error."""
    monkeypatch.setattr(intake, "_CAN_SPLICE", can_splice)
    master, slave = pty.openpty()
    stage.recorder.attach(master, "out", on_eof=lambda: stage.ended.append("pty"))
    os.write(slave, b"hello\n")
    stage.run_until(lambda: stage.recorder.position == 7)
    os.close(slave)
    stage.run_until(lambda: stage.ended == ["pty"])
    os.close(master)
    assert stage.raw() == b"hello\r\n"
    assert stage.lines() == [b"hello"]


def test_what_cannot_be_spliced_is_copied(stage: Stage) -> None:
    """A socket in place of a pipe works as well."""
    ours, theirs = socket.socketpair()
    stage.recorder.attach(ours.fileno(), "out", on_eof=lambda: stage.ended.append("s"))
    data = random.Random(1).randbytes(3_000_000)

    def send() -> None:
        theirs.sendall(data)
        theirs.close()

    thread = threading.Thread(target=send)
    thread.start()
    stage.run_until(lambda: stage.ended == ["s"])
    thread.join()
    ours.close()
    assert stage.raw() == data


def test_without_splice(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no splice, read and write do the same."""
    monkeypatch.setattr(intake, "_CAN_SPLICE", False)
    write, _ = stage.attach()
    data = random.Random(2).randbytes(3_000_000)
    thread = write_aside(stage, write, [data])
    stage.run_until(lambda: stage.ended == ["out"])
    thread.join()
    assert stage.raw() == data


def test_a_flood_starves_nobody(stage: Stage) -> None:
    """While one service floods, a word of another is recorded within a bounded amount."""
    loud, loud_source = stage.attach()
    other = stage.new_recorder(service="quiet")
    quiet, _ = stage.attach("err", other)
    threads = [write_aside(stage, loud, [b"x" * 65_000] * 1500)]
    os.write(quiet, b"here\n")
    stage.run_until(lambda: other.position == 5)
    assert stage.recorder.position < 8 << 20
    assert loud_source.is_open
    stage.run_until(lambda: stage.ended == ["out"])
    threads[0].join()
    other.close()


@pytest.mark.parametrize(("max_size", "least"), [(60_000, 128 << 10), (1 << 30, 9000)])
def test_the_total_is_capped(stage: Stage, max_size: int, least: int) -> None:
    """A log never takes more than its limit, its index included, also where one segment might
    alone; positions go on."""
    stage.recorder.limits(max_size, 256 << 10)
    for number in range(200):
        stage.say(b"%05d\n" % number * 1500)
        assert segments.log_bytes(stage.directory, SERVICE) <= 256 << 10
    stage.recorder.flush()
    assert stage.recorder.position == 200 * 9000
    assert stage.reader.end().out == 200 * 9000
    assert stage.raw().endswith(b"00199\n" * 1500)
    assert len(stage.raw()) >= least


def test_smaller_limits_hold_from_now_on(stage: Stage) -> None:
    """New limits take effect with the next byte."""
    stage.say(b"x" * 500_000)
    stage.recorder.limits(8192, 65536)
    stage.say(b"y" * 70_000)
    assert segments.log_bytes(stage.directory, SERVICE) <= 65536


def test_alternating_bytes_do_not_grow_without_bound(stage: Stage) -> None:
    """Where the index outgrows the data, it counts towards the limits too."""
    stage.recorder.limits(4096, 16384)
    out, out_source = stage.attach("out")
    err, err_source = stage.attach("err")
    for _ in range(3000):
        os.write(out, b"o")
        out_source.drain(10)
        os.write(err, b"e")
        err_source.drain(10)
    stage.recorder.flush()
    assert segments.log_bytes(stage.directory, SERVICE) <= 16384
    assert stage.raw(cursor=cursors.at(5700)) == b"oe" * 150


def test_growth_is_told_to_watchers(stage: Stage) -> None:
    """A watched log tells each flush once, and not each write."""
    write, _ = stage.attach()
    os.write(write, b"unwatched\n")
    stage.run_until(lambda: stage.recorder.position == 10)
    stage.recorder.flush()
    assert stage.grew == []
    stage.recorder.watching = True
    os.write(write, b"watched\n")
    stage.run_until(lambda: stage.grew == [18])
    assert stage.reader.end().out == 18


def test_prune(stage: Stage) -> None:
    """Old segments go when asked; the newest stays."""
    stage.recorder.limits(4096, 1 << 20)
    write, source = stage.attach()
    stage.say(b"x" * 40_960)
    os.write(write, b"live\n")
    source.drain(PLENTY)
    stage.recorder.flush()
    deleted, count = stage.recorder.prune(keep_segments=4)
    assert count == 7
    assert deleted > 7 * 4096
    assert len(segments.numbers(stage.directory, SERVICE)) == 4
    assert stage.recorder.prune(before=1.0) == (0, 0)
    assert stage.recorder.prune(keep_segments=1)[1] == 3
    assert stage.lines() == [b"live"]
    assert stage.recorder.prune(keep_segments=0) == (0, 0)
    written_at = os.stat(stage.directory + f"/{SERVICE}.000011.idx").st_mtime
    assert stage.recorder.prune(before=written_at, live=None) == (0, 0)
    end = stage.recorder.position
    assert stage.recorder.prune(before=written_at + 1, live=None)[1] == 1
    assert stage.lines() == []
    os.write(write, b"after\n")
    source.drain(PLENTY)
    stage.recorder.flush()
    assert stage.lines() == [b"after"]
    assert stage.recorder.position == end + 6, "positions go on"


def test_a_new_program_image_goes_on(stage: Stage) -> None:
    """With its state handed over, the next recorder continues the run without a seam."""
    stage.recorder.begin_run(7)
    stage.say(b"before\n")
    state = stage.recorder.state()
    stage.lose_keeper()
    stage.recorder = stage.new_recorder(state)
    assert stage.recorder.run_bytes == 7
    stage.say(b"after\n")
    stage.recorder.flush()
    assert stage.recorder.run_bytes == 13
    assert stage.notes() == [("run", 7)]
    assert stage.lines() == [b"before", b"after"]


def test_a_run_marker_handed_over_before_its_first_byte(stage: Stage) -> None:
    """A run that had printed nothing is marked by the next recorder."""
    stage.recorder.begin_run(9)
    state = stage.recorder.state()
    stage.recorder = stage.new_recorder(state)
    stage.say(b"x\n")
    stage.recorder.flush()
    assert stage.notes() == [("run", 9)]


def test_recovery_indexes_what_was_left(stage: Stage) -> None:
    """Bytes written but not indexed are read once, after a note, with time unknown; torn
    index bytes are cut off."""
    stage.recorder.begin_run(4)
    stage.say(b"indexed\n")
    stage.say(b"error\n", "err")
    stage.recorder.flush()
    for suffix, data in (("out", b"left out\n"), ("err", b"left err\n"), ("idx", b"torn")):
        with open(segments.path(stage.directory, SERVICE, 1, suffix), "ab") as file:
            file.write(data)
    before = stage.reader.end()
    stage.lose_keeper()
    stage.recorder.recover(4)
    assert stage.recorder.run_bytes == stage.recorder.position == 32
    stage.say(b"goes on\n")
    stage.recorder.flush()
    assert stage.notes() == [("run", 4), ("replaced", 4)]
    assert stage.lines() == [b"indexed", b"error", b"left out", b"left err", b"goes on"]
    assert stage.lines(before) == [b"left out", b"left err", b"goes on"]
    chunks = [c for c in stage.reader.chunks() if isinstance(c, Chunk)]
    assert [c.time is None for c in chunks] == [False, False, True, True, False]
    size = os.stat(segments.path(stage.directory, SERVICE, 1, "idx")).st_size
    assert size % index.RECORD_SIZE == 0


@pytest.mark.parametrize("kept", [None, 0, 10])
def test_recovery_without_an_index(stage: Stage, kept: int | None) -> None:
    """A segment whose index was never written is indexed; positions follow the one before."""
    stage.recorder.limits(4096, 1 << 20)
    stage.say(b"a" * 5000)
    stage.recorder.close()
    name = segments.path(stage.directory, SERVICE, 2, "idx")
    if kept is None:
        os.unlink(name)
    else:
        os.truncate(name, kept)
    stage.lose_keeper()
    stage.recorder.limits(4096, 1 << 20)
    stage.say(b"b")
    stage.recorder.flush()
    assert stage.raw() == b"a" * 5000 + b"b"
    assert stage.recorder.position == 5001


@pytest.mark.parametrize("seed", range(4))
def test_random_histories(stage: Stage, seed: int) -> None:
    """Whatever happens in whatever order, each stream reads back as printed, and every
    line's cursor leads to exactly the lines after it."""
    dice = random.Random(seed)
    said: dict[Stream, bytes] = {"out": b"", "err": b""}
    stage.recorder.limits(dice.choice([4096, 20_000]), 1 << 30)
    for turn in range(150):
        match dice.randrange(12):
            case 0:
                stage.recorder.begin_run(turn)
            case 1:
                stage.recorder.close()
            case 2:
                stage.recorder.flush()
                stage.lose_keeper()
                stage.recorder.limits(dice.choice([4096, 20_000]), 1 << 30)
            case 3:
                state = stage.recorder.state()
                stage.lose_keeper()
                stage.recorder = stage.new_recorder(state)
            case _:
                stream = dice.choice(list(said))
                data = dice.randbytes(dice.choice([1, 10, 1000, 9000])).replace(b"a", b"\n")
                stage.say(data, stream)
                said[stream] += data
    stage.recorder.flush()
    assert stage.raw("out") == said["out"]
    assert stage.raw("err") == said["err"]
    assert stage.recorder.position == len(said["out"]) + len(said["err"])
    everything = [entry for entry in stage.entries() if isinstance(entry, Line)]
    for at in dice.sample(range(len(everything)), 20):
        place = cursors.decode(cursors.encode(everything[at].cursor))
        assert stage.lines(place) == [line.data for line in everything[at + 1 :]]
    place = everything[-40].cursor
    for expected in everything[-39:]:
        line = next(e for e in lines(stage.reader, place) if isinstance(e, Line))
        assert line._replace(cursor=expected.cursor) == expected
        place = line.cursor


def test_pipes_grow_within_the_allowance(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy pipe grows; beyond half of the user's allowance none does."""
    account = intake.PipeAccount()
    monkeypatch.setattr(intake, "pipes", account)
    account._allowance = 2_000_000
    sources = [stage.attach() for _ in range(4)]
    for write, source in sources:
        for _ in range(6):
            os.set_blocking(write, False)
            while True:
                try:
                    os.write(write, b"x" * 4096)
                except BlockingIOError:
                    break
            source._on_ready()
    assert account.taken <= 2_000_000
    assert max(source._pipe_size for _, source in sources) == 1 << 20
    for _, source in sources:
        source.detach()
    assert account.taken == 0


def test_the_keeper_imports_little() -> None:
    """What the recorder loads stays light."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import holdfast.keeper.recording.recorder; "
        "print(*sorted({'re', 'pathlib', 'typing', 'json', 'dataclasses', 'contextlib', 'inspect'}"
        " & set(sys.modules)))"
    )
    source = str(Path(holdfast.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", program, source]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert answer.stdout.split() == []
