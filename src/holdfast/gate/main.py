"""Runs the gate on a listening socket that it was given.

Told by its environment where the line door is and what it may be called. Ends with SIGTERM,
or when no supervisor was there for long; its socket is the keeper's, so nobody is refused
until the next one is up.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time

import uvicorn

from holdfast.gate.app import build
from holdfast.gate.guard import Allowed

GRACE_SECONDS = 2
ALONE_SECONDS = float(os.environ.get("HOLDFAST_GATE_PATIENCE", "30"))
RETRY_SECONDS = 0.5
BACKLOG = 2048
LARGEST_FRAME = 1024 * 1024
PING_SECONDS = 20.0
SEND_BUFFER = 256 * 1024
LISTEN_FD = 3
"""Where the keeper puts the first socket that it passes on."""


def main() -> None:
    environ = os.environ
    sock = socket.socket(fileno=LISTEN_FD)
    # What the kernel keeps for a viewer who does not read; connections inherit it.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    host, port = sock.getsockname()[:2]
    certificate, key = environ.get("HOLDFAST_GATE_CERT"), environ.get("HOLDFAST_GATE_KEY")
    origins = [word for word in environ.get("ALLOWED_ORIGINS", "").split(",") if word]
    allowed = Allowed.at(host, port, is_tls=bool(certificate), origins=origins)
    app = build(environ["HOLDFAST_GATE_LINE"], allowed, environ.get("HOLDFAST_GATE_INSTANCE", ""))
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=LARGEST_FRAME,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=2 * PING_SECONDS,
        loop="auto",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    sys.stdout.write(f"listening on {host}:{port}\n")
    sys.stdout.flush()
    Server(config, environ["HOLDFAST_GATE_LINE"]).run(sockets=[sock])


class Server(uvicorn.Server):
    """Ends itself when nobody is behind it any more."""

    def __init__(self, config: uvicorn.Config, line_socket: str) -> None:
        super().__init__(config)
        self._line_socket = line_socket
        self._watching: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._watching = asyncio.get_running_loop().create_task(self._leave_when_alone())

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
