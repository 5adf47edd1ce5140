"""Subscriptions in both eras: `resources/subscribe`, and streams of `subscriptions/listen`."""

from __future__ import annotations

from collections.abc import Callable
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
from holdfast.gate.mcp.clients import client_of
from holdfast.gate.mcp.subscriptions import LIST_CHANGED, Watcher

MOST_OF_ONE = 100
MOST_STREAMS = 500
_STATE = "holdfast.watcher"
Context = ServerRequestContext[Any, Any]


class Subscribing:
    """Who is told of what; each watches with its own token."""

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

    def _watcher(self, ctx: Context) -> Watcher:
        """The one of this connection, which ends with it."""
        connection = ctx.session._connection
        found: Watcher | None = connection.state.get(_STATE)
        if found is None:
            notify = ctx.session.send_resource_updated
            found = Watcher(client_of(ctx), self._new_channel, notify)
            connection.state[_STATE] = found
            connection.exit_stack.callback(found.close)
        return found

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

        watcher = Watcher(client_of(ctx), self._new_channel, notify)
        watcher.watch(uris)
        self._streams += 1
        try:
            return await ListenHandler(bus)(ctx, params)
        finally:
            self._streams -= 1
            watcher.close()
