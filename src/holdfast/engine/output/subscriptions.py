"""Who wants to know that a service printed more. Told positions, never bytes.

Asks the keeper for notices only while somebody watches. A watcher is told of each service
once the keeper has confirmed the watch, so who looks at every item misses nothing. What a
slow watcher did not take yet is merged: one entry a service at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.engine.runner.environment import Keeper, Reply

SILENCE_SECONDS = 0.2
"""After so long without a byte an unfinished line may be all that comes: a prompt."""


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

    def add_own_log(self) -> None:
        """Holdfast's own log grew."""
        self._items["own log"] = {"own_log": True}
        self._bell.set()

    async def next(self) -> list[dict[str, Any]]:
        """What happened since the last call; waits until there is something."""
        await self._bell.wait()
        self._bell.clear()
        items, self._items = self._items, {}
        return list(items.values())

    def close(self) -> None:
        self._close(self)


class OutputSubscriptions:
    """All watchers, and what the keeper was asked to tell."""

    def __init__(self, keeper: Keeper, known: Callable[[], Iterable[str]]) -> None:
        self._keeper = keeper
        self._known = known
        self._subscriptions: set[Subscription] = set()
        self._asked: set[str] = set()
        self._bells: dict[str, list[Callable[[], None]]] = {}

    def ring(self, service: str, bell: Callable[[], None]) -> Callable[[], None]:
        """Call `bell` when the watch is in force and whenever the service printed more, until
        the answer is called."""
        self._bells.setdefault(service, []).append(bell)
        self._asked.add(service)
        self._watch(service, on=True)

        def stop() -> None:
            bells = self._bells.get(service, [])
            if bell in bells:
                bells.remove(bell)
                if not bells:
                    del self._bells[service]
                    self._leave(service)

        return stop

    def subscribe(self, services: Iterable[str]) -> Subscription:
        subscription = Subscription(frozenset(services), self._unsubscribe)
        self._subscriptions.add(subscription)
        known = [service for service in self._known() if subscription.wants(service)]
        self._asked.update(known)
        # Also what is watched already: only the answer to this request tells that it is.
        for service in known:
            self._watch(service, on=True)
        return subscription

    def update(self) -> None:
        """Ask the keeper for what is watched now; called when services come and go."""
        wanted = set(self._bells)
        if self._subscriptions:
            known = set(self._known())
            for subscription in self._subscriptions:
                wanted |= known & subscription.services if subscription.services else known
        before, self._asked = self._asked, wanted
        for service in wanted ^ before:
            self._watch(service, on=service in wanted)

    def on_grew(self, service: str, position: int) -> None:
        self._tell(service, position=position)

    def on_exit(self, service: str) -> None:
        self._tell(service, exited=True)

    def _watch(self, service: str, *, on: bool) -> None:
        def then(reply: Reply) -> None:
            if on:
                self._tell(service)

        self._keeper.request({"do": "watch", "service": service, "on": on}, then)

    def _tell(self, service: str, **facts: Any) -> None:
        for subscription in self._subscriptions:
            if subscription.wants(service):
                subscription.add(service, **facts)
        for bell in list(self._bells.get(service, ())):
            bell()

    def _leave(self, service: str) -> None:
        """Nobody rings for it any more."""
        if not any(subscription.wants(service) for subscription in self._subscriptions):
            self._asked.discard(service)
            self._watch(service, on=False)

    def _unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        self.update()
