"""Searching in logs: by pattern, time and stream, over segments, in the order of printing."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.logbook.cursors import decode
from holdfast.logbook.entries import STREAMS, Chunk, Line
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.errors import UsageError
from tests.git.desk import Desk
from tests.logbook.stage import Stage


class Roster:
    def __init__(self, *names: str) -> None:
        self.runners = dict.fromkeys(names)

    def names(self, wanted: list[str]) -> list[str]:
        return wanted


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "logs").mkdir()
    stage = Stage(str(tmp_path / "logs"), max_size=8192)
    yield stage
    stage.close()


@pytest.fixture
def desk(tmp_path: Path, stage: Stage) -> Desk:
    desk = Desk(tmp_path)
    desk.roster = Roster("web")  # type: ignore[attr-defined]
    desk.stage = stage  # type: ignore[attr-defined]
    return desk


def all_of(desk: Desk, **fields: Any) -> list[Any]:
    """Every hit, page after page."""
    desk.stage.recorder.flush()  # type: ignore[attr-defined]
    found, cursor = [], None
    while True:
        page = desk.ask("search_logs", cursor=cursor, **fields)
        assert len(page.hits) <= fields.get("limit", 50)
        found += page.hits
        if page.complete:
            assert page.cursor is None
            return found
        cursor = page.cursor


def lines_of(stage: Stage) -> list[Line]:
    stage.recorder.flush()
    return [entry for entry in stage.entries() if isinstance(entry, Line)]


def told(lines: list[Line]) -> list[tuple[str, str, int]]:
    return [(line.text, line.stream, line.run) for line in lines]


def test_all_lines_that_match_in_order(stage: Stage, desk: Desk) -> None:
    """Both streams, many segments, several runs, pages of any size: as the log itself says."""
    chance = random.Random(5)
    for run in (1, 2, 3):
        stage.recorder.begin_run(run)
        for number in range(150):
            word = chance.choice(["needle", "hay"])
            pad = "x" * chance.randrange(200)
            stage.say(f"{word} {run}.{number} {pad}\n".encode(), chance.choice(STREAMS))
    expected = told([line for line in lines_of(stage) if re.search(r"needle \d", line.text)])
    assert len(list(Path(stage.directory).glob("*.idx"))) > 5
    for limit in (1000, 7, 1):
        if limit == 1:
            expected = expected[:30]
        found = all_of(desk, pattern=r"needle \d", limit=limit) if limit > 1 else _first(desk, 30)
        assert [(hit.text, hit.stream, hit.run) for hit in found] == expected
    for stream in STREAMS:
        found = all_of(desk, pattern=r"needle \d", stream=stream, limit=11)
        every = [line for line in lines_of(stage) if re.search(r"needle \d", line.text)]
        assert [hit.text for hit in found] == [it.text for it in every if it.stream == stream]


def _first(desk: Desk, count: int) -> list[Any]:
    found, cursor = [], None
    for _ in range(count):
        page = desk.ask("search_logs", pattern=r"needle \d", limit=1, cursor=cursor)
        found += page.hits
        cursor = page.cursor
    return found


def test_places_are_those_of_the_log(stage: Stage, desk: Desk) -> None:
    """The cursor of a hit is where `logs` begins with that very line; times are the chunks'."""
    stage.recorder.begin_run(1)
    for number in range(100):
        stage.say(f"line {number}\n".encode(), STREAMS[number % 2])
    lines = {line.text: line for line in lines_of(stage)}
    for hit in all_of(desk, pattern="line", limit=1000):
        assert hit.time == lines[hit.text].time
        with Reader(stage.directory, "web").chunks(decode(hit.cursor)) as walk:
            first = next(item for item in walk if isinstance(item, Chunk))
        assert first.data.startswith(hit.text.encode())


