"""Sessions, the stays of assistants and agents: their owners, commands and answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.vocabulary.command import Command, Effect, Permission, Result

Fate = Literal["keep", "stop", "hand_over"]


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Which session a service runs for."""

    session: str
    client: str
    call: str | None = None
    """The tool call that started it."""
    since: float = 0.0
    with_others: tuple[str, ...] = ()
    """Sessions that joined what ran already; it stays until the last of them has left."""
    ended: bool = False
    """Whether the session is over and the run was kept."""


class SessionInfo(Result, frozen=True, kw_only=True):
    """A session, without its token."""

    session: str
    client: str
    role: str
    opened_by: str
    opened_at: float
    fate: Fate
    """The fate of the services that it started: kept, stopped, or handed over to the user."""
    grace: float
    """Seconds that it outlives its last sign of life."""
    held: bool
    """Whether a connection holds it; else it ends in `expires_in` seconds."""
    expires_in: float | None = None
    run_id: str | None = None
    """The supervised run that opened it."""
    owns: list[str] = []
    """Services that run for it."""
    first_call: str | None = None
    """The first tool that it called; None: none yet."""
    scopes: dict[str, Any] = {}
    hold: str | msgspec.UnsetType = msgspec.UNSET
    """What names this hold of it; told by `hold_session` alone."""


class SessionResult(Result, frozen=True, kw_only=True):
    """`token` is the session's token; it is told only when the session is opened."""

    session: SessionInfo
    token: str | None = None


class SessionsResult(Result, frozen=True, kw_only=True):
    sessions: list[SessionInfo]


class ClosedSession(Result, frozen=True, kw_only=True):
    """The fate of the services that ran for a session."""

    session: str
    stopped: list[str] = []
    kept: list[str] = []
    handed_over: list[str] = []
    shared: list[str] = []
    """Those that another session has joined: they go on for it."""
    goes_on: bool = False
    """Whether it was left, but not closed, because others hold it or something runs for it."""


class OpenSession(Command, frozen=True, kw_only=True):
    """Begin a session: what is started with its token belongs to it.

    `client` is a name for people. The token in the answer is shown this once; it has
    the role agent and never more rights than the opener of the session. `fate` says what happens
    to its services when it ends: `stop` (the default), `keep` it, or `hand_over` to the
    user. A session ends `grace` seconds after its last sign of life: a command with its
    token, or the end of the connection that holds it.
    """

    name = "open_session"
    greets = True
    permission = Permission.VIEW
    effect = Effect.CHANGES
    answers = SessionResult
    route = ("POST", "/api/sessions")
    client: str
    fate: Fate | None = None
    grace: float | None = None


class RenewSession(Command, frozen=True, kw_only=True):
    """Give a session its whole grace anew; any command with its token does the same.

    Without `session`, the caller's own is meant; that of another takes an admin.
    """

    name = "renew_session"
    greets = True
    always_answered = True
    permission = Permission.VIEW
    effect = Effect.CHANGES
    answers = SessionResult
    admin_fields = frozenset({"session"})
    route = ("POST", "/api/sessions/renew")
    repeatable = True
    session: str | None = None


class HoldSession(Command, frozen=True, kw_only=True):
    """Hold a session for as long as this request is open; its grace counts from then on.

    The only item tells the session; the request is answered when the session is over. Without
    `session`, the caller's own is meant; that of another takes an admin.
    """

    name = "hold_session"
    greets = True
    always_answered = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = SessionResult
    admin_fields = frozenset({"session"})
    streams = True
    session: str | None = None


class CloseSession(Command, frozen=True, kw_only=True):
    """End a session now; what it started meets its fate, or the `fate` given here.

    Without `session`, the caller's own is meant; that of another takes an admin. With `hold`, the
    name of the caller's own hold, it is closed only if nobody else holds it and it owns nothing.
    """

    name = "close_session"
    greets = True
    always_answered = True
    permission = Permission.VIEW
    effect = Effect.DISRUPTS
    in_lockdown = True
    answers = ClosedSession
    admin_fields = frozenset({"session"})
    route = ("POST", "/api/sessions/close")
    repeatable = True
    session: str | None = None
    fate: Fate | None = None
    hold: str | None = None


class ListSessions(Command, frozen=True, kw_only=True):
    """List the sessions: their clients, since when, and the services that run for them."""

    name = "list_sessions"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = SessionsResult
    route = ("GET", "/api/sessions")
