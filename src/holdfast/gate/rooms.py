"""Rooms `user:{id}`: everybody connected as the same actor is told the same. And whether the
token that let them in is still good, asked now and then: the gate itself knows no token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Protocol

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.following import RETRY_SECONDS, follow
from holdfast.gate.frames import frame
from holdfast.vocabulary.errors import HoldfastError, Refused
from holdfast.vocabulary.events import Kind

RECHECK_SECONDS = 10.0
MOST_MEMBERS = 512
"""Connections of one token."""
TOLD = frozenset({Kind.ALERT_RAISED.value, Kind.ALERT_CLEARED.value})


class Member(Protocol):
    """A connection."""

    def post(self, text: str) -> None: ...

    def dismiss(self, error: HoldfastError) -> None: ...


class Room:
    """All connections with one token."""

    def __init__(self, name: str, caller: Caller) -> None:
        self.name = name
        self.caller = caller
        self.members: set[Member] = set()
        self.tasks: list[asyncio.Task[None]] = []

    def tell(self, event: str, data: Any, **more: Any) -> None:
        text = frame(event, data, room=self.name, **more)
        for member in list(self.members):
            member.post(text)


class Rooms:
    def __init__(self, channel: Channel, new_channel: Callable[[], Channel]) -> None:
        self._channel = channel
        self._new_channel = new_channel
        self._rooms: dict[str, Room] = {}

    def join(self, member: Member, caller: Caller, actor: str) -> Room | None:
        """None: there are too many already."""
        room = self._rooms.get(caller.token)
        if room is None:
            room = self._rooms[caller.token] = Room(f"user:{actor}", caller)
            create = asyncio.get_running_loop().create_task
            room.tasks = [create(self._recheck(room)), create(self._notices(room))]
        if len(room.members) >= MOST_MEMBERS:
            return None
        room.members.add(member)
        return room

    async def leave(self, member: Member, room: Room) -> None:
        room.members.discard(member)
        if room.members or self._rooms.get(room.caller.token) is not room:
            return
        del self._rooms[room.caller.token]
        for task in room.tasks:
            task.cancel()
        await asyncio.gather(*room.tasks, return_exceptions=True)

    async def _recheck(self, room: Room) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await self._channel.ask("hello", {}, room.caller, is_repeatable=True)
            except Refused as error:
                for member in list(room.members):
                    member.dismiss(error)
            except HoldfastError:
                continue

    async def _notices(self, room: Room) -> None:
        """What concerns everybody who may see it: alerts, from now on."""
        try:
            since = await self._newest(room.caller)
            events = follow(self._new_channel, room.caller, since, [])
            async with aclosing(events) as items:
                async for event in items:
                    if event["kind"] in TOLD:
                        room.tell(event["kind"], event, seq=event["seq"])
        except HoldfastError:
            # This token is not good for events.
            return

    async def _newest(self, caller: Caller) -> int:
        while True:
            try:
                return await newest(self._channel, caller)
            except Unreachable:
                await asyncio.sleep(RETRY_SECONDS)


async def newest(channel: Channel, caller: Caller) -> int:
    """The number of the newest event."""
    answer = await channel.ask("events", {"limit": 1}, caller, is_repeatable=True)
    return int(answer["last"])
