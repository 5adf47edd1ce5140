"""Lends the channels of MCP servers to the gate, which speaks with them.

The keeper holds both ends of a channel, and this supervisor has copies. The gate gets copies of
those over a socket of their own, for a ticket that works once, and only the gate's own process is
given any. So one process at a time reads a channel: the next gate is started when the last one has
ended. When a gate dies, the server notices nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial

from holdfast.adapters.own_log import logger
from holdfast.system.peers import peer_of

LONGEST_TICKET = 100
MOST_TICKETS = 1000
_log = logger("lending")


class Lender:
    """The socket at which tickets are exchanged for descriptors."""

    def __init__(
        self,
        path: str,
        loop: asyncio.AbstractEventLoop,
        *,
        channel_of: Callable[[str], tuple[int, int] | None],
        is_gate: Callable[[int], bool],
    ) -> None:
        self.path = path
        self._loop = loop
        self._channel_of = channel_of
        self._is_gate = is_gate
        self._tickets: dict[str, str] = {}
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()

    def ticket(self, run_id: str) -> str:
        """Return what the gate shows for the channel of this run."""
        if self._listener is None:
            self._listen()
        while len(self._tickets) >= MOST_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        ticket = os.urandom(16).hex()
        self._tickets[ticket] = run_id
        return ticket

    def close(self) -> None:
        for sock in (*self._open, *([self._listener] if self._listener else ())):
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._open.clear()
        if self._listener is not None:
            self._listener = None
            try:
                os.unlink(self.path)
            except FileNotFoundError:
                pass

    def _listen(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        listener.bind(self.path)
        os.chmod(self.path, 0o600)
        listener.listen(16)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        try:
            peer = peer_of(sock)
        except OSError:
            sock.close()
            return
        if peer.process is None or not self._is_gate(peer.process.pid):
            _log.warning("a process that is not the gate asked for the channel of a server")
            sock.close()
            return
        sock.setblocking(False)
        self._open.add(sock)
        self._loop.add_reader(sock.fileno(), partial(self._hand_over, sock))

    def _hand_over(self, sock: socket.socket) -> None:
        self._loop.remove_reader(sock.fileno())
        self._open.discard(sock)
        with sock:
            try:
                ticket = sock.recv(LONGEST_TICKET).decode("ascii", "replace").strip()
                run_id = self._tickets.pop(ticket, None)
                channel = self._channel_of(run_id) if run_id is not None else None
                if channel is None:
                    sock.send(b"no\n")
                else:
                    socket.send_fds(sock, [b"ok\n"], list(channel))
            except OSError as error:
                _log.info("a channel was not handed over: %s", error)
