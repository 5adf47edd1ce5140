"""What is answered about modes, lockdowns and approvals."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.vocabulary.results import Result
from holdfast.vocabulary.specs.policies import Mode


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
    """What was under way and was cancelled: workflows, approvals, sessions."""


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
    expires_at: float
    state: str = "waiting"
    """waiting, approved, rejected or expired."""
    by: str | None = None
    """Who decided."""
    why: str | None = None


class ApprovalsResult(Result, frozen=True, kw_only=True):
    """Those that wait, the oldest first; then the newest of those that are over."""

    waiting: list[ApprovalInfo]
    over: list[ApprovalInfo] = []


class ApprovalResult(Result, frozen=True, kw_only=True):
    approval: ApprovalInfo
    message: str


class SecurityMetrics(Result, frozen=True, kw_only=True):
    """What was refused and decided in this project, also under earlier supervisors."""

    refusals: list[dict[str, Any]]
    """`reason`, `door`, `role` and `count`."""
    approvals: dict[str, int]
    """By their ends."""
    approvals_waiting: int
    lockdowns: int
    locked_down: bool
