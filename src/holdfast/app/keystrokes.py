"""What is typed into services, told by the minute: who types a word must not fill the audit.

The first keystroke is on record at once; those of the minute after it as one, with their number
and their bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands import Command
from holdfast.vocabulary.commands.output import Resize, SendInput

MINUTE_SECONDS = 60.0
Key = tuple[str, str, str, str]
Later = Callable[[float, Callable[[], None]], Any]


class Minute:
    """What one actor typed into one service since it was last told."""

    def __init__(self, actor: Actor, command: Command, reason: str) -> None:
        self.actor = actor
        self.command = command
        self.reason = reason
        self.times = 0
        self.bytes = 0


class Told(msgspec.Struct, frozen=True):
    """A minute that is over."""

    actor: Actor
    command: Command
    reason: str
    more: dict[str, Any]


class Keystrokes:
    """The minutes under way."""

    def __init__(self, tell: Callable[[Told], None], call_later: Later | None = None) -> None:
        self._tell = tell
        self._call_later = call_later
        self._minutes: dict[Key, Minute] = {}

    def absorbs(self, actor: Actor, command: Command, reason: str) -> bool:
        """Whether this is told later, with others."""
        if not isinstance(command, SendInput | Resize):
            return False
        key = (actor.identity, actor.door.value, command.name, command.service)
        minute = self._minutes.get(key)
        if minute is None:
            self._begin(key, Minute(actor, command, reason))
            return False
        minute.times += 1
        if isinstance(command, SendInput):
            minute.bytes += len(command.data) * 3 // 4
        return True

    def close(self) -> None:
        """Nothing is left untold."""
        for key in list(self._minutes):
            self._over(key)

    def _begin(self, key: Key, minute: Minute) -> None:
        self._minutes[key] = minute
        later = self._call_later or asyncio.get_running_loop().call_later
        later(MINUTE_SECONDS, lambda: self._over(key))

    def _over(self, key: Key) -> None:
        minute = self._minutes.pop(key, None)
        if minute is None or not minute.times:
            return
        more: dict[str, Any] = {"times": minute.times}
        if minute.bytes:
            more["bytes"] = minute.bytes
        self._tell(Told(minute.actor, minute.command, minute.reason, more))
