"""Writes records of commands: the actor, the door, the command, the reason and the outcome.

Every change, every refusal and every read of content is recorded exactly once. What one actor does
very often is counted instead, so that no actor pushes the rest off the record; `audit.limits` says
how much each may fill. Values that may be secrets are never recorded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.audit_log import AuditLog, Head
from holdfast.app.audit.limits import MINUTE_SECONDS, Later, Overflows, Quotas, Summaries, Summary
from holdfast.secrets.redaction import HIDDEN, redact, redact_arguments, redact_value
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command, Door, Effect, Result
from holdfast.vocabulary.configuration import ReloadResult
from holdfast.vocabulary.errors import NOTHING_DONE, CommandFailed, HoldfastError
from holdfast.vocabulary.services import Outcomes
from holdfast.vocabulary.sessions import ClosedSession, SessionResult
from holdfast.vocabulary.workflows import WorkflowResult

if TYPE_CHECKING:
    from holdfast.engine.sessions.sessions import Session

_encode = msgspec.json.Encoder().encode
_VARIABLES = frozenset({"environment", "env", "env_vars"})
_WORDS = frozenset({"argv", "args", "start_args"})
_LONGEST_TEXT = 500
_LONGEST_BY_STRANGER = 200
"""The longest text of an unknown caller in a record."""
_LONGEST_REDACTED = 8 * 1024
"""Longer than any secret, so that none is cut in two before it is redacted."""
_MOST_ITEMS = 50
_MOST_BYTES = 8 * 1024
"""The most bytes of arguments in a record."""
_MOST_OF_ONE = 500
"""The most bytes of one argument in a record with too many."""
_FRAME = 220
"""Bytes that number, time and both hashes add to a record."""
MOST_STRANGERS = 30
"""Refusals of unknown callers that are recorded in a minute."""
MOST_REFUSALS = 600
"""Refusals of one actor that are recorded in a minute; the rest is counted."""
MOST_READS = 600
"""Reads of one actor, and requests that change nothing, that are recorded one by one in a minute;
the rest is one record."""
_MOST_ACTORS = 1000
_UNCHANGED = ("already_running", "already_stopped", "already_paused", "not_paused")
HOLDFAST = "Holdfast itself"
"""The actor of what nobody asked for."""
DIED = "the supervisor died while it was under way"


class _MinuteCount:
    """Counts what happened within a minute."""

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


class _MinuteCounts:
    """One count for each account."""

    def __init__(self) -> None:
        self._all: dict[str, _MinuteCount] = {}

    def of(self, actor: Actor, now: float) -> _MinuteCount:
        if actor.account not in self._all and len(self._all) >= _MOST_ACTORS:
            self._all = {name: count for name, count in self._all.items() if not count.is_over(now)}
        return self._all.setdefault(actor.account, _MinuteCount())


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
        """Keeps a text in the keeper's memory, which outlives this process."""
        self._summaries = Summaries(self._record_summary, call_later)
        self._quotas, self._overflows = Quotas(), Overflows(log.record, call_later)
        self._strangers, self._pages = _MinuteCount(), _MinuteCount()
        self._refusals, self._reads = _MinuteCounts(), _MinuteCounts()

    def is_audited(self, command: Command) -> bool:
        if command.name == "open_output" and getattr(command, "hold", False):
            return False  # it reads nothing; what it holds was recorded when it was opened
        return command.effect is not Effect.READS or command.reads_content

    def now(self) -> float:
        return self._clock()

    def refused(
        self, actor: Actor, command: Command, reason: str, outcome: str = "refused"
    ) -> None:
        """Record a refusal. A flood of refusals must not push the rest off the record."""
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
            more["more"] = "counted, not recorded, for a summary"
        self._record(actor, command, "refused", reason, outcome, 0.0, True, **more)

    def void(self, facts: dict[str, Any], reason: str) -> None:
        """Record that a request of an earlier supervisor was cancelled. It left the `facts`."""
        end = {"decision": "refused", "reason": reason, "outcome": "cancelled", "seconds": 0.0}
        self._log.record({**facts, **end})

    def begin(self, actor: Actor, command: Command, reason: str) -> str:
        """Note that a change is under way: if we die, the next supervisor records it."""
        request = os.urandom(4).hex()
        end = {"decision": "allowed", "reason": _short(reason), "request": request}
        self._keep(
            keeper_memory.audit_under_way(request),
            _encode({**self.facts(actor, command), **end}).decode(),
        )
        return request

    def restore(self, kept: dict[str, str]) -> None:
        """Record what was under way when the last supervisor died."""
        texts = dict(keeper_memory.audit_under_way.entries(kept))
        if not texts:
            return
        # The head is kept in the same message as the notes that are over.
        since = Head.parse(kept.get(keeper_memory.AUDIT_HEAD)).seq
        over = {entry.get("request") for entry in self._log.entries(since)}
        for request, text in texts.items():
            self._keep(keeper_memory.audit_under_way(request), None)
            if request not in over:
                end = {"outcome": "unknown_outcome", "note": DIED, "seconds": 0.0}
                self._log.record({**msgspec.json.decode(text), **end})

    def close(self) -> None:
        self._summaries.close()
        self._overflows.close()

    def turned_away(
        self, door: Door, asked: str, reason: str = "", by: str = "somebody unknown"
    ) -> None:
        """Record that an unknown caller was turned away. A flood of them is not recorded.

        Pages of other sites and strange host names, which the gate reports with a reason, are
        counted apart, so that they cannot hide a caller who tries tokens.
        """
        count = (self._pages if reason else self._strangers).count(self._clock())
        if count > MOST_STRANGERS:
            return
        more = {"more": "not recorded for a summary"} if count == MOST_STRANGERS else {}
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
        if self._quotas.admits_account(stranger.account, size, self._clock(), noise=True):
            self._log.record(fields)
        else:
            self._overflows.add(stranger, "pages" if reason else "tokens", "refused")

    def done(
        self,
        actor: Actor,
        command: Command,
        reason: str,
        began: float,
        end: Result | BaseException,
        request: str | None = None,
    ) -> None:
        """Record the end of a command. `end` is the answer or the exception that was raised;
        `request` is what `begin` returned."""
        outcome, now = _outcome(end), self._clock()
        if outcome == "ok" and self._summaries.absorbs(actor, command, reason):
            self._over(request)
            return
        is_read = command.effect is Effect.READS
        is_idle = not is_read and _changed_nothing(end)
        if is_idle and self._summaries.repeats(actor, command, outcome):
            self._over(request)
            return
        more = _facts_of(end) if request is None else {**_facts_of(end), "request": request}
        if is_read or is_idle:
            count = self._reads.of(actor, now).count(now)
            if count > MOST_READS:
                self._summaries.add(actor, command, reason, outcome)
                self._over(request)
                return
            if count == MOST_READS:
                more["more"] = "told together, for a summary"
        else:
            self._summaries.end_repeats()
        seconds = now - began
        is_noise = is_read or is_idle
        self._record(actor, command, "allowed", reason, outcome, seconds, is_noise, **more)
        if is_idle:
            self._summaries.expect_repeats(actor, command, reason, outcome)
        self._over(request)

    def session_ended(self, session: Session, why: str, result: ClosedSession) -> None:
        """Record the end of a session that no command asked for. Those that a command closes are
        recorded with it."""
        fates = msgspec.to_builtins(result)
        told = {name: value for name, value in fates.items() if value and name != "session"}
        self._log.record(
            {
                "actor": HOLDFAST,
                "role": "supervisor",
                "door": "none",
                "command": "close_session",
                "arguments": {"client": session.stored.client, "because": _short(redact(why))},
                "session": session.name,
                "decision": "allowed",
                "reason": _short(redact(why)),
                "outcome": "ok",
                "seconds": 0.0,
                **({"result": told} if told else {}),
            }
        )

    def _over(self, request: str | None) -> None:
        if request is not None:
            self._keep(keeper_memory.audit_under_way(request), None)

    def _record_summary(self, over: Summary) -> None:
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
        if self._quotas.admits(actor, command, size, self._clock(), noise=is_noise):
            self._log.record(fields)
        else:
            self._overflows.add(actor, command.name, outcome, int(more.get("times", 1)))

    def facts(self, actor: Actor, command: Command) -> dict[str, Any]:
        """Return what is known before the command has ended: the actor and the arguments."""
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
    """Cached, because msgspec reads every annotation anew, which takes half a millisecond."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def arguments_of(command: Command) -> dict[str, Any]:
    """Return the fields that were given, without secrets and without anything long."""
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
    """Shorten huge arguments, so that they cannot push the rest off the record."""
    if len(_encode(given)) <= _MOST_BYTES:
        return given
    sizes = {name: len(_encode(value)) for name, value in given.items()}
    return {
        name: value if sizes[name] <= _MOST_OF_ONE else f"… ({sizes[name]} bytes)"
        for name, value in given.items()
    }


def _without_values(value: Any) -> Any:
    """Replace variables deep inside an argument by their names."""
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
    """Return the text of an unknown caller as a terminal may show it, short and without secrets."""
    shown = redact(text[:_LONGEST_REDACTED])
    cut = shown if len(shown) <= _LONGEST_BY_STRANGER else shown[:_LONGEST_BY_STRANGER] + "…"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in cut)


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]}… ({len(value)} characters)"
    if isinstance(value, list):
        items = [_short(item) for item in value[:_MOST_ITEMS]]
        return [*items, f"… ({len(value)} items)"] if len(value) > _MOST_ITEMS else items
    if isinstance(value, dict):
        return {key: _short(item) for key, item in list(value.items())[:_MOST_ITEMS]}
    return value


def _facts_of(end: Result | BaseException) -> dict[str, Any]:
    """Return what the answer itself puts on record: which session was opened or closed; which
    file, how large, and its etags."""
    if isinstance(end, SessionResult):
        return {"session": end.session.session}
    if isinstance(end, ClosedSession):
        more: dict[str, Any] = {"result": {"goes_on": True}} if end.goes_on else {}
        return {"session": end.session, **more}
    names = getattr(end, "audited", ()) if isinstance(end, Result) else ()
    facts = {name: _redacted(msgspec.to_builtins(getattr(end, name, None))) for name in names}
    told = {name: _short(value) for name, value in facts.items() if value is not None}
    return {"result": told} if told else {}


def _redacted(value: Any) -> Any:
    """Redact texts by their form and value only: a path is not the name of a secret."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    if isinstance(value, dict):
        return {key: _redacted(item) for key, item in value.items()}
    return value


def _changed_nothing(end: Result | BaseException) -> bool:
    if isinstance(end, Outcomes):
        return all(outcome.outcome in _UNCHANGED for outcome in end.services.values())
    return isinstance(end, NOTHING_DONE) or (isinstance(end, ReloadResult) and not end.changes)


def _outcome(end: Result | BaseException) -> str:
    if isinstance(end, CommandFailed):
        return str(end.details["outcome"])
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
