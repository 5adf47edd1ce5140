"""The clients who wait for a service to start, to stop, or to change at all.

Owns their futures: each is answered exactly once and truthfully, also when a later request
of somebody else has decided otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.vocabulary.services import Outcome

NewFuture = Callable[[], "asyncio.Future[Any]"]


class Starter(msgspec.Struct, frozen=True):
    future: asyncio.Future[Outcome]
    verb: str
    until_up: bool


class Waiters:
    """Who waits for what."""

    def __init__(self, new_future: NewFuture) -> None:
        self.new_future = new_future
        self._starters: list[Starter] = []
        self.has_new_starters = False
        """Whether somebody waits for a start who was not told anything yet."""
        self._stoppers: list[asyncio.Future[Outcome]] = []
        self._watchers: set[asyncio.Future[None]] = set()

    def await_start(self, verb: str, *, until_up: bool) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = self.new_future()
        self._starters.append(Starter(future, verb, until_up))
        self.has_new_starters = True
        return future

    def join_start(self, future: asyncio.Future[Outcome], verb: str) -> None:
        """Let a future wait for the start that is under way."""
        self._starters.append(Starter(future, verb, True))

    def await_stop(self) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = self.new_future()
        self._stoppers.append(future)
        return future

    def await_change(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.new_future()
        self._watchers.add(future)
        future.add_done_callback(self._watchers.discard)
        return future

    def at_once(self, outcome: Outcome) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = self.new_future()
        future.set_result(outcome)
        return future

    def started(self, outcome: Callable[[str], Outcome], *, only_impatient: bool = False) -> None:
        """Tell starters with their own verb; `only_impatient`: those who need no proof."""
        starters, self._starters = self._starters, []
        self.has_new_starters = False
        for starter in starters:
            if only_impatient and starter.until_up:
                self._starters.append(starter)
            elif not starter.future.done():
                starter.future.set_result(outcome(starter.verb))

    def failed(self, outcome: Outcome) -> None:
        starters, self._starters = self._starters, []
        self.has_new_starters = False
        for starter in starters:
            if not starter.future.done():
                starter.future.set_result(outcome)

    def stopped(self, outcome: Outcome) -> None:
        stoppers, self._stoppers = self._stoppers, []
        for future in stoppers:
            if not future.done():
                future.set_result(outcome)

    def changed(self) -> None:
        for future in list(self._watchers):
            if not future.done():
                future.set_result(None)
