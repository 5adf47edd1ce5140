"""The secret values that the gate must hide, as the supervisor knows them.

A grant to read a log carries the number of the current set of values. When the number changes,
the gate asks for the new values before it shows anything. They stay in this process's memory.
"""

from __future__ import annotations

import asyncio

from holdfast.client.channel import Channel
from holdfast.secrets import redaction
from holdfast.vocabulary.errors import UsageError


class _Known:
    number = 0
    asking: asyncio.Lock | None = None


async def refresh(channel: Channel, number: int) -> None:
    """Make sure that the values of this number are hidden; raises the supervisor's refusal."""
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
            return  # an older supervisor, which is being replaced, does not know this field
        hidden = hello.get("hidden") or {}
        redaction.learn(hidden.get("values") or ())
        # The values may have changed again; then the next number says so.
        _Known.number = hidden.get("number") or number
