"""Handlers of commands about tokens and about the audit."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

import msgspec

from holdfast.adapters.audit_anchors import AnchorCheck
from holdfast.adapters.tokens import Token
from holdfast.app.authority.decision import decide
from holdfast.app.authority.identities import Identities
from holdfast.app.authority.request_checks import RequestChecks
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.actors import TOKEN_ROLES, Actor, Role, Scopes
from holdfast.vocabulary.codec import command_from
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.security import (
    AccessResult,
    Audit,
    AuditResult,
    AuditVerdict,
    CheckAccess,
    CreateToken,
    ListTokens,
    RevokeToken,
    RotateToken,
    TokenInfo,
    TokenResult,
    TokensResult,
)

_MOST_RECORDS = 10_000


@handles(CreateToken)
def create_token(context: Context, command: CreateToken, actor: Actor) -> TokenResult:
    try:
        role = Role(command.role)
    except ValueError:
        known = ", ".join(role.value for role in TOKEN_ROLES)
        raise UsageError(f'no role "{command.role}"', f"one of {known}") from None
    scopes = Scopes(
        commands=_patterns(command.commands),
        services=_patterns(command.services),
        tags=_patterns(command.tags),
        paths=_patterns(command.paths),
        tools=_patterns(command.tools),
    )
    if redact(command.token_name) != command.token_name:
        raise UsageError("a token's name is shown to everybody; this one looks like a secret")
    made = context.tokens.create(
        command.token_name,
        role,
        expires_in=command.expires_in,
        scopes=scopes,
        origin=actor.token,
        by=None if actor.token is None else actor.name,
    )
    return TokenResult(token=told_of(made.token), text=made.text)


@handles(ListTokens)
def list_tokens(context: Context, command: ListTokens) -> TokensResult:
    return TokensResult(tokens=[told_of(token) for token in context.tokens.list()])


@handles(RevokeToken)
def revoke_token(context: Context, command: RevokeToken) -> TokenResult:
    revoked, *made_with_it = context.tokens.revoke(command.token)
    ids = {token.id for token in (revoked, *made_with_it)}
    return TokenResult(
        token=told_of(revoked),
        also=[token.name for token in made_with_it],
        sessions=context.sessions.close_those_of(ids),
    )


@handles(RotateToken)
def rotate_token(context: Context, command: RotateToken) -> TokenResult:
    old, made = context.tokens.rotate(command.token)
    return TokenResult(
        token=told_of(made.token),
        text=made.text,
        sessions=context.sessions.close_those_of({old.id}),
    )


@handles(CheckAccess)
def check_access(context: Context, command: CheckAccess) -> AccessResult:
    try:
        door = Door(command.door)
    except ValueError:
        known = ", ".join(door.value for door in Door)
        raise UsageError(f'no door "{command.door}"', f"one of {known}") from None
    actor = Identities(context, context.auditor).actor_of(command.who, door)
    asked = command_from(command.about, {**_services_of(command), **command.arguments})
    _, verdict = decide(context, RequestChecks(context, context.auditor), actor, asked)
    policy = verdict.confirm
    return AccessResult(
        allowed=verdict.is_allowed,
        reason=verdict.reason,
        needs_approval=policy is not None,
        approvers=None if policy is None else policy.approvers,
        cause=None if verdict.is_allowed else verdict.cause,
        who=actor.name,
    )


def _services_of(command: CheckAccess) -> dict[str, Any]:
    """Return the services as the field that the command in question has for them."""
    kind = COMMANDS.get(command.about)
    if not command.services or kind is None:
        return {}
    names = kind.__struct_encode_fields__
    if "services" in names:
        return {"services": command.services}
    if "service" in names and len(command.services) == 1:
        return {"service": command.services[0]}
    few = "one service" if "service" in names else "no service"
    raise UsageError(f"{command.about} is about {few}", f"see the reference of `{command.about}`")


@handles(Audit)
def audit(
    context: Context, command: Audit
) -> Awaitable[AuditResult] | AsyncGenerator[dict[str, Any], None]:
    if command.follow:
        return _follow(context, command)
    if command.verify:
        return _verify(context, command)
    return context.in_thread(_read_audit, context, command)


async def _verify(context: Context, command: Audit) -> AuditResult:
    checked = await context.anchors.check()
    return await context.in_thread(_read_audit, context, command, checked)


async def _follow(context: Context, command: Audit) -> AsyncGenerator[dict[str, Any], None]:
    while True:
        result = await context.in_thread(_read_audit, context, command)
        for entry in result.records:
            yield entry
        await context.audit.newer_than(result.last)
        command = msgspec.structs.replace(command, since=result.last)


def _read_audit(
    context: Context, command: Audit, checked: AnchorCheck | None = None
) -> AuditResult:
    limit = max(1, min(command.limit, _MOST_RECORDS))
    head = context.audit.head
    verdict = None
    if command.verify and checked is not None:
        found = context.audit.verify(str(head), checked.heads)
        verdict = AuditVerdict(
            whole=found.is_whole,
            records=found.records,
            first=found.first,
            last=found.last,
            problem=found.problem,
            anchors=checked.told,
        )
    # Without a number the newest are wanted, so the oldest are dropped.
    wanted: deque[dict[str, Any]] = deque(maxlen=limit)
    for entry in context.audit.entries(command.since or 0):
        if not _is_wanted(entry, command):
            continue
        if command.since is not None and len(wanted) == limit:
            break
        wanted.append(entry)
    is_cut = command.since is not None and len(wanted) == limit
    last = wanted[-1]["seq"] if is_cut else max(head.seq, command.since or 0)
    return AuditResult(records=list(wanted), last=last, verdict=verdict)


def _is_wanted(entry: dict[str, Any], command: Audit) -> bool:
    if command.after is not None and entry.get("time", 0.0) < command.after:
        return False
    if command.actor is not None and command.actor not in str(entry.get("actor")):
        return False
    return command.about is None or entry.get("command") == command.about


def _patterns(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def told_of(token: Token) -> TokenInfo:
    """Return a token as it may be shown: without its text."""
    scopes = msgspec.to_builtins(token.scopes)
    return TokenInfo(
        id=token.id,
        name=token.name,
        role=token.role.value,
        kind=token.kind,
        created_at=token.created_at,
        expires_at=token.expires_at,
        scopes={name: value for name, value in scopes.items() if value is not None},
        by=token.by,
    )
