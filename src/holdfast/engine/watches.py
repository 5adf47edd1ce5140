"""Who wants to know that a service printed more. Told positions, never bytes.

Asks the keeper for notices only while somebody watches. What a slow watcher did not take
yet is merged, so a watcher costs one entry a service at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.engine.ports import Keeper


class Subscription:
    """One watcher. `services` empty: all of them, also those that come later."""

    def __init__(self, services: frozenset[str], close: Callable[[Subscription], None]) -> None:
        self.services = services
        self._close = close
        self._items: dict[str, dict[str, Any]] = {}
        self._bell = asyncio.Event()

    def wants(self, service: str) -> bool:
        return not self.services or service in self.services

    def add(self, service: str, **facts: Any) -> None:
        self._items.setdefault(service, {"service": service}).update(facts)
        self._bell.set()

    async def next(self) -> list[dict[str, Any]]:
        """What happened since the last call; waits until there is something."""
        await self._bell.wait()
        self._bell.clear()
        items, self._items = self._items, {}
        return list(items.values())

    def close(self) -> None:
        self._close(self)


class Watches:
    """All watchers, and what the keeper was asked to tell."""

    def __init__(self, keeper: Keeper, known: Callable[[], Iterable[str]]) -> None:
        self._keeper = keeper
        self._known = known
        self._subscriptions: set[Subscription] = set()
        self._asked: set[str] = set()

    def subscribe(self, services: Iterable[str]) -> Subscription:
        subscription = Subscription(frozenset(services), self._unsubscribe)
        self._subscriptions.add(subscription)
        self.update()
        return subscription

    def update(self) -> None:
        """Ask the keeper for what is watched now; called when services come and go."""
        wanted = {
            service
            for service in self._known()
            if any(subscription.wants(service) for subscription in self._subscriptions)
        }
        for service in wanted ^ self._asked:
            message = {"do": "watch", "service": service, "on": service in wanted}
            self._keeper.request(message, lambda _: None)
        self._asked = wanted

    def on_grew(self, service: str, position: int) -> None:
        for subscription in self._subscriptions:
            if subscription.wants(service):
                subscription.add(service, position=position)

    def on_exit(self, service: str) -> None:
        for subscription in self._subscriptions:
            if subscription.wants(service):
                subscription.add(service, exited=True)

    def _unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        self.update()
