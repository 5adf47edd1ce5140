"""One call of a tool: on whose behalf, and how its commands are asked.

Each command goes to the line door as itself, so that the supervisor authorises and audits it.
A call that is repeated, because the gate or the supervisor died under it, has the same key.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client.channel import Caller, Channel
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.specs.mcp import McpSpec

LONGEST_SECONDS = 50.0
"""Clients give up at 60."""
PROGRESS_SECONDS = 2.0
SCOPE = "holdfast.client"
"""Where a request over HTTP carries its client."""

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Confirm = Callable[[dict[str, Any]], Awaitable[None]]


class Client:
    """Somebody who is connected: whose token it shows, and what it is offered."""

    def __init__(
        self, channel: Channel, caller: Caller, offer: McpSpec, *, is_relayed: bool = False
    ) -> None:
        self.channel = channel
        self.caller = caller
        self.offer = offer
        self.is_relayed = is_relayed
        """Whether a relay of this machine's user is between, who may approve what waits."""

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """One command beside any call."""
        return await self.channel.ask(
            command,
            fields,
            self.caller,
            is_repeatable=COMMANDS[command].effect is Effect.READS,
        )


def _passed_since(began: Any) -> float:
    """Seconds since a call was first made, by the clock that all processes of the machine share; 0
    for a first call, and for what cannot be true."""
    if not isinstance(began, float):
        return 0.0
    passed = time.monotonic() - began
    return passed if 1.0 < passed < LONGEST_SECONDS else 0.0


class Call:
    """What a tool works with."""

    def __init__(
        self,
        client: Client,
        tool: str,
        key: str | None,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
        began: Any = None,
    ) -> None:
        """`confirm` is awaited when a command waits for approval; it may raise instead. `began`:
        when it was asked first, if this is not the first time."""
        self.client = client
        self.key = key or uuid.uuid4().hex
        self.notice: dict[str, Any] | None = None
        """What the call waits for, if somebody has to approve it."""
        self._progress = progress
        self._confirm = confirm
        self._caller = client.caller._replace(call=tool)
        self._changes = 0
        self._passed = _passed_since(began)

    def remaining(self, seconds: float) -> float:
        """How much of this time is left: a call that is repeated waits no longer for that."""
        return max(0.0, seconds - self._passed)

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """The answer to one command; raises the error that came instead.

        What changes something gets a key: asked again after a death of ours, it is answered
        what was done the first time.
        """
        if COMMANDS[command].effect is not Effect.READS:
            return await self._change(command, fields)
        return await self.client.channel.ask(command, fields, self._caller, is_repeatable=True)

    async def _change(self, command: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._changes += 1
        loop = asyncio.get_running_loop()
        noticed: asyncio.Future[dict[str, Any]] = loop.create_future()

        def on_notice(notice: dict[str, Any]) -> None:
            if not noticed.done():
                noticed.set_result(notice)

        asking = loop.create_task(
            self.client.channel.ask(
                command,
                fields,
                self._caller,
                is_repeatable=True,
                key=f"{self.key}/{self._changes}",
                on_notice=on_notice,
            )
        )
        try:
            await asyncio.wait([asking, noticed], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                self.notice = noticed.result()
                if self._confirm is not None:
                    await self._confirm(self.notice)
            result = await asking
            self.notice = None
            return result
        finally:
            asking.cancel()
            noticed.cancel()

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
