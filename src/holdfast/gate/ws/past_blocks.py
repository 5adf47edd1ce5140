"""Blocks for viewers that are behind the end of a log. Viewers at the same place share them, so
that each block is read and redacted once.

Blocks are kept for a moment and in a bounded number of bytes. A reader that has read a block goes
on with the next one, because to begin anywhere costs a look back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.gate.ws.output_blocks import BlockReader, OutputBlock
from holdfast.logbook.cursors import Cursor
from holdfast.secrets.redaction import Redactor, redactor

KEPT_BYTES = 1024 * 1024
KEPT_SECONDS = 2.0
MOST_READERS = 4


class _Key(NamedTuple):
    place: Cursor
    limit: int


class _Reading(NamedTuple):
    """A block that is being read or was read."""

    task: asyncio.Task[OutputBlock | None]
    redactor: Redactor
    begun: float


InThread = Callable[..., Awaitable[OutputBlock | None]]


class PastBlocks:
    """The blocks of one service's log."""

    def __init__(self, in_thread: InThread, new_reader: Callable[[Cursor], BlockReader]) -> None:
        self._in_thread = in_thread
        self._new_reader = new_reader
        self._readings: dict[_Key, _Reading] = {}
        self._readers: dict[Cursor, BlockReader] = {}

    async def read(self, place: Cursor, limit: int) -> OutputBlock | None:
        """Return the block of about `limit` bytes that begins there; None at the present end."""
        self._forget_old()
        key = _Key(place, limit)
        reading = self._readings.get(key)
        # Other values may have to be hidden by now.
        if reading is None or reading.redactor is not redactor():
            task = asyncio.get_running_loop().create_task(self._read(key))
            reading = self._readings[key] = _Reading(task, redactor(), time.monotonic())
        # A viewer that leaves does not end the reading for others.
        return await asyncio.shield(reading.task)

    async def close(self) -> None:
        tasks = [reading.task for reading in self._readings.values()]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._readings.clear()
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    async def _read(self, key: _Key) -> OutputBlock | None:
        reader = self._readers.pop(key.place, None) or self._new_reader(key.place)
        is_kept = False
        try:
            block = await self._in_thread(reader.read, key.limit, is_last=True)
            is_kept = block is not None and not reader.is_at_end
        finally:
            if not is_kept:
                # At the end there will be more. A failure may be over the next time.
                self._readings.pop(key, None)
                reader.close()
        if is_kept:
            self._keep(reader)
        return block

    def _keep(self, reader: BlockReader) -> None:
        if (other := self._readers.pop(reader.place, None)) is not None:
            other.close()
        self._readers[reader.place] = reader
        while len(self._readers) > MOST_READERS:
            self._readers.pop(next(iter(self._readers))).close()

    def _forget_old(self) -> None:
        """Drop the oldest blocks, of a log that may have been deleted since, and of too many."""
        oldest = time.monotonic() - KEPT_SECONDS
        size = sum(key.limit for key in self._readings)
        for key, reading in list(self._readings.items()):
            if reading.task.done() and (reading.begun < oldest or size > KEPT_BYTES):
                del self._readings[key]
                size -= key.limit
