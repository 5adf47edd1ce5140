"""Events for a caller: each once and in order, across every restart of the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable

RETRY_SECONDS = 0.1
Event = dict[str, Any]


async def follow_events(
    new_channel: Callable[[], Channel], caller: Caller | None, since: int, services: list[str]
) -> AsyncGenerator[Event, None]:
    """Yield events with larger numbers, for ever; raises the supervisor's refusal."""
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
