"""Who asks over HTTP: the token of a header or of a cookie, passed on and never looked at."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from holdfast.client.channel import Caller
from holdfast.gate.failures import Unauthorized

COOKIE = "holdfast_session"
_HINT = "send `Authorization: Bearer TOKEN`; `holdfast token create NAME` makes one"


def caller_of(connection: HTTPConnection, door: str = "rest") -> Caller:
    """Raises Unauthorized when there is no token at all; whether it is good is not ours to say."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return Caller(token.strip(), door)
    if cookie := connection.cookies.get(COOKIE):
        return Caller(cookie, door)
    raise Unauthorized("a token is needed", _HINT)
