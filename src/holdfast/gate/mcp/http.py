"""Streamable HTTP in both protocol eras, and the older SSE transport where it is configured.

A request that comes here has passed the guard and shown a valid token. A session belongs to the
token that opened it. Each token has a share of the sessions: a token that opens too many loses its
own oldest idle one.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Message, Receive, Scope, Send

from holdfast.gate.body_limits import LARGEST_BODY
from holdfast.gate.browser.guard import AllowedOrigins
from holdfast.gate.mcp.call import SCOPE

IDLE_SECONDS = 30 * 60
MOST_SESSIONS = 1000
MOST_OF_TOKEN = 100
"""Sessions of one token."""
SPARE = 100
"""Sessions that stay free, for clients that open one at the same time."""
SSE = "/mcp/sse"
MESSAGES = "/mcp/messages/"
_SESSION = b"mcp-session-id"
_log = logging.getLogger(__name__)


class HttpTransport:
    """The library's transports behind our guard."""

    def __init__(self, server: Server[Any], allowed: AllowedOrigins, *, has_sse: bool) -> None:
        # Our guard has checked already; the library must not guess from the host's name.
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
        self._shares = SessionShares()
        self._running: asyncio.Task[None] | None = None
        self._started = asyncio.Event()

    async def start(self) -> None:
        """Start the task that owns all sessions, for as long as this process lives."""
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
            await self._converse(owner, scope, receive, send)

    async def _converse(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        """One request of a session, or one that opens a session."""
        session = next((value for name, value in scope["headers"] if name == _SESSION), b"")
        opened: list[bytes] = []

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened.extend(value for name, value in message["headers"] if name == _SESSION)
                for one in opened:
                    self._shares.add(owner, one)
            await send(message)

        with self._shares.use(owner, session):
            await self._sessions.handle_request(scope, receive, send if session else send_and_count)
        if session and scope["method"] == "DELETE":
            self._shares.remove(owner, session)
        while opened and (surplus := self._shares.surplus(owner)) is not None:
            await self._end(*surplus, scope)

    async def _end(self, owner: str, session: bytes, scope: Scope) -> None:
        """End a session as its own client would."""
        self._shares.remove(owner, session)
        kept = [one for one in scope["headers"] if one[0] in (b"host", b"origin")]
        access = AccessToken(token="", client_id=owner, scopes=[])
        request = {
            **scope,
            "method": "DELETE",
            "headers": [*kept, (_SESSION, session)],
            "user": AuthenticatedUser(access),
        }

        async def receive_nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def check_status(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] not in (200, 404):
                _log.error("a session was not ended: %s", message["status"])

        await self._sessions.handle_request(request, receive_nothing, check_status)

    async def _speak(
        self, sse: SseServerTransport, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async with sse.connect_sse(scope, receive, send) as (reading, writing):
            options = self._server.create_initialization_options()
            await self._server.run(reading, writing, options)


class SessionShares:
    """The sessions of each token, the longest unused first."""

    def __init__(self) -> None:
        self._all: dict[str, dict[bytes, int]] = {}
        """By owner: the requests under way in each session."""
        self._count = 0

    def add(self, owner: str, session: bytes) -> None:
        sessions = self._all.setdefault(owner, {})
        self._count += session not in sessions
        sessions.setdefault(session, 0)

    def remove(self, owner: str, session: bytes) -> None:
        sessions = self._all.get(owner, {})
        if sessions.pop(session, None) is not None:
            self._count -= 1
            if not sessions:
                del self._all[owner]

    @contextmanager
    def use(self, owner: str, session: bytes) -> Iterator[None]:
        """Count a request in a session, which then is the one used last."""
        sessions = self._all.get(owner, {})
        if session not in sessions:
            yield
            return
        sessions[session] += 1
        try:
            yield
        finally:
            if session in sessions:
                under_way = sessions.pop(session)
                sessions[session] = under_way - 1

    def surplus(self, newest: str) -> tuple[str, bytes] | None:
        """Return a session that must end, with its owner: of the token that has just opened one, or
        of the token with the most if there are too many in all."""
        owner = newest
        if len(self._all.get(owner, ())) <= MOST_OF_TOKEN:
            if self._count <= MOST_SESSIONS - SPARE:
                return None
            owner = max(self._all, key=lambda one: len(self._all[one]))
        sessions = self._all[owner]
        idle = (session for session, under_way in sessions.items() if not under_way)
        return owner, next(itertools.chain(idle, sessions))
