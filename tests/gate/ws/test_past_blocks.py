"""Viewers that are behind the end of a log share what is read for them, secrets masked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.gate.ws.output_blocks import BlockReader, OutputBlock, StreamSpan
from holdfast.gate.ws.past_blocks import PastBlocks
from holdfast.logbook.cursors import BEGINNING, Cursor, at
from holdfast.secrets import redaction
from tests.logbook.stage import SERVICE, Stage
from tests.secrets.private_keys import KEYS, told

LIMIT = 10_000


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(str(tmp_path), max_size=100_000)
    yield stage
    stage.close()


class Log:
    """The past of a log, and how often it was read."""

    def __init__(self, stage: Stage) -> None:
        self.directory = stage.directory
        self.reads = self.readers = 0
        self.past = PastBlocks(self.in_thread, self.reader_at)

    def reader_at(self, place: Cursor) -> BlockReader:
        self.readers += 1
        return BlockReader(self.directory, SERVICE, place)

    async def in_thread(self, call: Any, *arguments: Any, **named: Any) -> OutputBlock | None:
        self.reads += 1
        return await asyncio.to_thread(call, *arguments, **named)

    async def read_all(self, place: Cursor = BEGINNING) -> bytes:
        found = b""
        while (block := await self.past.read(place, LIMIT)) is not None:
            place = block.end
            found += b"".join(item.data for item in block.items if isinstance(item, StreamSpan))
        return found


def test_each_block_is_read_once(stage: Stage) -> None:
    """However many viewers there are. Each gets every byte, in order."""
    text = b"".join(b"line %d of what a service prints\n" % number for number in range(10_000))
    stage.say(text)
    stage.recorder.flush()

    async def story() -> None:
        log = Log(stage)
        found = await asyncio.gather(*(log.read_all() for _ in range(20)))
        assert set(found) == {text}
        blocks = -(-len(text) // LIMIT)
        # At the end each viewer looks for itself.
        assert log.reads <= blocks + 2 * 20
        assert log.readers <= 2 + 2 * 20
        await log.past.close()

    asyncio.run(story())


def test_keys_and_values_are_masked_over_blocks(stage: Stage) -> None:
    """Also for viewers that join in the middle, and values that are to be hidden from now on."""
    plain = b"".join(b"plain %d token=abcdefgh%d\n" % (number, number) for number in range(60))
    for key in KEYS.values():
        stage.say(plain + "\n".join([*key, ""]).encode() + plain)
    stage.recorder.flush()

    async def story() -> None:
        log = Log(stage)
        end = stage.reader.end().start
        places = [at(place) for place in range(0, end, end // 7)]
        for text in await asyncio.gather(*(log.read_all(place) for place in places)):
            assert not told(text)
            assert b"=abcdefgh" not in text
        assert b"plain 59 " in await log.read_all()
        redaction.set_values(["plain 59 "])
        assert b"plain 59 " not in await log.read_all()
        await log.past.close()

    try:
        asyncio.run(story())
    finally:
        redaction.set_values([])


def test_the_end_is_looked_for_again(stage: Stage) -> None:
    """What was printed since is there when a viewer asks again at the same place."""
    stage.say(b"one\n")
    stage.recorder.flush()

    async def story() -> None:
        log = Log(stage)
        assert await log.read_all() == b"one\n"
        stage.say(b"two\n")
        stage.recorder.flush()
        assert await log.read_all() == b"one\ntwo\n"
        await log.past.close()

    asyncio.run(story())
