"""Threads for calls that block, such as reading files, so that the loop never waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class ReaderThreads:
    """A few threads, shared by all handlers: `await in_thread(function, argument)`."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(4, "reader")

    async def __call__(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def close(self) -> None:
        """End the threads; calls that did not begin are cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)
