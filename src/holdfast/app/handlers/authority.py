"""Handlers of commands about modes, lockdowns and approvals."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.engine.authority.modes import BANNER, SWITCH_SECONDS
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.authority import (
    ApprovalResult,
    Approvals,
    ApprovalsResult,
    Approve,
    GetApproval,
    GetMode,
    Lockdown,
    LockdownResult,
    ModeResult,
    Policies,
    PoliciesResult,
    Reject,
    SetMode,
    Unlock,
    Withdraw,
)
from holdfast.vocabulary.errors import Refused
from holdfast.vocabulary.specs.policies import Mode

_log = logger("authority")


@handles(GetMode)
def get_mode(context: Context, command: GetMode) -> ModeResult:
    return context.authority.modes.container.describe()


@handles(Policies)
def policies(context: Context, command: Policies) -> PoliciesResult:
    authority = context.authority
    advanced = authority.advanced
    return PoliciesResult(
        runtime_mode=authority.modes.now,
        policies=[] if advanced is None else list(advanced.policies),
        filters=None if advanced is None else advanced.filters,
        lockdown=authority.lockdown.now,
    )


@handles(SetMode)
async def set_mode(context: Context, command: SetMode, actor: Actor) -> ModeResult:
    modes = context.authority.modes
    if command.mode == modes.now:
        return modes.container.describe(message=f"the mode is {modes.now} already")
    if (why := modes.why_not(command.mode)) is not None:
        raise Refused(f"the mode stays {modes.now}: {why}", "take them out, and reload")
    for one in context.workflows.under_way():
        raise Refused(
            f"{one.name} is under way ({one.what}), and a switch would break it off",
            f"wait for it, or end it: holdfast workflow --cancel {one.id}",
        )
    context.authority.approvals.void_all("the mode is being switched; ask again")
    return await _switch(context, command.mode, actor.name)


async def _switch(context: Context, mode: Mode, by: str, *, is_followed: bool = True) -> ModeResult:
    """Replace the supervisor; services that follow the mode are restarted by the next one."""
    authority = context.authority
    container = authority.modes.container
    restarts = authority.followers.names() if is_followed else []
    if restarts:
        authority.followers.leave_note()
    relaunch = authority.modes.switch(mode, by, restarts)
    await context.store.written()
    # The caller is answered, and followers get the event, before the line closes.
    asyncio.get_running_loop().call_later(SWITCH_SECONDS, relaunch)
    return container.describe(switching_to=mode, message=BANNER, restarts=restarts or msgspec.UNSET)


@handles(Lockdown)
async def lockdown(context: Context, command: Lockdown, actor: Actor) -> LockdownResult:
    authority = context.authority
    if authority.lockdown.now is not None:
        return LockdownResult(
            message="a lockdown is in force already", lockdown=authority.lockdown.now
        )
    unstored = authority.lockdown.begin(command.reason, actor.name)
    why = f"a lockdown began: {command.reason}"
    cancelled = authority.approvals.void_all(why)
    for one in context.workflows.under_way():
        context.workflows.cancel(one.id)
        cancelled.append(one.id)
    cancelled += await _end_sessions(context, why)
    message = "every change is refused until `holdfast unlock`"
    if unstored is not None:
        message += f"; {unstored}"
    if authority.modes.now == "proxy":
        # Lockdown is a service of mode advanced; an emergency does not wait for it.
        await _switch(context, "advanced", actor.name, is_followed=False)
        message += "; the mode becomes advanced"
    return LockdownResult(message=message, lockdown=authority.lockdown.now, cancelled=cancelled)


async def _end_sessions(context: Context, why: str) -> list[str]:
    """Close all sessions; what they started meets its fate. A session that cannot be closed does
    not hold up the others."""
    present = context.sessions.present()
    closings = [context.sessions.close(session, why) for session in present]
    for outcome in await asyncio.gather(*closings, return_exceptions=True):
        if isinstance(outcome, Exception):
            _log.error("a session did not end in order: %s", outcome)
    return [session.name for session in present]


@handles(Unlock)
def unlock(context: Context, command: Unlock, actor: Actor) -> LockdownResult:
    over = context.authority.lockdown.end(actor.name)
    if over is None:
        return LockdownResult(message="no lockdown was in force")
    return LockdownResult(message=f"the lockdown is over ({over.reason})")


@handles(Approvals)
def approvals(context: Context, command: Approvals) -> ApprovalsResult:
    found = context.authority.approvals
    return ApprovalsResult(waiting=found.waiting, over=found.over)


@handles(GetApproval)
def get_approval(context: Context, command: GetApproval, actor: Actor) -> ApprovalResult:
    info = context.authority.approvals.of(actor, command.approval)
    return ApprovalResult(approval=info, message=f"{info.command} is {info.state}")


@handles(Withdraw)
def withdraw(context: Context, command: Withdraw, actor: Actor) -> ApprovalResult:
    found = context.authority.approvals
    info = found.of(actor, command.approval)
    if info.state == "waiting":
        pending = found.find(command.approval)
        info = found.settle(pending, "withdrawn", actor.name, "its caller took it back")
    return ApprovalResult(approval=info, message=f"{info.command} is {info.state}")


@handles(Approve)
def approve(context: Context, command: Approve, actor: Actor) -> ApprovalResult:
    return _decide(context, command.approval, "approved", actor, command.reason)


@handles(Reject)
def reject(context: Context, command: Reject, actor: Actor) -> ApprovalResult:
    return _decide(context, command.approval, "rejected", actor, command.reason)


def _decide(
    context: Context, approval: str, state: str, actor: Actor, why: str | None
) -> ApprovalResult:
    found = context.authority.approvals
    pending = found.find(approval)
    info = found.settle(pending, state, actor.name, None if why is None else why[:500])
    return ApprovalResult(approval=info, message=f"{info.command} of {info.actor} is {state}")


def security_metrics(context: Context) -> dict[str, Any]:
    """Return what `metrics` adds in mode advanced."""
    authority = context.authority
    if authority.advanced is None:
        return {}
    lockdown = authority.lockdown
    return {
        "security": authority.advanced.counters.metrics(
            waiting=len(authority.approvals.waiting),
            locked_down=lockdown.now is not None,
        )
    }
