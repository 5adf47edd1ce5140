"""Who follows something that is under way: items in their order, as many as are bearable.

One who does not keep up misses output, and is told how much; never a step or the result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

MOST_BYTES = 8 * 1024 * 1024


class Follower:
    """The items that one listener has not taken yet."""

    def __init__(self) -> None:
        self._items: deque[tuple[dict[str, Any], int]] = deque()
        self._bytes = 0
        self._lost = 0
        self._bell = asyncio.Event()

    def add(self, item: dict[str, Any]) -> None:
        size = len(item.get("text") or item.get("data") or "") if item["kind"] == "output" else 0
        if size and self._bytes + size > MOST_BYTES:
            self._lost += size
            return
        if self._lost:
            self._items.append(({"kind": "lost", "bytes": self._lost}, 0))
            self._lost = 0
        self._items.append((item, size))
        self._bytes += size
        self._bell.set()

    async def next(self) -> dict[str, Any]:
        while not self._items:
            self._bell.clear()
            await self._bell.wait()
        item, size = self._items.popleft()
        self._bytes -= size
        return item
