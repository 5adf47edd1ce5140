"""What is read is what is there: lines, bytes, encodings; bounded however large the file is."""

from __future__ import annotations

import base64
import codecs
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.vocabulary.errors import UsageError
from tests.adapters.files.stage import Stage

KIB = 1024


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_lines_by_number(stage: Stage) -> None:
    """From a line on, so many, or the last ones; and what comes next."""
    stage.put("a", "".join(f"line {n}\n" for n in range(1, 11)))
    whole = stage.read("a")
    assert (whole.lines, whole.total_lines, whole.truncated) == (10, 10, False)
    part = stage.read("a", offset=3, limit=2)
    assert part.content == "line 3\nline 4\n"
    assert (part.first_line, part.next_offset, part.truncated) == (3, 5, True)
    assert stage.read("a", offset=part.next_offset).content.startswith("line 5\n")
    tail = stage.read("a", tail=2)
    assert (tail.content, tail.first_line) == ("line 9\nline 10\n", 9)
    beyond = stage.read("a", offset=99)
    assert (beyond.content, beyond.lines, beyond.truncated) == ("", 0, False)
    assert stage.read("a", offset=10, limit=5).content == "line 10\n"


def test_a_last_line_without_an_end_counts(stage: Stage) -> None:
    """And an empty file has none."""
    stage.put("a", "x\ny")
    assert stage.read("a").total_lines == 2
    assert stage.read("a", tail=1).content == "y"
    stage.put("b", "")
    assert (stage.read("b").total_lines, stage.read("b", tail=3).content) == (0, "")


@given(
    st.lists(st.text(alphabet="ab\r é", max_size=6), max_size=30),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 40),
)
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_going_on_tells_every_byte_once(
    stage: Stage, lines: list[str], offset: int, limit: int, most: int
) -> None:
    """By lines or by bytes, whatever the limits cut."""
    data = "\n".join(lines).encode()
    stage.put("a", data)
    by_byte, place = b"", 0
    for _ in range(len(data) + 2):
        part = stage.read("a", from_byte=place, max_bytes=max(most, 4))
        by_byte += part.content.encode()
        if part.next_byte is None:
            break
        assert part.next_byte > place
        place = part.next_byte
    assert by_byte == data
    expected = data.split(b"\n")
    whole = [line + b"\n" for line in expected[:-1]] + ([expected[-1]] if expected[-1] else [])
    part = stage.read("a", offset=offset, limit=limit)
    assert part.content.encode() == b"".join(whole[offset - 1 : offset - 1 + limit])
    tail = stage.read("a", tail=limit)
    assert tail.content.encode() == b"".join(whole[-limit:])
    if whole:
        assert tail.first_line == max(1, len(whole) - limit + 1)


def test_a_long_line_is_cut_between_characters(stage: Stage) -> None:
    """And it is told where to go on."""
    stage.put("a", "é" * 100)
    part = stage.read("a", max_bytes=51)
    assert part.content == "é" * 25
    assert (part.next_byte, part.next_offset, part.lossy, part.truncated) == (50, None, False, True)
    assert stage.read("a", tail=1, max_bytes=50).truncated is False


def test_encodings(stage: Stage) -> None:
    """UTF-8 with and without mark, UTF-16, and bytes that are no text."""
    stage.put("bom", codecs.BOM_UTF8 + "é\r\nb\r\n".encode())
    found = stage.read("bom")
    assert (found.content, found.bom, found.line_ending) == ("é\r\nb\r\n", True, "crlf")
    assert stage.read("bom", tail=9).content == "é\r\nb\r\n"
    stage.put("wide", codecs.BOM_UTF16_LE + "é\nb\n".encode("utf-16-le"))
    found = stage.read("wide", offset=2)
    assert (found.content, found.encoding, found.total_lines) == ("b\n", "utf-16-le", 2)
    stage.put("mixed", b"good\nbad \xff byte\n")
    found = stage.read("mixed")
    assert (found.content, found.lossy) == ("good\nbad \ufffd byte\n", True)
    stage.put("binary", b"\x7fELF\0\0" * 10)
    found = stage.read("binary")
    assert (found.content, found.encoding, found.size) == ("", "binary", 60)
    raw = stage.read("binary", encoding="base64", from_byte=1, max_bytes=3)
    assert base64.b64decode(raw.content) == b"ELF"
    assert raw.next_byte == 4


