"""Who asks over HTTP: the token of a header or of a cookie, passed on and never looked at."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from holdfast.client.channel import Caller
from holdfast.vocabulary.addresses import is_loopback

PAGE_HEADER = "X-Holdfast-Page"
"""What our own pages know, and no page of another origin: the second half of a cookie."""
_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


def caller_of(connection: HTTPConnection, door: str = "rest", page: str = "") -> Caller:
    """Also who shows no token: whether that is enough, or one is good, is not ours to say."""
    if token := bearer_of(connection):
        return Caller(token, door)
    if cookie := connection.cookies.get(cookie_name(connection.scope)):
        page = page or connection.headers.get(PAGE_HEADER, "")
        return Caller(f"{cookie}.{page}" if page else cookie, door)
    return Caller("", door, is_here=_is_here(connection))


def _is_here(connection: HTTPConnection) -> bool:
    """Whether it comes from this machine, as far as can be seen: not through a proxy on it."""
    client = connection.client
    is_passed_on = any(name in connection.headers for name in _OF_PROXIES)
    return client is not None and is_loopback(client.host) and not is_passed_on


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
