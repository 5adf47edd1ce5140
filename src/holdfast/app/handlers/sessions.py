"""Handlers of commands about sessions."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from holdfast.adapters.config import load_project
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.engine.sessions.sessions import Session
from holdfast.rules.sessions import granted
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.sessions import (
    ClosedSession,
    CloseSession,
    HoldSession,
    ListSessions,
    OpenSession,
    RenewSession,
    SessionInfo,
    SessionResult,
    SessionsResult,
)


@handles(OpenSession)
def open_session(context: Context, command: OpenSession, actor: Actor) -> SessionResult:
    opened = context.sessions.open(actor, command.client, command.fate, command.grace)
    if actor.role is Role.OWNER and context.settings.now.http is None:
        _open_gate(context)
    return SessionResult(session=_session_info(context, opened.session), token=opened.text)


def _open_gate(context: Context) -> None:
    """Open the gate for the first assistant of a Holdfast that no configuration has told about
    it: one that was started by `holdfast run`."""
    chosen = {name: one for name, one in os.environ.items() if name.startswith("HOLDFAST_HTTP")}
    default = load_project(None, chosen, cwd=context.project).settings
    context.settings.apply(msgspec.structs.replace(context.settings.now, http=default.http))


@handles(RenewSession)
def renew_session(context: Context, command: RenewSession, actor: Actor) -> SessionResult:
    session = _meant(context, command.session, actor)
    context.sessions.renew(session)
    return SessionResult(session=_session_info(context, session))


@handles(HoldSession)
async def hold_session(
    context: Context, command: HoldSession, actor: Actor
) -> AsyncGenerator[dict[str, Any], None]:
    session = _meant(context, command.session, actor)
    hold = context.sessions.hold(session)
    try:
        info = msgspec.structs.replace(_session_info(context, session), hold=hold)
        yield msgspec.to_builtins(info)
        await context.sessions.over(session)
    finally:
        context.sessions.let_go(session, hold)


@handles(CloseSession)
async def close_session(context: Context, command: CloseSession, actor: Actor) -> ClosedSession:
    session = _meant(context, command.session, actor)
    if command.hold is not None and not context.sessions.is_left_by(session, command.hold):
        return ClosedSession(session=session.name, goes_on=True)
    why = "it said goodbye" if session.name == actor.session else f"{actor.name} closed it"
    return await context.sessions.close(session, why, command.fate, is_asked=True)


@handles(ListSessions)
def list_sessions(context: Context, command: ListSessions) -> SessionsResult:
    return SessionsResult(
        sessions=[_session_info(context, one) for one in context.sessions.present()]
    )


def _meant(context: Context, name: str | None, actor: Actor) -> Session:
    wanted = name or actor.session
    if wanted is None:
        raise UsageError("this is no session's token", "name the `session`, or open one")
    return context.sessions.get(wanted)


def _session_info(context: Context, session: Session) -> SessionInfo:
    stored, sessions = session.stored, context.sessions
    remaining = sessions.expires_in(session)
    scopes = granted(context.settings.now.mcp, is_supervised=stored.run_id is not None)
    return SessionInfo(
        session=session.name,
        client=stored.client,
        role=Role.AGENT.value,
        opened_by=stored.opened_by,
        opened_at=stored.opened_at,
        fate=stored.fate,
        grace=stored.grace,
        held=bool(session.holds),
        expires_in=None if remaining is None else round(remaining, 3),
        run_id=stored.run_id,
        owns=sessions.owned(session),
        first_call=stored.first_call,
        scopes={"commands": list(scopes.commands or ())},
    )
