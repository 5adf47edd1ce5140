"""Commands that wait for approval, from the request to the end.

When a command is approved, its caller must still be there and must still be allowed to ask it. The
audit has exactly one record of it, whatever its end is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from holdfast.app.audit.auditor import Auditor
from holdfast.app.authority import service_scopes
from holdfast.app.registry import Answer
from holdfast.engine.authority.approvals import PendingApproval
from holdfast.rules.authority.permissions import PermissionVerdict
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command, Result
from holdfast.vocabulary.errors import Refused

if TYPE_CHECKING:
    from holdfast.app.context import Context

HUNG_UP = "who asked did not wait for it"


class PendingAnswer(Awaitable[Result]):
    """An answer that waits for approval; `notice` says at once what it waits for."""

    def __init__(self, task: asyncio.Future[Result], notice: dict[str, Any]) -> None:
        self._task = task
        self.notice = notice

    def __await__(self) -> Generator[Any, None, Result]:
        return self._task.__await__()


class ApprovalRequests:
    """Asks for approval of commands, and does those that are approved."""

    def __init__(
        self,
        context: Context,
        auditor: Auditor,
        is_valid: Callable[[Actor], bool],
        judge: Callable[[Actor, Command], tuple[Command, PermissionVerdict]],
        refuse: Callable[[Actor, Command, PermissionVerdict], Refused],
        handle: Callable[[Actor, Command, str], Answer],
    ) -> None:
        self._context = context
        self._auditor = auditor
        self._is_valid = is_valid
        self._judge = judge
        self._refuse = refuse
        self._handle = handle
        self._work: set[asyncio.Task[Result]] = set()

    def begin(self, actor: Actor, command: Command, verdict: PermissionVerdict) -> PendingAnswer:
        assert verdict.confirm is not None
        touched = service_scopes.all_targets(self._context.roster, command)
        record = self._auditor.facts(actor, command)
        try:
            pending = self._context.authority.approvals.ask(
                actor, command, verdict.confirm, verdict.reason, touched, record
            )
        except Refused as refused:
            raise self._refuse(
                actor, command, PermissionVerdict(False, refused.message, "approval", refused.hint)
            ) from None
        task = asyncio.get_running_loop().create_task(self._wait(pending))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return PendingAnswer(task, pending.notice)

    async def _wait(self, pending: PendingApproval) -> Any:
        """Wait for the decision; return the result, or the stream of it."""
        actor, command = pending.actor, pending.command
        try:
            info = await asyncio.shield(pending.decided)
        except asyncio.CancelledError:
            self._context.authority.approvals.settle(pending, "expired", None, HUNG_UP)
            self._auditor.refused(actor, command, HUNG_UP, outcome="cancelled")
            raise
        if info.state != "approved":
            by = f"{info.by} rejected it" if info.state == "rejected" else ""
            why = ": ".join(word for word in (by, info.why) if word)
            hint = f"{info.approval} is {info.state}; ask again if need be"
            raise self._refuse(actor, command, PermissionVerdict(False, why, "approval", hint))
        # Rights may have been taken back, or a lockdown begun, since it was asked.
        command, verdict = self._judge(actor, command)
        if not self._is_valid(actor):
            verdict = PermissionVerdict(False, "its token was taken back, or has expired", "token")
        if not verdict.is_allowed:
            raise self._refuse(actor, command, verdict)
        reason = f"{verdict.reason}; approved by {info.by}"
        answer = self._handle(actor, command, reason)
        return answer if isinstance(answer, Result | AsyncGenerator) else await answer
