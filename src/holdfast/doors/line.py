"""The line door: JSON lines over a Unix socket. Answers carry the id of their request.

Decides nothing: every line becomes one command for the application. A slow command never delays
the next one.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

from holdfast.app.application import Application
from holdfast.app.authority.approvals import PendingAnswer
from holdfast.app.registry import Answer
from holdfast.doors.connection import Connections, LineConnection, public_error
from holdfast.system.peers import peer_of
from holdfast.vocabulary import codec
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Door, Result
from holdfast.vocabulary.errors import HoldfastError, Refused, UsageError

MAX_OPEN_REQUESTS = 1000
BACKLOG = 512
"""As in the keeper: clients wait while no supervisor accepts."""
_CLOSE_SECONDS = 0.5


class LineDoor:
    """All connections of one socket."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._connections: Connections[UnixConnection] = Connections()
        self._server: asyncio.AbstractServer | None = None

    async def open(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        # Python 3.13 would remove the file of a socket that the keeper still holds.
        more: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._server = await loop.create_unix_server(
            self._connection, sock=sock, backlog=BACKLOG, **more
        )

    def _connection(self) -> UnixConnection:
        return UnixConnection(self._application, self._connections)

    async def close(self) -> None:
        """Hang up on all clients once their answers have gone out, and on those that come now."""
        self._connections.is_closed = True
        if self._server is not None:
            self._server.close()
        leaving = list(self._connections)
        for connection in leaving:
            connection.hang_up()
        if leaving:
            _, slow = await asyncio.wait(
                [connection.lost for connection in leaving], timeout=_CLOSE_SECONDS
            )
            for connection in leaving:
                connection.drop()
            if slow:
                await asyncio.wait(slow, timeout=_CLOSE_SECONDS)


class UnixConnection(LineConnection):
    """One client."""

    def __init__(self, application: Application, connections: Connections[UnixConnection]) -> None:
        super().__init__(connections)
        self._application = application
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._has_ended = False
        self._actor = Actor(Role.STRANGER, "nobody")
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        try:
            peer = peer_of(transport.get_extra_info("socket"))
            self._actor = self._application.identities.identify(peer)
        except (HoldfastError, OSError) as error:
            known = error if isinstance(error, HoldfastError) else Refused(f"who asks? {error}")
            self._turn_away(known)
            self.hang_up()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if not self.lost.done():
            self.lost.set_result(None)
        for task in self._tasks.values():
            task.cancel()

    def eof_received(self) -> bool:
        """Still answer a client that only asks no more, like `printf … | nc -U`."""
        self._has_ended = True
        self._take_unfinished()
        return bool(self._tasks) and not _has_left(self._transport.get_extra_info("socket"))

    def hang_up(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        super().hang_up()

    def drop(self) -> None:
        """End the connection without waiting for its reader."""
        self._transport.abort()

    def _turn_away(self, error: HoldfastError) -> None:
        self._write(codec.failure(None, error))

    def _take(self, line: bytes) -> None:
        request_id: int | str | None = None
        try:
            frame = codec.decode_frame(line)
            request_id = codec.id_from(frame.pop("id", None))
            name = frame.pop("command", None)
            if name == "cancel":
                self._cancel(request_id, codec.id_from(frame.get("target")))
                return
            if len(self._tasks) >= MAX_OPEN_REQUESTS:
                raise Refused("too many requests are open on this connection", "await some first")
            if request_id in self._tasks:
                raise UsageError(f"request {request_id} is still open", "give each its own id")
            caller, once = frame.pop("caller", None), frame.pop("key", None)
            actor = (
                self._actor
                if caller is None
                else self._application.identities.identify_caller(caller, self._actor)
            )
            answer = self._application.dispatch(actor, codec.command_from(name, frame), once)
        except Exception as error:  # noqa: BLE001 - the border of the door
            self._write(codec.failure(request_id, public_error(error)))
            return
        if isinstance(answer, Result):
            self._write(codec.answer(request_id, answer))
            return
        wants_notice = caller is None or caller.get("door") == Door.MCP.value
        if wants_notice and isinstance(answer, PendingAnswer):
            self._write(codec.notice(request_id, answer.notice))
        key = object() if request_id is None else request_id
        serving = self._serve(key, request_id, answer, caller)
        self._tasks[key] = asyncio.get_running_loop().create_task(serving)

    async def _serve(
        self, key: object, request_id: object, answer: Answer, caller: dict[str, Any] | None
    ) -> None:
        def check() -> None:
            if caller is not None:
                # The token may have been revoked.
                self._application.identities.identify_caller(caller, self._actor)

        try:
            if isinstance(answer, Awaitable):
                answer = await answer  # after an approval this may be a stream
            if isinstance(answer, AsyncGenerator):
                await self._write_items(request_id, answer, check)
                answer = Result()
            self._write(codec.answer(request_id, answer))
        except Exception as error:  # noqa: BLE001 - the border of the door
            self._write(codec.failure(request_id, public_error(error)))
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]
            if self._has_ended and not self._tasks:
                self._transport.close()

    def _cancel(self, request_id: object, target: object) -> None:
        task = self._tasks.get(target)
        if task is not None:
            task.cancel()
            self._write(codec.answer(target, {"message": "cancelled"}))
        if request_id is not None:
            self._write(codec.answer(request_id, {"message": "cancelled" if task else "not open"}))


def _has_left(sock: Any) -> bool:
    """Return whether the client is gone, rather than only at the end of its requests."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))
