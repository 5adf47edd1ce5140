"""Commands that wait for approval: requested, decided, or expired.

A waiting command belongs to its caller: when the caller hangs up, or the supervisor is replaced, it
is void, and an event says so. Nothing here knows what a command does or who may approve it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import Clock, HistoryRecorder, KeeperApi, PendingCall
from holdfast.vocabulary.actors import Actor, Role, Target
from holdfast.vocabulary.authority import ApprovalInfo
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.errors import Failed, NotFound, Refused
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.quantities import format_duration
from holdfast.vocabulary.specs.policies import PolicySpec

MOST_WAITING = 100
MOST_OF_ONE = 10
MOST_OF_ACCOUNT = 30
"""The most for all sessions of one opener, so that they cannot use up everybody's."""
MOST_OVER = 50
_MOST_NAMES = 5
_LONGEST_FACT = 100
REPLACED = "the supervisor was replaced while it waited; ask again"
_KINDS = {
    "approved": EventKind.APPROVAL_APPROVED,
    "rejected": EventKind.APPROVAL_REJECTED,
    "expired": EventKind.APPROVAL_EXPIRED,
    "withdrawn": EventKind.APPROVAL_EXPIRED,
}
_log = logger("approvals")


class PendingApproval:
    """One command that waits."""

    __slots__ = ("actor", "command", "decided", "info", "targets", "timer")

    def __init__(
        self,
        info: ApprovalInfo,
        actor: Actor,
        command: Command,
        targets: tuple[Target, ...],
        decided: asyncio.Future[ApprovalInfo],
    ) -> None:
        self.info = info
        self.actor = actor
        self.command = command
        self.targets = targets
        self.decided = decided
        """Done with the result of the decision."""
        self.timer: PendingCall | None = None

    @property
    def notice(self) -> dict[str, Any]:
        """Return what the caller is told at once: who wants what on what."""
        info = self.info
        names = [target.name for target in self.targets]
        what = f"{info.command} of {_few(names)}" if names else info.command + _facts(info)
        return {
            "approval": info.approval,
            "expires_at": info.expires_at,
            "message": f"waiting for approval: {info.actor} wants {what} ({info.reason}): "
            f"holdfast approve {info.approval}",
        }


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _facts(info: ApprovalInfo) -> str:
    """Return the short arguments of a command that is about no service."""
    facts = []
    for name, value in info.arguments.items():
        text = _few([str(one) for one in value]) if isinstance(value, list) else str(value)
        if value not in (None, "", [], {}, False):
            facts.append(f"{name} {text}"[:_LONGEST_FACT])
    return f" with {', '.join(facts[:_MOST_NAMES])}" if facts else ""


class StandingApproval:
    """Something that waits for a decision without a caller: it neither expires nor hangs up."""

    __slots__ = ("actor", "info", "on_decided")

    def __init__(self, info: ApprovalInfo, on_decided: Callable[[ApprovalInfo], None]) -> None:
        self.info = info
        self.actor = Actor(Role.AGENT, info.actor)
        """On whose behalf it is asked; never the one who decides."""
        self.on_decided = on_decided


