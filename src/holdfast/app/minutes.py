"""What is told by the minute, so that it does not fill the audit: keystrokes, and reads of who
reads so much that each cannot be told.

The first keystroke is on record at once; those of the minute after it as one, with their number
and their bytes. Reads are told with their number and what was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands import Command
from holdfast.vocabulary.commands.output import Resize, SendInput
from holdfast.vocabulary.secrets import redact

MINUTE_SECONDS = 60.0
MOST_NAMES = 50
LONGEST_NAME = 100
_NAMING = ("service", "services", "path", "paths", "repository")
"""Fields that say what a command reads."""
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

    def add_read(self, actor: Actor, command: Command, reason: str, outcome: str) -> None:
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
        for key in list(self._minutes):
            self._over(key)

    def _begin(self, key: Key, minute: Minute) -> None:
        self._minutes[key] = minute
        later = self._call_later or asyncio.get_running_loop().call_later
        later(MINUTE_SECONDS, lambda: self._over(key))

    def _over(self, key: Key) -> None:
        minute = self._minutes.pop(key, None)
        if minute is not None and minute.times:
            self._tell(minute)


def _named(command: Command) -> list[str]:
    given = [getattr(command, field, None) or () for field in _NAMING]
    return [name for one in given for name in ([one] if isinstance(one, str) else one)]
