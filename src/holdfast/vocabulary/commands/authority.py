"""Commands about what this Holdfast as a whole admits: its mode, a lockdown, approvals."""

from __future__ import annotations

from holdfast.vocabulary.authority import (
    ApprovalResult,
    ApprovalsResult,
    LockdownResult,
    ModeResult,
)
from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.specs.policies import Mode


class GetMode(Command, frozen=True, kw_only=True):
    """Tell the runtime mode, and which of Holdfast's own services are loaded in it."""

    name = "get_mode"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = ModeResult
    route = ("GET", "/api/mode")


class SetMode(Command, frozen=True, kw_only=True):
    """Change the runtime mode: `proxy`, or `advanced` with policies, approvals, filters.

    The supervisor is replaced by one of that mode; no service is touched. Announced as
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
