"""One call of a tool: on whose behalf, and how its commands are asked.

Each command goes to the line door as itself, so that the supervisor authorises and audits it.
A call that is repeated, because the gate or the supervisor died under it, has the same key.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client.channel import Caller, Channel
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.commands.command import Effect
from holdfast.vocabulary.mcp_spec import McpSpec

LONGEST_SECONDS = 50.0
"""Clients give up at 60."""
PROGRESS_SECONDS = 2.0
SCOPE = "holdfast.client"
"""Where a request over HTTP carries its client."""

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


class Client:
    """Somebody who is connected: whose token it shows, and what it is offered."""

    def __init__(self, channel: Channel, caller: Caller, offer: McpSpec) -> None:
        self.channel = channel
        self.caller = caller
        self.offer = offer

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """One command beside any call."""
        return await self.channel.ask(
            command,
            fields,
            self.caller,
            is_repeatable=COMMANDS[command].effect is Effect.READS,
        )


class Call:
    """What a tool works with."""

    def __init__(
        self, client: Client, tool: str, key: str | None, progress: Progress | None = None
    ) -> None:
        self.client = client
        self._key = key or uuid.uuid4().hex
        self._progress = progress
        self._caller = client.caller._replace(call=tool)
        self._changes = 0

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """The answer to one command; raises the error that came instead.

        What changes something gets a key: asked again after a death of ours, it is answered
        what was done the first time.
        """
        key = None
        if COMMANDS[command].effect is not Effect.READS:
            self._changes += 1
            key = f"{self._key}/{self._changes}"
        return await self.client.channel.ask(
            command, fields, self._caller, is_repeatable=True, key=key
        )

    async def meanwhile(self, work: Awaitable[Any], seconds: float, what: str) -> Any:
        """Await something and tell now and then how long it has been."""
        task = asyncio.ensure_future(work)
        passed = 0.0
        try:
            while True:
                done, _ = await asyncio.wait([task], timeout=PROGRESS_SECONDS)
                if done:
                    return task.result()
                passed += PROGRESS_SECONDS
                if self._progress is not None:
                    await self._progress(min(passed, seconds), seconds, what)
        finally:
            task.cancel()
