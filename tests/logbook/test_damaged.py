"""Damaged logs: readers never fail, hang or take memory by what a damaged index says, and its
writer goes on recording."""

from __future__ import annotations

import os
import random
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.adapters.search import log_files
from holdfast.keeper.recording import log_directory
from holdfast.logbook import cursors, index, segments
from holdfast.logbook.entries import STREAMS, Chunk, Line, Note
from holdfast.logbook.lines import LineFollower
from holdfast.logbook.reader import Reader
from tests.logbook.stage import SERVICE, Stage

NEW = b"recorded after the damage\n"
POSITIONS = (0, 1, (1 << 31), (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 30)
WORDS = (0, 1, 5, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of three runs in several segments, with gaps and a change of keepers."""
    folder = tmp_path_factory.mktemp("original")
    stage = Stage(str(folder), max_size=4096)
    for run in (1, 2, 3):
        stage.recorder.begin_run(run)
        for number in range(25):
            stage.say(b"run %d out %03d\n" % (run, number) * 10)
            if number % 3 == 0:
                stage.say(b"run %d err %03d\n" % (run, number), "err")
            stage.recorder._finish_chunk()
        if run == 2:
            stage.lose_keeper()
            stage.recorder.recover(2)
        stage.recorder.refuse(OSError(5, "broken"))
        stage.recorder.lose(7)
        stage.recorder._retry_at = 0.0
    stage.say(b"the end\n")
    stage.recorder.flush()
    stage.close()
    assert len(segments.numbers(str(folder), SERVICE)) >= 3
    return folder


@pytest.fixture
def log(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "logs")
    return tmp_path / "logs"


def newest(log: Path, suffix: str = "idx") -> Path:
    number = segments.numbers(str(log), SERVICE)[-1]
    return Path(segments.path(str(log), SERVICE, number, suffix))


def put(path: Path, record: int, **fields: int) -> None:
    """Change fields of one record; a negative number counts from the end."""
    data = bytearray(path.read_bytes())
    at = (record % (len(data) // 24)) * 24
    kind, micros, position, offset, length = index.unpack(bytes(data), at)
    changed = {"kind": kind, "micros": micros, "position": position}
    changed |= {"offset": offset, "length": length} | fields
    data[at : at + 24] = struct.pack(
        "<QQII",
        changed["kind"] << 56 | changed["micros"],
        changed["position"],
        changed["offset"],
        changed["length"],
    )
    path.write_bytes(data)


def read_everything(log: Path) -> list[Line | Note]:
    """Ask all that readers are asked; returns the lines of the whole log."""
    reader = Reader(str(log), SERVICE)
    there = sum(path.stat().st_size for path in log.glob("web.*.???") if path.is_file())
    walked = 0
    with reader.chunks() as walk:
        for item in walk:
            walked += len(item.data) if isinstance(item, Chunk) else 1
            assert walked <= 2 * there, "a reader does not come to an end"
    end = reader.end()
    assert cursors.decode(cursors.encode(end)) == end
    for place in (reader.beginning(), reader.since(time.time() - 60), reader.since(0.0), end):
        assert cursors.decode(cursors.encode(place)) == place
        with reader.chunks(place) as walk:
            assert sum(1 for _ in walk) < 100_000
    for stream in (None, *STREAMS):
        for count in (0, 1, 10, 10_000):
            place = reader.tail(count, stream)
            assert cursors.decode(cursors.encode(place)) == place
    for span in list(reader.runs()):
        assert span.end is None or span.end <= index.LARGEST_POSITION
        with reader.chunks(span.start, None, span.end, span.run) as walk:
            assert sum(1 for _ in walk) < 100_000
    for since in (None, time.time() - 60):
        parts = log_files.parts(str(log), SERVICE, after=1, since=since, until=None, stream=None)
        log_files.torn_lines(parts)
    for view in reader.views():
        for stream_number in (0, 1):
            for offset in (0, 1, 1000, 1 << 40):
                spot = view.origin(stream_number, offset)
                assert spot is None or 0 <= spot.position <= index.LARGEST_POSITION
    follower = LineFollower(reader, cursors.BEGINNING)
    found = [*follower.wake(), *follower.finish()]
    assert list(follower.wake()) == []
    follower.close()
    return found


def record_more(log: Path) -> Stage:
    """As the next keeper does: take over the run, and record what it prints."""
    log_directory._log_directories.clear()
    stage = Stage(str(log), max_size=4096)
    stage.recorder.recover(3)
    stage.say(NEW)
    stage.say(NEW, "err")
    stage.recorder.flush()
    assert 0 <= stage.recorder.run_bytes <= 1 << 32
    return stage


def check_all(log: Path) -> None:
    """Readers before the writer, beside it, and after it; what is new is there once."""
    read_everything(log)
    reader = Reader(str(log), SERVICE)
    follower = LineFollower(reader, reader.end())
    list(follower.wake())
    stage = record_more(log)
    followed = [it.data for it in follower.wake() if isinstance(it, Line)]
    follower.close()
    for lines in ([it.data for it in read_everything(log) if isinstance(it, Line)], followed):
        # What was cut off before it stands before it in its line.
        assert [line.endswith(NEW[:-1]) for line in lines].count(True) == 2
    stage.close()
    log_directory._log_directories.clear()
    again = Stage(str(log), max_size=4096)
    again.recorder.prune(keep_segments=1)
    again.close()
    read_everything(log)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("record", [-1, -2, 3, 0])
def test_a_damaged_position(log: Path, position: int, record: int) -> None:
    """A position that cannot be is not believed, wherever it stands."""
    put(newest(log), record, position=position)
    check_all(log)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("field", ["offset", "length"])
@pytest.mark.parametrize("record", [-1, 4])
def test_a_damaged_offset_or_length(log: Path, field: str, word: int, record: int) -> None:
    """Neither does a reader loop or take memory by it, nor does the writer write there."""
    put(newest(log), record, **{field: word})
    check_all(log)


@pytest.mark.parametrize("kind", [*range(12), 77, 254, 255])
@pytest.mark.parametrize("record", [-1, 5])
def test_a_damaged_kind(log: Path, kind: int, record: int) -> None:
    """A stream that does not exist, or a record that is none of ours."""
    put(newest(log), record, kind=kind)
    check_all(log)


@pytest.mark.parametrize("micros", [0, 1, (1 << 56) - 1])
def test_a_damaged_time(log: Path, micros: int) -> None:
    """Times far back or in the future change no bytes."""
    before = newest(log, "out").read_bytes()
    put(newest(log), -1, micros=micros)
    put(newest(log), 3, micros=micros)
    assert b"".join(Reader(str(log), SERVICE).raw(stream="out")).endswith(before)
    check_all(log)


@pytest.mark.parametrize("count", [1, 23, 24, 25, 48, 24 * 2000])
def test_zeros_at_the_end(log: Path, count: int) -> None:
    """As after a loss of power: what is no record is set aside, and nothing is lost."""
    with newest(log).open("ab") as file:
        file.write(bytes(count))
    check_all(log)


def test_what_is_damaged_is_set_aside(log: Path) -> None:
    """Its bytes are kept beside the index; what they stood for is read again, after a gap of
    unknown size; and both go with their segment."""
    path = newest(log)
    whole = {stream: b"".join(Reader(str(log), SERVICE).raw(stream=stream)) for stream in STREAMS}
    put(path, -1, position=(1 << 63) + 5)
    damaged = path.read_bytes()[-24:]
    stage = record_more(log)
    assert Path(f"{path}.damaged").read_bytes() == damaged
    for stream in STREAMS:
        assert b"".join(stage.reader.raw(stream=stream)) == whole[stream] + NEW
    notes = [it for it in stage.entries() if isinstance(it, Note) and it.is_damaged]
    assert [(it.kind, it.lost) for it in notes] == [("gap", None)]
    assert stage.gaps[-1] == ("end", None, "the log's index was damaged")
    stage.recorder.prune(keep_segments=1)
    number = stage.recorder._files.number
    for _ in range(400):
        stage.say(NEW)
    stage.recorder.prune(keep_segments=1)
    assert stage.recorder._files.number > number
    assert not list(log.glob("*.damaged"))
    stage.close()


def test_a_damaged_record_in_the_middle(log: Path) -> None:
    """All bytes are read, those of the damaged record too; a gap says where it was."""
    reader = Reader(str(log), SERVICE)
    whole = {stream: b"".join(reader.raw(stream=stream)) for stream in STREAMS}
    put(newest(log), 4, position=99, offset=1 << 31)
    for stream in STREAMS:
        assert b"".join(reader.raw(stream=stream)) == whole[stream]
    assert [it.lost for it in read_everything(log) if isinstance(it, Note) and it.is_damaged] == [
        None
    ]
    stage = record_more(log)
    for stream in STREAMS:
        assert b"".join(reader.raw(stream=stream)) == whole[stream] + NEW
    stage.close()


def test_a_damaged_header(log: Path) -> None:
    """The chunks behind it tell where its segment begins; its writer mends it."""
    reader = Reader(str(log), SERVICE)
    whole = b"".join(reader.raw())
    path = newest(log)
    for header in (bytes(24), b"\xff" * 24):
        path.write_bytes(header + path.read_bytes()[24:])
        assert b"".join(reader.raw()) == whole
    position = max(reader.end())
    stage = record_more(log)
    assert stage.recorder.position == position + 2 * len(NEW)
    assert path.read_bytes()[7] == index.HEADER
    assert b"".join(reader.raw()) == whole + 2 * NEW
    stage.close()


def test_an_unreadable_segment_between_others(log: Path) -> None:
    """It is passed over, and how much is missing is said; a reader does not stay before it."""
    numbers = segments.numbers(str(log), SERVICE)
    middle = numbers[len(numbers) // 2]
    os.truncate(segments.path(str(log), SERVICE, middle, "idx"), 24)
    Path(segments.path(str(log), SERVICE, middle, "idx")).write_bytes(bytes(24))
    found = read_everything(log)
    assert [it.data for it in found if isinstance(it, Line)][-1] == b"the end"
    assert [it.kind for it in found if isinstance(it, Note) and it.kind == "missing"] == ["missing"]


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").touch()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _elsewhere(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("make", [_folder, os.mkfifo, _loop, _elsewhere])
@pytest.mark.parametrize("suffix", segments.SUFFIXES)
@pytest.mark.parametrize("is_newest", [True, False])
def test_something_that_is_no_file(
    log: Path, make: Callable[[Path], None], suffix: str, is_newest: bool
) -> None:
    """A folder, a named pipe or a link in the place of a file is neither read nor written, nor
    waited for; recording goes on in the next segment."""
    number = segments.numbers(str(log), SERVICE)[-1 if is_newest else 0]
    path = Path(segments.path(str(log), SERVICE, number, suffix))
    path.unlink()
    make(path)
    check_all(log)


def test_a_folder_in_the_way_of_a_running_log(log: Path) -> None:
    """Output that meets it is counted as lost until the next segment has begun."""
    stage = Stage(str(log.parent / "fresh"), max_size=4096)
    stage.say(b"first\n")
    (log.parent / "fresh" / "web.000001.err").mkdir()
    stage.say(b"lost\n", "err")
    stage.recorder._retry_at = 0.0
    stage.say(b"kept\n", "err")
    stage.recorder.flush()
    assert stage.lines() == [b"first", b"kept"]
    assert stage.notes() == [("gap", 5)]
    stage.close()


def damage(log: Path, chance: random.Random, *, is_data_hit: bool) -> None:
    files = [path for path in sorted(log.iterdir()) if path.suffix == ".idx" or is_data_hit]
    for _ in range(chance.randint(1, 4)):
        path = chance.choice([*files, newest(log)])
        data = bytearray(path.read_bytes())
        match chance.randrange(6):
            case 0:
                del data[chance.randrange(len(data) + 1) :]
            case 1:
                data += chance.randbytes(chance.randrange(1, 200))
            case 2 if data:
                at = chance.randrange(len(data))
                data[at] ^= 1 << chance.randrange(8)
            case 3 if data:
                at = chance.randrange(len(data))
                size = chance.randrange(1, 100)
                data[at : at + size] = chance.randbytes(len(data[at : at + size]))
            case 4 if data:
                at = chance.randrange(len(data))
                data[at:] = bytes(len(data) - at)
            case _:
                at = chance.randrange(len(data) + 1) // 24 * 24
                data[at:at] = data[:48]
        path.write_bytes(data)


@pytest.mark.parametrize("seed", range(60))
def test_random_damage(log: Path, seed: int) -> None:
    """Whatever happens to the bytes of index and data files: no reader fails or hangs, and what
    is printed afterwards is recorded and read."""
    damage(log, random.Random(seed), is_data_hit=seed % 3 == 0)
    check_all(log)


@pytest.fixture(autouse=True)
def _forget_shelves() -> Iterator[None]:
    yield
    log_directory._log_directories.clear()
