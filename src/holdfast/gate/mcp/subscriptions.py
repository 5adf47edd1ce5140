"""Subscriptions to resources, in both protocol eras: a client learns that a resource changed.

A client gets at most one notification a second for each resource, without the new content. Each
subscriber is watched for with its own token, across every restart of the supervisor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp_types import (
    INVALID_PARAMS,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

from holdfast.client.channel import Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.mcp.call import McpClient, client_of
from holdfast.gate.mcp.resources import address_of
from holdfast.vocabulary.errors import HoldfastError

MOST_OF_ONE = 100
MOST_STREAMS = 500
NOTIFY_SECONDS = 1.0
RETRY_SECONDS = 0.3
LIST_CHANGED = "list_changed"
"""Stands for the list of resources itself, in the place of a URI."""
_STATE = "holdfast.watcher"
_LIST_EVENTS = ("service:added", "service:removed")

Context = ServerRequestContext[Any, Any]
Notify = Callable[[str], Awaitable[None]]


class Subscriptions:
    """The protocol's handlers: `resources/subscribe`, and streams of `subscriptions/listen`."""

    def __init__(self, new_channel: Callable[[], Channel]) -> None:
        self._new_channel = new_channel
        self._streams = 0

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> Any:
        watcher = self._watcher(ctx)
        if watcher.count >= MOST_OF_ONE:
            raise MCPError(INVALID_PARAMS, f"at most {MOST_OF_ONE} subscriptions")
        watcher.add(str(params.uri))
        return {}

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> Any:
        self._watcher(ctx).remove(str(params.uri))
        return {}

    def _watcher(self, ctx: Context) -> ResourceWatcher:
        """Return the watcher of this connection, which ends with it."""
        connection = ctx.session._connection
        watcher: ResourceWatcher | None = connection.state.get(_STATE)
        if watcher is None:
            notify = ctx.session.send_resource_updated
            watcher = ResourceWatcher(client_of(ctx), self._new_channel, notify)
            connection.state[_STATE] = watcher
            connection.exit_stack.callback(watcher.close)
        return watcher

    async def listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> Any:
        if self._streams >= MOST_STREAMS:
            raise MCPError(INVALID_PARAMS, "too many streams are open")
        wanted = params.notifications
        uris = [str(uri) for uri in wanted.resource_subscriptions or ()]
        if len(uris) > MOST_OF_ONE:
            raise MCPError(INVALID_PARAMS, f"at most {MOST_OF_ONE} subscriptions")
        if wanted.resources_list_changed:
            uris.append(LIST_CHANGED)
        bus = InMemorySubscriptionBus()

        async def notify(uri: str) -> None:
            event = ResourcesListChanged() if uri == LIST_CHANGED else ResourceUpdated(uri)
            await bus.publish(event)

        watcher = ResourceWatcher(client_of(ctx), self._new_channel, notify)
        watcher.watch(uris)
        self._streams += 1
        try:
            return await ListenHandler(bus)(ctx, params)
        finally:
            self._streams -= 1
            watcher.close()


class ResourceWatcher:
    """Notifies one subscriber of changes of its resources."""

    def __init__(
        self, client: McpClient, new_channel: Callable[[], Channel], notify: Notify
    ) -> None:
        self._client = client
        self._new_channel = new_channel
        self._notify = notify
        self._uris: dict[str, float] = {}
        """When each was last notified."""
        self._changed: dict[str, None] = {}
        self._bell = asyncio.Event()
        self._followers: list[asyncio.Task[None]] = []
        self._notifier: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        return len(self._uris)

    def watch(self, uris: Iterable[str]) -> None:
        """Watch these from now on, and no others."""
        self._uris = {uri: self._uris.get(uri, 0.0) for uri in uris}
        self._restart()

    def add(self, uri: str) -> None:
        self._uris.setdefault(uri, 0.0)
        self._restart()

    def remove(self, uri: str) -> None:
        self._uris.pop(uri, None)
        self._restart()

    def close(self) -> None:
        for task in [*self._followers, *([self._notifier] if self._notifier else [])]:
            task.cancel()
        self._followers, self._notifier = [], None

    def _restart(self) -> None:
        for task in self._followers:
            task.cancel()
        create = asyncio.get_running_loop().create_task
        found = [address_of(uri) for uri in self._uris]
        logs = {one.name for one in found if one is not None and one.kind == "log"}
        has_others = any(one is None or one.kind not in ("log", "run-log") for one in found)
        self._followers = []
        if logs:
            fields = {"services": sorted(logs)}
            self._followers.append(create(self._follow("watch", fields)))
        if has_others:
            self._followers.append(create(self._follow("events", {"follow": True, "limit": 0})))
        if self._notifier is None and self._uris:
            self._notifier = create(self._notify_changes())

    async def _follow(self, command: str, fields: dict[str, Any]) -> None:
        was_interrupted = False
        while True:
            channel = self._new_channel()
            begun: set[str] = set()
            try:
                async for item in channel.stream(command, fields, self._client.caller):
                    if was_interrupted:
                        # Something may have changed while nobody watched.
                        self._mark(list(self._uris))
                        was_interrupted = False
                    name = item.get("service") or ""
                    if command == "watch" and name not in begun:
                        begun.add(name)  # the first item says only that the watch began
                        continue
                    self._mark(self._changed_by(command, item, name))
                return
            except Unreachable:
                was_interrupted = True
                await asyncio.sleep(RETRY_SECONDS)
            except HoldfastError:
                return
            finally:
                await channel.close()

    def _changed_by(self, command: str, item: dict[str, Any], name: str) -> list[str]:
        """Return the URIs whose content changed with this item."""
        changed = []
        for uri in self._uris:
            if uri == LIST_CHANGED:
                if item.get("kind") in _LIST_EVENTS:
                    changed.append(uri)
                continue
            address = address_of(uri)
            if address is None:
                continue
            if command == "watch":
                is_changed = address.kind == "log" and address.name == name
            else:
                is_changed = address.kind in ("services", "events") or (
                    address.kind in ("service", "runs") and address.name == name
                )
            if is_changed:
                changed.append(uri)
        return changed

    def _mark(self, uris: list[str]) -> None:
        self._changed.update(dict.fromkeys(uris))
        if self._changed:
            self._bell.set()

    async def _notify_changes(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            now = time.monotonic()
            due = [uri for uri in self._changed if self._uris.get(uri, 0.0) + NOTIFY_SECONDS <= now]
            for uri in due:
                del self._changed[uri]
                if uri in self._uris:
                    self._uris[uri] = now
                    await self._notify(uri)
            waiting = [self._uris[uri] for uri in self._changed if uri in self._uris]
            if waiting:
                await asyncio.sleep(max(0.0, min(waiting) + NOTIFY_SECONDS - time.monotonic()))
                self._bell.set()
