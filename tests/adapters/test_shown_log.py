"""Copies of logs as they are shown, for ripgrep."""

from __future__ import annotations

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
