"""The values that the gate must redact: asked of the supervisor, kept in this process's memory.

The supervisor sends a number with every permission to read a log. Another number means other
values, which are asked for before anything is shown.
"""

from __future__ import annotations

import asyncio

from holdfast.client.channel import Channel
from holdfast.secrets import redaction
from holdfast.vocabulary.errors import UsageError


class _SharedRedactor:
    number = 0
    lock: asyncio.Lock | None = None


async def refresh(channel: Channel, number: int) -> None:
    """Redact the values with this number from now on; raises what the supervisor refuses."""
    if number == _SharedRedactor.number:
        return
    if _SharedRedactor.lock is None:
        _SharedRedactor.lock = asyncio.Lock()
    async with _SharedRedactor.lock:
        if number == _SharedRedactor.number:
            return
        try:
            hello = await channel.ask("hello", {"secrets": True}, None, is_repeatable=True)
        except UsageError:
            return  # an older supervisor, which is being replaced, does not know the question
        hidden = hello.get("hidden") or {}
        redaction.set_values(hidden.get("values") or ())
        # The values may have changed again; then the next number is another one.
        _SharedRedactor.number = hidden.get("number") or number
