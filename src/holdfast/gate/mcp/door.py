"""The assistants' door. It loads the protocol's library when the first client comes, because the
library takes more memory than all the rest of the gate.

A client waits until it is loaded; meanwhile the relay answers the handshake itself. If the files on
disk are no longer those that this gate began with, another gate takes its place: code of two
versions is never mixed. Light: imports nothing heavy itself.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.client.channel import Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.browser.guard import AllowedOrigins
from holdfast.gate.callers import ValidTokens, caller_of
from holdfast.gate.errors import problem
from holdfast.gate.http_limits import prove
from holdfast.gate.mcp.call import SCOPE, McpClient
from holdfast.gate.mcp_servers.gateway import Gateway
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.specs.mcp import McpSpec

if TYPE_CHECKING:
    from holdfast.gate.mcp.server import McpServer

PATH = "/mcp"
LONGEST_LINE = 16 * 1024 * 1024
_LIBRARY = "mcp"
_log = logging.getLogger(__name__)


class McpDoor:
    """Serves the protocol over HTTP and over the socket of the relays."""

    def __init__(
        self,
        line_socket: str,
        offer: McpSpec,
        allowed: AllowedOrigins,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        """`leave` ends this gate, so that another one can take its place."""
        self._channel = Channel(line_socket)
        self._leave = leave
        self._files = _files_on_disk()
        self._line_socket = line_socket
        self._offer = offer
        self._allowed = allowed
        self._loading: asyncio.Task[McpServer] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tokens = ValidTokens(self._channel)
        self._gateway = Gateway(line_socket)
        self._servers: list[asyncio.AbstractServer] = []

    @classmethod
    def of(
        cls,
        settings: str | None,
        line_socket: str,
        allowed: AllowedOrigins,
        leave: Callable[[], None] = lambda: None,
    ) -> McpDoor | None:
        """Return the door that the supervisor has configured, if any."""
        if not settings:
            return None
        return cls(line_socket, msgspec.json.decode(settings, type=McpSpec), allowed, leave)

    def routes(self) -> list[Route]:
        paths = [PATH, f"{PATH}/sse", f"{PATH}/messages/"] if self._offer.legacy_sse else [PATH]
        own = [Route(path, _Endpoint(self)) for path in paths]
        return [*own, Route(f"{PATH}/{{server:str}}", _Endpoint(self))]

    def begin(self, relays: socket.socket | None) -> None:
        """Accept the relays' connections, and speak with the MCP servers."""
        self._gateway.begin()
        if relays is not None:
            self._listening = asyncio.get_running_loop().create_task(self._listen(relays))

    async def _server(self) -> McpServer:
        """Return the server. The first caller makes it be loaded."""
        if self._loading is None or (self._loading.done() and self._loading.exception()):
            self._loading = asyncio.get_running_loop().create_task(self._load())
        # A caller that leaves does not end the loading for others.
        return await asyncio.shield(self._loading)

    async def _load(self) -> McpServer:
        if await asyncio.to_thread(_files_on_disk) != self._files:
            _log.warning("the installed files have changed; a new gate takes the place of this one")
            self._leave()
            raise Unreachable("Holdfast was updated, and its gate is being replaced", "try again")
        try:
            await asyncio.to_thread(_load_library)
            from holdfast.gate.mcp.server import McpServer

            server = McpServer(
                self._channel, self._line_socket, self._offer, self._allowed, self._gateway
            )
            await server.start()
        except Exception:
            _log.exception("the assistants' door cannot be opened")
            raise
        return server

    async def _serve_relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        server: McpServer | None = None
        try:
            server = await self._server()
        except Unreachable:
            return  # the relay connects again, to the next gate
        finally:
            if server is None:
                writer.close()
        await server.relays.serve(reader, writer)

    async def _listen(self, listening: socket.socket) -> None:
        listening.setblocking(False)
        # Python 3.13 would remove the file of a socket that the keeper still holds.
        more: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await asyncio.start_unix_server(
            self._serve_relay, sock=listening, limit=LONGEST_LINE, **more
        )
        self._servers.append(server)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request: check its token, then speak the protocol."""
        from starlette.requests import HTTPConnection

        try:
            caller = caller_of(HTTPConnection(scope), "mcp")
            # Check it here, because a request of the protocol may need no command.
            await self._tokens.check(caller)
            bridged = scope["path_params"].get("server")
            if bridged is not None:
                about = {"services": [bridged]}
                await self._channel.ask("mcp_servers", about, caller, is_repeatable=True)
            server = await self._server()
        except HoldfastError as error:
            await problem(error)(scope, receive, send)
            return
        if caller.token:
            prove(scope, caller.token)
        # Space around a value is no part of it (RFC 9110), and the library compares headers with
        # the body.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        client = McpClient(self._channel, caller, self._offer, server=bridged)
        await server.http.answer({**scope, "headers": headers, SCOPE: client}, receive, send)


class _Endpoint:
    """An ASGI application, so that Starlette calls it for every method."""

    def __init__(self, door: McpDoor) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.answer(scope, receive, send)


def _files_on_disk() -> list[tuple[int, int] | None]:
    """Return which files would be loaded: ours and the library's."""
    library = importlib.util.find_spec(_LIBRARY)
    files = [os.path.join(os.path.dirname(__file__), "server.py"), library and library.origin]
    return [_identity(path) if path else None for path in files]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _load_library() -> None:
    importlib.import_module("holdfast.gate.mcp.server")
