"""Sessions: the stay of an assistant or agent, what becomes of its runs, who owns a run."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.vocabulary.results import Result

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
    """What becomes of what it started: it is kept, stopped, or handed over to the user."""
    grace: float
    """Seconds that it outlives its last sign of life."""
    held: bool
    """Whether a connection holds it; else it ends in `expires_in` seconds."""
    expires_in: float | None = None
    run_id: str | None = None
    """The supervised run that opened it."""
    owns: list[str] = []
    """Services that run for it."""
    scopes: dict[str, Any] = {}


class SessionResult(Result, frozen=True, kw_only=True):
    """`token` is the session's token; it is told only when the session is opened."""

    session: SessionInfo
    token: str | None = None


class SessionsResult(Result, frozen=True, kw_only=True):
    sessions: list[SessionInfo]


class ClosedSession(Result, frozen=True, kw_only=True):
    """What became of the services that ran for a session."""

    session: str
    stopped: list[str] = []
    kept: list[str] = []
    handed_over: list[str] = []
    shared: list[str] = []
    """Those that another session has joined: they go on for it."""
