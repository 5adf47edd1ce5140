"""The one application service: who asks, may they, and who answers.

Every door passes through `who` and `dispatch`; no door and no handler decides about
permission itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from holdfast.app.audit.auditor import Auditor
from holdfast.app.authority import file_targets, path_denials, scoping
from holdfast.app.authority.approvals import Confirmations
from holdfast.app.authority.identities import Identities
from holdfast.app.authority.request_checks import Scrutiny, local
from holdfast.app.authority.supervised_peers import Supervised
from holdfast.app.followed import Followed
from holdfast.app.registry import Answer, Handler, handler_for
from holdfast.app.streams import LiveStreams
from holdfast.engine.metrics.counters import SupervisorCounters
from holdfast.rules.authority.permissions import Verdict, permit
from holdfast.rules.authority.policies import next_turn
from holdfast.vocabulary.actors import UNLIMITED, Actor, Role, Target
from holdfast.vocabulary.command import Command, Effect, Result
from holdfast.vocabulary.errors import HoldfastError, Refused, Unauthorized, UnknownService


class Application:
    """Permits and dispatches."""

    def __init__(self, context: Any, supervised: Supervised, auditor: Auditor) -> None:
        self._context = context
        self.who = Identities(context, supervised, auditor)
        self._auditor = auditor
        self._work: set[asyncio.Task[Result]] = set()
        self._scrutiny = Scrutiny(context, auditor)
        approved = partial(self._judge, is_approved=True)
        self._confirmations = Confirmations(
            context, auditor, self.who.is_still, approved, self._refuse, self._handle
        )
        self.counters = SupervisorCounters()
        self.streams = LiveStreams(self._why_lost, self._next_turn)

    def dispatch(self, actor: Actor, command: Command, key: object = None) -> Answer:
        """Answer a command: a result at once, one to await, or a stream of items.

        What changes something under a `key` is done once, however often it is asked.
        """
        began = time.perf_counter()
        try:
            self._scrutiny.admit(actor, command)
            if key is None or command.effect is Effect.READS:
                return self._dispatch(actor, command)
            do = partial(self._dispatch, actor, command)
            admit = partial(self._admit_again, actor, command)
            answer: Answer = self._context.repeats.answer(actor, command, key, do, admit)
            return answer
        finally:
            self.counters.dispatched(command.name, time.perf_counter() - began)

    def _dispatch(self, actor: Actor, command: Command) -> Answer:
        command, verdict = self._judge(actor, command)
        if not verdict.is_allowed:
            raise self._refuse(actor, command, verdict)
        if verdict.confirm is not None:
            return self._confirmations.begin(actor, command, verdict)
        return self._handle(actor, command, verdict.reason)

    def _admit_again(self, actor: Actor, command: Command) -> None:
        """What was answered before is told again only to a caller who may still ask it."""
        command, verdict = self._judge(actor, command, is_approved=True)
        if not verdict.is_allowed:
            raise self._refuse(actor, command, verdict)

    def _judge(
        self, actor: Actor, command: Command, *, is_approved: bool = False
    ) -> tuple[Command, Verdict]:
        """The decision, and the command as it may be done: narrowed to what its actor may see."""
        targets: tuple[Target, ...] = ()
        if actor.scopes is not UNLIMITED:
            roster = self._context.roster
            command = scoping.narrowed(
                roster,
                actor,
                command,
                lambda target: permit(actor, command, (target,)).is_allowed,
            )
            targets = scoping.targets(roster, actor, command)
        files = file_targets.limiting(self._context, actor, command)
        settings = self._context.settings.now
        allowed = settings.door.allowed_commands if settings.door else None
        circumstances = self._scrutiny.circumstances(command, is_approved=is_approved)
        verdict = permit(actor, command, targets, allowed, circumstances, files)
        if verdict.is_allowed and command.carries_commands:
            from holdfast.rules.authority.commands import permit_commands

            carried = permit_commands(actor, command, settings)
            if not carried.is_allowed:
                hint = "`holdfast reload` takes a new setting" if "`" in carried.reason else ""
                return command, replace(carried, cause="command", hint=hint)
        return command, self._scrutiny.more(actor, command, verdict)

    def _refuse(self, actor: Actor, command: Command, verdict: Verdict) -> Refused:
        self._auditor.refused(actor, command, verdict.reason)
        self._scrutiny.count(actor, verdict.cause)
        return Refused(
            f"{command.name} is refused: {verdict.reason}",
            verdict.hint,
            {"actor": actor.name, "needs": command.permission.value},
        )

    def _handle(self, actor: Actor, command: Command, reason: str) -> Answer:
        answer = self._begin(actor, command, reason)
        if isinstance(answer, Result):
            return answer
        if isinstance(answer, AsyncGenerator):
            return self.streams.open(actor, command, answer)
        return self._still(actor, command, answer) if command.effect is Effect.READS else answer

    async def _still(self, actor: Actor, command: Command, work: Awaitable[Result]) -> Result:
        """What was read, for a caller who may still read it."""
        turns = self.streams.turns
        result = await work
        if turns != self.streams.turns and (lost := self._why_lost(actor, command)) is not None:
            raise lost
        return result

    def _why_lost(self, actor: Actor, command: Command) -> HoldfastError | None:
        """Why a caller may not be told more of what it was permitted to ask; None: it may. What
        changes something was permitted once, and is followed to its end."""
        now = self.who.renewed(actor)
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
        moments = [self.who.expires_in(actor) for actor in actors]
        advanced = self._context.authority.advanced
        if advanced is not None:
            moments.append(next_turn(advanced.policies, local))
        return min((moment for moment in moments if moment is not None), default=None)

    def _begin(self, actor: Actor, command: Command, reason: str) -> Answer:
        if command.effect is not Effect.READS:
            self._context.repeats.note(command)
        if self._scrutiny.is_by_repository(actor, command):
            return self._handle_in_repository(actor, command, reason)
        return self._handle_judged(actor, command, reason)

    async def _handle_in_repository(self, actor: Actor, command: Command, reason: str) -> Any:
        """Judge the whole repository that a command acts on, not the folder that names it."""
        named = file_targets.targets(self._context, command)
        place = await file_targets.repository_of(self._context, command)
        with file_targets.judged_by(place):
            if file_targets.targets(self._context, command) != named:
                command, verdict = self._judge(actor, command)
                if verdict.confirm is not None:
                    shown = self._context.files.roots.told(place)
                    why = f"the whole repository needs approval ({verdict.reason})"
                    hint = f'ask for the repository "{shown}" by this name'
                    verdict = Verdict(False, why, "approval", hint)
                if not verdict.is_allowed:
                    raise self._refuse(actor, command, verdict)
            with path_denials.in_repository(self._context, actor, command):
                answer = self._handle_judged(actor, command, reason)
                return await answer if isinstance(answer, Awaitable) else answer

    def _handle_judged(self, actor: Actor, command: Command, reason: str) -> Answer:
        handler = handler_for(command, actor)
        if command.changes_files and actor.session is not None:
            from holdfast.app.handlers.git.checkpoints import checkpointed

            handler = checkpointed(handler, actor.session)
        if scoping.is_limited(actor):
            return self._limited(actor, command, reason, handler)
        if not self._auditor.is_audited(command):
            answer: Answer = handler(self._context, command)
            return answer
        return self._audited(actor, command, reason, handler)

    def _limited(self, actor: Actor, command: Command, reason: str, handler: Handler) -> Answer:
        """As for others, but nothing is told of services that it may not see."""
        from holdfast.app.authority import limited_answers

        def may_see(name: str) -> bool:
            target = scoping.target_of(self._context.roster, name)
            return permit(actor, command, (target,)).is_allowed

        try:
            if self._auditor.is_audited(command):
                answer = self._audited(actor, command, reason, handler)
            else:
                answer = handler(self._context, command)
        except UnknownService as error:
            raise limited_answers.nameless(error) from None
        return limited_answers.limited(answer, may_see, actor.session)

    def _audited(self, actor: Actor, command: Command, reason: str, handler: Handler) -> Answer:
        """Every ending of the command is on record before it is answered."""
        began = self._auditor.now()
        request: str | None = None

        def record(end: Any) -> None:
            self._auditor.done(actor, command, reason, began, end, request)

        try:
            answer: Any = handler(self._context, command)
        except BaseException as error:
            record(error)
            raise
        is_lasting = command.effect is not Effect.READS
        is_work = asyncio.iscoroutine(answer)
        if is_lasting and (is_work or isinstance(answer, Followed)):
            request = self._auditor.begin(actor, command, reason)
        if isinstance(answer, Followed):
            answer.end.add_done_callback(lambda end: record(_end_of(end)))
            return answer.stream
        if is_work:
            return self._finish(answer, record, is_lasting=is_lasting)
        record(answer)
        return cast("Answer", answer)

    def _finish(
        self, work: Coroutine[Any, Any, Result], record: Callable[[Any], None], *, is_lasting: bool
    ) -> Awaitable[Result]:
        """What changes something is done to its end, also if who asked hangs up."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)

        def ended(task: asyncio.Task[Result]) -> None:
            self._work.discard(task)
            record(_end_of(task))

        task.add_done_callback(ended)
        return asyncio.shield(task) if is_lasting else task


def _end_of(task: asyncio.Future[Result]) -> Any:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()
