"""An asynchronous channel to the line door, for the gate: many requests over few sockets.

Each request is on behalf of a caller, whose token is passed on. The channel reconnects when the
supervisor is replaced, and asks repeatable requests again. A request whose caller no longer waits
is cancelled at the supervisor.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple, cast

from holdfast.client.connection import (
    LONGEST_REQUEST,
    ConnectionLost,
    Unreachable,
    error_from,
)
from holdfast.system.lines import LineBuffer, LineTooLong
from holdfast.vocabulary.errors import TooManyRequests, UsageError

MAX_FRAME_BYTES = 64 * 1024 * 1024
TRIES = 3
RETRY_SECONDS = 0.1
MAX_UNREAD_ITEMS = 1000
MAX_REQUESTS_PER_TOKEN = 500
"""Open requests of one token, so that one caller cannot use up the sockets of all."""
MAX_REQUESTS_PER_SOCKET = 900
"""Open requests on one socket; the line door refuses more than 1000."""
MAX_SOCKETS = 16
_ANSWER = b',"ok":true,"result":'
_dump = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, ensure_ascii=False, allow_nan=False
).encode

Frame = dict[str, Any]
OnNotice = Callable[[Frame], object]


class LocalPeer(NamedTuple):
    """A user of this machine, and processes with their pids and start times."""

    uid: int
    processes: tuple[tuple[int, str], ...]


class Caller(NamedTuple):
    """The caller on whose behalf something is asked."""

    token: str
    door: str
    call: str | None = None
    """The tool call that the request is a part of, for the audit."""
    is_here: bool = False
    """Whether a caller without a token is known to be on this machine."""
    peer: LocalPeer | None = None
    """The user and the processes of a caller without a token, by the kernel's socket table."""


