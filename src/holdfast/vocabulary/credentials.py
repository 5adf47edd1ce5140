"""What is told of tokens, of links into the browser, and of who is logged in there."""

from __future__ import annotations

from typing import Any

from holdfast.vocabulary.results import Result


class TokenInfo(Result, frozen=True, kw_only=True):
    """A token, without its text. `kind`: token, link (logs in once) or browser (a cookie)."""

    id: str
    name: str
    role: str
    kind: str = "token"
    created_at: float
    expires_at: float | None = None
    scopes: dict[str, Any] = {}
    by: str | None = None
    """The token that it was made with, and ends with; None: the owner made it."""


class TokenResult(Result, frozen=True, kw_only=True):
    """`text` is the token itself; it is told only when it is made."""

    token: TokenInfo
    text: str | None = None
    also: list[str] = []
    """Names of the tokens that were made with a revoked one, and are revoked as well."""
    sessions: list[str] = []
    """Sessions that were opened with any of them, and are closed."""


class TokensResult(Result, frozen=True, kw_only=True):
    tokens: list[TokenInfo]


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
