"""What goes on record of a command: who, through which door, what, why, and how it ended.

Every change, every refusal and every read of content is recorded, exactly once; what one actor
does too often to tell each is counted, for nobody may push the rest off the record. How much of the
record each may fill is in `audit_shares`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.audit_log import AuditLog, Head
from holdfast.app.audit.coalescing import MINUTE_SECONDS, Minute, Minutes
from holdfast.app.audit.shares import Folds, Later, Shares
from holdfast.secrets.redaction import HIDDEN, redact, redact_arguments, redact_value
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command, Door, Effect, Result
from holdfast.vocabulary.configuration import ReloadResult
from holdfast.vocabulary.errors import NOTHING_DONE, HoldfastError
from holdfast.vocabulary.services import Outcomes
from holdfast.vocabulary.workflows import WorkflowResult

_encode = msgspec.json.Encoder().encode
_VARIABLES = frozenset({"environment", "env", "env_vars"})
_WORDS = frozenset({"argv", "args", "start_args"})
_LONGEST_TEXT = 500
_LONGEST_WRITTEN = 200
"""Of what a stranger wrote."""
_LONGEST_LOOKED_AT = 8 * 1024
"""Beyond the longest secret, so that none is cut in two before it is hidden."""
_MOST_ITEMS = 50
_MOST_BYTES = 8 * 1024
"""Of arguments in a record; of one argument in a record that has more."""
_MOST_OF_ONE = 500
_FRAME = 220
"""Bytes that number, time and both hashes add to a record."""
MOST_STRANGERS = 30
"""Refusals of unknown callers that are recorded in a minute."""
MOST_REFUSALS = 600
"""Refusals of one actor that are recorded in a minute; the rest is counted."""
MOST_READS = 600
"""Reads of one actor, and requests that change nothing, that are recorded one by one in a minute;
the rest is told together."""
_MOST_ACTORS = 1000
_UNCHANGED = ("already_running", "already_stopped", "already_paused", "not_paused")
DIED = "the supervisor died while it was under way"


class _Budget:
    """How many there were within a minute."""

    def __init__(self) -> None:
        self._since, self._count = -60.0, 0
        self.unrecorded = 0

    def is_over(self, now: float) -> bool:
        return now - self._since >= 60.0

    def count(self, now: float) -> int:
        if self.is_over(now):
            self._since, self._count = now, 0
        self._count += 1
        return self._count


class _Budgets:
    """One for each account."""

    def __init__(self) -> None:
        self._all: dict[str, _Budget] = {}

    def of(self, actor: Actor, now: float) -> _Budget:
        if actor.account not in self._all and len(self._all) >= _MOST_ACTORS:
            self._all = {name: one for name, one in self._all.items() if not one.is_over(now)}
        return self._all.setdefault(actor.account, _Budget())


class Auditor:
    """Turns commands and their endings into records."""

    def __init__(
        self,
        log: AuditLog,
        clock: Callable[[], float] = time.monotonic,
        keep: Callable[[str, str | None], None] = lambda key, text: None,
        call_later: Later | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._keep = keep
        """Elsewhere, over our death."""
        self._minutes = Minutes(self._tell_minute, call_later)
        self._shares, self._folds = Shares(), Folds(log.record, call_later)
        self._strangers, self._pages = _Budget(), _Budget()
        self._refusals, self._reads = _Budgets(), _Budgets()

    def is_audited(self, command: Command) -> bool:
        if command.name == "open_output" and getattr(command, "hold", False):
            return False  # it tells nothing; what it holds was on record when it was opened
        return command.effect is not Effect.READS or command.reads_content

    def now(self) -> float:
        return self._clock()

    def refused(
        self, actor: Actor, command: Command, reason: str, outcome: str = "refused"
    ) -> None:
        """A flood of them must not push the rest off the record, either."""
        now = self._clock()
        budget = self._refusals.of(actor, now)
        count = budget.count(now)
        if count > MOST_REFUSALS:
            budget.unrecorded += 1
            return
        more: dict[str, Any] = {}
        if budget.unrecorded:
            more["unrecorded_before"], budget.unrecorded = budget.unrecorded, 0
        if count == MOST_REFUSALS:
            more["more"] = "counted, not recorded, for a minute"
        self._record(actor, command, "refused", reason, outcome, 0.0, True, **more)

    def void(self, facts: dict[str, Any], reason: str) -> None:
        """What an earlier supervisor had under way, by the facts that it left."""
        end = {"decision": "refused", "reason": reason, "outcome": "cancelled", "seconds": 0.0}
        self._log.record({**facts, **end})

    def begin(self, actor: Actor, command: Command, reason: str) -> str:
        """Something lasting is under way: if we die, the next of us puts it on record."""
        request = os.urandom(4).hex()
        end = {"decision": "allowed", "reason": _short(reason), "request": request}
        self._keep(
            keeper_memory.audit_under_way(request),
            _encode({**self.facts(actor, command), **end}).decode(),
        )
        return request

    def restore(self, kept: dict[str, str]) -> None:
        """What was under way when the last supervisor died, and is not on record yet."""
        texts = dict(keeper_memory.audit_under_way.entries(kept))
        if not texts:
            return
        # The head is kept with the same message as what is over.
        since = Head.parse(kept.get(keeper_memory.AUDIT_HEAD)).seq
        over = {entry.get("request") for entry in self._log.entries(since)}
        for request, text in texts.items():
            self._keep(keeper_memory.audit_under_way(request), None)
            if request not in over:
                end = {"outcome": "unknown_outcome", "note": DIED, "seconds": 0.0}
                self._log.record({**msgspec.json.decode(text), **end})

    def close(self) -> None:
        self._minutes.close()
        self._folds.close()

    def turned_away(
        self, door: Door, asked: str, reason: str = "", by: str = "somebody unknown"
    ) -> None:
        """Somebody unknown. A flood of them must not push the rest off the record.

        Pages and strange names, of which the gate tells with a reason, are counted apart: they
        must not hide who tries tokens.
        """
        count = (self._pages if reason else self._strangers).count(self._clock())
        if count > MOST_STRANGERS:
            return
        more = {"more": "not recorded for a minute"} if count == MOST_STRANGERS else {}
        fields: dict[str, Any] = {
            "actor": _printable(by),
            "role": "stranger",
            "door": door.value,
            "command": _printable(asked),
            "arguments": {},
            "decision": "refused",
            "reason": _printable(reason) or "no valid token",
            "outcome": "refused",
            "seconds": 0.0,
            **more,
        }
        stranger = Actor(Role.STRANGER, "strangers", door=door)
        size = len(_encode(fields)) + _FRAME
        if self._shares.admits_account(stranger.account, size, self._clock(), noise=True):
            self._log.record(fields)
        else:
            self._folds.add(stranger, "pages" if reason else "tokens", "refused")

    def done(
        self,
        actor: Actor,
        command: Command,
        reason: str,
        began: float,
        end: Any,
        request: str | None = None,
    ) -> None:
        """`end` is what was answered, or the exception that was raised; `request` what `begin`
        answered."""
        outcome, now = _outcome(end), self._clock()
        if outcome == "ok" and self._minutes.absorbs(actor, command, reason):
            self._over(request)
            return
        is_read = command.effect is Effect.READS
        is_idle = not is_read and _changed_nothing(end)
        if is_idle and self._minutes.repeats(actor, command, outcome):
            self._over(request)
            return
        more = _facts_of(end) if request is None else {**_facts_of(end), "request": request}
        if is_read or is_idle:
            count = self._reads.of(actor, now).count(now)
            if count > MOST_READS:
                self._minutes.add(actor, command, reason, outcome)
                self._over(request)
                return
            if count == MOST_READS:
                more["more"] = "told together, for a minute"
        else:
            self._minutes.end_repeats()
        seconds = now - began
        is_noise = is_read or is_idle
        self._record(actor, command, "allowed", reason, outcome, seconds, is_noise, **more)
        if is_idle:
            self._minutes.expect_repeats(actor, command, reason, outcome)
        self._over(request)

    def _over(self, request: str | None) -> None:
        if request is not None:
            self._keep(keeper_memory.audit_under_way(request), None)

    def _tell_minute(self, over: Minute) -> None:
        about = (over.actor, over.command, "allowed", over.reason, over.outcome)
        self._record(*about, MINUTE_SECONDS, True, **over.more)

    def _record(
        self,
        actor: Actor,
        command: Command,
        decision: str,
        reason: str,
        outcome: str,
        seconds: float,
        is_noise: bool,
        **more: Any,
    ) -> None:
        end = {"decision": decision, "reason": _short(redact(reason)), "outcome": outcome}
        facts = self.facts(actor, command)
        fields = {**facts, **end, "seconds": round(seconds, 6), **more}
        size = len(_encode(fields)) + _FRAME
        if self._shares.admits(actor, command, size, self._clock(), noise=is_noise):
            self._log.record(fields)
        else:
            self._folds.add(actor, command.name, outcome, int(more.get("times", 1)))

    def facts(self, actor: Actor, command: Command) -> dict[str, Any]:
        """What is known before it has ended: who asks what."""
        fields: dict[str, Any] = {
            "actor": actor.name,
            "role": actor.role.value,
            "door": actor.door.value,
            "command": command.name,
            "arguments": arguments_of(command),
        }
        if actor.session is not None:
            fields["session"] = actor.session
        if actor.call is not None:
            fields["call"] = redact(actor.call)
        if actor.run_id is not None:
            fields["run_id"] = actor.run_id
        return fields


@cache
def _defaults_of(kind: type[Command]) -> dict[str, Any]:
    """Asked once a kind: msgspec reads every annotation anew, which takes half a millisecond."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def arguments_of(command: Command) -> dict[str, Any]:
    """The fields that were given, without secrets and without anything long."""
    given: dict[str, Any] = {}
    defaults = _defaults_of(type(command))
    for name, value in msgspec.to_builtins(command, str_keys=True).items():
        if value == defaults.get(name) or value in ([], {}, None):
            continue
        if name in command.masked:
            given[name] = HIDDEN
        elif name == "environment" and isinstance(value, dict):
            given[name] = f"{len(value)} variables"
        elif name in _VARIABLES and isinstance(value, dict):
            given[name] = sorted(value)[:_MOST_ITEMS]
        elif name in _WORDS and isinstance(value, list):
            given[name] = [_short(word) for word in redact_arguments(map(str, value))]
        else:
            given[name] = _short(redact_value(_without_values(value)))
    return _bounded(given)


