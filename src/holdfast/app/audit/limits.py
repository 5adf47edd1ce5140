"""How much of the audit each actor may fill, so that nobody pushes the rest off the record.

The audit keeps a fixed number of bytes, the newest ones. Each account has a quota of them a day:
one for what it changes, and a smaller one for noise (reads, refusals, requests that change nothing,
and opening and closing sessions). All accounts together have a quota, too. Changes by the owner and
by admins are outside of every quota. What goes beyond a quota is counted, and recorded as one
record an hour (`Overflows`). With these quotas a record stays for at least six days however many
accounts of other roles flood the audit, and for about three weeks if one account does.

Below the quotas, what an actor does often is recorded by the minute (`Summaries`): keystrokes,
repeated requests that change nothing, and reads beyond a number. The first of them is on record at
once, and the others of that minute are one record with their number.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.adapters import audit_log
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.output import Resize, SendInput

DAY = 86400.0
OVERFLOW_SECONDS = 3600.0
MOST_ACCOUNTS = 1000
MOST_COUNTED_NAMES = 20
EXEMPT = (Role.OWNER, Role.ADMIN)
"""Roles whose changes are always recorded."""
_SESSION_COMMANDS = frozenset({"open_session", "renew_session", "hold_session", "close_session"})
Later = Callable[[float, Callable[[], None]], Any]


class Quota:
    """Bytes that may be written: a burst, and a number that is added each day."""

    def __init__(self, burst: float, a_day: float) -> None:
        self._burst = self._left = burst
        self._a_day = a_day
        self._at: float | None = None

    def has(self, size: int, now: float) -> bool:
        if self._at is not None:
            self._left = min(self._burst, self._left + (now - self._at) / DAY * self._a_day)
        self._at = now
        return self._left >= size

    def take(self, size: int) -> None:
        self._left -= size


class Quotas:
    """The quotas of all accounts."""

    def __init__(self) -> None:
        self._noise: dict[str, Quota] = {}
        self._changes: dict[str, Quota] = {}
        self._all: Quota | None = None

    def admits(self, actor: Actor, command: Command, size: int, now: float, *, noise: bool) -> bool:
        """Return whether a record of this size may be written, and count it if so."""
        noise = noise or command.name in _SESSION_COMMANDS
        if not noise and actor.role in EXEMPT:
            return True
        return self.admits_account(actor.account, size, now, noise=noise)

    def admits_account(self, account: str, size: int, now: float, *, noise: bool) -> bool:
        capacity = audit_log.FILE_BYTES * audit_log.MOST_FILES
        if self._all is None:
            self._all = Quota(capacity / 8, capacity / 8)
        quotas, part = (self._noise, 256) if noise else (self._changes, 64)
        own = quotas.get(account)
        if own is None:
            if len(quotas) >= MOST_ACCOUNTS:
                del quotas[next(iter(quotas))]
            own = quotas[account] = Quota(capacity / part, 2 * capacity / part)
        if not own.has(size, now) or not self._all.has(size, now):
            return False
        own.take(size)
        self._all.take(size)
        return True


class Overflow:
    """What one account did beyond its quota since that was last recorded."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.times = 0
        self.commands: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    def fields(self) -> dict[str, Any]:
        return {
            "actor": self.actor.name,
            "role": self.actor.role.value,
            "door": self.actor.door.value,
            "command": "several",
            "arguments": {},
            "decision": "folded",
            "reason": "this actor has used up its share of the record",
            "outcome": "folded",
            "times": self.times,
            "commands": dict(self.commands),
            "outcomes": dict(self.outcomes),
            "seconds": OVERFLOW_SECONDS,
        }