class Channel:
    """The sockets, shared by all requests: one, unless very many are open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._ids = itertools.count(1)
        self._open: Counter[str] = Counter()
        self._sockets: list[_Socket] = []
        self._connecting = asyncio.Lock()

    async def ask(
        self,
        command: str,
        fields: Frame,
        caller: Caller | None,
        *,
        is_repeatable: bool,
        key: str | None = None,
        on_notice: OnNotice | None = None,
    ) -> Frame:
        """The answer to one command; raises the error that came instead.

        Under a `key` it is done once, however often it is asked. `on_notice` is called with what
        the answer waits for.
        """
        if key is not None:
            fields = {**fields, "key": key}
        answer = await self.ask_text(
            command, fields, caller, is_repeatable=is_repeatable, on_notice=on_notice
        )
        found: Frame = json.loads(answer) or {}
        return found

    async def ask_text(
        self,
        command: str,
        fields: Frame,
        caller: Caller | None,
        *,
        is_repeatable: bool,
        on_notice: OnNotice | None = None,
    ) -> bytes:
        """The answer as the JSON text that the supervisor wrote."""
        for attempt in range(TRIES):
            try:
                return await self._ask(command, fields, caller, on_notice)
            except Unreachable:
                # A request that may have been carried out must not be carried out twice.
                if not is_repeatable or attempt == TRIES - 1:
                    raise
                await asyncio.sleep(RETRY_SECONDS * attempt)
        raise AssertionError

    async def stream(
        self, command: str, fields: Frame, caller: Caller | None
    ) -> AsyncGenerator[Frame, None]:
        """The items of a streaming command, until it ends or the reader leaves.

        A slow reader pauses its whole socket, so a stream needs a channel of its own.
        """
        request, text = self._request(command, fields, caller)
        socket = await self._socket()
        items = socket.items(request, text)
        try:
            while True:
                frame = await items.next()
                if frame is None:
                    return
                yield frame
        finally:
            socket.leave(request)

    async def close(self) -> None:
        for socket in self._sockets:
            socket.close()

    async def _ask(
        self, command: str, fields: Frame, caller: Caller | None, on_notice: OnNotice | None
    ) -> bytes:
        token = caller.token if caller is not None else ""
        if self._open[token] >= MAX_REQUESTS_PER_TOKEN:
            raise TooManyRequests("too many requests of this token are open", "await some first")
        self._open[token] += 1
        try:
            request, text = self._request(command, fields, caller)
            socket = self._free_socket() or await self._socket()
            if not socket.can_write:
                await socket.writable()
            if on_notice is not None:
                socket.notices[request] = on_notice
            try:
                return await socket.answer(request, text)
            finally:
                socket.notices.pop(request, None)
                socket.leave(request)
                if not socket.waiting and len(self._sockets) > 1 and socket is not self._sockets[0]:
                    socket.close()
        finally:
            self._open[token] -= 1
            if not self._open[token]:
                del self._open[token]

    def _request(self, command: str, fields: Frame, caller: Caller | None) -> tuple[int, bytes]:
        request = next(self._ids)
        frame = {**fields, "id": request, "command": command}
        if caller is not None:
            frame["caller"] = {"token": caller.token, "door": caller.door}
            if caller.call is not None:
                frame["caller"]["call"] = caller.call
            if caller.is_here:
                frame["caller"]["here"] = True
            if caller.peer is not None:
                frame["caller"]["peer"] = caller.peer._asdict()
        return request, _encode(frame)

    def _free_socket(self) -> _Socket | None:
        for socket in self._sockets:
            if socket.is_open and len(socket.waiting) < MAX_REQUESTS_PER_SOCKET:
                return socket
        return None

    async def _socket(self) -> _Socket:
        """A socket with room for a request; a new one if there is none."""
        async with self._connecting:
            found = self._free_socket()
            if found is not None:
                return found
            self._sockets = [socket for socket in self._sockets if socket.is_open]
            if len(self._sockets) >= MAX_SOCKETS:
                raise TooManyRequests("too many requests are open", "try again later")
            loop = asyncio.get_running_loop()
            try:
                _, socket = await loop.create_unix_connection(_Socket, self._path)
            except OSError as error:
                why = f"nobody answers at {self._path}: {error.strerror or error}"
                raise Unreachable(why) from None
            self._sockets.append(socket)
            return socket


class _Socket(asyncio.Protocol):
    """One socket. Requests of one moment go out in one write; frames come in by id."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[bytes] | _Items] = {}
        self.notices: dict[int, OnNotice] = {}
        self.can_write = True
        self.is_open = True
        self._transport: asyncio.Transport
        self._outgoing: list[bytes] = []
        self._lines = LineBuffer(MAX_FRAME_BYTES)
        self._writers: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()

    def answer(self, request: int, text: bytes) -> asyncio.Future[bytes]:
        future = self.waiting[request] = self._loop.create_future()
        self._send(text)
        return future

    def items(self, request: int, text: bytes) -> _Items:
        found = self.waiting[request] = _Items(self)
        self._send(text)
        return found

    def leave(self, request: int) -> None:
        """Forget a request; if it is not over, cancel it at the supervisor."""
        waiting = self.waiting.pop(request, None)
        if waiting is None:
            return
        if isinstance(waiting, _Items):
            is_over = waiting.is_over
            self.resume()
        else:
            is_over = waiting.done() and not waiting.cancelled()
        if not is_over:
            self._send(_dump({"command": "cancel", "target": request}).encode() + b"\n")

    async def writable(self) -> None:
        while not self.can_write:
            future = self._loop.create_future()
            self._writers.append(future)
            await future

    def pause(self) -> None:
        if self.is_open:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self.is_open:
            self._transport.resume_reading()

    def close(self) -> None:
        self._flush()
        self._transport.close()
        self._fail_waiting()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail_waiting()

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        writers, self._writers = self._writers, []
        for future in writers:
            if not future.done():
                future.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            lines = self._lines.feed(data)
        except LineTooLong:
            self._transport.abort()
            return
        for line in lines:
            self._on_line(line)

    def _on_line(self, line: bytes) -> None:
        # Answers are long and many, so they are passed on without being parsed.
        head, is_answer, result = line.partition(_ANSWER)
        number = head[6:]
        if is_answer and head[:6] == b'{"id":' and number.isdigit():
            waiting = self.waiting.get(int(number))
            if isinstance(waiting, _Items):
                waiting.end(None)
            elif waiting is not None and not waiting.done():
                waiting.set_result(result[:-1])
            return
        try:
            frame: Frame = json.loads(line)
        except ValueError:
            self._transport.abort()
            return
        waiting = self.waiting.get(frame.get("id") or 0)
        if "notice" in frame:
            if (on_notice := self.notices.get(frame.get("id") or 0)) is not None:
                on_notice(frame["notice"])
        elif isinstance(waiting, _Items) and "item" in frame:
            waiting.put(frame["item"])
        elif isinstance(waiting, _Items):
            waiting.end(None if frame.get("ok") else error_from(frame.get("error") or {}))
        elif waiting is not None and not waiting.done():
            if frame.get("ok"):
                waiting.set_result(_dump(frame.get("result")).encode())
            else:
                waiting.set_exception(error_from(frame.get("error") or {}))

    def _send(self, text: bytes) -> None:
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(text)

    def _flush(self) -> None:
        if self._outgoing and not self._transport.is_closing():
            self._transport.write(b"".join(self._outgoing))
        self._outgoing = []

    def _fail_waiting(self) -> None:
        self.is_open = False
        self.resume_writing()
        for waiting in list(self.waiting.values()):
            if isinstance(waiting, _Items):
                waiting.end(_lost())
            elif not waiting.done():
                waiting.set_exception(_lost())


class _Items:
    """The items of a stream that nobody has read yet."""

    def __init__(self, socket: _Socket) -> None:
        self.is_over = False
        self._socket = socket
        self._queue: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._error: Exception | None = None

    def put(self, item: Frame) -> None:
        self._queue.put_nowait(item)
        if self._queue.qsize() == MAX_UNREAD_ITEMS:
            self._socket.pause()

    def end(self, error: Exception | None) -> None:
        if not self.is_over:
            self.is_over, self._error = True, error
            self._queue.put_nowait(None)

    async def next(self) -> Frame | None:
        """The next item, or None at the end; raises the error that ended the stream."""
        item = await self._queue.get()
        if self._queue.qsize() == MAX_UNREAD_ITEMS - 1:
            self._socket.resume()
        if item is None and self._error is not None:
            raise self._error
        return item


def _encode(frame: Frame) -> bytes:
    """A request as a line. Raises UsageError for what JSON cannot express (NaN, half a character):
    the supervisor could not read its id either, and its answer would reach nobody."""
    try:
        line = _dump(frame).encode() + b"\n"
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this cannot be said in JSON: {error}") from None
    if len(line) > LONGEST_REQUEST:
        raise UsageError("the request is too long", f"at most {LONGEST_REQUEST} bytes")
    return line


def _lost() -> ConnectionLost:
    return ConnectionLost(
        "the supervisor went away before it answered", "ask how things are now, and try again"
    )
