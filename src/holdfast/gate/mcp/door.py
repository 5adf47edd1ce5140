"""Opens the assistants' door: loads the protocol's library in the background, once HTTP answers.

Who comes before it is loaded waits; nobody else notices. Light: imports nothing heavy itself.
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
from holdfast.gate.browser.guard import Allowed
from holdfast.gate.callers import ValidTokens, caller_of
from holdfast.gate.errors import problem
from holdfast.gate.http_limits import prove
from holdfast.gate.mcp.call import SCOPE, Client
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.specs.mcp import McpSpec

if TYPE_CHECKING:
    from holdfast.gate.mcp.http import HttpTransport

PATH = "/mcp"
LONGEST_LINE = 16 * 1024 * 1024
LOAD_AFTER_SECONDS = 0.2
_log = logging.getLogger(__name__)


class McpDoor:
    """The protocol's server and its transports."""

    def __init__(self, line_socket: str, offer: McpSpec, allowed: Allowed) -> None:
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
    def of(cls, settings: str | None, line_socket: str, allowed: Allowed) -> McpDoor | None:
        """The door that the supervisor wants, or none."""
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
            made = await asyncio.to_thread(_imported)
            serving = made.Serving(self._channel, self._line_socket, self._offer, self._allowed)
            await serving.start()
        except Exception:
            _log.exception("the assistants' door cannot be opened")
            raise
        self._http = serving.http
        self._loaded.set()
        if relays is not None:
            await self._listen(relays, serving)

    async def _listen(self, relays: socket.socket, serving: Any) -> None:
        relays.setblocking(False)
        # Python 3.13 would remove the file of a socket that the keeper still holds.
        more: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await asyncio.start_unix_server(
            serving.links.serve, sock=relays, limit=LONGEST_LINE, **more
        )
        self._servers.append(server)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request over HTTP: a token first, then the protocol."""
        from starlette.requests import HTTPConnection

        try:
            caller = caller_of(HTTPConnection(scope), "mcp")
            # Also where no command would follow.
            await self._tokens.check(caller)
        except HoldfastError as error:
            await problem(error)(scope, receive, send)
            return
        if caller.token:
            prove(scope, caller.token)
        await self._loaded.wait()
        assert self._http is not None
        # Space around a value is no part of it (RFC 9110), and headers are compared with the body.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        client = Client(self._channel, caller, self._offer)
        await self._http.answer({**scope, "headers": headers, SCOPE: client}, receive, send)


class _Endpoint:
    """An ASGI application, which Starlette calls for every method."""

    def __init__(self, door: McpDoor) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.answer(scope, receive, send)


def _imported() -> Any:
    return importlib.import_module("holdfast.gate.mcp.serving")
