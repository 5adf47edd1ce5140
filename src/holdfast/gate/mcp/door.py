"""The assistants' door. It loads the protocol's library in the background, once HTTP answers.

A client that comes before the library is loaded waits for it. Light: imports nothing heavy itself.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
import sys
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.client.channel import Channel
from holdfast.gate.browser.guard import AllowedOrigins
from holdfast.gate.callers import ValidTokens, caller_of
from holdfast.gate.errors import problem
from holdfast.gate.http_limits import prove
from holdfast.gate.mcp.call import SCOPE, McpClient
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.specs.mcp import McpSpec

if TYPE_CHECKING:
    from holdfast.gate.mcp.http import HttpTransport
    from holdfast.gate.mcp.relays import Relays

PATH = "/mcp"
LONGEST_LINE = 16 * 1024 * 1024
LOAD_AFTER_SECONDS = 0.2
_log = logging.getLogger(__name__)


class McpDoor:
    """Serves the protocol over HTTP and over the socket of the relays."""

    def __init__(self, line_socket: str, offer: McpSpec, allowed: AllowedOrigins) -> None:
        self._channel = Channel(line_socket)
        self._line_socket = line_socket
        self._offer = offer
        self._allowed = allowed
        self._http: HttpTransport | None = None
        self._loaded = asyncio.Event()
        self._loading: asyncio.Task[None] | None = None
        self._tokens = ValidTokens(self._channel)
        self._servers: list[asyncio.AbstractServer] = []

    @classmethod
    def of(cls, settings: str | None, line_socket: str, allowed: AllowedOrigins) -> McpDoor | None:
        """Return the door that the supervisor has configured, if any."""
        if not settings:
            return None
        return cls(line_socket, msgspec.json.decode(settings, type=McpSpec), allowed)

    def routes(self) -> list[Route]:
        paths = [PATH, f"{PATH}/sse", f"{PATH}/messages/"] if self._offer.legacy_sse else [PATH]
        return [Route(path, _Endpoint(self)) for path in paths]

    def begin(self, relays: socket.socket | None) -> None:
        """Load in the background, then serve."""
        self._loading = asyncio.get_running_loop().create_task(self._load(relays))

    async def _load(self, relays: socket.socket | None) -> None:
        await asyncio.sleep(LOAD_AFTER_SECONDS)
        try:
            await asyncio.to_thread(_load_library)
            from holdfast.gate.mcp.server import McpServer

            server = McpServer(self._channel, self._line_socket, self._offer, self._allowed)
            await server.start()
        except Exception:
            _log.exception("the assistants' door cannot be opened")
            raise
        self._http = server.http
        self._loaded.set()
        if relays is not None:
            await self._listen(relays, server.relays)

    async def _listen(self, listening: socket.socket, relays: Relays) -> None:
        listening.setblocking(False)
        # Python 3.13 would remove the file of a socket that the keeper still holds.
        more: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await asyncio.start_unix_server(
            relays.serve, sock=listening, limit=LONGEST_LINE, **more
        )
        self._servers.append(server)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request: check its token, then speak the protocol."""
        from starlette.requests import HTTPConnection

        try:
            caller = caller_of(HTTPConnection(scope), "mcp")
            # Check it here, because a request of the protocol may need no command.
            await self._tokens.check(caller)
        except HoldfastError as error:
            await problem(error)(scope, receive, send)
            return
        if caller.token:
            prove(scope, caller.token)
        await self._loaded.wait()
        assert self._http is not None
        # Space around a value is no part of it (RFC 9110), and the library compares headers with
        # the body.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        client = McpClient(self._channel, caller, self._offer)
        await self._http.answer({**scope, "headers": headers, SCOPE: client}, receive, send)


class _Endpoint:
    """An ASGI application, so that Starlette calls it for every method."""

    def __init__(self, door: McpDoor) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.answer(scope, receive, send)


def _load_library() -> None:
    importlib.import_module("holdfast.gate.mcp.server")
