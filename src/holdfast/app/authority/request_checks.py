"""What every request passes besides its actor's rights: rate limit, lockdown, policies, filters.

Gathers the facts that `rules` needs to decide, and decides nothing itself. Also checks who may
decide about a request that waits for approval.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.app.audit.auditor import Auditor
from holdfast.app.authority import path_scopes, service_scopes
from holdfast.rules.authority import filters, policies, tokens
from holdfast.rules.authority.path_scopes import PathTarget
from holdfast.rules.authority.permissions import CALM, Circumstances, PermissionVerdict
from holdfast.system.token_bucket import TokenBucket
from holdfast.vocabulary.actors import Actor, Role, Target
from holdfast.vocabulary.authority import Approve, Reject
from holdfast.vocabulary.command import Command, Door
from holdfast.vocabulary.errors import HoldfastError, TooManyRequests
from holdfast.vocabulary.security import CreateToken

if TYPE_CHECKING:
    from holdfast.app.context import Context

MOST_BUCKETS = 1000
RECORD_INTERVAL_SECONDS = 60.0
"""A caller who asks too often is put on record once in this time."""


class RequestChecks:
    """Checks requests, one after the other."""

    def __init__(
        self, context: Context, auditor: Auditor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._auditor = auditor
        self._clock = clock
        self._buckets: dict[tuple[str, Door], TokenBucket] = {}
        self._recorded_at: dict[tuple[str, Door], float] = {}

    def admit(self, actor: Actor, command: Command) -> None:
        """Raise TooManyRequests for a caller who asks too often; never at the owner's socket."""
        is_owner = actor.door is Door.CLI and actor.role is not Role.AGENT
        if is_owner or actor.door is Door.GATE:
            return
        limit, now = self._context.settings.now.rate_limit, self._clock()
        key = (actor.identity, actor.door)
        rate, burst = limit.requests_per_second, limit.burst
        if key not in self._buckets:
            self._buckets[key] = TokenBucket(burst, now)
        seconds = self._buckets[key].take(rate, burst, now)
        if len(self._buckets) > MOST_BUCKETS:
            self._forget(now)
        if not seconds:
            return
        self.count(actor, "rate")
        if now - self._recorded_at.get(key, -RECORD_INTERVAL_SECONDS) >= RECORD_INTERVAL_SECONDS:
            self._recorded_at[key] = now
            why = f"more than {limit.requests_per_second:g} requests a second"
            self._auditor.refused(actor, command, f"{why}; not recorded again for a minute")
        raise TooManyRequests(
            f"{actor.name} asks more than {limit.requests_per_second:g} times a second",
            f"wait {seconds:.3f} s; security.rate_limit says how many are taken",
            {"retry_after": round(seconds, 3)},
        )

    def circumstances(self, command: Command, *, is_approved: bool = False) -> Circumstances:
        """Return what holds now for every caller: lockdown and policies."""
        authority = self._context.authority
        lockdown, advanced = authority.lockdown.now, authority.advanced
        found = () if advanced is None else advanced.policies
        if lockdown is None and not found:
            return CALM
        touched: tuple[Target, ...] = ()
        if policies.is_by_service(found):
            touched = service_scopes.all_targets(self._context, command)
        return Circumstances(
            lockdown=None if lockdown is None else lockdown.reason,
            policies=found,
            local=path_scopes.local_time,
            touched=touched,
            paths=self._paths(command) if policies.is_by_path(found) else (),
            tools=self._tools(command) if policies.is_by_tool(found) else (),
            is_approved=is_approved,
        )

    def _paths(self, command: Command) -> tuple[PathTarget, ...]:
        try:
            return path_scopes.all_targets(self._context, command)
        except HoldfastError:
            # The command will fail on this path. Until then no policy may be avoided by it.
            return (PathTarget(self._context.project, "."),)

    def _tools(self, command: Command) -> tuple[str, ...]:
        tool = getattr(command, "tool", None)
        if not isinstance(tool, str):
            return ()
        return self._context.mcp_servers.registry.names_of(tool)

    def is_by_repository(self, actor: Actor, command: Command) -> bool:
        """Return whether limits or policies depend on the repository that a command acts on."""
        if not path_scopes.is_in_repository(command):
            return False
        advanced = self._context.authority.advanced
        has_policies = advanced is not None and policies.is_by_path(advanced.policies)
        return has_policies or path_scopes.is_limited(actor)

    def object_to(
        self, actor: Actor, command: Command, verdict: PermissionVerdict
    ) -> PermissionVerdict:
        """Return the verdict, or a refusal of a request that was allowed so far."""
        if isinstance(command, Approve | Reject):
            return self._may_decide(actor, command, verdict)
        if isinstance(command, CreateToken) and (wider := tokens.why_wider(actor, command)):
            return PermissionVerdict(False, wider, "scope", "limit the new one as well")
        advanced = self._context.authority.advanced
        if advanced is None or (actor.door is Door.CLI and actor.role is Role.OWNER):
            return verdict
        arguments = msgspec.to_builtins(command, str_keys=True)
        why = filters.objection(advanced.filters, arguments, command.masked)
        if why is None:
            return verdict
        return PermissionVerdict(
            False, why, "filter", "security.filters of the configuration forbids it"
        )

    def count(self, actor: Actor, cause: str) -> None:
        """Count a refusal."""
        if (advanced := self._context.authority.advanced) is not None:
            advanced.counters.refused(cause, actor)

    def _may_decide(
        self, actor: Actor, command: Approve | Reject, verdict: PermissionVerdict
    ) -> PermissionVerdict:
        try:
            pending = self._context.authority.approvals.find(command.approval)
        except HoldfastError:
            return verdict  # its handler says that there is no such approval
        why = policies.why_not_approve(actor, pending.actor, pending.info.approvers)
        if why is None:
            return verdict
        return PermissionVerdict(False, why, "approval", "ask somebody else to")

    def _forget(self, now: float) -> None:
        """Forget callers who have not asked for a while."""
        limit = self._context.settings.now.rate_limit
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if not bucket.is_full(limit.requests_per_second, limit.burst, now)
        }
        self._recorded_at = {
            key: moment
            for key, moment in self._recorded_at.items()
            if now - moment < RECORD_INTERVAL_SECONDS
        }
