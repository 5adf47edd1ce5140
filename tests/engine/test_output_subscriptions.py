"""Watching output: who is told what, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.engine.output.subscriptions import OutputSubscription, OutputSubscriptions

Message = dict[str, Any]


class Keeper:
    """Remembers what was asked, and confirms when the test says so."""

    boot_id = "boot"

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.asked: list[tuple[str, bool]] = []
        self._replies: list[Callable[[Message], None]] = []

    def request(self, message: Any, then: Callable[[Any], None]) -> None:
        self.asked.append((message["service"], message["on"]))
        self._replies.append(then)

    def keep(self, key: str, value: str | None) -> None: ...

    def confirm(self) -> None:
        replies, self._replies = self._replies, []
        for then in replies:
            then({"ok": True})


def is_silent(subscription: OutputSubscription) -> bool:
    return not subscription._bell.is_set()


def test_a_watch_is_told_when_it_is_in_force() -> None:
    """One item a service, after the keeper has confirmed, not before; also for a second one."""

    async def story() -> None:
        keeper = Keeper()
        watches = OutputSubscriptions(keeper, lambda: ["web", "db"])
        first = watches.subscribe([])
        assert is_silent(first)
        keeper.confirm()
        assert await first.next() == [{"service": "web"}, {"service": "db"}]
        second = watches.subscribe(["db"])
        assert is_silent(second)
        keeper.confirm()
        assert await second.next() == [{"service": "db"}]

    asyncio.run(story())


def test_a_service_that_comes_later_is_watched_too() -> None:
    """Who watches all is told of new services; who named some is not."""

    async def story() -> None:
        keeper, known = Keeper(), ["web"]
        watches = OutputSubscriptions(keeper, lambda: known)
        everything, some = watches.subscribe([]), watches.subscribe(["web"])
        keeper.confirm()
        await everything.next()
        await some.next()
        known.append("db")
        watches.update()
        keeper.confirm()
        assert await everything.next() == [{"service": "db"}]
        assert is_silent(some)

    asyncio.run(story())


def test_what_a_slow_watcher_did_not_take_is_merged() -> None:
    """A watcher costs one entry a service, with the newest facts."""

    async def story() -> None:
        watches = OutputSubscriptions(Keeper(), lambda: ["web"])
        watcher = watches.subscribe([])
        for position in range(1000):
            watches.on_grew("web", position)
        watches.on_exit("web")
        watches.on_grew("web", 1000)
        assert await watcher.next() == [{"service": "web", "position": 1000, "exited": True}]

    asyncio.run(story())


def test_the_keeper_is_bothered_only_while_somebody_watches() -> None:
    """The last watcher of a service takes the watch with it."""

    async def story() -> None:
        keeper = Keeper()
        watches = OutputSubscriptions(keeper, lambda: ["web", "db"])
        one, other = watches.subscribe(["web"]), watches.subscribe(["web"])
        keeper.asked.clear()
        one.close()
        assert keeper.asked == []
        other.close()
        assert keeper.asked == [("web", False)]

    asyncio.run(story())


def test_the_own_log_is_one_item_beside_the_services() -> None:
    """However often it grew since, and whatever services are called."""

    async def story() -> None:
        watches = OutputSubscriptions(Keeper(), lambda: ["web"])
        watcher = watches.subscribe([])
        watcher.add_own_log()
        watches.on_grew("web", 7)
        watcher.add_own_log()
        assert await watcher.next() == [{"own_log": True}, {"service": "web", "position": 7}]
        assert is_silent(watcher)

    asyncio.run(story())