def test_a_range_of_time(stage: Stage, desk: Desk) -> None:
    """`since` inclusive, `until` exclusive, in the middle of a segment or over several."""
    stage.recorder.begin_run(1)
    for number in range(200):
        stage.say(f"line {number} {'x' * 100}\n".encode(), STREAMS[number % 2])
    lines = lines_of(stage)
    for first, last in ((0, 200), (3, 4), (50, 150), (120, 121), (199, 200)):
        since = lines[first].time
        until = lines[last].time if last < 200 else None
        expected = [
            it.text
            for it in lines
            if it.time is not None
            and since is not None
            and since <= it.time
            and (until is None or it.time < until)
        ]
        found = all_of(desk, pattern="line", since=since, until=until, limit=17)
        assert [hit.text for hit in found] == expected
    assert all_of(desk, pattern="line", until=1.0) == []
    assert all_of(desk, pattern="line", since=4e9) == []


def test_positions_and_offsets_agree(stage: Stage) -> None:
    """For every byte of both streams, whatever stands between the chunks."""
    chance = random.Random(7)
    stage.recorder.begin_run(1)
    for number in range(60):
        if number % 20 == 19:
            stage.recorder.begin_run(number)
        stage.say(b"y" * chance.randrange(1, 40), chance.choice(STREAMS))
    stage.recorder.flush()
    for view in Reader(stage.directory, "web").views():
        for stream in (0, 1):
            for offset in range(view.ends()[stream]):
                origin = view.origin(stream, offset)
                assert origin is not None
                assert view.bytes_before(stream, origin.position) == offset
            assert view.origin(stream, view.ends()[stream]) is None


def test_a_line_that_two_segments_share(stage: Stage, desk: Desk) -> None:
    """Is found by what stands across the cut, told whole, and told once."""
    stage.recorder.begin_run(1)
    for number in range(400):
        stage.say(f"<{'needle' * 30} {number}>\n".encode(), STREAMS[number % 2])
    segments = len(list(Path(stage.directory).glob("*.out")))
    assert segments > 3
    found = all_of(desk, pattern="^<(needle){30} [0-9]+>$", limit=1000, max_bytes=64_000)
    found = all_of(desk, pattern="^<(needle){30} [0-9]+>$", limit=60, max_bytes=64_000)
    assert [hit.text for hit in found] == [line.text for line in lines_of(stage)]
    assert not list(Path(desk.state).glob("search-*"))


def test_a_log_that_grows_while_it_is_read(stage: Stage, desk: Desk) -> None:
    """A cursor stays valid, and what is added is found."""
    stage.recorder.begin_run(1)
    stage.say(b"needle 1\nneedle 2\n")
    stage.recorder.flush()
    page = desk.ask("search_logs", pattern="needle", limit=1)
    stage.say(b"needle 3\n", "err")
    stage.recorder.flush()
    rest = desk.ask("search_logs", pattern="needle", cursor=page.cursor)
    assert [hit.text for hit in (*page.hits, *rest.hits)] == ["needle 1", "needle 2", "needle 3"]


def test_hard_lines(stage: Stage, desk: Desk) -> None:
    """Very long ones, bytes that are no text, a byte order mark, NUL, secrets."""
    stage.recorder.begin_run(1)
    stage.say(b"\xff\xfemark needle\n")
    stage.say(b"nul \0 needle \xff\n")
    stage.say(b"password=hunter2 needle\n")
    stage.recorder.flush()
    first, second, third = desk.ask("search_logs", pattern="needle").hits
    assert first.text.endswith("mark needle")
    assert second.text == "nul  needle \ufffd"
    assert (
        desk.ask("search_logs", pattern="needle", raw=True).hits[1].text == "nul \0 needle \ufffd"
    )
    assert "hunter2" not in third.text
    assert "[hidden]" in third.text


def test_a_line_of_megabytes(tmp_path: Path) -> None:
    """Cut around the match."""
    (tmp_path / "logs").mkdir()
    stage = Stage(str(tmp_path / "logs"), max_size=64 << 20)
    try:
        stage.recorder.begin_run(1)
        stage.say(b"x" * 3_000_000 + b"needle" + b"y" * 3_000_000 + b"\n")
        stage.recorder.flush()
        desk = Desk(tmp_path)
        desk.roster = Roster("web")  # type: ignore[attr-defined]
        (hit,) = desk.ask("search_logs", pattern="needle").hits
    finally:
        stage.close()
    assert hit.cut
    assert "xxneedleyy" in hit.text
    assert len(hit.text) < 500


