"""What this Holdfast as a whole admits (its mode, a lockdown, approvals): commands and answers."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.vocabulary.command import Command, Effect, Permission, Result
from holdfast.vocabulary.specs.policies import FilterSpec, Mode, PolicySpec


class LockdownInfo(Result, frozen=True, kw_only=True):
    """An emergency lockdown in force."""

    reason: str
    by: str
    since: float | None = None
    """Unix seconds; nothing where that cannot be told."""


class LockdownResult(Result, frozen=True, kw_only=True):
    """`lockdown` is the one in force, if any."""

    message: str
    lockdown: LockdownInfo | None = None
    cancelled: list[str] = []
    """Work that was under way and was cancelled: workflows, approvals, sessions."""


class ModeResult(Result, frozen=True, kw_only=True):
    """The mode, and which of Holdfast's own services are loaded in it."""

    runtime_mode: Mode
    proxy_services: list[str]
    """The core: in every mode."""
    advanced_services: list[str] | None
    """Nothing in mode `proxy`."""
    service_count: int
    switching_to: Mode | msgspec.UnsetType = msgspec.UNSET
    """The mode of the supervisor that takes over in a moment."""
    restarts: list[str] | msgspec.UnsetType = msgspec.UNSET
    """The services that follow the mode, which the switch restarts."""
    message: str = ""


class ApprovalInfo(Result, frozen=True, kw_only=True):
    """A command that waits for somebody's approval, or did."""

    approval: str
    command: str
    arguments: dict[str, Any]
    actor: str
    role: str
    door: str
    session: str | None = None
    policy: str
    reason: str
    approvers: str
    """The least role that may approve it."""
    asked_at: float
    expires_at: float | None
    """None: it waits until somebody decides."""
    state: str = "waiting"
    """waiting, approved, rejected, expired or withdrawn."""
    by: str | None = None
    """Who decided."""
    why: str | None = None
    outcome: str | None = None
    """What became of it once it was approved: `done`, or why it failed."""


class ApprovalsResult(Result, frozen=True, kw_only=True):
    """Those that wait, the oldest first; then the newest of those that are over."""

    waiting: list[ApprovalInfo]
    over: list[ApprovalInfo] = []


class ApprovalResult(Result, frozen=True, kw_only=True):
    approval: ApprovalInfo
    message: str


class SecurityMetrics(Result, frozen=True, kw_only=True):
    """Refusals and decisions in this project, also under earlier supervisors."""

    refusals: list[dict[str, Any]]
    """`reason`, `door`, `role` and `count`."""
    approvals: dict[str, int]
    """By their ends."""
    approvals_waiting: int
    lockdowns: int
    locked_down: bool


class PoliciesResult(Result, frozen=True, kw_only=True):
    """Restrictions of requests beyond roles and limits."""

    runtime_mode: Mode
    policies: list[PolicySpec] = []
    filters: FilterSpec | None = None
    lockdown: LockdownInfo | None = None


class GetMode(Command, frozen=True, kw_only=True):
    """Tell the runtime mode, and which of Holdfast's own services are loaded in it."""

    name = "get_mode"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = ModeResult
    route = ("GET", "/api/mode")


class Policies(Command, frozen=True, kw_only=True):
    """Show the policies and filters in force, in the order in which they are asked.

    Mode `proxy` has none. The first policy that is about a request decides.
    """

    name = "policies"
    permission = Permission.OPERATE
    effect = Effect.READS
    answers = PoliciesResult
    route = ("GET", "/api/policies")


class SetMode(Command, frozen=True, kw_only=True):
    """Change the runtime mode: `proxy`, or `advanced` with policies, approvals, filters.

    The supervisor is replaced by one of that mode. Services with `follows_mode` or `mode_env` are
    restarted with the mode among their variables; no other is touched. Announced as
    `mode:switching`; clients reconnect. Holds until `down`, or until it is set again.
    """

    name = "set_mode"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = ModeResult
    route = ("POST", "/api/mode")
    mode: Mode


class Lockdown(Command, frozen=True, kw_only=True):
    """Stop every change from every door, until an admin's `unlock`.

    Admins may still stop things. Agents are refused everything and their sessions end;
    workflows under way and what waits for approval are cancelled. What runs goes on, and is
    restarted when it crashes. Survives every restart.
    """

    name = "lockdown"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    in_lockdown = True
    answers = LockdownResult
    route = ("POST", "/api/lockdown")
    reason: str


class Unlock(Command, frozen=True, kw_only=True):
    """End the lockdown."""

    name = "unlock"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    in_lockdown = True
    answers = LockdownResult
    route = ("POST", "/api/unlock")


class Approvals(Command, frozen=True, kw_only=True):
    """List the commands that wait for somebody's approval, and the last that did."""

    name = "approvals"
    permission = Permission.OPERATE
    effect = Effect.READS
    answers = ApprovalsResult
    route = ("GET", "/api/approvals")


class GetApproval(Command, frozen=True, kw_only=True):
    """Tell what became of a request for approval, to the caller who asked for it."""

    name = "get_approval"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = ApprovalResult
    route = ("GET", "/api/approvals/{approval}")
    approval: str


class Withdraw(Command, frozen=True, kw_only=True):
    """Take back one's own request for approval. What is decided already stays as it is."""

    name = "withdraw"
    permission = Permission.VIEW
    effect = Effect.CHANGES
    repeatable = True
    answers = ApprovalResult
    route = ("POST", "/api/approvals/{approval}/withdraw")
    approval: str


class Approve(Command, frozen=True, kw_only=True):
    """Let a waiting command be done, by its id; never one's own, and never an agent."""

    name = "approve"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = ApprovalResult
    route = ("POST", "/api/approvals/{approval}/approve")
    approval: str
    reason: str | None = None


class Reject(Command, frozen=True, kw_only=True):
    """Refuse a waiting command, by its id."""

    name = "reject"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    in_lockdown = True
    answers = ApprovalResult
    route = ("POST", "/api/approvals/{approval}/reject")
    approval: str
    reason: str | None = None
