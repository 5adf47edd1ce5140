"""Asks the person at the client when a command waits for approval, in both eras.

The answer is not ours to act on: the relay, which runs as this machine's user, sees it pass and
approves or rejects with that user's rights. A client without a relay, or one that cannot ask,
is told whom to ask.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.gate.mcp.call import LONGEST_SECONDS, Call, Client

APPROVAL = "io.holdfast/approval"
"""Marks a question whose answer the relay acts on."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Do it", "default": True}},
}
Context = ServerRequestContext[Any, Any]


class InputNeeded(Exception):
    """The client has to ask its user and call again (2026-07-28)."""

    def __init__(self, notice: dict[str, Any]) -> None:
        super().__init__(notice["message"])
        self.notice = notice


def confirm_for(ctx: Context, client: Client, *, was_asked: bool) -> Any:
    """What to do when a command waits; None: nobody can be asked, or has been."""
    if was_asked:
        return None
    declared = ctx.session.client_capabilities
    if not client.is_relayed or declared is None or declared.elicitation is None:
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _raise
    return lambda notice: _elicit(ctx, notice)


async def _raise(notice: dict[str, Any]) -> None:
    raise InputNeeded(notice)


async def _elicit(ctx: Context, notice: dict[str, Any]) -> None:
    """Ask within the call; what was said is acted on before it arrives here."""
    params: dict[str, Any] = _question(notice)
    request = ElicitRequest(params=ElicitRequestFormParams.model_validate(params))
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        asked = ctx.session.send_request(request, ElicitResult, metadata=metadata)
        await asyncio.wait_for(asked, LONGEST_SECONDS)
    except (MCPError, NoBackChannelError, asyncio.TimeoutError):
        pass  # somebody else may still approve it


def _question(notice: dict[str, Any]) -> dict[str, Any]:
    return {
        "mode": "form",
        "message": str(notice["message"]).partition(": holdfast approve")[0],
        "requestedSchema": SCHEMA,
        "_meta": {APPROVAL: notice["approval"]},
    }


def input_required(call: Call, notice: dict[str, Any]) -> dict[str, Any]:
    """The interim result of a modern call; the state says with which key to call again."""
    return {
        "resultType": "input_required",
        "inputRequests": {
            "approval": {"method": "elicitation/create", "params": _question(notice)}
        },
        "requestState": f"{notice['approval']}|{call.key}",
    }


def was_declined(responses: Any) -> bool:
    """Whether the person at the client said no to a call that was interrupted to ask."""
    said = (responses or {}).get("approval")
    if said is None:
        return False
    answer = said.model_dump() if hasattr(said, "model_dump") else said
    if not isinstance(answer, dict) or answer.get("action") != "accept":
        return True
    return (answer.get("content") or {}).get("confirm", True) is False
