"""Events, followed for a caller: each once and in order, over every end of the supervisor.

Owns the place in the sequence. A subscription sends them to one connection, at its pace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.ws.flow_control import Window
from holdfast.gate.ws.frames import frame

RETRY_SECONDS = 0.1
_MOST_WAITING = 256
Event = dict[str, Any]


async def follow(
    new_channel: Callable[[], Channel], caller: Caller | None, since: int, services: list[str]
) -> AsyncGenerator[Event, None]:
    """Events with larger numbers, for ever; raises what the supervisor refuses."""
    place = since
    while True:
        channel = new_channel()
        fields = {"since": place, "follow": True, "services": services}
        try:
            async with aclosing(channel.stream("events", fields, caller)) as events:
                async for event in events:
                    if event["seq"] > place:
                        place = event["seq"]
                        yield event
        except Unreachable:
            pass
        finally:
            await channel.close()
        await asyncio.sleep(RETRY_SECONDS)


class Subscription:
    """The events that one connection wants."""

    def __init__(
        self,
        number: int,
        events: AsyncGenerator[Event, None],
        window: Window,
        send: Callable[[str], Awaitable[None]],
    ) -> None:
        self.number = number
        self.window = window
        self._events = events
        self._send = send
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(_MOST_WAITING)

    async def run(self) -> None:
        """Until it is cancelled, or the supervisor refuses."""
        collecting = asyncio.get_running_loop().create_task(self._collect())
        telling = asyncio.get_running_loop().create_task(self._tell())
        try:
            await asyncio.wait([collecting, telling], return_when=asyncio.FIRST_COMPLETED)
            for task in (collecting, telling):
                if task.done():
                    task.result()
        finally:
            for task in (collecting, telling):
                task.cancel()
            await asyncio.gather(collecting, telling, return_exceptions=True)

    async def _collect(self) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                await self._waiting.put(event)

    async def _tell(self) -> None:
        while True:
            event = await self._waiting.get()
            await self.window.collect()
            while True:
                await self.window.room()
                text = frame("event", event, seq=event["seq"], subscription=self.number)
                await self._send(text)
                self.window.sent(len(text))
                if self._waiting.empty():
                    break
                event = self._waiting.get_nowait()
