"""Blocks of lines, and chunks that are joined, say the same as single lines of single chunks."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from holdfast.logbook import index, segments
from holdfast.logbook.cursors import BEGINNING, Cursor, at
from holdfast.logbook.entries import Chunk, Entry, Line, LineBlock, Note, Stream
from holdfast.logbook.lines import blocks, lines
from holdfast.logbook.reader import Reader
from tests.logbook.random_logs import record
from tests.logbook.stage import SERVICE, Stage

Said = tuple[object, ...]


def said(entries: list[Entry]) -> list[Said]:
    """Every line and every note by itself."""
    found: list[Said] = []
    for entry in entries:
        match entry:
            case LineBlock():
                found += [(entry.stream, entry.run, data, False) for data in entry.lines()]
            case Line():
                found.append((entry.stream, entry.run, entry.data, entry.is_partial))
            case Note():
                found.append((entry.kind, entry.run, entry.lost, entry.position))
    return found


def places(reader: Reader, chance: random.Random) -> list[Cursor]:
    end = reader.end().start
    return [BEGINNING, *(at(chance.randrange(end + 1)) for _ in range(4))]


@pytest.mark.parametrize("seed", range(40))
def test_the_same_lines(tmp_path: Path, seed: int) -> None:
    """From any place, of one stream or both, up to any place, with damaged records, too."""
    chance = random.Random(seed)
    record(tmp_path, chance)
    if seed % 4 == 0:
        damage(tmp_path, chance)
    reader = Reader(str(tmp_path), SERVICE)
    only: list[Stream | None] = [None, "out", "err"]
    for cursor in places(reader, chance):
        stream = chance.choice(only)
        until = chance.choice([None, chance.randrange(reader.end().start + 1)])
        run = chance.choice([None, None, 1, 2])
        expected = said(list(lines(reader, cursor, stream, until, run)))
        for is_joined in (False, True):
            found = list(blocks(reader, cursor, stream, until, run, is_joined=is_joined))
            assert said(found) == expected, (cursor, stream, until, run, is_joined)


def damage(directory: Path, chance: random.Random) -> None:
    """Overwrite some bytes of an index, behind its header."""
    number = chance.choice(segments.numbers(str(directory), SERVICE))
    path = directory / f"{SERVICE}.{number:06d}.idx"
    packed = bytearray(path.read_bytes())
    if len(packed) > 4 * index.RECORD_SIZE:
        place = chance.randrange(index.RECORD_SIZE, len(packed) - 8)
        packed[place : place + 8] = os.urandom(8)
        path.write_bytes(packed)


def test_many_small_chunks_are_joined(stage: Stage) -> None:
    """A service that prints line by line is read as quickly as one that prints much at once."""
    for number in range(3000):
        stage.say(b"line %d\n" % number)
        stage.recorder._finish_chunk()
    stage.recorder.flush()
    with stage.reader.chunks(is_joined=True) as walk:
        joined = [item for item in walk if isinstance(item, Chunk)]
    assert sum(len(chunk.data) for chunk in joined) == stage.reader.end().start
    assert len(joined) <= 2
    found = list(blocks(stage.reader, is_joined=True))
    assert sum(isinstance(entry, LineBlock) for entry in found) <= 2


def test_a_block_knows_its_place(stage: Stage) -> None:
    """What follows it begins there, also where line ends were written with a carriage return."""
    stage.say(b"some line of text\r\n" * 200)
    stage.say(b"rest")
    stage.recorder.flush()
    block, rest = blocks(stage.reader)
    assert isinstance(block, LineBlock)
    assert isinstance(rest, Line)
    assert (block.position, block.end) == (0, 19 * 200)
    assert block.data == b"some line of text\n" * 200
    assert rest.data == b"rest"


@pytest.mark.parametrize("size", [60_000, 1 << 20])
def test_very_long_lines_are_cut_at_the_same_places(stage: Stage, size: int) -> None:
    """However they were printed."""
    text = "ü".encode() * (5 << 18) + b"\nafter\n"
    for place in range(0, len(text), size):
        stage.say(text[place : place + size])
        stage.recorder._finish_chunk()
    stage.recorder.flush()
    expected = said(list(stage.entries()))
    assert said(list(blocks(stage.reader, is_joined=True))) == expected
    assert [len(entry[2]) for entry in expected if isinstance(entry[2], bytes)] == [
        1 << 20,
        1 << 20,
        1 << 19,
        5,
    ]
