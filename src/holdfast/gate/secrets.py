"""What the gate must not show: learnt from the supervisor, kept in this process's memory.

Whoever is granted to read a log is told a number with it; under another number other values
are hidden, and they are asked for before anything is shown.
"""

from __future__ import annotations

import asyncio

from holdfast.client.channel import Channel
from holdfast.secrets import redaction
from holdfast.vocabulary.errors import UsageError


class _Known:
    number = 0
    asking: asyncio.Lock | None = None


async def learn(channel: Channel, number: int) -> None:
    """Know what is hidden under this number; raises what the supervisor refuses."""
    if number == _Known.number:
        return
    if _Known.asking is None:
        _Known.asking = asyncio.Lock()
    async with _Known.asking:
        if number == _Known.number:
            return
        try:
            hello = await channel.ask("hello", {"secrets": True}, None, is_repeatable=True)
        except UsageError:
            return  # an older supervisor, which is being replaced, does not know the question
        hidden = hello.get("hidden") or {}
        redaction.learn(hidden.get("values") or ())
        # They may be others already: then the next number says so.
        _Known.number = hidden.get("number") or number
