"""Asks the person at the client when a command waits for approval, in both protocol eras.

The gate does not act on the answer. The relay, which runs as this machine's user, sees it pass and
approves or rejects with that user's rights. A client without a relay, or one that cannot ask,
learns how the user can approve.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.gate.mcp.call import LONGEST_SECONDS, Confirm, McpClient, ToolCall
from holdfast.system import deadlines

APPROVAL = "io.holdfast/approval"
"""Marks a question; the relay acts on its answer."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Do it", "default": True}},
}
Context = ServerRequestContext[Any, Any]


class InputNeeded(Exception):
    """The client must ask its user and call again (revision 2026-07-28)."""

    def __init__(self, notice: dict[str, Any]) -> None:
        super().__init__(notice["message"])
        self.notice = notice


def confirm_for(ctx: Context, client: McpClient, *, was_asked: bool) -> Confirm | None:
    """Return how to ask the person at the client; None if it cannot be asked or has been."""
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
    """Ask within the call. The relay has acted on the answer before it arrives here."""
    params: dict[str, Any] = _question(notice)
    request = ElicitRequest(params=ElicitRequestFormParams.model_validate(params))
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        asked = ctx.session.send_request(request, ElicitResult, metadata=metadata)
        await deadlines.wait_for(asked, LONGEST_SECONDS)
    except (MCPError, NoBackChannelError, TimeoutError):
        pass  # somebody else may still approve it


def _question(notice: dict[str, Any]) -> dict[str, Any]:
    return {
        "mode": "form",
        "message": str(notice["message"]).partition(": holdfast approve")[0],
        "requestedSchema": SCHEMA,
        "_meta": {APPROVAL: notice["approval"]},
    }


def input_required(call: ToolCall, notice: dict[str, Any]) -> dict[str, Any]:
    """Return the interim result of a modern call; its state holds the key for the next call."""
    return {
        "resultType": "input_required",
        "inputRequests": {
            "approval": {"method": "elicitation/create", "params": _question(notice)}
        },
        "requestState": f"{notice['approval']}|{call.key}",
    }


def was_declined(responses: Any) -> bool:
    """Return whether the person at the client rejected the call that asked."""
    response = (responses or {}).get("approval")
    if response is None:
        return False
    answer = response.model_dump() if hasattr(response, "model_dump") else response
    if not isinstance(answer, dict) or answer.get("action") != "accept":
        return True
    return (answer.get("content") or {}).get("confirm", True) is False
