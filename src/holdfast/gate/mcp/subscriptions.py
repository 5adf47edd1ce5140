"""Tells who subscribed that a resource changed: at most once a second each, never what changed.

Watches with the subscriber's own token, and goes on after the supervisor was replaced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from holdfast.client.channel import Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.mcp.call import Client
from holdfast.gate.mcp.resources import place_of
from holdfast.vocabulary.errors import HoldfastError

PACE_SECONDS = 1.0
AGAIN_SECONDS = 0.3
LIST_CHANGED = "list_changed"
"""Stands for an address: the list of resources itself."""
_LISTING = ("service:added", "service:removed")

Notify = Callable[[str], Awaitable[None]]


class Watcher:
    """What one subscriber wants to know."""

    def __init__(self, client: Client, new_channel: Callable[[], Channel], notify: Notify) -> None:
        self._client = client
        self._new_channel = new_channel
        self._notify = notify
        self._uris: dict[str, float] = {}
        self._changed: dict[str, None] = {}
        self._bell = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._telling: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        return len(self._uris)

    def watch(self, uris: Iterable[str]) -> None:
        """Be told of these from now on, instead of what was wanted before."""
        self._uris = {uri: self._uris.get(uri, 0.0) for uri in uris}
        self._restart()

    def add(self, uri: str) -> None:
        self._uris.setdefault(uri, 0.0)
        self._restart()

    def remove(self, uri: str) -> None:
        self._uris.pop(uri, None)
        self._restart()

    def close(self) -> None:
        for task in [*self._tasks, *([self._telling] if self._telling else [])]:
            task.cancel()
        self._tasks, self._telling = [], None

    def _restart(self) -> None:
        for task in self._tasks:
            task.cancel()
        loop = asyncio.get_running_loop()
        places = {uri: place_of(uri) for uri in self._uris}
        logs = {p.name for p in places.values() if p is not None and p.kind == "log"}
        others = [p for uri, p in places.items() if p is None or p.kind not in ("log", "run-log")]
        self._tasks = []
        if logs:
            self._tasks.append(loop.create_task(self._follow("watch", {"services": sorted(logs)})))
        if others:
            fields = {"follow": True, "limit": 0}
            self._tasks.append(loop.create_task(self._follow("events", fields)))
        if self._telling is None and self._uris:
            self._telling = loop.create_task(self._tell())

    async def _follow(self, command: str, fields: dict[str, Any]) -> None:
        is_anew = False
        while True:
            channel = self._new_channel()
            begun: set[str] = set()
            try:
                async for item in channel.stream(command, fields, self._client.caller):
                    if is_anew:
                        # Something may have happened while nobody told.
                        self._mark(list(self._uris))
                        is_anew = False
                    name = item.get("service") or ""
                    if command == "watch" and name not in begun:
                        begun.add(name)  # the first one says only that it is watched
                        continue
                    self._mark(self._meant(command, item, name))
                return
            except Unreachable:
                is_anew = True
                await asyncio.sleep(AGAIN_SECONDS)
            except HoldfastError:
                return
            finally:
                await channel.close()

    def _meant(self, command: str, item: dict[str, Any], name: str) -> list[str]:
        """The addresses at which something else stands now."""
        found = []
        for uri in self._uris:
            if uri == LIST_CHANGED:
                if item.get("kind") in _LISTING:
                    found.append(uri)
                continue
            place = place_of(uri)
            if place is None:
                continue
            if command == "watch":
                is_meant = place.kind == "log" and place.name == name
            else:
                is_meant = place.kind in ("services", "events") or (
                    place.kind in ("service", "runs") and place.name == name
                )
            if is_meant:
                found.append(uri)
        return found

    def _mark(self, uris: list[str]) -> None:
        self._changed.update(dict.fromkeys(uris))
        if self._changed:
            self._bell.set()

    async def _tell(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            now = time.monotonic()
            due = [uri for uri in self._changed if self._uris.get(uri, 0.0) + PACE_SECONDS <= now]
            for uri in due:
                del self._changed[uri]
                if uri in self._uris:
                    self._uris[uri] = now
                    await self._notify(uri)
            waiting = [self._uris[uri] for uri in self._changed if uri in self._uris]
            if waiting:
                await asyncio.sleep(max(0.0, min(waiting) + PACE_SECONDS - time.monotonic()))
                self._bell.set()
