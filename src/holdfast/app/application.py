"""The one application service: identifies callers, permits commands, and has them handled.

Every door passes through `identities` and `dispatch`. A request goes down this file in one
direction: rate limit, key, permission, approval, audit, handler. No door and no handler decides
about permission itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from holdfast.adapters.own_log import TRACE, facts, logger
from holdfast.app.audit.auditor import Auditor
from holdfast.app.authority import path_scopes, service_scopes
from holdfast.app.authority.approvals import ApprovalRequests
from holdfast.app.authority.decision import decide
from holdfast.app.authority.identities import Identities, is_visitor, token_needed
from holdfast.app.authority.request_checks import RequestChecks
from holdfast.app.registry import Answer, Handler, handler_for
from holdfast.app.streams import FollowedWork, LiveStreams
from holdfast.engine.metrics.counters import SupervisorCounters
from holdfast.rules.authority.permissions import PermissionVerdict, permit
from holdfast.rules.authority.policies import next_turn
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command, Effect, Result
from holdfast.vocabulary.errors import HoldfastError, Refused, Unauthorized, UnknownService

if TYPE_CHECKING:
    from holdfast.app.context import Context

_log = logger("requests")


class Application:
    """Permits and dispatches."""

    def __init__(self, context: Context, auditor: Auditor) -> None:
        self._context = context
        self.identities = Identities(context, auditor)
        self._auditor = auditor
        self._work: set[asyncio.Task[Result]] = set()
        self._checks = RequestChecks(context, auditor)
        self._approval_requests = ApprovalRequests(
            context,
            auditor,
            is_valid=self.identities.is_valid,
            judge=partial(self._judge, is_approved=True),
            refuse=self._refuse,
            handle=self._handle,
        )
        self.counters = SupervisorCounters()
        self.streams = LiveStreams(self._why_lost, self._next_turn)

    def dispatch(self, actor: Actor, command: Command, key: object = None) -> Answer:
        """Answer a command: a result at once, one to await, or a stream of items.

        A change under a `key` is done once, however often it is asked.
        """
        began = time.perf_counter()
        try:
            self._checks.admit(actor, command)
            if key is None or command.effect is Effect.READS:
                return self._dispatch(actor, command)
            do = partial(self._dispatch, actor, command)
            admit = partial(self._admit_again, actor, command)
            return self._context.idempotency.answer(actor, command, key, do, admit)
        finally:
            took = time.perf_counter() - began
            self.counters.dispatched(command.name, took)
            if _log.isEnabledFor(TRACE):
                about = facts(
                    actor=actor.name, door=actor.door.value, took_ms=round(took * 1000, 3)
                )
                _log.log(TRACE, "request %s", command.name, extra=about)

    def _dispatch(self, actor: Actor, command: Command) -> Answer:
        command, verdict = self._judge(actor, command)
        if not verdict.is_allowed:
            raise self._refuse(actor, command, verdict)
        if verdict.confirm is not None:
            return self._approval_requests.begin(actor, command, verdict)
        return self._handle(actor, command, verdict.reason)

    def _admit_again(self, actor: Actor, command: Command) -> None:
        """Raise Refused if the caller may not be told again what was answered before."""
        command, verdict = self._judge(actor, command, is_approved=True)
        if not verdict.is_allowed:
            raise self._refuse(actor, command, verdict)

    def _judge(
        self, actor: Actor, command: Command, *, is_approved: bool = False
    ) -> tuple[Command, PermissionVerdict]:
        """Return the decision, and the command narrowed to what its actor may see."""
        return decide(self._context, self._checks, actor, command, is_approved=is_approved)

    def _refuse(self, actor: Actor, command: Command, verdict: PermissionVerdict) -> Refused:
        self._auditor.refused(actor, command, verdict.reason)
        self._checks.count(actor, verdict.cause)
        if is_visitor(actor):
            return token_needed(actor.door)
        return Refused(
            f"{command.name} is refused: {verdict.reason}",
            verdict.hint,
            {"actor": actor.name, "needs": command.permission.value},
        )

    def _handle(self, actor: Actor, command: Command, reason: str) -> Answer:
        """Have a permitted command done, and watch that its caller keeps the right to read it."""
        if command.effect is not Effect.READS:
            self._context.idempotency.note(command)
        answer: Answer
        if self._checks.is_by_repository(actor, command):
            answer = self._handle_in_repository(actor, command, reason)
        else:
            answer = self._handle_judged(actor, command, reason)
        if isinstance(answer, Result):
            return answer
        if isinstance(answer, AsyncGenerator):
            return self.streams.open(actor, command, answer)
        return self._recheck(actor, command, answer) if command.effect is Effect.READS else answer

    async def _recheck(self, actor: Actor, command: Command, work: Awaitable[Result]) -> Result:
        """Return what was read if the caller may still read it."""
        turns = self.streams.turns
        result = await work
        if turns != self.streams.turns and (lost := self._why_lost(actor, command)) is not None:
            raise lost
        return result

    async def _handle_in_repository(self, actor: Actor, command: Command, reason: str) -> Any:
        """Judge the whole repository that a command acts on, not the folder that names it."""
        named = path_scopes.all_targets(self._context, command)
        place = await path_scopes.repository_of(self._context, command)
        with path_scopes.judged_by(place):
            if path_scopes.all_targets(self._context, command) != named:
                command, verdict = self._judge(actor, command)
                if verdict.confirm is not None:
                    shown = (
                        "." if place is None else self._context.workspace.files.roots.told(place)
                    )
                    why = f"the whole repository needs approval ({verdict.reason})"
                    hint = f'ask for the repository "{shown}" by this name'
                    verdict = PermissionVerdict(False, why, "approval", hint)
                if not verdict.is_allowed:
                    raise self._refuse(actor, command, verdict)
            with path_scopes.denying_in_repository(self._context, actor, command):
                answer = self._handle_judged(actor, command, reason)
                return await answer if isinstance(answer, Awaitable) else answer

    def _handle_judged(self, actor: Actor, command: Command, reason: str) -> Answer:
        handler = handler_for(command, actor)
        if not service_scopes.is_limited(actor):
            return self._call(actor, command, reason, handler)

        def may_see(name: str) -> bool:
            target = service_scopes.target_of(self._context.roster, name)
            return permit(actor, command, (target,)).is_allowed

        try:
            answer = self._call(actor, command, reason, handler)
        except UnknownService as error:
            raise service_scopes.without_suggestions(error) from None
        return service_scopes.limit_answer(answer, may_see, actor.session)

    def _call(self, actor: Actor, command: Command, reason: str, handler: Handler) -> Answer:
        """Call the handler. Every end of an audited command is on record before it is answered."""
        if not self._auditor.is_audited(command):
            return cast("Answer", handler(self._context, command))
        began = self._auditor.now()
        request: str | None = None

        def record(end: Result | BaseException) -> None:
            self._auditor.done(actor, command, reason, began, end, request)

        try:
            answer: Any = handler(self._context, command)
        except BaseException as error:
            record(error)
            raise
        is_change = command.effect is not Effect.READS
        is_work = asyncio.iscoroutine(answer)
        if is_change and (is_work or isinstance(answer, FollowedWork)):
            request = self._auditor.begin(actor, command, reason)
        if isinstance(answer, FollowedWork):
            answer.end.add_done_callback(lambda end: record(_end_of(end)))
            return answer.stream
        if is_work:
            return self._finish(answer, record, is_change=is_change)
        record(answer)
        return cast("Answer", answer)

    def _finish(
        self,
        work: Coroutine[Any, Any, Result],
        record: Callable[[Result | BaseException], None],
        *,
        is_change: bool,
    ) -> Awaitable[Result]:
        """Do the work in a task. A change is done to its end even if the caller hangs up."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)

        def ended(task: asyncio.Task[Result]) -> None:
            self._work.discard(task)
            record(_end_of(task))

        task.add_done_callback(ended)
        return asyncio.shield(task) if is_change else task

    def _why_lost(self, actor: Actor, command: Command) -> HoldfastError | None:
        """Return why a caller lost the right to read what it was permitted to ask, or None.

        A change was permitted once, and its caller may follow it to its end.
        """
        now = self.identities.refresh(actor)
        if now is None:
            return Unauthorized("the token was revoked or has expired", "show another one")
        if command.effect is not Effect.READS and now.role is not Role.AGENT:
            return None
        try:
            verdict = self._judge(now, command)[1]
        except HoldfastError as error:
            return error
        if verdict.is_allowed:
            return None
        if command.effect is not Effect.READS and verdict.cause != "lockdown":
            return None
        return self._refuse(now, command, verdict)

    def _next_turn(self, actors: list[Actor]) -> float | None:
        """Return the seconds until the clock may change a decision about one of these actors."""
        moments = [self.identities.expires_in(actor) for actor in actors]
        advanced = self._context.authority.advanced
        if advanced is not None:
            moments.append(next_turn(advanced.policies, path_scopes.local_time))
        return min((moment for moment in moments if moment is not None), default=None)


def _end_of(task: asyncio.Future[Result]) -> Result | BaseException:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()
