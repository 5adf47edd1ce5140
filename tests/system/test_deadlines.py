"""Work with a deadline ends in time, and no cancel is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from holdfast.system import deadlines

NEVER = 1e6
"""Seconds. These tests never wait for it."""
STEPS = 8
"""More turns of the loop than a wait needs from the end of its work to its own."""


async def _turn(count: int) -> None:
    """Let the loop go round so often."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _work(done: asyncio.Future[str]) -> str:
    return await done


def _future(done: asyncio.Future[str]) -> Awaitable[str]:
    return done


@pytest.mark.parametrize("awaited", [_future, _work])
@pytest.mark.parametrize("turns", range(STEPS))
def test_a_cancel_in_the_moment_of_the_end_is_not_forgotten(
    awaited: Callable[[asyncio.Future[str]], Awaitable[str]], turns: int
) -> None:
    """A task that is cancelled just when its awaited work is done ends, in whichever turn it is."""

    async def viewer(done: asyncio.Future[str]) -> None:
        await deadlines.wait_for(awaited(done), NEVER)
        await asyncio.get_running_loop().create_future()

    async def story() -> None:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(viewer(done))
        await _turn(STEPS)
        done.set_result("ended")
        await _turn(turns)
        task.cancel()
        await _turn(STEPS)
        ended = task.done()
        task.cancel()
        await asyncio.wait({task})
        assert ended

    asyncio.run(story())


def test_the_result_is_returned() -> None:
    """Work that is done in time gives its result, also without a deadline."""

    async def story() -> list[str]:
        async def work() -> str:
            await _turn(3)
            return "done"

        return [await deadlines.wait_for(work(), seconds) for seconds in (NEVER, None)]

    assert asyncio.run(story()) == ["done", "done"]


def test_an_error_of_the_work_is_raised() -> None:
    """An error of the work reaches the caller as it is."""

    async def work() -> None:
        await _turn(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(_waited(work(), NEVER))


def test_late_work_is_cancelled_and_has_ended() -> None:
    """Work that takes too long is cancelled, and has cleaned up when TimeoutError is raised."""
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await _turn(3)
            cleaned.append("up")

    with pytest.raises(TimeoutError):
        asyncio.run(_waited(work(), 0.01))
    assert cleaned == ["up"]


def test_late_work_that_ends_nevertheless_is_not_lost() -> None:
    """Work that answers its cancel with a result gives this result."""

    async def work() -> str:
        try:
            await asyncio.get_running_loop().create_future()
            return "too early"
        except asyncio.CancelledError:
            return "just in time"

    assert asyncio.run(_waited(work(), 0.01)) == "just in time"


@pytest.mark.parametrize("cancels", [1, 2, 3])
def test_a_cancelled_caller_leaves_no_work_behind(cancels: int) -> None:
    """However often the caller is cancelled, its work has ended when the caller has."""
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await _turn(3)
            finally:
                ended.append(True)

    async def story() -> None:
        task = asyncio.create_task(_waited(work(), NEVER))
        await _turn(STEPS)
        for _ in range(cancels):
            task.cancel()
            await _turn(1)
        await asyncio.wait({task})
        assert task.cancelled()
        assert ended == [True]

    asyncio.run(story())


def test_a_cancel_while_late_work_ends_is_raised() -> None:
    """A caller that is cancelled while its late work cleans up is cancelled, not late."""

    async def story() -> None:
        cleaning = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                cleaning.set()
                await _turn(STEPS)

        task = asyncio.create_task(_waited(work(), 0.01))
        await cleaning.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(story())


def test_work_that_is_cancelled_by_others_is_cancelled() -> None:
    """Work that somebody else cancelled raises CancelledError, never TimeoutError."""

    async def story() -> None:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_waited(_work(done), NEVER))
        await _turn(STEPS)
        done.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(story())


async def _waited(work: Coroutine[Any, Any, Any], seconds: float) -> Any:
    return await deadlines.wait_for(work, seconds)