def test_the_etag_is_the_contents(stage: Stage) -> None:
    """The same for the same bytes, another for others; whichever part is read."""
    stage.put("a", "x\ny\n")
    stage.put("b", "x\ny\n")
    etag = stage.read("a").etag
    assert etag == stage.read("b", tail=1).etag == stage.read("a", encoding="base64").etag
    stage.put("a", "x\nz\n")
    assert stage.read("a").etag != etag


@pytest.mark.parametrize(
    "wrong",
    [
        *({"offset": 0}, {"limit": 0}, {"tail": -1}, {"max_bytes": 0}, {"from_byte": -1}),
        *({"offset": 1, "tail": 1}, {"encoding": "base64", "tail": 1}),
    ],
)
def test_what_makes_no_sense_is_said(stage: Stage, wrong: dict[str, object]) -> None:
    """Numbers out of range, and two ways at once."""
    stage.put("a", "x")
    with pytest.raises(UsageError):
        stage.read("a", **wrong)


LARGE = """
import os, resource, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.adapters.files.stage import Stage
stage = Stage(Path(sys.argv[1]))
stage.read("small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = (stage.tree / "log").stat().st_size
first = stage.read("log")
assert first.truncated and first.total_lines is None and len(first.content) <= 65536
assert first.first_line == 1 and first.content.startswith("line 0 ")
last = stage.read("log", tail=3)
assert last.content.splitlines()[-1].startswith("line 1999999 "), last.content
assert last.lines == 3
middle = stage.read("log", offset=1000001, limit=1)
assert middle.content.startswith("line 1000000 ")
line = stage.read("line", max_bytes=10_000_000)
assert line.truncated and line.bytes == 1024 * 1024 and line.next_byte == 1024 * 1024
end = stage.read("line", tail=1)
assert end.bytes == 65536 and end.first_line is not None
grew = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grew)
"""


def test_a_hundred_megabytes_take_little_memory(stage: Stage) -> None:
    """A log of 100 MB from both ends and the middle, and a single line of 10 MB."""
    stage.put("small", "x")
    filler = "x" * 36
    with open(stage.tree / "log", "w") as file:
        file.writelines(f"line {number} {filler}\n" for number in range(2_000_000))
    assert (stage.tree / "log").stat().st_size > 90_000_000
    stage.put("line", b"y" * 10_000_000)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(stage.tree.parent), str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unit = 1 if sys.platform == "darwin" else KIB
    assert int(done.stdout) * unit < 16 * KIB * KIB


def test_ignore_files_are_honoured(stage: Stage) -> None:
    """At every depth; hidden names only when asked for; and a cut listing goes on."""
    stage.put(".gitignore", "*.log\n/build/\n")
    stage.put("sub/.gitignore", "!keep.log\n")
    stage.put("sub/.ignore", "drop.txt\n")
    for path in ("a.py", "x.log", "build/o", "sub/keep.log", "sub/drop.txt", "sub/build/o", ".hid"):
        stage.put(path, "x")
    found = [one.path for one in stage.look(depth=3).entries]
    assert found == ["a.py", "sub", "sub/build", "sub/build/o", "sub/keep.log"]
    assert [one.path for one in stage.look("sub").entries] == ["sub/build", "sub/keep.log"]
    assert stage.look(depth=3).ignored == 3
    everything = [one.path for one in stage.look(depth=3, hidden=True, ignored=True).entries]
    assert {"x.log", ".hid", "build/o", ".gitignore", "sub/drop.txt"} <= set(everything)
    told: list[str] = []
    cursor = None
    for _ in range(20):
        part = stage.look(depth=3, limit=2, cursor=cursor)
        told += [one.path for one in part.entries]
        cursor = part.cursor
        if not part.truncated:
            break
    assert told == found


def test_a_folder_with_many_files_is_listed_in_parts(stage: Stage) -> None:
    """No more than asked for, in order, and none twice."""
    for number in range(3000):
        (stage.tree / f"{number:04}").touch()
    first = stage.look(limit=1999)
    assert len(first.entries) == 1999
    second = stage.look(limit=1999, cursor=first.cursor)
    names = [one.path for one in (*first.entries, *second.entries)]
    assert names == [f"{number:04}" for number in range(3000)]
    assert not second.truncated
