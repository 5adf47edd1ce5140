"""How much of the audit each actor may fill, so that nobody pushes the rest off the record.

The audit keeps a fixed number of bytes, the newest ones. Each account has a share of them a day:
one for what it changes, and a smaller one for noise (reads, refusals, requests that change
nothing, and opening and closing sessions). All of them together have a share, too. Changes by the
owner and by admins are outside of every share. What goes beyond a share is not recorded one by
one: it is counted, and told as one record an hour (`Folds`).

With the shares below, a record stays for at least six days however many accounts of other roles
flood the audit, and for about three weeks if one account does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from holdfast.adapters import audit_log
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command

DAY = 86400.0
FOLD_SECONDS = 3600.0
MOST_ACCOUNTS = 1000
MOST_NAMES = 20
EXEMPT = (Role.OWNER, Role.ADMIN)
"""Roles whose changes are always recorded."""
_SESSIONS = frozenset({"open_session", "renew_session", "hold_session", "close_session"})
Later = Callable[[float, Callable[[], None]], Any]


class Share:
    """Bytes that may be written: a burst, and so much more a day."""

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


class Shares:
    """Of all accounts."""

    def __init__(self) -> None:
        self._noise: dict[str, Share] = {}
        self._changes: dict[str, Share] = {}
        self._all: Share | None = None

    def admits(self, actor: Actor, command: Command, size: int, now: float, *, noise: bool) -> bool:
        """Whether a record of this size may be written; it is counted then."""
        noise = noise or command.name in _SESSIONS
        if not noise and actor.role in EXEMPT:
            return True
        return self.admits_account(actor.account, size, now, noise=noise)

    def admits_account(self, account: str, size: int, now: float, *, noise: bool) -> bool:
        capacity = audit_log.FILE_BYTES * audit_log.MOST_FILES
        if self._all is None:
            self._all = Share(capacity / 8, capacity / 8)
        shares, part = (self._noise, 256) if noise else (self._changes, 64)
        own = shares.get(account)
        if own is None:
            if len(shares) >= MOST_ACCOUNTS:
                del shares[next(iter(shares))]
            own = shares[account] = Share(capacity / part, 2 * capacity / part)
        if not own.has(size, now) or not self._all.has(size, now):
            return False
        own.take(size)
        self._all.take(size)
        return True


class Fold:
    """What one account did beyond its share since that was last told."""

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
            "seconds": FOLD_SECONDS,
        }


class Folds:
    """Those under way, by account."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], later: Later | None = None) -> None:
        self._tell = tell
        self._later = later
        self._all: dict[str, Fold] = {}

    def add(self, actor: Actor, command: str, outcome: str, times: int = 1) -> None:
        account = actor.account
        if account not in self._all and len(self._all) >= MOST_ACCOUNTS:
            account = next(iter(self._all))  # still counted, under the name of another
        fold = self._all.get(account)
        if fold is None:
            fold = self._all[account] = Fold(actor)
            later = self._later or asyncio.get_running_loop().call_later
            later(FOLD_SECONDS, lambda: self._over(account))
        fold.times += times
        for counts, name in ((fold.commands, command), (fold.outcomes, outcome)):
            counts[name if name in counts or len(counts) < MOST_NAMES else "others"] += times

    def close(self) -> None:
        """Nothing is left untold."""
        for account in list(self._all):
            self._over(account)

    def _over(self, account: str) -> None:
        fold = self._all.pop(account, None)
        if fold is not None:
            self._tell(fold.fields())
