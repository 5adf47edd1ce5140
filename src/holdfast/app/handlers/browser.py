"""Handlers of commands between a browser, the gate, and the person who lets the browser in."""

from __future__ import annotations

from holdfast.app.context import Context
from holdfast.app.handlers.security import told_of
from holdfast.app.handlers.services import door_notes
from holdfast.app.registry import handles
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.browser import (
    CreateLogin,
    HandOver,
    LogIn,
    Login,
    LoginLink,
    LogOut,
    ReportRefusal,
)
from holdfast.vocabulary.command import Done, Door
from holdfast.vocabulary.errors import Failed, Refused, UsageError

LINK_SECONDS = 60.0
LOGIN_PATH = "/login"


@handles(CreateLogin)
def create_login(context: Context, command: CreateLogin) -> LoginLink:
    address = context.gate.door.browser_address
    if address is None:
        why = door_notes(context).get("http") or "it is switched off"
        raise Failed(f"there is no HTTP here: {why}", "`holdfast status` tells what is open")
    try:
        role = Role(command.role)
    except ValueError:
        raise UsageError(f'no role "{command.role}"', "viewer, operator or admin") from None
    made = context.tokens.make_link(
        role, valid_for=LINK_SECONDS, session_seconds=command.expires_in
    )
    return LoginLink(
        url=f"{address}{LOGIN_PATH}#{made.text}",
        role=role.value,
        valid_for=LINK_SECONDS,
        session_seconds=command.expires_in,
        fingerprint=context.gate.door.fingerprint,
    )


@handles(LogIn)
def log_in(context: Context, command: LogIn, actor: Actor) -> Login:
    made, page = context.tokens.redeem(actor.token or "")
    return Login(token=told_of(made.token), text=made.text, page=page)


@handles(LogOut)
def log_out(context: Context, command: LogOut, actor: Actor) -> Done:
    token = context.tokens.get(actor.token or "")
    if token is None or token.kind != "browser":
        hint = "`holdfast token revoke NAME` takes a token back"
        raise UsageError("only a browser that is logged in can log out", hint)
    context.tokens.revoke(token.id)
    return Done(message="logged out")


@handles(HandOver)
def hand_over(context: Context, command: HandOver, actor: Actor) -> Done:
    if not context.tokens.take_back(actor.token):
        raise Refused("this does not ask for a port", "it is Holdfast's own to ask")
    return Done(message="give it back")


@handles(ReportRefusal)
def report_refusal(context: Context, command: ReportRefusal) -> Done:
    try:
        door = Door(command.door)
    except ValueError:
        door = Door.REST
    by = f"a page of {command.by}" if command.by else "somebody unknown"
    context.auditor.turned_away(door, command.asked, command.reason, by)
    return Done(message="recorded")
