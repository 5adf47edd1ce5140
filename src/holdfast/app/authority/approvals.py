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
from holdfast.vocabulary.errors import HoldfastError, Refused

if TYPE_CHECKING:
    from holdfast.app.context import Context

HUNG_UP = "who asked did not wait for it"


class PendingAnswer(Awaitable[Result]):
    """An answer that waits for approval; `notice` says at once what it waits for."""

    def __init__(self, work: Awaitable[Result], notice: dict[str, Any]) -> None:
        self._work = work
        self.notice = notice

    def __await__(self) -> Generator[Any, None, Result]:
        return self._work.__await__()


class SharedWork(Awaitable[Result]):
    """A command that waits for approval, and the callers that wait for its result: one that asks
    for the same again joins. When the last of them hangs up, the request is void."""

    def __init__(self, task: asyncio.Task[Result]) -> None:
        self._task = task
        self._waiting = 0

    def __await__(self) -> Generator[Any, None, Result]:
        return self._result().__await__()

    async def _result(self) -> Result:
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._task.cancel()


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
        self._work: dict[str, SharedWork] = {}

    def begin(self, actor: Actor, command: Command, verdict: PermissionVerdict) -> PendingAnswer:
        """Ask for approval, or join the same request of the same caller that waits already."""
        assert verdict.confirm is not None
        same = self._context.authority.approvals.same(actor, command)
        if same is not None and (work := self._work.get(same.info.approval)) is not None:
            return PendingAnswer(work, same.notice)
        touched = service_scopes.all_targets(self._context, command)
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
        approval = pending.info.approval
        self._work[approval] = work = SharedWork(task)
        task.add_done_callback(lambda _: self._work.pop(approval, None))
        return PendingAnswer(work, pending.notice)

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
        try:
            answer = self._handle(actor, command, reason)
            done = answer if isinstance(answer, Result | AsyncGenerator) else await answer
        except HoldfastError as error:
            self._context.authority.approvals.note_outcome(info.approval, error.message)
            raise
        self._context.authority.approvals.note_outcome(info.approval, "done")
        return done
