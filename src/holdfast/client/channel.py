"""A connection to the line door for programs with an event loop: the gate's.

Many requests at once over one socket, each on behalf of a caller whose token it passes on.
Comes back by itself when the supervisor is replaced; what only reads is asked again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from holdfast.client.connection import ConnectionLost, Unreachable, error_from
from holdfast.vocabulary.errors import Refused, UsageError

LONGEST_FRAME = 64 * 1024 * 1024
LONGEST_REQUEST = 8 * 1024 * 1024 - 1
"""The line door hangs up on who sends more in one line, and others share this socket."""
TRIES = 3
RETRY_SECONDS = 0.1
_MOST_ITEMS = 1000
MOST_OF_ONE = 500
"""Requests of one token at a time: who asks too much must not use up what all share."""
_dump = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, ensure_ascii=False, allow_nan=False
).encode

Frame = dict[str, Any]


class Caller(NamedTuple):
    """On whose behalf something is asked."""

    token: str
    door: str


class Channel:
    """One socket, shared by all requests."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Queue[Frame | None]] = {}
        self._open: Counter[str] = Counter()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    async def ask(
        self, command: str, fields: Frame, caller: Caller | None, *, is_repeatable: bool
    ) -> Frame:
        """The answer to one command; raises the error that came instead."""
        for attempt in range(TRIES):
            try:
                return await self._ask(command, fields, caller)
            except Unreachable:
                # What may have been done must not be done twice.
                if not is_repeatable or attempt == TRIES - 1:
                    raise
                await asyncio.sleep(RETRY_SECONDS * attempt)
        raise AssertionError

    async def stream(
        self, command: str, fields: Frame, caller: Caller | None
    ) -> AsyncGenerator[Frame, None]:
        """The items of a streaming command, until it ends or the reader leaves.

        Of a channel of its own: who reads slowly makes only himself wait.
        """
        request, queue = await self._send(command, fields, caller)
        try:
            while True:
                frame = await queue.get()
                if frame is None:
                    raise _lost()
                if "item" not in frame:
                    _result_of(frame)
                    return
                yield frame["item"]
        finally:
            if self._waiting.pop(request, None) is not None:
                await self._cancel(request)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _ask(self, command: str, fields: Frame, caller: Caller | None) -> Frame:
        who = caller.token if caller is not None else ""
        if self._open[who] >= MOST_OF_ONE:
            raise Refused("too many requests of this token are open", "await some first")
        self._open[who] += 1
        try:
            request, queue = await self._send(command, fields, caller)
            try:
                frame = await queue.get()
            finally:
                self._waiting.pop(request, None)
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]
        if frame is None:
            raise _lost()
        return _result_of(frame)

    async def _send(
        self, command: str, fields: Frame, caller: Caller | None
    ) -> tuple[int, asyncio.Queue[Frame | None]]:
        request = next(self._ids)
        frame = {**fields, "id": request, "command": command}
        if caller is not None:
            frame["caller"] = caller._asdict()
        line = _line(frame)
        writer = await self._connected()
        queue: asyncio.Queue[Frame | None] = asyncio.Queue(_MOST_ITEMS)
        self._waiting[request] = queue
        try:
            writer.write(line)
            await writer.drain()
        except OSError:
            self._waiting.pop(request, None)
            raise _lost() from None
        return request, queue

    async def _cancel(self, request: int) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(_dump({"command": "cancel", "target": request}).encode() + b"\n")

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None or self._writer.is_closing():
                try:
                    reader, self._writer = await asyncio.open_unix_connection(
                        self._path, limit=LONGEST_FRAME
                    )
                except OSError as error:
                    why = f"nobody answers at {self._path}: {error.strerror or error}"
                    raise Unreachable(why) from None
                loop = asyncio.get_running_loop()
                self._reading = loop.create_task(self._read(reader, self._writer))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                frame: Frame = json.loads(line)
                queue = self._waiting.get(frame.get("id") or 0)
                if queue is not None:
                    await queue.put(frame)
        except (OSError, ValueError):
            pass
        finally:
            writer.close()
            waiting, self._waiting = self._waiting, {}
            for queue in waiting.values():
                if queue.full():
                    queue.get_nowait()
                queue.put_nowait(None)


def _line(frame: Frame) -> bytes:
    """Raises UsageError for what is no JSON (NaN, half a character): it would not be understood
    at the other end, and an answer to nobody in particular reaches nobody."""
    try:
        line = _dump(frame).encode() + b"\n"
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this cannot be said in JSON: {error}") from None
    if len(line) > LONGEST_REQUEST:
        raise UsageError("the request is too long", f"at most {LONGEST_REQUEST} bytes")
    return line


def _result_of(frame: Frame) -> Frame:
    if frame.get("ok"):
        result: Frame = frame.get("result") or {}
        return result
    raise error_from(frame.get("error") or {})


def _lost() -> ConnectionLost:
    return ConnectionLost(
        "the supervisor went away before it answered", "ask how things are now, and try again"
    )
