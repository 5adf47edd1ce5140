"""A reader's way through the log of one service: block after block, shared where possible.

Owns the place that its reader has reached. A follower that keeps up takes the blocks that all
followers of the service share; one that is behind reads the log for itself until it has caught up.
"""

from __future__ import annotations

from holdfast.gate.ws.output_blocks import Item, OutputBlock, items_after
from holdfast.gate.ws.output_feeds import BLOCK_BYTES, BlockGone, OutputFeed
from holdfast.logbook.cursors import BEGINNING, Cursor, later

SKIP_BYTES = 1024 * 1024
"""How far a reader may fall behind that prefers the newest output to all of it."""


class Follower:
    """A place in a service's log that moves on with its feed."""

    def __init__(self, feed: OutputFeed, place: Cursor, past_bytes: int = BLOCK_BYTES) -> None:
        """While it is behind, it reads `past_bytes` at a time."""
        self.feed = feed
        self._past_bytes = past_bytes
        self.place = place
        self.is_live = False
        """Whether it has reached the end of the log once."""
        self._next_block: int | None = None
        self._known: Cursor | None = None
        """How far the reader has what the next blocks contain, if it joined inside a block."""

    @property
    def bytes_behind(self) -> int:
        return self.feed.known_end - self.place.start

    async def blocks(self, *, gather: bool = False) -> list[OutputBlock]:
        """Wait for what comes next. With `gather`, all that is there already, up to one block's
        size."""
        while True:
            if self._next_block is None:
                self._next_block = self.feed.join(self.place)
                self._known = self.place
            if self._next_block is None:
                block = await self.feed.read(self.place, self._past_bytes)
                if block is not None:
                    return [block]
                continue
            self.is_live = True
            try:
                blocks = [await self.feed.block(self._next_block)]
            except BlockGone:
                self._next_block = None
                continue
            self._next_block += 1
            size = blocks[0].size
            while gather and self.feed.has(self._next_block):
                size += self.feed.kept_block(self._next_block).size
                if size > BLOCK_BYTES:
                    break
                blocks.append(self.feed.kept_block(self._next_block))
                self._next_block += 1
            return blocks

    def pass_blocks(self, blocks: list[OutputBlock]) -> Cursor | None:
        """Move behind these blocks. Returns how far the reader has their content already; None if
        they are all new to it."""
        first, last, known = blocks[0], blocks[-1], self._known
        if known is not None and (first.is_anew or first.start.start >= max(known)):
            self._known = known = None
        # A reader that had more than these blocks contain does not lose its place.
        self.place = later(known, last.end) if known is not None else last.end
        return known

    def take(self, blocks: list[OutputBlock]) -> list[Item]:
        """Move behind these blocks and return what of them is new."""
        known = self.pass_blocks(blocks)
        return items_after([item for block in blocks for item in block.items], known or BEGINNING)

    async def skip(self) -> tuple[Cursor, Cursor] | None:
        """Go on near the end if it is too far away. Returns the places between which output was
        left out; None if it went on where it was."""
        if not self.is_live or self.bytes_behind <= SKIP_BYTES:
            return None
        before, live = self.place, await self.feed.live_place()
        if live.start <= before.start:
            return None
        self.place, self._next_block = live, None
        return before, live
