"""Equal questions that wait are asked once: a flood of one question costs one answer at a time.

Who comes while one is under way waits for the next one, which is asked after all of them came.
So nobody is told what was true before he asked, and every token's question is its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

Ask = Callable[[], Awaitable[bytes]]


class Sharing:
    """What is under way, and who waits for what comes next."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[asyncio.Future[bytes]]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def answer(self, question: Hashable, ask: Ask) -> bytes:
        """The answer, to this one or to all who ask the same now; raises what it raises."""
        waiting = self._waiting.get(question)
        if waiting is None:
            self._waiting[question] = []
            try:
                return await ask()
            finally:
                self._go_on(question, ask)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return await future

    def _go_on(self, question: Hashable, ask: Ask) -> None:
        waiting = [it for it in self._waiting[question] if not it.done()]
        if not waiting:
            del self._waiting[question]
            return
        self._waiting[question] = []
        task = asyncio.get_running_loop().create_task(self._ask(question, ask, waiting))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(
        self, question: Hashable, ask: Ask, waiting: list[asyncio.Future[bytes]]
    ) -> None:
        try:
            answer = await ask()
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for future in waiting:
                if not future.done():
                    future.set_result(answer)
        finally:
            self._go_on(question, ask)