def _bounded(given: dict[str, Any]) -> dict[str, Any]:
    """Who asks for something huge must not push the rest off the record."""
    if len(_encode(given)) <= _MOST_BYTES:
        return given
    sizes = {name: len(_encode(value)) for name, value in given.items()}
    return {
        name: value if sizes[name] <= _MOST_OF_ONE else f"… ({sizes[name]} bytes)"
        for name, value in given.items()
    }


def _without_values(value: Any) -> Any:
    """Variables deep inside an argument are told by their names only."""
    if isinstance(value, dict):
        return {
            key: sorted(item)
            if key in _VARIABLES and isinstance(item, dict)
            else redact_arguments(map(str, item))
            if key in _WORDS and isinstance(item, list)
            else _without_values(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_values(item) for item in value]
    return value


def _printable(text: str) -> str:
    """What a stranger wrote, as it may be shown on a terminal: without secrets, and not long."""
    shown = redact(text[:_LONGEST_LOOKED_AT])
    cut = shown if len(shown) <= _LONGEST_WRITTEN else shown[:_LONGEST_WRITTEN] + "…"
    return "".join(it if it.isprintable() else "\ufffd" for it in cut)


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]}… ({len(value)} characters)"
    if isinstance(value, list):
        items = [_short(item) for item in value[:_MOST_ITEMS]]
        return [*items, f"… ({len(value)} items)"] if len(value) > _MOST_ITEMS else items
    if isinstance(value, dict):
        return {key: _short(item) for key, item in list(value.items())[:_MOST_ITEMS]}
    return value


