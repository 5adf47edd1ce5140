"""Runs the gate on a listening socket that the keeper passes to it.

Its environment says where the line door is and by which names it may be called. The gate ends with
SIGTERM, or when no supervisor has answered for long. The keeper holds the socket, so clients wait
for the next gate instead of being refused.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType

import uvicorn

from holdfast.gate import http_limits
from holdfast.gate.app import build
from holdfast.gate.browser.guard import AllowedOrigins
from holdfast.gate.certificate import Certificate
from holdfast.gate.http_limits import LimitedHttpProtocol, LimitedWebSocketProtocol
from holdfast.gate.mcp.door import McpDoor
from holdfast.gate.rest.pages import preload

GRACE_SECONDS = 2
ALONE_SECONDS = float(os.environ.get("HOLDFAST_GATE_PATIENCE", "30"))
RETRY_SECONDS = 0.5
PRELOAD_AFTER_SECONDS = 1.0
"""So that loading does not slow down the first requests."""
BACKLOG = 2048
MOST_ACCEPTS = 64
"""Connections accepted in one turn of the loop, before earlier ones are read."""
MOST_FILES = 65536
LARGEST_FRAME = 1024 * 1024
PING_SECONDS = 20.0
SEND_BUFFER = 256 * 1024
LISTEN_FD = 3
"""The descriptor of the first socket that the keeper passes."""


def main() -> None:
    environ = os.environ
    http_limits.fit_to_descriptors(_raise_limit())
    names = environ.get("HOLDFAST_GATE_SOCKETS", "http").split(",")
    sockets = {name: socket.socket(fileno=LISTEN_FD + n) for n, name in enumerate(names)}
    listening = [sockets[name] for name in ("http", "dashboard") if name in sockets]
    for sock in listening:
        # What the kernel buffers for a client that does not read; connections inherit it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    sock = sockets["http"]
    host, port = sock.getsockname()[:2]
    certificate = _certificate(environ)
    origins = [word for word in environ.get("ALLOWED_ORIGINS", "").split(",") if word]
    allowed = AllowedOrigins.at(host, port, is_tls=certificate is not None, origins=origins)
    for other in listening[1:]:
        allowed = allowed.and_port(other.getsockname()[1], host, is_tls=certificate is not None)
    line = environ["HOLDFAST_GATE_LINE"]

    def leave() -> None:
        server.leave()

    mcp = McpDoor.of(environ.get("HOLDFAST_GATE_MCP"), line, allowed, leave)
    instance = environ.get("HOLDFAST_GATE_INSTANCE", "")
    app = build(line, allowed, instance, mcp, leave)
    config = uvicorn.Config(
        app,
        http=LimitedHttpProtocol,
        ws=LimitedWebSocketProtocol,
        ws_max_size=LARGEST_FRAME,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=2 * PING_SECONDS,
        loop="auto",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=MOST_ACCEPTS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=certificate.path if certificate else None,
        ssl_keyfile=certificate.key if certificate else None,
    )
    sys.stdout.write(f"listening on {host}:{port}\n")
    sys.stdout.flush()
    server = Server(config, line, certificate)
    if mcp is not None:
        server.after_startup.append(lambda: mcp.begin(sockets.get("mcp")))
    server.run(sockets=listening)


def _raise_limit() -> int:
    """Allow as many descriptors as possible, because every connection takes one or two. Returns
    how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            return soft  # macOS refuses what sysctl does not allow
    return most


def _certificate(environ: Mapping[str, str]) -> Certificate | None:
    path, key = environ.get("HOLDFAST_GATE_CERT"), environ.get("HOLDFAST_GATE_KEY")
    if not path or not key:
        return None
    certificate = Certificate(path, key, environ.get("HOLDFAST_GATE_SELF_MADE") or None)
    certificate.ensure()
    return certificate


class Server(uvicorn.Server):
    """Ends itself when no supervisor is there any more."""

    def __init__(
        self, config: uvicorn.Config, line_socket: str, certificate: Certificate | None = None
    ) -> None:
        super().__init__(config)
        self._certificate = certificate
        self._renewing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line_socket = line_socket
        self._watching: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()
        self._preloading: asyncio.Task[None] | None = None
        self.after_startup: list[Callable[[], None]] = []
        """Called once requests are answered."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            # Clients wait in the kernel while no gate accepts.
            sock.listen(BACKLOG)
        loop = self._loop = asyncio.get_running_loop()
        self._watching = loop.create_task(self._leave_when_alone())
        self._preloading = loop.create_task(_load_the_rest())
        if self._certificate is not None and self.config.ssl is not None:
            renewing = self._certificate.keep_current(self.config.ssl)
            self._renewing = loop.create_task(renewing)
        for begin in self.after_startup:
            begin()

    async def main_loop(self) -> None:
        """Wait for the end, instead of looking for it ten times a second."""
        await self.on_tick(0)
        await self._is_over.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_over.set)

    def leave(self) -> None:
        """End, after open requests are answered."""
        self.should_exit = True
        self._is_over.set()

    async def _leave_when_alone(self) -> None:
        """A supervisor that is being replaced comes back within seconds."""
        alone_since: float | None = None
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._line_socket)
                alone_since = None
                await reader.read()
                writer.close()
            except OSError:
                pass
            now = time.monotonic()
            alone_since = alone_since or now
            if now - alone_since >= ALONE_SECONDS:
                self.leave()
                return
            await asyncio.sleep(RETRY_SECONDS)


async def _load_the_rest() -> None:
    await asyncio.sleep(PRELOAD_AFTER_SECONDS)
    await asyncio.to_thread(preload)
