"""Commands about sessions: the stays of assistants and agents."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.sessions import ClosedSession, Fate, SessionResult, SessionsResult


class OpenSession(Command, frozen=True, kw_only=True):
    """Begin a session: what is started with its token belongs to it.

    `client` names who it is, for people. The token in the answer is shown this once; it has
    the role agent and never more rights than who opened the session. `fate` is what becomes
    of what it started when it ends: `stop` (the default), `keep` it, or `hand_over` to the
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

    Without `session`, the caller's own is meant; that of another takes an admin.
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


class ListSessions(Command, frozen=True, kw_only=True):
    """List the sessions: who stays here, since when, and what runs for them."""

    name = "list_sessions"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = SessionsResult
    route = ("GET", "/api/sessions")