def _facts_of(end: Any) -> dict[str, Any]:
    """What an answer itself wants on record: which file, how large, and its etags."""
    names = getattr(end, "audited", ()) if isinstance(end, Result) else ()
    facts = {name: _redacted(msgspec.to_builtins(getattr(end, name, None))) for name in names}
    told = {name: _short(value) for name, value in facts.items() if value is not None}
    return {"result": told} if told else {}


def _redacted(value: Any) -> Any:
    """Texts without secrets. By their own shape and value only: a path is no name of a secret."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    if isinstance(value, dict):
        return {key: _redacted(item) for key, item in value.items()}
    return value


def _changed_nothing(end: Any) -> bool:
    if isinstance(end, Outcomes):
        return all(one.outcome in _UNCHANGED for one in end.services.values())
    return isinstance(end, NOTHING_DONE) or (isinstance(end, ReloadResult) and not end.changes)


def _outcome(end: Any) -> str:
    if isinstance(end, HoldfastError):
        return end.code
    if isinstance(end, BaseException):
        return "cancelled" if type(end).__name__ == "CancelledError" else "internal_error"
    if isinstance(end, WorkflowResult) and end.outcome != "done":
        return end.outcome
    services = getattr(end, "services", None) if isinstance(end, Result) else None
    if isinstance(services, dict):
        outcomes = {getattr(one, "outcome", "ok") for one in services.values()}
        return "failed" if "failed" in outcomes else "ok"
    return "ok"
