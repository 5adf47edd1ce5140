"""A client of the protocol, and one call of a tool: how both ask their commands.

Each command goes to the line door as itself, so that the supervisor authorises and audits it. The
relay repeats a call when the gate or the supervisor died during it; then it has the same key.
Light: imports nothing of the protocol's library.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from holdfast.client.channel import Caller, Channel
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.specs.mcp import McpSpec

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

LONGEST_SECONDS = 50.0
"""Clients give up at 60."""
PROGRESS_SECONDS = 2.0
SCOPE = "holdfast.client"
"""The key of the client in the scope of an HTTP request."""
COMPLETE: dict[str, Any] = {"resultType": "complete"}
"""Every result begins with it; the library leaves it out for older revisions."""

_log = logging.getLogger(__name__)
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Confirm = Callable[[dict[str, Any]], Awaitable[None]]
T = TypeVar("T")


class Identity(NamedTuple):
    """The session of a client and the name of its program, where it has a session."""

    session: str | None
    name: str


class McpClient:
    """A connected client: its token, and the tools that it is offered."""

    def __init__(
        self,
        channel: Channel,
        caller: Caller,
        offer: McpSpec,
        *,
        is_relayed: bool = False,
        server: str | None = None,
    ) -> None:
        self.channel = channel
        self.caller = caller
        self.offer = offer
        self.is_relayed = is_relayed
        """Whether it speaks through a relay of this machine's user, who may approve commands."""
        self.server = server
        """The other server that it speaks with, as if there were nothing else."""
        self._identity: Identity | None = None

    async def identity(self) -> Identity:
        """Return the name of its actor; asked once."""
        if self._identity is None:
            said = await self.ask("hello")
            name = str(said.get("actor") or "").rpartition(" (")[0]
            self._identity = Identity(said.get("session"), name)
        return self._identity

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """Ask a command outside of any call."""
        return await self.channel.ask(
            command,
            fields,
            self.caller,
            is_repeatable=COMMANDS[command].effect is Effect.READS,
        )


def client_of(ctx: ServerRequestContext[Any, Any]) -> McpClient:
    """Return the client of a request; every transport attaches it."""
    request: Any = ctx.request
    if isinstance(request, McpClient):
        return request
    client: McpClient = request.scope[SCOPE]
    return client


def _seconds_since(began: Any) -> float:
    """Return the seconds since a call was first made, by the clock that all processes of the
    machine share; 0 for a first call and for impossible values."""
    if not isinstance(began, float):
        return 0.0
    passed = time.monotonic() - began
    return passed if 1.0 < passed < LONGEST_SECONDS else 0.0


async def _withdraw(client: McpClient, approval: str) -> None:
    try:
        await client.ask("withdraw", approval=approval)
    except HoldfastError as error:
        _log.info("%s was not withdrawn: %s", approval, error.message)


_withdrawals: set[asyncio.Task[None]] = set()


class ToolCall:
    """One call of a tool."""

    def __init__(
        self,
        client: McpClient,
        tool: str,
        key: str | None,
        progress: Progress | None = None,
        confirm: Confirm | None = None,
        began: Any = None,
    ) -> None:
        """`confirm` is awaited when a command waits for approval. `began` is the time of the first
        attempt, if this is a repeated call."""
        self.client = client
        self.key = key or uuid.uuid4().hex
        self.notice: dict[str, Any] | None = None
        """The approval that the call waits for, if any."""
        self._progress = progress
        self._confirm = confirm
        self._caller = client.caller._replace(call=tool)
        self._changes = 0
        self._passed = _seconds_since(began)

    def withdraw(self) -> None:
        """Take back the request for approval that this call waits for, because its client cancelled
        it or left."""
        if self.notice is not None:
            withdrawing = asyncio.get_running_loop().create_task(
                _withdraw(self.client, self.notice["approval"])
            )
            _withdrawals.add(withdrawing)
            withdrawing.add_done_callback(_withdrawals.discard)

    def remaining(self, seconds: float) -> float:
        """Return how much of this time is left, so that a repeated call waits no longer."""
        return max(0.0, seconds - self._passed)

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to one command; raises its error.

        A command that changes something has a key. Asked again with the same key, the supervisor
        answers what it did the first time.
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

    async def with_progress(self, work: Awaitable[T], seconds: float, what: str) -> T:
        """Await the work and report progress now and then."""
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
