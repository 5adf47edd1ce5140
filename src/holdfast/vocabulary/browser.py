"""Commands between a browser, the gate that serves it and the owner who lets it in."""

from __future__ import annotations

from holdfast.vocabulary.command import LOCAL, Command, Done, Door, Effect, Permission, Result
from holdfast.vocabulary.security import TokenInfo


class LoginLink(Result, frozen=True, kw_only=True):
    """A link that logs one browser in, once; its secret stands behind the `#`."""

    url: str
    role: str
    valid_for: float
    """Seconds in which it must be opened."""
    session_seconds: float
    """How long the browser stays logged in."""
    fingerprint: str | None = None
    """SHA-256 of the certificate that the browser will ask about."""


class Login(Result, frozen=True, kw_only=True):
    """Who is logged in now. `text` goes into the cookie, `page` to the page's own scripts."""

    token: TokenInfo
    text: str
    page: str
    """Without it the cookie may look at most: a page of another port may have the cookie."""


TWELVE_HOURS = 12 * 3600.0
THROUGH_THE_GATE = frozenset({Door.REST})


class CreateLogin(Command, frozen=True, kw_only=True):
    """Make a link that logs one browser in, once and soon.

    `role` is viewer, operator or admin; `expires_in` says for how many seconds the browser
    stays logged in. Listed and revoked like a token.
    """

    name = "create_login"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    in_lockdown = True
    answers = LoginLink
    doors = LOCAL
    role: str = "admin"
    expires_in: float = TWELVE_HOURS


class LogIn(Command, frozen=True, kw_only=True):
    """Exchange the secret of a login link, shown as the token, for a cookie.

    Works once: the link is used up by it.
    """

    name = "log_in"
    permission = Permission.VIEW
    effect = Effect.CHANGES
    in_lockdown = True
    answers = Login
    doors = THROUGH_THE_GATE
    greets = True


class LogOut(Command, frozen=True, kw_only=True):
    """End the login of the browser that asks: its cookie is refused from now on."""

    name = "log_out"
    permission = Permission.VIEW
    effect = Effect.CHANGES
    in_lockdown = True
    answers = Done
    doors = THROUGH_THE_GATE
    greets = True
    always_answered = True


class HandOver(Command, frozen=True, kw_only=True):
    """Whether a gate that an earlier Holdfast left behind shall give its port back.

    The gate asks about the process that told it so: only a token made for this is accepted, once.
    """

    name = "hand_over"
    permission = Permission.VIEW
    effect = Effect.CHANGES
    in_lockdown = True
    answers = Done
    doors = THROUGH_THE_GATE
    greets = True
    always_answered = True


class ReportRefusal(Command, frozen=True, kw_only=True):
    """What the gate turned away before anybody was asked: a page of another site, a strange name.

    For the record, which takes a bounded number in a minute. `asked` is method and path, `by`
    is where the page came from.
    """

    name = "report_refusal"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = Done
    doors = frozenset({Door.GATE})
    door: str = "rest"
    asked: str = ""
    by: str = ""
    reason: str = ""