class ApprovalQueue:
    """All commands that wait, and the last that did."""

    def __init__(
        self,
        keeper: KeeperApi,
        recorder: HistoryRecorder,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], PendingCall],
        new_future: Callable[[], asyncio.Future[Any]],
    ) -> None:
        self._keeper = keeper
        self._recorder = recorder
        self._clock = clock
        self._call_later = call_later
        self._new_future = new_future
        self._waiting: dict[str, PendingApproval] = {}
        self._standing: dict[str, StandingApproval] = {}
        self._over: deque[ApprovalInfo] = deque(maxlen=MOST_OVER)
        self.on_decided: Callable[[str], None] = lambda state: None

    @property
    def waiting(self) -> list[ApprovalInfo]:
        found = [one.info for one in self._waiting.values()]
        found += [one.info for one in self._standing.values()]
        return sorted(found, key=lambda info: info.asked_at)

    def post(self, standing: StandingApproval, *, is_quiet: bool) -> None:
        """Let something wait that is no command of a caller. Whoever posts it posts it again to the
        next supervisor, then quietly."""
        self._standing[standing.info.approval] = standing
        if not is_quiet:
            self._recorder.event(EventKind.APPROVAL_REQUESTED, **_event_data(standing.info))

    def withdraw(self, approval: str) -> None:
        """There is nothing to decide any more."""
        self._standing.pop(approval, None)

    @property
    def over(self) -> list[ApprovalInfo]:
        """The newest first."""
        return list(reversed(self._over))

    def ask(
        self,
        actor: Actor,
        command: Command,
        policy: PolicySpec,
        reason: str,
        targets: tuple[Target, ...],
        record: dict[str, Any],
    ) -> PendingApproval:
        """Begin to wait; `record` is the audit record without its outcome."""
        others = [one.actor for one in self._waiting.values()]
        for count, most in (
            (sum(one.identity == actor.identity for one in others), MOST_OF_ONE),
            (sum(one.account == actor.account for one in others), MOST_OF_ACCOUNT),
            (len(others), MOST_WAITING),
        ):
            if count >= most:
                raise Refused(f"{most} requests wait for approval already", "wait for a decision")
        now = self._clock.time()
        info = ApprovalInfo(
            approval=f"approval-{os.urandom(4).hex()}",
            command=command.name,
            arguments=record["arguments"],
            actor=actor.name,
            role=actor.role.value,
            door=actor.door.value,
            session=actor.session,
            policy=policy.name,
            reason=reason,
            approvers=policy.approvers,
            asked_at=round(now, 3),
            expires_at=round(now + policy.approve_within, 3),
        )
        pending = PendingApproval(info, actor, command, targets, self._new_future())
        self._waiting[info.approval] = pending
        self._keeper.keep(
            keeper_memory.approval(info.approval), msgspec.json.encode((info, record)).decode()
        )
        why = f"nobody approved it within {format_duration(policy.approve_within)}"
        pending.timer = self._call_later(policy.approve_within, lambda: self._expire(pending, why))
        self._recorder.event(EventKind.APPROVAL_REQUESTED, **_event_data(info))
        return pending

    def find(self, approval: str) -> PendingApproval | StandingApproval:
        found = self._waiting.get(approval) or self._standing.get(approval)
        if found is not None:
            return found
        for info in self._over:
            if info.approval == approval:
                by = f" by {info.by}" if info.by else f": {info.why}"
                raise Failed(f"{approval} is {info.state} already{by}", "ask again if need be")
        waiting = ", ".join((*self._waiting, *self._standing)) or "nothing"
        raise NotFound(f'no approval "{approval[:100]}"', f"waiting: {waiting}")

    def of(self, actor: Actor, approval: str) -> ApprovalInfo:
        """Return what this actor asked for; raises NotFound for what others did."""
        pending = self._waiting.get(approval)
        if pending is not None and pending.actor.identity == actor.identity:
            return pending.info
        for info in self._over:
            is_own = (info.actor, info.session) == (actor.name, actor.session)
            if info.approval == approval and is_own:
                return info
        raise NotFound(f'you asked for no approval "{approval[:100]}"', "ask again if need be")

    def same(self, actor: Actor, command: Command) -> PendingApproval | None:
        """Return the request of the same actor for the same command, if one waits."""
        for pending in self._waiting.values():
            if pending.actor.identity == actor.identity and pending.command == command:
                return pending
        return None

    def note_outcome(self, approval: str, outcome: str) -> None:
        """Note what became of an approved command."""
        for place, info in enumerate(self._over):
            if info.approval == approval:
                self._over[place] = msgspec.structs.replace(info, outcome=outcome)

    def settle(
        self,
        pending: PendingApproval | StandingApproval,
        state: str,
        by: str | None,
        why: str | None,
    ) -> ApprovalInfo:
        """Decide, or declare it void; the caller continues."""
        info = msgspec.structs.replace(pending.info, state=state, by=by, why=why)
        if isinstance(pending, StandingApproval):
            if self._standing.pop(info.approval, None) is not None:
                self._end(info)
                pending.on_decided(info)
            return info
        if self._waiting.pop(info.approval, None) is None:
            return pending.info
        if pending.timer is not None:
            pending.timer.cancel()
        pending.info = info
        self._keeper.keep(keeper_memory.approval(info.approval), None)
        self._end(info)
        if not pending.decided.done():
            pending.decided.set_result(info)
        return info

    def _expire(self, pending: PendingApproval, why: str) -> None:
        self.settle(pending, "expired", None, why)

    def void_all(self, why: str) -> list[str]:
        """Declare everything that waits void; return the ids."""
        names = list(self._waiting)
        for pending in list(self._waiting.values()):
            self.settle(pending, "expired", None, why)
        return names

    def restore(self, kept: dict[str, str]) -> list[dict[str, Any]]:
        """Declare void what waited in an earlier supervisor; return the audit records for that."""
        records = []
        for approval, text in list(keeper_memory.approval.entries(kept)):
            key = keeper_memory.approval(approval)
            self._keeper.keep(key, None)
            try:
                info, record = msgspec.json.decode(text, type=tuple[ApprovalInfo, dict[str, Any]])
            except msgspec.MsgspecError:
                _log.error("%s cannot be read", key)
                continue
            self._end(msgspec.structs.replace(info, state="expired", why=REPLACED))
            records.append(record)
        return records

    def _end(self, info: ApprovalInfo) -> None:
        self._over.append(info)
        self._recorder.event(_KINDS[info.state], **_event_data(info))
        self.on_decided(info.state)


def _event_data(info: ApprovalInfo) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(info)
    return {name: value for name, value in facts.items() if value not in (None, {})}
