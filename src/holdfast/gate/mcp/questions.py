"""What another MCP server says within a call: questions to the client, and progress.

A question goes to the client that made the call, in the protocol's own words, and nobody else sees
it. Decides nothing about who is meant: `mcp_servers.upstream` knows that.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from holdfast.gate.mcp_servers.upstream import Asker, Progress, ServerError

QUESTION = "question"
HELD_SECONDS = 300.0
_CANNOT = -32600
Context = ServerRequestContext[Any, Any]
_KINDS: dict[str, tuple[Any, Any, str]] = {
    "elicitation/create": (ElicitRequest, ElicitResult, "elicitation"),
    "sampling/createMessage": (CreateMessageRequest, CreateMessageResult, "sampling"),
}


class HeldCall:
    """A call that goes on while its client is asked outside of it."""

    def __init__(self, token: str) -> None:
        self.identity = os.urandom(12).hex()
        self.token = token
        self.work: asyncio.Future[Any] | None = None
        self.question: dict[str, Any] | None = None
        self.is_asked = asyncio.Event()
        self._reply: asyncio.Future[dict[str, Any]] | None = None

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Wait until the client has called again with what the user said."""
        self._reply = asyncio.get_running_loop().create_future()
        self.question = {"method": method, "params": params}
        self.is_asked.set()
        return await self._reply

    def answer(self, told: dict[str, Any]) -> None:
        self.is_asked.clear()
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(told)

    def interim(self) -> dict[str, Any]:
        """Return the result that asks the client, which ends its request."""
        return {
            "resultType": "input_required",
            "inputRequests": {QUESTION: self.question},
            "requestState": f"{QUESTION}|{self.identity}",
        }


class HeldCalls:
    """The calls of clients of revision 2026-07-28 that wait for what a user says."""

    def __init__(self) -> None:
        self._held: dict[str, HeldCall] = {}

    def begin(self, ctx: Context, token: str) -> HeldCall | None:
        """Return what a new call is held by; None if its client is asked within the call."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return None
        return HeldCall(token)

    def resume(self, state: str | None, responses: Any, token: str) -> HeldCall | None:
        """Return the call that a client goes on with, and give it what the user said."""
        held = self._held.get((state or "").partition("|")[2])
        if held is None or held.token != token:
            return None
        told: Any = (responses or {}).get(QUESTION)
        if hasattr(told, "model_dump"):
            told = told.model_dump(mode="json", by_alias=True, exclude_none=True)
        told = dict(told) if isinstance(told, dict) else {"action": "cancel"}
        told.pop("resultType", None)
        held.answer(told)
        return held

    async def go_on(self, held: HeldCall) -> dict[str, Any] | None:
        """Wait until the call is over, or asks; returns what asks the client."""
        assert held.work is not None
        asked = asyncio.ensure_future(held.is_asked.wait())
        try:
            await asyncio.wait([held.work, asked], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._end(held)
            raise
        finally:
            asked.cancel()
        if held.work.done():
            self._held.pop(held.identity, None)
            return None
        if held.identity not in self._held:
            self._held[held.identity] = held
            asyncio.get_running_loop().call_later(HELD_SECONDS, self._end, held)
        return held.interim()

    def _end(self, held: HeldCall) -> None:
        self._held.pop(held.identity, None)
        if held.work is not None:
            held.work.cancel()


def is_question(state: str | None) -> bool:
    """Return whether a client goes on with a call that asked it."""
    return (state or "").startswith(f"{QUESTION}|")


def asker_for(ctx: Context, held: HeldCall | None = None) -> Asker:
    """Return how to ask the client of a call."""

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        kind, answer, capability = _KINDS[method]
        declared = ctx.session.client_capabilities
        if declared is None or getattr(declared, capability) is None:
            raise _refused(f"the client has no {capability}")
        if held is not None:
            return await held.ask(method, params)
        try:
            request = kind.model_validate({"method": method, "params": params})
            metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
            result = await ctx.session.send_request(request, answer, metadata=metadata)
        except ValidationError:
            raise _refused("the question is not as the protocol has it") from None
        except NoBackChannelError:
            raise _refused("the client cannot be asked within a call") from None
        except MCPError as error:
            raise ServerError(error.error.model_dump(exclude_none=True)) from None
        told: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        told.pop("resultType", None)
        return told

    return ask


def progress_for(ctx: Context) -> Progress:
    """Return how to pass a server's progress on to the client of a call."""

    async def report(params: dict[str, Any]) -> None:
        progress, total = params.get("progress"), params.get("total")
        message = params.get("message")
        if isinstance(progress, (int, float)):
            await ctx.session.report_progress(
                float(progress),
                float(total) if isinstance(total, (int, float)) else None,
                message if isinstance(message, str) else None,
            )

    return report


def _refused(why: str) -> ServerError:
    return ServerError({"code": _CANNOT, "message": why})
