"""The recorder under hard conditions: killed, out of space, and with a great deal to do."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import holdfast
from holdfast.keeper.recording import log_directory
from holdfast.keeper.recording.segment_files import SegmentFiles
from holdfast.logbook import segments
from holdfast.logbook.entries import Line, Note
from tests import disk
from tests.logbook.stage import PLENTY, SERVICE, Stage

SOURCE = str(Path(holdfast.__file__).parents[1])

RECORD = """
import os, resource, sys, json
sys.path.insert(0, sys.argv[1])
from holdfast.keeper.loop import Loop
from holdfast.keeper.recording.recorder import Recorder
loop = Loop()
recorder = Recorder(sys.argv[2], "web", 1 << 22, 1 << 25, loop, lambda *_: None, lambda *_: None)
recorder.limits(int(sys.argv[5]), int(sys.argv[6]))
left = 2
def on_eof():
    global left
    left -= 1
    if not left:
        loop.stop()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
recorder.attach(int(sys.argv[3]), "out", on_eof=on_eof)
recorder.attach(int(sys.argv[4]), "err", on_eof=on_eof)
loop.run()
recorder.close()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"grown_kib": after - before, "position": recorder.position}))
"""

WRITE = """
import os, sys
out, err, count = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    if number % (count // 5) == 0:
        os.read(0, 1)
    os.write(out, b"out %07d\\n" % number)
    if number % 3 == 0:
        os.write(err, b"err %07d\\n" % number)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(str(tmp_path))
    yield stage
    stage.close()


def start(program: str, *arguments: object, fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(
        command, pass_fds=fds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def test_killed_in_a_flood(tmp_path: Path) -> None:
    """The writer of the log is killed again and again: every line is there once."""
    count = 100_000
    (out, out_write), (err, err_write) = os.pipe(), os.pipe()
    writer = start(WRITE, out_write, err_write, count, fds=(out_write, err_write))
    os.close(out_write)
    os.close(err_write)
    assert writer.stdin is not None
    for burst in range(5):
        recorder = start(RECORD, SOURCE, tmp_path, out, err, 1 << 17, 1 << 30, fds=(out, err))
        grown = segments.log_bytes(str(tmp_path), SERVICE)
        writer.stdin.write(b"g")
        deadline = time.monotonic() + 60
        while segments.log_bytes(str(tmp_path), SERVICE) < grown + 60_000:
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        if burst < 4:
            recorder.send_signal(signal.SIGKILL)
        recorder.communicate()
    writer.communicate()
    os.close(out)
    os.close(err)
    assert recorder.returncode == 0
    stage = Stage(str(tmp_path))
    lines = [entry for entry in stage.entries() if isinstance(entry, Line)]
    for stream, step in (("out", 1), ("err", 3)):
        texts = [line.data for line in lines if line.stream == stream]
        assert texts == [b"%s %07d" % (stream.encode(), n) for n in range(0, count, step)]
    stage.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[str]:
    with disk.small_disk(tmp_path / "disk", "1m") as place:
        yield str(place)


@pytest.mark.parametrize("floor", ["0", "100000"])
def test_a_full_disk(small_disk: str, monkeypatch: pytest.MonkeyPatch, floor: str) -> None:
    """On a full disk bytes are discarded and counted, nobody blocks, no record is torn; when
    there is space again a gap is written first and recording goes on."""
    monkeypatch.setenv("HOLDFAST_FREE_FLOOR", floor)
    ballast = f"{small_disk}/ballast"
    Path(ballast).write_bytes(b"x" * 600_000)
    stage = Stage(small_disk)
    write, source = stage.attach()
    sent = 0
    for number in range(200):
        os.write(write, b"%05d\n" % number * 1000)
        sent += 6000
        assert source.drain(PLENTY) == 6000
    assert [what for what, _, _ in stage.gaps] == ["begin"]
    kept = stage.recorder.position
    assert 100_000 < kept < 450_000 - int(floor)
    if floor != "0":
        os.truncate(ballast, 590_000)
        stage.recorder._retry_at = 0.0
        os.write(write, b"too little room to go on\n")
        sent += source.drain(PLENTY)
        assert stage.recorder.position == kept
    os.unlink(ballast)
    stage.recorder._retry_at = 0.0
    os.write(write, b"again\n")
    source.drain(PLENTY)
    stage.recorder.flush()
    assert stage.gaps[1][:2] == ("end", sent - kept)
    gaps = [e for e in stage.entries() if isinstance(e, Note)]
    assert [(note.kind, note.lost, note.position) for note in gaps] == [("gap", sent - kept, kept)]
    assert stage.lines()[-1] == b"again"
    assert len(stage.raw()) == kept + 6
    sizes = os.stat(segments.path(small_disk, SERVICE, 1, "idx")).st_size
    assert sizes % 24 == 0
    stage.close()


@pytest.mark.parametrize(
    ("total", "floor"), [(500 << 20, 5 << 20), (5 << 30, (5 << 30) // 100), (1 << 40, 64 << 20)]
)
def test_the_floor(monkeypatch: pytest.MonkeyPatch, total: int, floor: int) -> None:
    """A hundredth of the disk is left to others, and at most 64 MiB."""
    monkeypatch.delenv("HOLDFAST_FREE_FLOOR", raising=False)
    for free in (floor, floor + 1):
        facts = SimpleNamespace(f_frsize=1, f_blocks=total, f_bavail=free)
        monkeypatch.setattr(os, "statvfs", lambda _, facts=facts: facts)
        assert log_directory.LogDirectory("/logs").has_space() is (free > floor)


@pytest.mark.parametrize("is_seen_coming", [True, False])
def test_a_full_disk_takes_own_old_segments_first(
    small_disk: str, monkeypatch: pytest.MonkeyPatch, is_seen_coming: bool
) -> None:
    """Before anything is lost, the service's oldest segments make way."""
    monkeypatch.setenv("HOLDFAST_FREE_FLOOR", "0")
    stage = Stage(small_disk)
    stage.recorder.limits(100_000, PLENTY)
    if not is_seen_coming:
        stage.recorder._log_directory.unchecked_room = PLENTY  # others fill it meanwhile
    for number in range(300):
        stage.say(b"%05d\n" % number * 1000)
    stage.recorder.flush()
    assert stage.gaps == []
    assert stage.raw().endswith(b"00299\n" * 1000)
    assert stage.recorder.position == 300 * 6000
    assert len(stage.raw()) > 500_000
    stage.close()


def test_a_refusing_directory(stage: Stage) -> None:
    """Where no file can be made, output is counted as lost, and the loop goes on."""
    os.rmdir(stage.directory)
    Path(stage.directory).touch()
    stage.say(b"lost\n")
    stage.say(b"lost too\n")
    assert [what for what, _, _ in stage.gaps] == ["begin"]
    os.unlink(stage.directory)
    os.mkdir(stage.directory)
    stage.recorder._retry_at = 0.0
    stage.say(b"kept\n")
    stage.recorder.flush()
    assert stage.notes() == [("gap", 14)]
    assert stage.lines() == [b"kept"]


def test_nothing_is_written_through_a_link(stage: Stage, tmp_path: Path) -> None:
    """A link where a log is to be does not lead our bytes into another file: they go into the
    next segment."""
    (tmp_path / "victim").write_text("as it was")
    os.symlink(tmp_path / "victim", segments.path(stage.directory, SERVICE, 1, "out"))
    stage.say(b"kept\n")
    stage.recorder.flush()
    assert (tmp_path / "victim").read_text() == "as it was"
    assert stage.lines() == [b"kept"]


def test_a_deleted_directory_is_made_again(stage: Stage) -> None:
    """Logs that somebody deletes are begun anew, numbered on, and the position goes on."""
    stage.say(b"gone\n")
    stage.recorder.flush()
    shutil.rmtree(stage.directory)
    stage.recorder._look_at = 0.0
    stage.say(b"kept\n")
    stage.recorder.flush()
    assert sorted(os.listdir(stage.directory)) == ["web.000002.idx", "web.000002.out"]
    assert stage.recorder.position == 10
    assert stage.lines() == [b"kept"]
    assert stage.gaps == []


def test_a_gap_lasts_until_it_is_written_down(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a stream a gap ends only if its record reached the file."""
    stage.say(b"first\n")
    stage.recorder.flush()
    stage.recorder.refuse(OSError(errno.EIO, "broken"))
    stage.recorder.lose(7)
    stage.recorder._retry_at = 0.0

    def refuse(_: SegmentFiles) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as broken:
        broken.setattr(SegmentFiles, "write_index", refuse)
        stage.recorder.settle()
    assert [what for what, _, _ in stage.gaps] == ["begin"]
    stage.recorder._retry_at = 0.0
    stage.recorder.settle()
    assert stage.gaps[-1][:2] == ("end", 7)
    assert stage.notes() == [("gap", 7)]


def test_an_open_gap_is_handed_over(stage: Stage) -> None:
    """A gap that is open when the program image is replaced is still written down."""
    os.rmdir(stage.directory)
    Path(stage.directory).touch()
    stage.say(b"lost\n")
    state = json.loads(json.dumps(stage.recorder.state()))
    os.unlink(stage.directory)
    os.mkdir(stage.directory)
    stage.lose_keeper()
    stage.recorder = stage.new_recorder(state)
    stage.say(b"kept\n")
    stage.recorder.flush()
    assert stage.notes() == [("gap", 5)]


def gaps_of(stage: Stage) -> list[int | None]:
    stage.recorder.flush()
    return [it.lost for it in stage.entries() if isinstance(it, Note) and it.kind == "gap"]


def lose_some(stage: Stage, count: int) -> None:
    """The file system refuses what it has no room for, but not what has its place already."""
    stage.recorder.refuse(OSError(errno.ENOSPC, "the free-space floor is reached"))
    stage.recorder.mark_gap()
    stage.recorder.lose(count)


@pytest.mark.parametrize("is_recovered", [True, False])
def test_a_killed_keeper_takes_its_count_along(stage: Stage, is_recovered: bool) -> None:
    """Its successor does not know how much was lost, and says so, once; then it counts itself."""
    stage.recorder.begin_run(3)
    stage.say(b"first\n")
    lose_some(stage, 7)
    stage.lose_keeper()
    if is_recovered:
        stage.recorder.recover(3)
    stage.say(b"kept\n")
    assert gaps_of(stage) == [None]
    assert stage.gaps[-1][:2] == ("end", None)
    lose_some(stage, 9)
    stage.recorder._retry_at = 0.0
    stage.say(b"kept too\n")
    assert gaps_of(stage) == [None, 9]
    stage.lose_keeper()
    stage.say(b"and this\n")
    assert gaps_of(stage) == [None, 9]
    assert stage.lines() == [b"first", b"kept", b"kept too", b"and this"]
    assert "an unknown number of bytes" in next(
        it.text for it in stage.entries() if isinstance(it, Note) and it.kind == "gap"
    )


def test_a_disk_that_is_still_full_for_the_successor(stage: Stage) -> None:
    """What its predecessor lost is unknown, what it loses itself is counted; no event adds up."""
    stage.say(b"first\n")
    lose_some(stage, 7)
    stage.lose_keeper()
    stage.recorder.recover(0)
    lose_some(stage, 9)
    stage.recorder._retry_at = 0.0
    stage.say(b"kept\n")
    assert gaps_of(stage) == [None, 9]
    assert [it[:2] for it in stage.gaps] == [("begin", 0), ("end", None)]


def test_a_disk_without_room_for_the_mark(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is there any for the successor, who therefore says that the number is unknown."""
    stage.say(b"first\n")
    stage.recorder.flush()

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as full:
        full.setattr("os.pwrite", refuse)
        lose_some(stage, 7)
        stage.lose_keeper()
        stage.recorder.recover(0)
        stage.recorder.lose(9)
    stage.recorder._retry_at = 0.0
    stage.say(b"kept\n")
    assert gaps_of(stage) == [None, 9]


def test_who_follows_sees_all_that_came_before_a_gap(stage: Stage) -> None:
    """The mark takes pending records along: their readers are told."""
    stage.recorder.watching = True
    stage.say(b"first\n")
    stage.say(b"second\n")
    lose_some(stage, 7)
    assert stage.grew[-1] == stage.recorder.position == len(stage.raw())


def test_a_stream_that_says_nothing_loses_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends while the disk is full: no successor has to wonder how much was lost."""
    write, source = stage.attach()
    os.write(write, b"all\n")
    source.drain(PLENTY)
    with monkeypatch.context() as full:
        full.setattr(
            "holdfast.keeper.recording.log_directory.LogDirectory.has_space", lambda *_, **__: False
        )
        stage.recorder._log_directory.unchecked_room = 0
        source.drain(PLENTY)
        assert [what for what, _, _ in stage.gaps] == ["begin"]
        stage.lose_keeper()
    stage.say(b"more\n")
    assert gaps_of(stage) == []


def test_a_marked_gap_is_handed_over_with_its_count(stage: Stage) -> None:
    """An upgrade knows what was lost before it, in whichever segment the gap began."""
    stage.say(b"first\n")
    lose_some(stage, 7)
    stage.recorder._files.rotate(0)
    stage.recorder.refuse(OSError(errno.ENOSPC, "the free-space floor is reached"))
    state = json.loads(json.dumps(stage.recorder.state()))
    stage.lose_keeper()
    stage.recorder = stage.new_recorder(state)
    stage.say(b"kept\n")
    assert gaps_of(stage) == [7]
    stage.lose_keeper()
    stage.say(b"kept too\n")
    assert gaps_of(stage) == [7]


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Hundreds of megabytes pass through without being held; a reader needs no more."""
    (out, out_write), (err, err_write) = os.pipe(), os.pipe()
    recorder = start(RECORD, SOURCE, tmp_path, out, err, 1 << 24, 1 << 26, fds=(out, err))
    block = (b"x" * 99 + b"\n") * 2560
    for _ in range(1000):
        os.write(out_write, block)
    for fd in (out, out_write, err, err_write):
        os.close(fd)
    facts = json.loads(recorder.communicate()[0])
    assert facts["position"] == 256_000_000
    assert facts["grown_kib"] < 2048
    program = (
        "import sys, resource; sys.path.insert(0, sys.argv[1])\n"
        "from holdfast.logbook.reader import Reader\n"
        "from holdfast.logbook.lines import lines\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "count = sum(1 for _ in lines(Reader(sys.argv[2], 'web')))\n"
        "print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    reader = start(program, SOURCE, tmp_path, fds=())
    count, grown = map(int, re.findall(rb"\d+", reader.communicate()[0]))
    assert count > 400_000
    assert grown < 4096


@pytest.mark.parametrize("is_room_made", [True, False])
def test_a_killed_keeper_that_could_begin_no_segment(tmp_path: Path, is_room_made: bool) -> None:
    """Where no new file can be made, that a gap begins is said in the full segment: what is
    recorded and what is told as lost add up, or the number is said to be unknown."""
    with disk.small_disk(tmp_path / "disk", "2m,nr_inodes=8") as place:
        ballast = [place / f"ballast{number}" for number in range(5)]
        for path in ballast:
            path.touch()
        stage = Stage(str(place), max_size=4096)
        stage.recorder.begin_run(1)
        stage.say(b"x" * 10_000)
        assert stage.recorder.position == 4096
        for path in ballast if is_room_made else ():
            path.unlink()
        stage.lose_keeper()
        stage.recorder.recover(1)
        stage.say(b"y" * 1000)
        for path in ballast:
            path.unlink(missing_ok=True)
        stage.recorder._retry_at = 0.0
        stage.say(b"z" * 100)
        assert gaps_of(stage) == ([None] if is_room_made else [None, 1000])
        assert len(stage.raw()) == 4096 + (1100 if is_room_made else 100)
        stage.close()


def test_a_mark_that_needs_no_room(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no record can be added, the header says that a gap began; a successor that has room
    again says that the number is unknown, once."""
    stage.say(b"first\n")
    stage.recorder.flush()
    write = os.pwrite

    def within(fd: int, data: bytes, offset: int) -> int:
        if offset + len(data) > os.fstat(fd).st_size:
            raise OSError(errno.ENOSPC, "full")
        return write(fd, data, offset)

    with monkeypatch.context() as full:
        full.setattr("os.pwrite", within)
        lose_some(stage, 7)
    stage.lose_keeper()
    stage.recorder.recover(0)
    stage.say(b"kept\n")
    assert gaps_of(stage) == [None]
    with monkeypatch.context() as full:
        full.setattr("os.pwrite", within)
        lose_some(stage, 9)
    stage.recorder._retry_at = 0.0
    stage.say(b"kept too\n")
    assert gaps_of(stage) == [None, 9]
    stage.lose_keeper()
    stage.say(b"and this\n")
    assert gaps_of(stage) == [None, 9]


def test_a_killed_keeper_that_could_make_no_file_at_all(stage: Stage) -> None:
    """Its log says nothing; the supervisor, which was told that a gap began, does."""
    stage.recorder.recover(1, is_within_gap=True)
    stage.say(b"kept\n")
    assert gaps_of(stage) == [None]
    assert stage.gaps[-1][:2] == ("end", None)


def test_the_size_of_a_gap_is_written_with_what_follows_it(stage: Stage) -> None:
    """A keeper that is killed right after does not take the count along."""
    stage.say(b"first\n")
    stage.recorder.flush()
    lose_some(stage, 7)
    stage.recorder._retry_at = 0.0
    stage.say(b"kept\n")
    stage.lose_keeper()
    assert [it.lost for it in stage.entries() if isinstance(it, Note) and it.kind == "gap"] == [7]