def test_several_services(stage: Stage, desk: Desk) -> None:
    """One after the other; a cursor goes on with the next."""
    for name in ("api", "web"):
        recorder = stage.new_recorder(service=name)
        recorder.begin_run(1)
        write, source = stage.attach("out", recorder)
        os.write(write, f"needle of {name}\nand needle\n".encode())
        source.drain(1 << 20)
        source.detach()
        stage.close_fd(write)
        recorder.flush()
    desk.roster = Roster("web", "api", "silent")  # type: ignore[attr-defined]
    found = all_of(desk, pattern="needle", limit=1)
    assert [hit.service for hit in found] == ["api", "api", "web", "web"]
    found = all_of(desk, pattern="needle", services=["web"])
    assert [hit.service for hit in found] == ["web", "web"]
    assert all_of(desk, pattern="needle", services=["silent"]) == []


@pytest.mark.parametrize("cursor", ["x", "", "WyJ3ZWIiLCAtMV0", "W10", "a" * 9000])
def test_a_wrong_cursor_is_said(stage: Stage, desk: Desk, cursor: str) -> None:
    """Whatever it is, nothing is searched with it."""
    with pytest.raises(UsageError):
        desk.ask("search_logs", pattern="x", cursor=cursor)


COLOURED = [
    b"\x1b[32mok\x1b[0m plain\n",
    b"bu\x1b[1mil\x1b[0md failed\r\n",
    b"10 %\r50 %\rbuild done\n",
    b"\n",
    b"\x1b]0;build\x07title\n",
    b"last build\n",
]


def test_lines_match_as_they_are_shown(stage: Stage, desk: Desk) -> None:
    """Without colours and control sequences, to both ends of a line; `raw` matches the bytes."""
    stage.recorder.begin_run(1)
    for line in COLOURED:
        stage.say(line)
    lines = lines_of(stage)
    assert len(lines) == len(COLOURED)

    def texts(pattern: str, **fields: Any) -> list[str]:
        return [hit.text for hit in all_of(desk, pattern=pattern, limit=2, **fields)]

    assert texts("^build") == ["build failed", "build done"]
    assert texts("failed$") == ["build failed"]
    assert texts("^ok plain$") == ["ok plain"]
    assert texts("^$") == [""]
    assert len(texts(".*")) == len(COLOURED)
    assert [it.encode() for it in texts("build", raw=True)] == [
        line.strip() for line in COLOURED if b"build" in line
    ]
    assert texts(r"\x1b\[1mil", raw=True) == [COLOURED[1].decode().strip()]
    cursors = [decode(hit.cursor) for hit in all_of(desk, pattern="build", limit=10)]
    assert [place.out for place in cursors] == [
        sum(map(len, COLOURED[:number])) for number in (1, 2, 5)
    ]
    assert not list(Path(desk.state).glob("search-*")), "no copy stays"


def test_coloured_lines_over_many_segments(stage: Stage, desk: Desk) -> None:
    """Also those that the change of a segment cuts in two, and lines of any length."""
    chance = random.Random(6)
    stage.recorder.begin_run(1)
    wanted = []
    for number in range(300):
        pad = "x" * chance.choice([0, 50, 900])
        wanted.append(f"needle {number} {pad}|")
        stage.say(f"\x1b[1mnee\x1b[0mdle {number} {pad}\x1b[31m|\x1b[0m\r\n".encode())
    found = all_of(desk, pattern=r"^needle \d+ x*\|$", limit=17)
    assert len(list(Path(stage.directory).glob("*.idx"))) > 5
    assert [hit.text[:20] for hit in found] == [text[:20] for text in wanted]
