"""What the gate is to do with MCP servers: items that it follows, one after the other.

The supervisor decides, the gate speaks with the servers. One gate follows at a time; when a new one
comes, everything that it has to know is told again by `servers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

Item = dict[str, Any]


class GateWork:
    """The line to the gate."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Item] | None = None
        self.on_gone: Callable[[], None] = lambda: None
        """Called when the gate is not there any more."""

    @property
    def is_present(self) -> bool:
        """Whether a gate follows."""
        return self._queue is not None

    def send(self, item: Item) -> bool:
        """Give it to the gate; returns whether there is one."""
        if self._queue is None:
            return False
        self._queue.put_nowait(item)
        return True

    async def follow(self, on_present: Callable[[], None]) -> AsyncGenerator[Item, None]:
        """Yield the items; `on_present` is called when the first can be given."""
        queue: asyncio.Queue[Item] = asyncio.Queue()
        self._queue = queue
        on_present()
        try:
            while True:
                yield await queue.get()
        finally:
            if self._queue is queue:
                self._queue = None
                self.on_gone()
