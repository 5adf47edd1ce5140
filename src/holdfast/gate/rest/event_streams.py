"""Answers that go on, as server-sent events: events, records, progress, and lines of logs.

A client that comes back with `Last-Event-ID` misses nothing. A refusal is an ordinary answer and
never part of a stream. Streams of events and logs continue across restarts of the supervisor.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from holdfast.client.channel import Caller, Channel
from holdfast.gate.events import follow_events
from holdfast.gate.output import follow_lines
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.errors import HoldfastError, TooManyRequests, UsageError
from holdfast.vocabulary.events import known_place

EVENT_STREAM = "text/event-stream"
REFUSAL_SECONDS = 0.25
"""How long a stream waits for a refusal before it begins; mostly the first item comes sooner."""
ALIVE_SECONDS = 15.0
LONGEST_SECONDS = 3600.0
"""Then a stream ends, between two events; clients come back by themselves."""
MOST_OF_TOKEN = 128
MOST_STREAMS = 1024
"""Each holds a connection to the supervisor."""
_LONGEST_NUMBER = 18
_NOT_FOLLOWED = frozenset({"grep", "run", "limit", "max_bytes"})
_RETRY = b"retry: 1000\n\n"
_ALIVE = b": still here\n\n"
_encode = msgspec.json.Encoder().encode

Item = tuple[object, Any]
"""The id of a server-sent event, or None, and its data."""


class EventStreams:
    """The streams of all callers; each token has a share."""

    def __init__(self, channel: Channel, new_channel: Callable[[], Channel]) -> None:
        self._channel = channel
        self._new_channel = new_channel
        self._open: Counter[str] = Counter()

    @asynccontextmanager
    async def open(
        self, command: type[Command], fields: dict[str, Any], caller: Caller, last_id: str
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Yield the bytes of a stream, once it is clear that it is not refused."""
        if self._open[caller.token] >= MOST_OF_TOKEN:
            raise TooManyRequests(f"this token has {MOST_OF_TOKEN} streams", "close some")
        if self._open.total() >= MOST_STREAMS:
            raise TooManyRequests("too many streams are open", "try again later")
        items = self._items(command, fields, caller, last_id)
        first = asyncio.ensure_future(anext(items, None))
        self._open[caller.token] += 1
        try:
            await asyncio.wait([first], timeout=REFUSAL_SECONDS)
            if first.done():
                first.result()
            async with aclosing(_server_sent(items, first)) as stream:
                yield stream
        finally:
            self._open[caller.token] -= 1
            self._open += Counter()  # which drops the tokens that have none
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await items.aclose()

    def _items(
        self, command: type[Command], fields: dict[str, Any], caller: Caller, last_id: str
    ) -> AsyncGenerator[Item, None]:
        if command.name == "logs":
            if refused := _NOT_FOLLOWED & fields.keys():
                raise UsageError(f'"{min(refused)}" is not for a stream', "ask without it")
            if last_id:
                fields["cursor"] = last_id
            return follow_lines(self._channel, self._new_channel, fields, caller)
        if "since" in command.__struct_fields__ and (number := _number(last_id)) is not None:
            fields["since"] = number
        if command.name == "events":
            return self._events(fields, caller)
        return self._stream(command, fields, caller)

    async def _events(self, fields: dict[str, Any], caller: Caller) -> AsyncGenerator[Item, None]:
        fields = {name: value for name, value in fields.items() if name != "follow"}
        if fields.get("since") is None:
            answer = await self._channel.ask("events", fields, caller, is_repeatable=True)
            for event in answer["events"]:
                yield event["seq"], event
            since = answer["last"]
        else:
            answer = await self._channel.ask("events", {"limit": 1}, caller, is_repeatable=True)
            since = known_place(fields["since"], answer["last"])
        services = fields.get("services") or []
        async with aclosing(follow_events(self._new_channel, caller, since, services)) as events:
            async for event in events:
                yield event["seq"], event

    async def _stream(
        self, command: type[Command], fields: dict[str, Any], caller: Caller
    ) -> AsyncGenerator[Item, None]:
        channel = self._new_channel()
        try:
            stream = channel.stream(command.name, {**fields, "follow": True}, caller)
            async with aclosing(stream) as items:
                async for item in items:
                    yield item.get("seq"), item
        finally:
            await channel.close()


async def _server_sent(
    items: AsyncGenerator[Item, None], following: asyncio.Future[Item | None]
) -> AsyncGenerator[bytes, None]:
    """Yield the items, the awaited one first, and a sign of life while none comes."""
    clock = asyncio.get_running_loop().time
    ending = clock() + LONGEST_SECONDS
    try:
        yield _RETRY
        while (left := ending - clock()) > 0:
            await asyncio.wait([following], timeout=min(left, ALIVE_SECONDS))
            if not following.done():
                yield _ALIVE
                continue
            try:
                item = following.result()
            except HoldfastError as error:
                yield b"event: error\ndata: " + _encode(error.as_fields()) + b"\n\n"
                return
            if item is None:
                return
            yield _event(*item)
            following = asyncio.ensure_future(anext(items, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _event(place: object, data: Any) -> bytes:
    head = f"id: {place}\n".encode() if place is not None else b""
    return head + b"data: " + _encode(data) + b"\n\n"


def response(stream: AsyncGenerator[bytes, None]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, headers=headers, media_type=EVENT_STREAM)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None