class Overflows:
    """The overflows of all accounts."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], later: Later | None = None) -> None:
        self._tell = tell
        self._later = later
        self._all: dict[str, Overflow] = {}

    def add(self, actor: Actor, command: str, outcome: str, times: int = 1) -> None:
        account = actor.account
        if account not in self._all and len(self._all) >= MOST_ACCOUNTS:
            account = next(iter(self._all))  # still counted, under the name of another account
        overflow = self._all.get(account)
        if overflow is None:
            overflow = self._all[account] = Overflow(actor)
            later = self._later or asyncio.get_running_loop().call_later
            later(OVERFLOW_SECONDS, lambda: self._over(account))
        overflow.times += times
        for counts, name in ((overflow.commands, command), (overflow.outcomes, outcome)):
            counts[name if name in counts or len(counts) < MOST_COUNTED_NAMES else "others"] += (
                times
            )

    def close(self) -> None:
        """Record what is left."""
        for account in list(self._all):
            self._over(account)

    def _over(self, account: str) -> None:
        overflow = self._all.pop(account, None)
        if overflow is not None:
            self._tell(overflow.fields())


MINUTE_SECONDS = 60.0
MOST_NAMES = 50
LONGEST_NAME = 100
LONGEST_REPEATED = 4096
"""The longest request that is held to be compared with others."""
_NAMING = ("service", "services", "path", "paths", "repository")
"""Fields that say what a command reads."""
_encode = msgspec.json.Encoder().encode
Key = tuple[str, str, str, str]


class Summary:
    """What one actor did of one kind since that was last recorded."""

    def __init__(self, actor: Actor, command: Command, reason: str, outcome: str) -> None:
        self.actor = actor
        self.command = command
        self.reason = reason
        self.outcome = outcome
        self.times = 0
        self.bytes = 0
        self.names: dict[str, None] = {}
        self.is_repeated = False
        """Whether these repeat a request that changed nothing."""

    @property
    def more(self) -> dict[str, Any]:
        """What the record has besides the usual fields."""
        facts = {"times": self.times, "bytes": self.bytes, "among": list(self.names)}
        return {name: value for name, value in facts.items() if value}


class Summaries:
    """All summaries of the current minutes."""

    def __init__(self, tell: Callable[[Summary], None], call_later: Later | None = None) -> None:
        self._tell = tell
        self._call_later = call_later
        self._summaries: dict[Key, Summary] = {}

    def absorbs(self, actor: Actor, command: Command, reason: str) -> bool:
        """Return whether this is typed input that is recorded later, with others."""
        if not isinstance(command, SendInput | Resize):
            return False
        key = (actor.identity, actor.door.value, command.name, command.service)
        summary = self._summaries.get(key)
        if summary is None:
            self._begin(key, Summary(actor, command, reason, "ok"))
            return False
        summary.times += 1
        if isinstance(command, SendInput):
            summary.bytes += len(command.data) * 3 // 4
        return True

    def repeats(self, actor: Actor, command: Command, outcome: str) -> bool:
        """Return whether the same was recorded in this minute and changed nothing either."""
        summary = self._summaries.get(_key_of(actor, command, outcome)[0])
        if summary is not None:
            summary.times += 1
        return summary is not None

    def expect_repeats(self, actor: Actor, command: Command, reason: str, outcome: str) -> None:
        """Summarise the same request if it comes again: it is on record, and changed nothing."""
        key, size = _key_of(actor, command, outcome)
        if size <= LONGEST_REPEATED:
            summary = Summary(actor, command, reason, outcome)
            summary.is_repeated = True
            self._begin(key, summary)

    def end_repeats(self) -> None:
        """Record the repeats: after a change, the same request may change something."""
        for key, summary in list(self._summaries.items()):
            if summary.is_repeated:
                self._over(key, summary)

    def add(self, actor: Actor, command: Command, reason: str, outcome: str) -> None:
        """Record it later, with others."""
        key = (actor.identity, actor.door.value, command.name, outcome)
        summary = self._summaries.get(key)
        if summary is None:
            summary = Summary(actor, command, reason, outcome)
            self._begin(key, summary)
        summary.times += 1
        for name in _named(command):
            if len(summary.names) < MOST_NAMES:
                summary.names[redact(name)[:LONGEST_NAME]] = None

    def close(self) -> None:
        """Record what is left."""
        for key, summary in list(self._summaries.items()):
            self._over(key, summary)

    def _begin(self, key: Key, summary: Summary) -> None:
        self._summaries[key] = summary
        later = self._call_later or asyncio.get_running_loop().call_later
        later(MINUTE_SECONDS, lambda: self._over(key, summary))

    def _over(self, key: Key, summary: Summary) -> None:
        if self._summaries.get(key) is summary:
            del self._summaries[key]
            if summary.times:
                self._tell(summary)


def _key_of(actor: Actor, command: Command, outcome: str) -> tuple[Key, int]:
    """Return a key of all its arguments, and how long they are."""
    text = _encode(command)
    return (actor.identity, actor.door.value, command.name, f"{outcome}:{hash(text)}"), len(text)


def _named(command: Command) -> list[str]:
    given = [getattr(command, field, None) or () for field in _NAMING]
    return [name for one in given for name in ([one] if isinstance(one, str) else one)]
