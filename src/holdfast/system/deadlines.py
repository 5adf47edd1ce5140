"""Waiting with a deadline, for which `asyncio.wait_for` cannot be used.

Before Python 3.12, `asyncio.wait_for` forgets a cancel that comes in the moment in which the
awaited work is done: the task goes on as if nobody had cancelled it. Standard library only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Result = TypeVar("Result")


async def wait_for(awaitable: Awaitable[Result], timeout_seconds: float | None) -> Result:
    """Return what the awaitable returns; raises TimeoutError if it takes longer.

    When the time is over, or when the caller is cancelled, the work is cancelled and has ended
    before this returns. A cancel of the caller is always raised, even if the work is done.
    """
    work = asyncio.ensure_future(awaitable)
    is_late = False
    try:
        await asyncio.wait({work}, timeout=timeout_seconds)
        if not work.done():
            is_late = True
            work.cancel()
            await asyncio.wait({work})
    except asyncio.CancelledError:
        while not work.done():
            work.cancel()
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                continue  # a second cancel is passed on, as the first was
        raise
    if is_late and work.cancelled():
        raise TimeoutError(f"not done within {timeout_seconds} s")
    return work.result()
