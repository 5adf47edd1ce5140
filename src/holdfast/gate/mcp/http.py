"""Streamable HTTP, both eras, and the transport before it where the configuration wants it.

Who comes here has shown a valid token and passed the guard. A session belongs to the token
that opened it.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from holdfast.gate.guard import LARGEST_BODY, Allowed
from holdfast.gate.mcp.call import SCOPE

IDLE_SECONDS = 30 * 60
MOST_SESSIONS = 1000
SSE = "/mcp/sse"
MESSAGES = "/mcp/messages/"


class HttpTransport:
    """The library's transports behind our guard."""

    def __init__(self, server: Server[Any], allowed: Allowed, *, has_sse: bool) -> None:
        # Ours has looked already; never left to the library's guess from the host's name.
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=not allowed.is_everywhere,
            allowed_hosts=sorted(allowed.hosts),
            allowed_origins=sorted(allowed.origins),
        )
        self._server = server
        self._sessions = StreamableHTTPSessionManager(
            server,
            security_settings=security,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=LARGEST_BODY,
            max_sessions=MOST_SESSIONS,
        )
        self._sse = SseServerTransport(MESSAGES, security) if has_sse else None
        self._running: asyncio.Task[None] | None = None
        self._started = asyncio.Event()

    async def start(self) -> None:
        """Its sessions are children of one task, for as long as this process lives."""
        self._running = asyncio.get_running_loop().create_task(self._run())
        await self._started.wait()

    async def _run(self) -> None:
        async with self._sessions.run():
            self._started.set()
            await asyncio.Event().wait()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = scope[SCOPE].caller.token
        owner = sha256(token.encode()).hexdigest()
        access = AccessToken(token="", client_id=owner, scopes=[])
        scope["user"] = AuthenticatedUser(access)
        if self._sse is not None and scope["path"] == SSE:
            await self._speak(self._sse, scope, receive, send)
        elif self._sse is not None and scope["path"] == MESSAGES:
            await self._sse.handle_post_message(scope, receive, send)
        else:
            await self._sessions.handle_request(scope, receive, send)

    async def _speak(
        self, sse: SseServerTransport, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with sse.connect_sse(scope, receive, send) as (reading, writing):
            options = self._server.create_initialization_options()
            await self._server.run(reading, writing, options)
