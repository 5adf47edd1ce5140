"""What is told by the minute, so that it does not fill the audit: keystrokes, requests that change
nothing and are made again and again, and whatever else of them and of reads is too much to tell
each.

The first keystroke, and the first request that changes nothing, is on record at once; the same of
the minute after it as one, with their number. Reads are told with what was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.secrets.redaction import redact
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.output import Resize, SendInput

MINUTE_SECONDS = 60.0
MOST_NAMES = 50
LONGEST_NAME = 100
LONGEST_REPEATED = 4096
"""Of a request that is held, to be compared with others."""
_NAMING = ("service", "services", "path", "paths", "repository")
"""Fields that say what a command reads."""
_encode = msgspec.json.Encoder().encode
Key = tuple[str, str, str, str]
Later = Callable[[float, Callable[[], None]], Any]


class Minute:
    """What one actor did of one kind since it was last told."""

    def __init__(self, actor: Actor, command: Command, reason: str, outcome: str) -> None:
        self.actor = actor
        self.command = command
        self.reason = reason
        self.outcome = outcome
        self.times = 0
        self.bytes = 0
        self.names: dict[str, None] = {}
        self.is_repeated = False
        """Whether these are repetitions of a request that changed nothing."""

    @property
    def more(self) -> dict[str, Any]:
        """What the record says beside the rest."""
        facts = {"times": self.times, "bytes": self.bytes, "among": list(self.names)}
        return {name: value for name, value in facts.items() if value}


class Minutes:
    """Those under way."""

    def __init__(self, tell: Callable[[Minute], None], call_later: Later | None = None) -> None:
        self._tell = tell
        self._call_later = call_later
        self._minutes: dict[Key, Minute] = {}

    def absorbs(self, actor: Actor, command: Command, reason: str) -> bool:
        """Whether this is told later, with others, because it was typed."""
        if not isinstance(command, SendInput | Resize):
            return False
        key = (actor.identity, actor.door.value, command.name, command.service)
        minute = self._minutes.get(key)
        if minute is None:
            self._begin(key, Minute(actor, command, reason, "ok"))
            return False
        minute.times += 1
        if isinstance(command, SendInput):
            minute.bytes += len(command.data) * 3 // 4
        return True

    def repeats(self, actor: Actor, command: Command, outcome: str) -> bool:
        """Whether this was told in this minute, and changed nothing then, either."""
        minute = self._minutes.get(_key_of(actor, command, outcome)[0])
        if minute is not None:
            minute.times += 1
        return minute is not None

    def expect_repeats(self, actor: Actor, command: Command, reason: str, outcome: str) -> None:
        """It is told, and changed nothing: the same again is told later."""
        key, size = _key_of(actor, command, outcome)
        if size <= LONGEST_REPEATED:
            minute = Minute(actor, command, reason, outcome)
            minute.is_repeated = True
            self._begin(key, minute)

    def end_repeats(self) -> None:
        """Something has changed: what changed nothing before may change something now."""
        for key, minute in list(self._minutes.items()):
            if minute.is_repeated:
                self._over(key, minute)

    def add(self, actor: Actor, command: Command, reason: str, outcome: str) -> None:
        """Tell it later, with others."""
        key = (actor.identity, actor.door.value, command.name, outcome)
        minute = self._minutes.get(key)
        if minute is None:
            minute = Minute(actor, command, reason, outcome)
            self._begin(key, minute)
        minute.times += 1
        for name in _named(command):
            if len(minute.names) < MOST_NAMES:
                minute.names[redact(name)[:LONGEST_NAME]] = None

    def close(self) -> None:
        """Nothing is left untold."""
        for key, minute in list(self._minutes.items()):
            self._over(key, minute)

    def _begin(self, key: Key, minute: Minute) -> None:
        self._minutes[key] = minute
        later = self._call_later or asyncio.get_running_loop().call_later
        later(MINUTE_SECONDS, lambda: self._over(key, minute))

    def _over(self, key: Key, minute: Minute) -> None:
        if self._minutes.get(key) is minute:
            del self._minutes[key]
            if minute.times:
                self._tell(minute)


def _key_of(actor: Actor, command: Command, outcome: str) -> tuple[Key, int]:
    """By every argument, and how long they are."""
    text = _encode(command)
    return (actor.identity, actor.door.value, command.name, f"{outcome}:{hash(text)}"), len(text)


def _named(command: Command) -> list[str]:
    given = [getattr(command, field, None) or () for field in _NAMING]
    return [name for one in given for name in ([one] if isinstance(one, str) else one)]
