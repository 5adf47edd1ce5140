"""The TCP door: the same commands for programs and people at a network socket.

A client shows a token first. Without one, the owner's own processes on this machine may ask for
status and health, and for everything where authentication is off; `open_status` lets every client
on this machine ask for status and health. Lines are answered in their order and in their own form,
JSON or text. JSON with an `id` does not wait for the lines before it. A browser is disconnected,
because some page of another site may have sent it. Decides nothing about commands.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from holdfast.app.application import Application
from holdfast.app.authority.approvals import PendingAnswer
from holdfast.app.authority.identities import token_needed
from holdfast.app.registry import Answer
from holdfast.doors import tcp_answers, tcp_requests
from holdfast.doors.connection import Connections, LineConnection, public_error
from holdfast.doors.tcp_requests import TcpRequest
from holdfast.system import tcp_peers
from holdfast.vocabulary import codec
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.addresses import is_loopback
from holdfast.vocabulary.command import Door, Result
from holdfast.vocabulary.errors import HoldfastError, Refused

MOST_CONNECTIONS = 200
MOST_OF_TOKEN = 50
"""Connections of one token; one more ends its oldest."""
MOST_WAITING = 1000
MOST_WAITING_BYTES = 4 * 1024 * 1024
MOST_WRONG_TOKENS = 3
LONGEST_LINE = 1024 * 1024
STRANGER_BYTES = 8 * 1024 * 1024
"""Bytes of unfinished lines of all connections that have shown no token."""
SILENT_SECONDS = 10.0
"""How long a connection may stay without a token."""
_NO_HTTP = b"this is the control door, which does not speak HTTP\n"
_VISITOR = Actor(Role.STRANGER, "somebody without a token", None, Door.TCP)


class TcpDoor:
    """All connections of one listening socket."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._connections: Connections[TcpConnection] = Connections()
        self._server: asyncio.AbstractServer | None = None
        self._looking = asyncio.Lock()
        """One look at the processes of the machine at a time."""

    async def open(self, sock: socket.socket) -> None:
        await self.close()
        self._connections.is_closed = False
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=sock)

    def _connection(self) -> TcpConnection:
        return TcpConnection(self._application, self._connections, self._looking)

    async def close(self) -> None:
        self._connections.is_closed = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.hang_up()


