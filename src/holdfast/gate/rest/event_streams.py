"""What happens, told as server-sent events: events, records, progress, and lines of logs.

A client that comes back with `Last-Event-ID` misses nothing. A refusal is answered as one and
not told inside a stream. Events and logs go on over every end of the supervisor.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
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
"""So long a stream waits for a refusal before it begins; mostly the first item comes first."""
ALIVE_SECONDS = 15.0
LONGEST_SECONDS = 3600.0
"""Then a stream ends, between two events; clients come back by themselves."""
MOST_OF_TOKEN = 128
MOST_STREAMS = 1024
"""Each holds a connection to the supervisor."""
_LONGEST_NUMBER = 18
_RETRY = b"retry: 1000\n\n"
_ALIVE = b": still here\n\n"
_encode = msgspec.json.Encoder().encode
Story = AsyncGenerator[bytes, None]


class Stories:
    """Streams of all commands that have one."""

    def __init__(self, channel: Channel, new_channel: Callable[[], Channel]) -> None:
        self._channel = channel
        self._new_channel = new_channel
        self._open: Counter[str] = Counter()

    @asynccontextmanager
    async def told(
        self,
        command: type[Command],
        fields: dict[str, Any],
        caller: Caller,
        headers: Mapping[str, str],
    ) -> AsyncIterator[Story]:
        """A stream of the caller's share, when it is clear that it is not refused."""
        if self._open[caller.token] >= MOST_OF_TOKEN:
            raise TooManyRequests(f"this token has {MOST_OF_TOKEN} streams", "close some")
        if self._open.total() >= MOST_STREAMS:
            raise TooManyRequests("too many streams are open", "try again later")
        self._open[caller.token] += 1
        try:
            async with aclosing(await self.begin(command, fields, caller, headers)) as story:
                yield story
        finally:
            self._open[caller.token] -= 1
            self._open += Counter()  # which forgets those that have none

    async def begin(
        self,
        command: type[Command],
        fields: dict[str, Any],
        caller: Caller,
        headers: Mapping[str, str],
    ) -> Story:
        """The stream, when it is clear that it is not refused."""
        last = headers.get("last-event-id", "")
        match command.name:
            case "events":
                story = self._events(fields, caller, last)
            case "logs":
                story = self._lines(fields, caller, last)
            case _:
                number = _number(last)
                if number is not None and "since" in command.__struct_fields__:
                    fields["since"] = number
                story = self._items(command, fields, caller)
        return await begun(story)

    async def _events(self, fields: dict[str, Any], caller: Caller, last: str) -> Story:
        fields = {name: value for name, value in fields.items() if name != "follow"}
        if (number := _number(last)) is not None:
            fields["since"] = number
        if fields.get("since") is None:
            found = await self._channel.ask("events", fields, caller, is_repeatable=True)
            for event in found["events"]:
                yield server_sent(event, event["seq"])
            fields["since"] = found["last"]
        else:
            found = await self._channel.ask("events", {"limit": 1}, caller, is_repeatable=True)
            fields["since"] = known_place(fields["since"], found["last"])
        services = fields.get("services") or []
        async with aclosing(
            follow_events(self._new_channel, caller, fields["since"], services)
        ) as events:
            async for event in events:
                yield server_sent(event, event["seq"])

    async def _lines(self, fields: dict[str, Any], caller: Caller, last: str) -> Story:
        refused = {"grep", "run", "limit", "max_bytes"} & fields.keys()
        if refused:
            raise UsageError(f'"{refused.pop()}" is not for a stream', "ask without it")
        if last:
            fields["cursor"] = last
        lines = follow_lines(self._channel, self._new_channel, fields, caller)
        async with aclosing(lines) as told:
            async for place, line in told:
                yield server_sent(line, place)

    async def _items(self, command: type[Command], fields: dict[str, Any], caller: Caller) -> Story:
        channel = self._new_channel()
        try:
            async with aclosing(
                channel.stream(command.name, {**fields, "follow": True}, caller)
            ) as items:
                async for item in items:
                    yield server_sent(item, item.get("seq"))
        finally:
            await channel.close()


async def begun(story: Story) -> Story:
    """Wait a moment for a refusal; then tell what comes, and that we live when nothing does."""
    first = asyncio.ensure_future(anext(story, b""))
    try:
        await asyncio.wait([first], timeout=REFUSAL_SECONDS)
    except asyncio.CancelledError:
        first.cancel()
        raise
    if first.done() and (error := first.exception()) is not None:
        raise error
    return _told(story, first)


async def _told(story: Story, following: asyncio.Future[bytes]) -> Story:
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
                text = following.result()
            except HoldfastError as error:
                yield b"event: error\ndata: " + _encode(error.as_fields()) + b"\n\n"
                return
            if not text:
                return
            yield text
            following = asyncio.ensure_future(anext(story, b""))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await story.aclose()


def server_sent(item: Any, place: object) -> bytes:
    number = f"id: {place}\n".encode() if place is not None else b""
    return number + b"data: " + _encode(item) + b"\n\n"


def response(told: Story) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told, headers=headers, media_type=EVENT_STREAM)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None
