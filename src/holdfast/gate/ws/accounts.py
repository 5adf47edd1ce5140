"""Rooms `user:{id}`: everybody connected as the same actor is told the same. And whether the
token that let them in is still good, asked now and then: the gate itself knows no token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.events import RETRY_SECONDS, follow
from holdfast.gate.ws.frames import frame
from holdfast.vocabulary.errors import HoldfastError, Refused, Unauthorized
from holdfast.vocabulary.events import Kind

RECHECK_SECONDS = 10.0
MOST_MEMBERS = 256
"""Connections of one token."""
TOLD = frozenset({Kind.ALERT_RAISED.value, Kind.ALERT_CLEARED.value})


class Member(Protocol):
    """A connection."""

    def post(self, text: str) -> None: ...

    def dismiss(self, error: HoldfastError) -> None: ...


OnLost = Callable[[HoldfastError], None]


class Hold(NamedTuple):
    """A right to follow a service, held open at the supervisor, and who relies on it."""

    listeners: set[OnLost]
    task: asyncio.Task[None]


class Room:
    """All connections with one token."""

    def __init__(self, name: str, caller: Caller) -> None:
        self.name = name
        self.caller = caller
        self.members: dict[Member, None] = {}
        """The oldest first."""
        self.tasks: list[asyncio.Task[None]] = []
        self.holds: dict[str, Hold] = {}

    def dismiss(self, error: HoldfastError) -> None:
        for member in list(self.members):
            member.dismiss(error)

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
        room.members[member] = None
        return room

    def end_oldest_of_largest(self, token: str, error: HoldfastError) -> bool:
        """Make room for a connection of this token; False if no other token has more."""
        largest = max(self._rooms.values(), key=lambda room: len(room.members), default=None)
        own = self._rooms.get(token)
        if largest is None or len(largest.members) <= (len(own.members) if own else 0) + 1:
            return False
        oldest = next(iter(largest.members))
        del largest.members[oldest]
        oldest.dismiss(error)
        return True

    async def leave(self, member: Member, room: Room) -> None:
        room.members.pop(member, None)
        if room.members or self._rooms.get(room.caller.token) is not room:
            return
        del self._rooms[room.caller.token]
        tasks = [*room.tasks, *(hold.task for hold in room.holds.values())]
        room.holds.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _recheck(self, room: Room) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await self._channel.ask("hello", {}, room.caller, is_repeatable=True)
            except Refused as error:
                room.dismiss(error)
            except HoldfastError:
                continue

    # The right to follow a service

    def hold(self, room: Room, service: str, on_lost: OnLost) -> Callable[[], None]:
        """Call `on_lost` as soon as this token may not follow the service any more. Answers how
        to stop listening. All connections with one token share one request at the supervisor."""
        hold = room.holds.get(service)
        if hold is None:
            task = asyncio.get_running_loop().create_task(self._hold(room, service))
            hold = room.holds[service] = Hold(set(), task)
        hold.listeners.add(on_lost)

        def release() -> None:
            hold.listeners.discard(on_lost)
            if not hold.listeners and room.holds.get(service) is hold:
                del room.holds[service]
                hold.task.cancel()

        return release

    async def _hold(self, room: Room, service: str) -> None:
        fields = {"service": service, "hold": True}
        while True:
            channel = self._new_channel()
            try:
                stream = channel.stream("open_output", fields, room.caller)
                async with aclosing(stream) as items:
                    async for _ in items:
                        continue
            except Unreachable:
                pass
            except HoldfastError as error:
                self._lose(room, service, error)
                return
            finally:
                await channel.close()
            await asyncio.sleep(RETRY_SECONDS)

    def _lose(self, room: Room, service: str, error: HoldfastError) -> None:
        hold = room.holds.pop(service, None)
        for on_lost in list(hold.listeners) if hold is not None else ():
            on_lost(error)
        if isinstance(error, Unauthorized):
            room.dismiss(error)

    async def _notices(self, room: Room) -> None:
        """What concerns everybody who may see it: alerts, from now on."""
        try:
            since = await self._newest(room.caller)
            events = follow(self._new_channel, room.caller, since, [])
            async with aclosing(events) as items:
                async for event in items:
                    if event["kind"] in TOLD:
                        room.tell(event["kind"], event, seq=event["seq"])
        except Unauthorized as error:
            room.dismiss(error)
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
