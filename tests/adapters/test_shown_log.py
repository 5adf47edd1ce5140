"""Copies of logs as they are shown, for ripgrep."""

from __future__ import annotations

import os
import random
from pathlib import Path

from holdfast.adapters.search import shown_log
from holdfast.logbook.plain_text import shown


def test_every_line_stays_where_it_was(tmp_path: Path) -> None:
    """Whatever was removed, however long lines are, and wherever they are read in pieces."""
    chance = random.Random(7)
    pieces = [
        b"a",
        b"\x1b[1m",
        b"\r",
        b"\0",
        b"\n",
        b"\n",
        "é".encode(),
        b"\xc2\x9b",
        b"\x1b]0;t\x07",
    ]
    for size in (0, 1, 100, 40_000, 300_000):
        data = b"".join(chance.choices(pieces, k=size))
        data += chance.choice([b"", b"y" * 200_000, b"\n" + b"\x1b[1my" * 50_000 + b"\nz\r\n"])
        path = tmp_path / "0.out"
        path.write_bytes(data)
        made = shown_log.write_copy(str(path), str(tmp_path / "state"))
        assert made is not None
        copy = Path(made).read_bytes()
        offset = 0
        for line in data.split(b"\n")[:-1]:
            text = shown(line + b"\n")[:-1]
            got = copy[offset : copy.index(b"\n", offset)].removesuffix(b"\r")
            is_long = len(line) > shown_log.LONGEST_LINE
            assert got == text or (is_long and got == line.removesuffix(b"\r")), offset
            offset += len(line) + 1
    assert shown_log.write_copy(str(tmp_path / "gone"), str(tmp_path)) is None


def test_what_a_killed_search_left_is_removed(tmp_path: Path) -> None:
    """By the next search of another process; files of this one, and other files, stay."""
    descriptor, mine = shown_log.make_file(str(tmp_path / "state"))
    os.close(descriptor)
    left, other = tmp_path / "state" / "search-1-abc", tmp_path / "state" / "state.db"
    left.touch()
    other.touch()
    shown_log.remove_left(str(tmp_path / "state"))
    assert {path.name for path in (tmp_path / "state").iterdir()} == {Path(mine).name, other.name}
    shown_log.remove_left(str(tmp_path / "none"))
