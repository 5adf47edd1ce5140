"""Streams of items that callers follow, and their end when a caller loses the right to them.

A stream is permitted when it begins. When something changes that permission depends on (a lockdown,
a token, a session, the settings, the time of day), every open stream is judged again. A stream that
would be refused now ends with that refusal at once, even while it waits for its next item. Nothing
is polled: the code that makes such a change calls `recheck`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any
from weakref import WeakSet

import msgspec

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command, Result
from holdfast.vocabulary.errors import HoldfastError

Judge = Callable[[Actor, Command], "HoldfastError | None"]
"""Returns why a caller may not follow this any more; None: it still may."""
NextTurn = Callable[[list[Actor]], "float | None"]
"""Returns the seconds until the clock may change a decision about one of these; None: never."""


class FollowedWork(msgspec.Struct, frozen=True):
    """Work that is followed item by item. The audit waits for its end, not for the listener."""

    stream: AsyncGenerator[Any, None]
    end: asyncio.Future[Result]


class LiveStream(AsyncGenerator[Any, None]):
    """A stream of one caller. A door calls `check` before it passes an item on."""

    def __init__(
        self,
        actor: Actor,
        command: Command,
        stream: AsyncGenerator[Any, None],
        on_close: Callable[[LiveStream], None],
    ) -> None:
        self.actor = actor
        self.command = command
        self._stream = stream
        self._on_close = on_close
        self._refusal: HoldfastError | None = None
        self._reader: asyncio.Task[Any] | None = None
        """The task that waits for the next item."""

    def refuse(self, error: HoldfastError) -> None:
        """End it, and wake a reader that waits."""
        self._refusal = error
        if self._reader is not None:
            self._reader.cancel()

    def check(self) -> None:
        """Raise the refusal that has ended it."""
        if self._refusal is not None:
            raise self._refusal

    async def asend(self, value: None) -> Any:
        self.check()
        self._reader = asyncio.current_task()
        try:
            item = await self._stream.asend(value)
        except asyncio.CancelledError:
            if self._refusal is None:
                raise
            if sys.version_info >= (3, 11) and self._reader is not None:
                self._reader.uncancel()
            raise self._refusal from None
        finally:
            self._reader = None
        self.check()
        return item

    async def athrow(self, *arguments: Any) -> Any:
        return await self._stream.athrow(*arguments)

    async def aclose(self) -> None:
        self._on_close(self)
        await self._stream.aclose()


class LiveStreams:
    """All open streams."""

    def __init__(self, judge: Judge, next_turn: NextTurn) -> None:
        self._judge = judge
        self._next_turn = next_turn
        # Weak: a stream that was never read is forgotten with its reader.
        self._open: WeakSet[LiveStream] = WeakSet()
        self._timer: asyncio.TimerHandle | None = None
        self.turns = 0
        """How often something has changed that permission depends on."""

    def open(self, actor: Actor, command: Command, stream: AsyncGenerator[Any, None]) -> LiveStream:
        live = LiveStream(actor, command, stream, self._close)
        self._open.add(live)
        self._arm()
        return live

    def recheck(self, session: str | None = None) -> None:
        """Judge every open stream again, or only those of a session: something has changed."""
        self.turns += 1
        for live in list(self._open):
            if session is not None and live.actor.session != session:
                continue
            if (error := self._judge(live.actor, live.command)) is not None:
                self._open.discard(live)
                live.refuse(error)
        if self._open:
            self._arm()

    def _close(self, live: LiveStream) -> None:
        self._open.discard(live)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        seconds = self._next_turn([live.actor for live in self._open])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(seconds, 0.05), self.recheck)