class TcpConnection(LineConnection):
    """One client."""

    _connections: Connections[TcpConnection]

    def __init__(
        self,
        application: Application,
        connections: Connections[TcpConnection],
        looking: asyncio.Lock,
    ) -> None:
        super().__init__(connections, LONGEST_LINE)
        self._application = application
        self._looking = looking
        self._actor = _VISITOR
        """The actor of lines without a token."""
        self._recognition: asyncio.Task[None] | None = None
        self._token: str | None = None
        self._is_known = False
        """Whether it has ever shown a token."""
        self._is_new = True
        self._wrong_tokens = 0
        self._account: str | None = None
        """The account whose share of the connections it uses."""
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker: asyncio.Task[None] | None = None
        self._has_ended = False
        self._silence: asyncio.TimerHandle | None = None
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._since = asyncio.get_running_loop().time()
        if len(self._connections) > MOST_CONNECTIONS and not self._make_room():
            return
        peer = transport.get_extra_info("peername")
        loop = asyncio.get_running_loop()
        if is_loopback(peer[0] if peer else ""):
            if self._application.identities.open_status:
                self._actor = self._application.identities.visitor(Door.TCP)
            own = transport.get_extra_info("sockname")
            self._recognition = loop.create_task(self._recognise(own[:2], peer[:2]))
        self._silence = loop.call_later(SILENT_SECONDS, self._on_silence)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._silence is not None:
            self._silence.cancel()
        for task in (*self._tasks, self._worker, self._recognition):
            if task is not None:
                task.cancel()

    async def _recognise(self, ours: tuple[str, int], theirs: tuple[str, int]) -> None:
        """Find out whether the client is a process of the owner, who needs no token for some."""
        async with self._looking:
            peer = await asyncio.to_thread(tcp_peers.find, ours, theirs)
        local = self._application.identities.identify_local(peer, Door.TCP)
        if local is not None and self._token is None and not self._wrong_tokens:
            self._actor = local

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_known or not self._lines.size:
            return
        strangers = [one for one in self._connections if not one._is_known]
        if sum(one._lines.size for one in strangers) > STRANGER_BYTES:
            largest = max(strangers, key=lambda one: one._lines.size)
            largest._lines.clear()
            largest._turn_away(Refused("too much is sent without a token", "show one first"))
            largest.hang_up()

    def eof_received(self) -> bool:
        """Answer what was asked before the end, as with `printf … | nc`."""
        self._has_ended = True
        self._take_unfinished()
        self._close_when_done()
        return True

    def _make_room(self) -> bool:
        """End the oldest connection without a token, so that such connections keep nobody out.
        Returns whether this connection may stay."""
        open_ones = [one for one in self._connections if not one._transport.is_closing()]
        if len(open_ones) <= MOST_CONNECTIONS:
            return True
        strangers = [one for one in open_ones if one is not self and not one._is_known]
        leaving = min(strangers, key=lambda one: one._since, default=self)
        leaving._turn_away(Refused("too many connections", "close some"))
        leaving.hang_up()
        return leaving is not self

    def _keep_to_share(self) -> None:
        """End the token's oldest connection if it has too many."""
        own = [
            one
            for one in self._connections
            if one._account == self._account and not one._transport.is_closing()
        ]
        if len(own) > MOST_OF_TOKEN:
            oldest = min(own, key=lambda one: one._since)
            oldest._turn_away(Refused("too many connections with this token", "close some"))
            oldest.hang_up()

    def _turn_away(self, error: HoldfastError) -> None:
        self._say_failure(None, error, is_json=False)

    def _take(self, line: bytes) -> None:
        is_new, self._is_new = self._is_new, False
        if is_new and tcp_requests.is_http(line):
            self._application.identities.refuse_stranger(
                Door.TCP, "HTTP", "this door speaks no HTTP"
            )
            head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(_NO_HTTP)}\r\n"
            self._write(head.encode() + b"Connection: close\r\n\r\n" + _NO_HTTP)
            self.hang_up()
            return
        self._waiting_bytes += len(line)
        if len(self._waiting) >= MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES:
            self._turn_away(Refused("too many requests wait", "await some first"))
            self.hang_up()
            return
        self._waiting.append(line)
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        """Serve one line after the other; those with an id are tasks of their own."""
        while self._waiting and not self._transport.is_closing():
            line = self._waiting.popleft()
            self._waiting_bytes -= len(line)
            try:
                request = tcp_requests.parse(line)
            except Exception as error:  # noqa: BLE001 - the border of the door
                self._say_failure(None, public_error(error), tcp_requests.is_json(line))
                continue
            if request.id is None:
                await self._serve(request)
                continue
            task = asyncio.get_running_loop().create_task(self._serve(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: self._close_when_done())
        self._worker = None
        self._close_when_done()

    async def _serve(self, request: TcpRequest) -> None:
        await self._can_write.wait()
        try:
            if self._recognition is not None and not (request.token or self._token):
                await asyncio.wait([self._recognition])
            actor = self._actor_of(request)
            match request.name:
                case "token":
                    self._say(request, {"message": f"hello, {actor.name}"})
                case "help":
                    self._say(request, {"message": tcp_requests.HELP})
                case "quit":
                    self._say(request, {"message": "bye"})
                    self.hang_up()
                case _:
                    await self._answer(request, actor)
        except Exception as error:  # noqa: BLE001 - the border of the door
            self._say_failure(request.id, public_error(error), request.is_json)
        if self._wrong_tokens >= MOST_WRONG_TOKENS:
            self.hang_up()

    def _actor_of(self, request: TcpRequest) -> Actor:
        token = request.token or self._token
        if token is None:
            if self._wrong_tokens:
                return _VISITOR  # a client that has shown a wrong token is not taken for the owner
            is_valid = self._application.identities.is_valid(self._actor)
            return self._actor if is_valid else _VISITOR
        try:
            # Every time, because a token may be revoked or expire while the connection is open.
            actor = self._application.identities.identify_token(token, Door.TCP)
        except Refused:
            self._wrong_tokens += 1
            if request.name == "token":
                # Whoever means to be somebody is not taken for somebody else.
                self._actor, self._token = _VISITOR, None
            raise
        self._is_known = True
        if self._account != actor.account:
            self._account = actor.account
            self._keep_to_share()
        if request.name == "token":
            self._actor, self._token = actor, token
        if self._silence is not None:
            self._silence.cancel()
        return actor

    async def _answer(self, request: TcpRequest, actor: Actor) -> None:
        if actor is _VISITOR:
            if not self._wrong_tokens:  # a wrong token is on record already
                self._application.identities.refuse_stranger(Door.TCP, request.name)
            raise token_needed(Door.TCP)
        key = request.fields.pop("key", None)
        command = codec.command_from(request.name, request.fields)
        answer: Answer = self._application.dispatch(actor, command, key)
        if isinstance(answer, PendingAnswer):
            if not request.is_json:
                self._write(answer.notice["message"].encode() + b"\n")
            answer = await answer  # after an approval this may be a stream
        if isinstance(answer, AsyncGenerator):
            await self._write_items(request.id, answer, lambda: self._actor_of(request))
            self._say(request, {"message": "done"})
            return
        self._say(request, answer if isinstance(answer, Result) else await answer)

    def _say(self, request: TcpRequest, result: Result | dict[str, Any]) -> None:
        if request.is_json:
            self._write(codec.answer(request.id, result))
        else:
            self._write(tcp_answers.of_result(result).encode() + b"\n")

    def _say_failure(self, request_id: object, error: HoldfastError, is_json: bool) -> None:
        if is_json:
            self._write(codec.failure(request_id, error))
        else:
            self._write(tcp_answers.of_error(error).encode() + b"\n")

    def _on_silence(self) -> None:
        if self._actor.role is Role.STRANGER:
            self.hang_up()

    def _close_when_done(self) -> None:
        if self._has_ended and self._worker is None and not self._waiting and not self._tasks:
            self.hang_up()
