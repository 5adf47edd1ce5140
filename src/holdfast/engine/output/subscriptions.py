"""Tells subscribers that a service printed more: positions, never bytes.

Asks the keeper for notices only while somebody is subscribed. A subscriber gets a first item for
each service when the keeper has confirmed the request, so a subscriber that reads the log at
every item misses nothing. Items that a slow subscriber has not taken yet are merged: it has at
most one entry for each service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from holdfast.engine.runner.environment import KeeperApi

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import Reply

SILENCE_SECONDS = 0.2
"""After this time without a byte, an unfinished line may be a prompt."""


class OutputSubscription:
    """One subscriber. Without `services` it is told of all, also of those added later."""

    def __init__(
        self, services: frozenset[str], close: Callable[[OutputSubscription], None]
    ) -> None:
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
        """Wait until something happened since the last call, and return it."""
        await self._bell.wait()
        self._bell.clear()
        items, self._items = self._items, {}
        return list(items.values())

    def close(self) -> None:
        self._close(self)


class OutputSubscriptions:
    """All subscribers, and what the keeper was asked to report."""

    def __init__(self, keeper: KeeperApi, known: Callable[[], Iterable[str]]) -> None:
        self._keeper = keeper
        self._known = known
        self._subscriptions: set[OutputSubscription] = set()
        self._asked: set[str] = set()
        self._callbacks: dict[str, list[Callable[[], None]]] = {}

    def call_on_growth(self, service: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the keeper has confirmed, and whenever the service printed more.

        Returns a function that ends this.
        """
        self._callbacks.setdefault(service, []).append(callback)
        self._asked.add(service)
        self._request(service, on=True)

        def stop() -> None:
            callbacks = self._callbacks.get(service, [])
            if callback in callbacks:
                callbacks.remove(callback)
                if not callbacks:
                    del self._callbacks[service]
                    self._end_if_unused(service)

        return stop

    def subscribe(self, services: Iterable[str]) -> OutputSubscription:
        subscription = OutputSubscription(frozenset(services), self._unsubscribe)
        self._subscriptions.add(subscription)
        known = [service for service in self._known() if subscription.wants(service)]
        self._asked.update(known)
        # Ask for every service, also for those asked for already: the reply is the confirmation.
        for service in known:
            self._request(service, on=True)
        return subscription

    def update(self) -> None:
        """Ask the keeper for what is wanted now. Called when services are added or removed."""
        wanted = set(self._callbacks)
        if self._subscriptions:
            known = set(self._known())
            for subscription in self._subscriptions:
                wanted |= known & subscription.services if subscription.services else known
        before, self._asked = self._asked, wanted
        for service in wanted ^ before:
            self._request(service, on=service in wanted)

    def on_grew(self, service: str, position: int) -> None:
        self._notify(service, position=position)

    def on_exit(self, service: str) -> None:
        self._notify(service, exited=True)

    def _request(self, service: str, *, on: bool) -> None:
        def then(reply: Reply) -> None:
            if on:
                self._notify(service)

        self._keeper.request({"do": "watch", "service": service, "on": on}, then)

    def _notify(self, service: str, **facts: Any) -> None:
        for subscription in self._subscriptions:
            if subscription.wants(service):
                subscription.add(service, **facts)
        for callback in list(self._callbacks.get(service, ())):
            callback()

    def _end_if_unused(self, service: str) -> None:
        """Ask for no more notices if nobody else wants them."""
        if not any(subscription.wants(service) for subscription in self._subscriptions):
            self._asked.discard(service)
            self._request(service, on=False)

    def _unsubscribe(self, subscription: OutputSubscription) -> None:
        self._subscriptions.discard(subscription)
        self.update()
