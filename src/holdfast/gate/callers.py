"""Who asks over HTTP: the token of a header or of a cookie, passed on and never looked at."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from holdfast.client.channel import Caller
from holdfast.vocabulary.errors import Unauthorized

PAGE_HEADER = "X-Holdfast-Page"
"""What our own pages know, and no page of another origin: the second half of a cookie."""
_HINT = "send `Authorization: Bearer TOKEN`; `holdfast token create NAME` makes one"


def caller_of(connection: HTTPConnection, door: str = "rest", page: str = "") -> Caller:
    """Raises Unauthorized when there is no token at all; whether it is good is not ours to say."""
    if token := bearer_of(connection):
        return Caller(token, door)
    if cookie := connection.cookies.get(cookie_name(connection.scope)):
        page = page or connection.headers.get(PAGE_HEADER, "")
        return Caller(f"{cookie}.{page}" if page else cookie, door)
    raise Unauthorized("a token is needed", _HINT)


def bearer_of(connection: HTTPConnection) -> str:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def cookie_name(scope: Scope) -> str:
    """Of this port: a browser keeps the cookies of all ports of a host together."""
    server = scope.get("server") or ("", 0)
    name = f"holdfast_{server[1]}"
    return f"__Host-{name}" if is_encrypted(scope) else name


def is_encrypted(scope: Scope) -> bool:
    return scope.get("scheme") in ("https", "wss")
