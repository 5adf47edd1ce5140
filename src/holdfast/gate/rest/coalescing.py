"""Equal requests share an answer, so that a flood of one request costs one answer at a time.

A request that comes while an equal one is under way waits for the next one, which is asked after
all of the waiting requests came. So no caller gets an answer that is older than its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

Ask = Callable[[], Awaitable[bytes]]


class SingleFlight:
    """One request of each kind is under way; equal ones wait for the next."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[asyncio.Future[bytes]]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def ask(self, key: Hashable, ask: Ask) -> bytes:
        """Return the answer, or raise the error, of `ask` or of an equal request."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = []
            try:
                return await ask()
            finally:
                self._ask_for_waiting(key, ask)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return await future

    def _ask_for_waiting(self, key: Hashable, ask: Ask) -> None:
        waiting = [future for future in self._waiting[key] if not future.done()]
        if not waiting:
            del self._waiting[key]
            return
        self._waiting[key] = []
        task = asyncio.get_running_loop().create_task(self._ask(key, ask, waiting))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, key: Hashable, ask: Ask, waiting: list[asyncio.Future[bytes]]) -> None:
        try:
            answer = await ask()
        except Exception as error:  # noqa: BLE001 - raised by the waiting requests
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for future in waiting:
                if not future.done():
                    future.set_result(answer)
        finally:
            self._ask_for_waiting(key, ask)
