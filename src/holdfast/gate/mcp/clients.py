"""What all handlers of the protocol need: who asks, and how a result begins."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext

from holdfast.gate.mcp.call import SCOPE, Client

COMPLETE: dict[str, Any] = {"resultType": "complete"}
"""What every result begins with; revisions that do not know it are not told it."""


def client_of(ctx: ServerRequestContext[Any, Any]) -> Client:
    """Who asks; every transport attaches it to what it reads."""
    request: Any = ctx.request
    if isinstance(request, Client):
        return request
    client: Client = request.scope[SCOPE]
    return client
