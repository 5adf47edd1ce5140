"""Runs the gate on a listening socket that it was given.

Told by its environment where the line door is and what it may be called. Ends with SIGTERM,
or when no supervisor was there for long; its socket is the keeper's, so nobody is refused
until the next one is up.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Mapping

import uvicorn

from holdfast.gate import http_limits
from holdfast.gate.app import build
from holdfast.gate.browser.guard import Allowed
from holdfast.gate.certificate import Certificate
from holdfast.gate.http_limits import LimitedHttpProtocol, LimitedWebSocketProtocol
from holdfast.gate.mcp.door import McpDoor
from holdfast.gate.rest.pages import preload

GRACE_SECONDS = 2
ALONE_SECONDS = float(os.environ.get("HOLDFAST_GATE_PATIENCE", "30"))
RETRY_SECONDS = 0.5
PRELOAD_AFTER_SECONDS = 1.0
"""Not beside the first requests."""
BACKLOG = 2048
MOST_ACCEPTS = 64
"""Connections that are accepted in one turn of the loop; then those that came before are read."""
MOST_FILES = 65536
LARGEST_FRAME = 1024 * 1024
PING_SECONDS = 20.0
SEND_BUFFER = 256 * 1024
LISTEN_FD = 3
"""Where the keeper puts the first socket that it passes on."""


def main() -> None:
    environ = os.environ
    http_limits.fit_to_descriptors(_raise_limit())
    names = environ.get("HOLDFAST_GATE_SOCKETS", "http").split(",")
    sockets = {name: socket.socket(fileno=LISTEN_FD + n) for n, name in enumerate(names)}
    sock = sockets["http"]
    # What the kernel keeps for a viewer who does not read; connections inherit it.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    host, port = sock.getsockname()[:2]
    certificate = _certificate(environ)
    origins = [word for word in environ.get("ALLOWED_ORIGINS", "").split(",") if word]
    allowed = Allowed.at(host, port, is_tls=certificate is not None, origins=origins)
    line = environ["HOLDFAST_GATE_LINE"]
    mcp = McpDoor.of(environ.get("HOLDFAST_GATE_MCP"), line, allowed)
    leaving: list[Callable[[], None]] = []
    instance = environ.get("HOLDFAST_GATE_INSTANCE", "")
    app = build(line, allowed, instance, mcp, leave=lambda: leaving[0]())
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
        backlog=MOST_ACCEPTS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=certificate.path if certificate else None,
        ssl_keyfile=certificate.key if certificate else None,
    )
    sys.stdout.write(f"listening on {host}:{port}\n")
    sys.stdout.flush()
    server = Server(config, line, certificate)
    leaving.append(server.leave)
    if mcp is not None:
        server.after_startup.append(lambda: mcp.begin(sockets.get("mcp")))
    server.run(sockets=[sock])


def _raise_limit() -> int:
    """Every connection takes a descriptor, and some take two; answers how many there may be."""
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
    """Ends itself when nobody is behind it any more."""

    def __init__(
        self, config: uvicorn.Config, line_socket: str, certificate: Certificate | None = None
    ) -> None:
        super().__init__(config)
        self._certificate = certificate
        self._renewing: asyncio.Task[None] | None = None
        self._line_socket = line_socket
        self._watching: asyncio.Task[None] | None = None
        self._preloading: asyncio.Task[None] | None = None
        self.after_startup: list[Callable[[], None]] = []
        """What begins once requests are answered."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            # Who comes while no gate accepts waits in the kernel.
            sock.listen(BACKLOG)
        loop = asyncio.get_running_loop()
        self._watching = loop.create_task(self._leave_when_alone())
        self._preloading = loop.create_task(_load_the_rest())
        if self._certificate is not None and self.config.ssl is not None:
            renewing = self._certificate.keep_current(self.config.ssl)
            self._renewing = loop.create_task(renewing)
        for begin in self.after_startup:
            begin()

    def leave(self) -> None:
        """End, after what was asked is answered."""
        self.should_exit = True

    async def _leave_when_alone(self) -> None:
        """A supervisor that was replaced is back within seconds; one that is gone is not."""
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
                self.should_exit = True
                return
            await asyncio.sleep(RETRY_SECONDS)


async def _load_the_rest() -> None:
    await asyncio.sleep(PRELOAD_AFTER_SECONDS)
    await asyncio.to_thread(preload)
