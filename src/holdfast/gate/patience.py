"""How much a stranger may send, and how long it may take, before it has asked anything.

The parser of HTTP bounds neither: whoever sends a header without end would fill our memory.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 512 * 1024
"""More than arrives at once, so that what belongs to a body is not taken for a head."""
HEAD_SECONDS = 30.0


class PatientProtocol(HttpToolsProtocol):
    """Hangs up on who does not come to the point."""

    _head_bytes = 0
    _is_in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > LARGEST_HEAD:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self._rest()
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
