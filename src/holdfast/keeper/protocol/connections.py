"""Connections to the keeper: the supervisor's link and the control socket.

Owns the sockets and their half-read and half-sent messages, and lets no peer keep the others
waiting. Knows no word of the protocol, except for the order of replies to `spawn`.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import sys

from holdfast.keeper.loop import READ, WRITE
from holdfast.keeper.protocol import wire
from holdfast.system import own_process, processes
from holdfast.system.peers import peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.keeper.loop import Loop, Timer
    from holdfast.keeper.protocol.wire import Message, Received
    from holdfast.keeper.runs.run import HeldRun
    from holdfast.system.processes import Process

    OnMessage = Callable[["PeerConnection", Received, list[int]], None]
    OnClosed = Callable[["PeerConnection"], None]

_SLICE_SECONDS = 0.008
_LOT = 32
_FEW_DESCRIPTORS = 1024
_PIECE_BYTES = 8192
# Long on Linux: if we are killed, a run that nobody was told of is found by its environment.
_LONGEST_DELAY_SECONDS = 1.0 if sys.platform == "linux" else 0.01
_RETRY_SECONDS = 0.01
_CALM_SECONDS = 2.0
_CONTROL_OUTPUT_LIMIT = 4 << 20
_CONTROL_LINE_LIMIT = 1 << 20
_BACKLOG = 512
_GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)


class PeerConnection:
    """One peer that speaks the protocol."""

    def __init__(
        self,
        sock: socket.socket,
        role: str,
        loop: Loop,
        on_message: OnMessage,
        on_closed: OnClosed,
        is_supervised: bool = False,
    ) -> None:
        sock.setblocking(False)
        self.role = role
        self.is_open = True
        self.is_greeted = False
        self.is_supervised = is_supervised
        self.watched: set[str] = set()
        self._sock = sock
        self._loop = loop
        self._on_message = on_message
        self._on_closed = on_closed
        self._inbox = wire.Inbox(_CONTROL_LINE_LIMIT if role == "control" else 64 << 20)
        self._outbox = wire.Outbox()
        self._waiting: list[tuple[Received, list[int]]] = []
        self._deferred: list[tuple[Any, HeldRun]] = []
        self._deferred_since = 0.0
        self._grown: dict[str, int] = {}
        self._has_sent = False
        self._is_mute = False
        self._is_short = 0 < resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FEW_DESCRIPTORS
        self._retry: Timer | None = None
        self._events = READ
        loop.watch(sock.fileno(), self._on_ready)

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def has_requests(self) -> bool:
        """Whether requests have come that are not served yet."""
        return bool(self._waiting)

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send now, or when there is room. The caller keeps its descriptors. Further messages of
        the same turn go out together at its end, or in parts: waking the peer costs more than
        most messages."""
        if not self.is_open or self._is_mute:
            return
        if self._deferred:
            self._send_deferred()
        is_first, self._has_sent = not self._has_sent, True
        if is_first:
            self._loop.at_turn_end(self._end_turn)
        if not is_first or self._waiting:
            self._outbox.put(message, fds)
            is_long = self._outbox.size > _PIECE_BYTES and not self._waiting
            # A message that waits holds copies of its descriptors, of which there may be few.
            if (is_long or (fds and self._is_short)) and not self._events & WRITE:
                self._flush()
            return
        try:
            self._after_send(self._outbox.send_now(self._sock, message, fds))
        except OSError as error:
            self._mute(error)

    def hand(self, message: Message, fd: int) -> None:
        """Send at once, without a copy of the descriptor: there may be none left."""
        if not self.is_open or self._is_mute:
            return
        try:
            self._outbox.flush(self._sock)
            self._after_send(self._outbox.send_now(self._sock, message, [fd]))
        except OSError as error:
            self._mute(error)

    def reply_later(self, name: Any, run: HeldRun) -> None:
        """Reply to a spawn later, as soon as no request waits. Hundreds of runs are started faster
        if the supervisor is not busy with the first replies, and each open descriptor slows down
        the next spawn."""
        if not self._deferred:
            self._deferred_since = self._loop.now()
        self._deferred.append((name, run))

    def _send_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for number, (name, run) in enumerate(deferred, start=1):
            hand_parts(self, {"id": name, **run.beginning()}, run)
            if number % _LOT == 0 and self.is_open:
                # Each reply holds copies of descriptors, of which there may be few.
                self._outbox.try_flush(self._sock)
        if len(deferred) >= _LOT:
            self._loop.call_later(_CALM_SECONDS, own_process.give_memory_back)

    def _has_more(self) -> bool:
        """Whether further requests wait here, or in the socket."""
        if self._waiting:
            return True
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def grew(self, service: str, position: int) -> None:
        """Tell the position. A peer that reads slowly gets only the newest one."""
        if self._outbox.is_empty:
            self.send({"notice": "grew", "service": service, "position": position})
        else:
            self._grown[service] = position

    def wait(self) -> None:
        """Read nothing until `go_on`."""
        self._loop.unwatch(self._sock.fileno())

    def go_on(self) -> None:
        if self.is_open:
            self._loop.watch(self._sock.fileno(), self._on_ready, self._events)

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._outbox.try_flush(self._sock)
        if self._retry is not None:
            self._retry.cancel()
        self._loop.unwatch(self._sock.fileno())
        self._inbox.close()
        self._outbox.close()
        for _, fds in self._waiting:
            close_all(fds)
        self._waiting.clear()
        self._sock.close()
        self._on_closed(self)

    def _on_ready(self) -> None:
        if not self._outbox.is_empty:
            self._flush()
        if self.is_open and not self._waiting:
            self._receive()

    def _receive(self) -> None:
        try:
            data, fds = wire.receive(self._sock)
            if not data:
                close_all(fds)
                self.close()
                return
            self._waiting = self._inbox.feed(data, fds)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        except wire.WireError as error:
            self.send({"ok": False, "error": {"code": "bad_message", "message": str(error)}})
            self.close()
            return
        self._serve()

    def _serve(self) -> None:
        """Handle the requests that have come, but not for too long: others have their turn."""
        deadline = self._loop.now() + _SLICE_SECONDS
        done = 0
        waiting = self._waiting
        while done < len(waiting) and self.is_open:
            message, fds = waiting[done]
            done += 1
            # Removed first: an upgrade inside the call must not hand this request over again.
            self._waiting = waiting[done:]
            self._on_message(self, message, fds)
            if self._loop.now() > deadline:
                break
        if self._deferred and not (
            self._has_more() and self._loop.now() < self._deferred_since + _LONGEST_DELAY_SECONDS
        ):
            self._send_deferred()
        if self.is_open:
            self._watch()
            if self._waiting:
                self._loop.call_later(0, self._resume)

    def _resume(self) -> None:
        if self.is_open:
            self._serve()

    def _end_turn(self) -> None:
        self._has_sent = False
        if self.is_open and (self._grown or not self._outbox.is_empty):
            self._flush()

    def _flush(self) -> None:
        try:
            self._after_send(self._outbox.flush(self._sock))
        except OSError as error:
            self._mute(error)

    def _mute(self, error: OSError) -> None:
        """Nothing can be sent any more. If the peer is gone, its last requests are still read. If
        it lives, the connection is closed, or it would wait for replies for ever."""
        self._is_mute = True
        self._outbox.close()
        self._watch()
        if error.errno not in _GONE:
            self._loop.call_later(0, self.close)

    def _after_send(self, is_all_sent: bool) -> None:
        if is_all_sent:
            grown, self._grown = self._grown, {}
            for service, position in grown.items():
                self.grew(service, position)
        elif self.role == "control" and self._outbox.size > _CONTROL_OUTPUT_LIMIT:
            self.close()
            return
        elif self._outbox.is_refused and self._retry is None:
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._on_retry)
        self._watch()

    def _on_retry(self) -> None:
        self._retry = None
        if self.is_open and not self._outbox.is_empty:
            self._flush()

    def _watch(self) -> None:
        events = 0 if self._waiting else READ
        if not self._outbox.is_empty and not self._outbox.is_refused:
            events |= WRITE
        if events == self._events:
            return
        self._events = events
        if events:
            self._loop.watch(self._sock.fileno(), self._on_ready, events)
        else:
            self._loop.unwatch(self._sock.fileno())

    def state(self) -> dict[str, Any]:
        """This connection as an entry of a handover's table."""
        self._send_deferred()
        data, fds = self._inbox.state()
        lines, carried = b"", []
        for message, own in self._waiting:
            lines += wire.encode(message)
            carried += own
        return {
            "fd": self._sock.fileno(),
            "role": self.role,
            "is_greeted": self.is_greeted,
            "watched": sorted(self.watched),
            "grown": self._grown,
            "is_supervised": self.is_supervised,
            "inbox": (lines + data).decode("latin-1"),
            "inbox_fds": carried + fds,
            "outbox": [(data.decode("latin-1"), own) for data, own in self._outbox.state()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where the program image before this one stopped."""
        self.is_greeted = state["is_greeted"]
        self.watched = set(state["watched"])
        self._grown = dict(state.get("grown") or {})
        for data, fds in state["outbox"]:
            self._outbox.put_raw(data.encode("latin-1"), fds)
        self._waiting = self._inbox.feed(state["inbox"].encode("latin-1"), state["inbox_fds"])
        self._watch()
        if self._waiting:
            self._loop.call_later(0, self._resume)
        if not self._outbox.is_empty:
            self._loop.call_later(0, self._on_retry)


class ListeningSocket:
    """A listening socket for peers of this user, and of root."""

    def __init__(
        self,
        listener: socket.socket,
        loop: Loop,
        on_peer: Callable[[socket.socket, Process | None], object],
    ) -> None:
        self._listener = listener
        self._on_peer = on_peer
        self._loop = loop
        listener.setblocking(False)
        self._watch()

    def fileno(self) -> int:
        return self._listener.fileno()

    def close(self) -> None:
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()

    def _watch(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # No descriptor is left. The peer waits, and we must not spin.
            self._loop.unwatch(self._listener.fileno())
            self._loop.call_later(_RETRY_SECONDS, self._watch)
            return
        try:
            peer = peer_of(sock)
        except OSError:
            sock.close()
            return
        if peer.uid not in (0, os.geteuid()):
            sock.close()
            return
        self._on_peer(sock, peer.process)


def listen(path: str) -> socket.socket:
    """Listen at a new socket of mode 0600. A stale one is replaced: we have the lock."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(_BACKLOG)
    return listener


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def hand_parts(
    connection: PeerConnection, message: Message, run: HeldRun, handed: dict[str, int] | None = None
) -> None:
    """Send a message with copies of a run's descriptors and a pidfd, all named in `parts`, and with
    the run's start time, which makes its pid an identity."""
    parts = {**(handed or {}), **run.parts}
    is_ours = run.is_child and not run.tree.is_collected
    pidfd = processes.pidfd_open(run.pid) if is_ours else None
    if pidfd is not None:
        parts["pidfd"] = pidfd
    complete = {**message, "start_time": run.start_time, "parts": [*parts]}
    connection.send(complete, [*parts.values()])
    if pidfd is not None:
        os.close(pidfd)
