"""The clients that wait for a service to start, to stop, to be replaced, or to change at all.

Owns their futures. Each is answered exactly once and truthfully, also when a later request of
another client has decided otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.vocabulary.services import Outcome

NewFuture = Callable[[], "asyncio.Future[Any]"]


class Starter(msgspec.Struct, frozen=True):
    """A client that waits for a start."""

    future: asyncio.Future[Outcome]
    verb: str
    until_up: bool


class Waiters:
    """Everybody who waits for one service."""

    def __init__(self, new_future: NewFuture) -> None:
        self.new_future = new_future
        self._starters: list[Starter] = []
        self.has_new_starters = False
        """Whether a client waits for a start and was not told anything yet."""
        self._stoppers: list[asyncio.Future[Outcome]] = []
        self._replacer: asyncio.Future[Outcome] | None = None
        self._watchers: set[asyncio.Future[None]] = set()

    def await_start(self, verb: str, *, until_up: bool) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = self.new_future()
        self._starters.append(Starter(future, verb, until_up))
        self.has_new_starters = True
        return future

    def await_stop(self) -> asyncio.Future[Outcome]:
        future: asyncio.Future[Outcome] = self.new_future()
        self._stoppers.append(future)
        return future

    def await_replacement(self) -> asyncio.Future[Outcome]:
        """Only one replacement is under way at a time."""
        self._replacer = future = self.new_future()
        return future

    def await_start_instead(self) -> None:
        """The client that waits for a replacement waits for the start that is under way."""
        if self._replacer is not None:
            self._starters.append(Starter(self._replacer, "restarted", True))
            self._replacer = None

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
        """Answer starters with their own verb; `only_impatient`: those who need no proof."""
        starters, self._starters = self._starters, []
        self.has_new_starters = False
        for starter in starters:
            if only_impatient and starter.until_up:
                self._starters.append(starter)
            elif not starter.future.done():
                starter.future.set_result(outcome(starter.verb))

    def failed(self, outcome: Outcome) -> None:
        """Answer starters that the start failed."""
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

    def replaced(self, outcome: Outcome) -> None:
        """Answer that the replacement is done, or failed."""
        future, self._replacer = self._replacer, None
        if future is not None and not future.done():
            future.set_result(outcome)

    def changed(self) -> None:
        for future in list(self._watchers):
            if not future.done():
                future.set_result(None)
