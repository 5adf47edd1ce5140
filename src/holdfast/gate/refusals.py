"""Tells the supervisor what the gate turned away by itself, for the record.

The gate has no say about the record; it may only add to it, and only so much: who floods the
gate must not make it flood the supervisor. What a stranger wrote may hold a secret: it is hidden
here and, with the values that only the supervisor knows, there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from starlette.types import Scope

from holdfast.client.channel import Channel
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.errors import HoldfastError

MOST_IN_A_MINUTE = 30
LONGEST = 8 * 1024
"""The record keeps less; but what is cut first cannot be recognised as a secret."""


class Refusals:
    """Bounded: what is too much in a minute is not told."""

    def __init__(self, channel: Channel, clock: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._clock = clock
        self._since, self._count = -60.0, 0
        self._telling: set[asyncio.Task[None]] = set()

    def tell(self, scope: Scope, reason: str, by: str = "") -> None:
        now = self._clock()
        if now - self._since >= 60.0:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > MOST_IN_A_MINUTE:
            return
        is_http = scope["type"] == "http"
        # Without the query: it may hold anything.
        asked = f"{scope['method'] if is_http else 'WebSocket'} {scope['path']}"
        written = {"asked": asked, "reason": reason, "by": by}
        fields = {name: redact(text[:LONGEST]) for name, text in written.items()}
        fields["door"] = "rest" if is_http else "websocket"
        task = asyncio.get_running_loop().create_task(self._tell(fields))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, fields: dict[str, str]) -> None:
        try:
            await self._channel.ask("report_refusal", fields, None, is_repeatable=False)
        except HoldfastError:
            pass  # nobody is there, or this gate is not kept by a supervisor
