"""Which token a request shows, and whether the supervisor accepts it.

A token comes in a header or in a cookie. The gate passes it on and never decides about it.
"""

from __future__ import annotations

import asyncio
import time

from starlette.requests import HTTPConnection
from starlette.types import Scope

from holdfast.client.channel import Caller, Channel, LocalPeer
from holdfast.system import tcp_peers
from holdfast.vocabulary.addresses import is_loopback

PAGE_HEADER = "X-Holdfast-Page"
"""Only our own pages know its value, no page of another origin: the second half of a cookie."""
VALID_SECONDS = 5.0
"""For how long the gate does not ask again about a valid token; every command asks anyway."""
_MOST_VALID = 1000
_BROWSER_HEADERS = ("origin", "referer", "cookie")
_LOOKING = asyncio.Lock()
"""One look at the processes of the machine at a time."""
_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


def caller_of(connection: HTTPConnection, door: str = "rest", page: str = "") -> Caller:
    """Return the caller of a request, also if it shows no token: the supervisor decides whether
    that is enough, and whether a token is valid."""
    if token := bearer_of(connection):
        return Caller(token, door)
    if cookie := connection.cookies.get(cookie_name(connection.scope)):
        page = page or connection.headers.get(PAGE_HEADER, "")
        return Caller(f"{cookie}.{page}" if page else cookie, door)
    return Caller("", door, is_here=_is_here(connection))


async def with_process(caller: Caller, connection: HTTPConnection) -> Caller:
    """Return the caller with the process behind its connection, if it shows no token and is a
    program of this machine rather than a browser."""
    client, server = connection.client, connection.scope.get("server")
    if caller.token or not caller.is_here or client is None or not server or not server[1]:
        return caller
    if _is_of_browser(connection):
        return caller
    async with _LOOKING:
        peer = await asyncio.to_thread(
            tcp_peers.find, (server[0], server[1]), (client.host, client.port)
        )
    if peer is None:
        return caller
    found = tuple(process.identity for process in peer.processes)
    return caller._replace(peer=LocalPeer(peer.uid, found))


def _is_of_browser(connection: HTTPConnection) -> bool:
    """Return whether a browser sent it, perhaps for a page of another site. Browsers that send no
    Sec-Fetch headers are known by their name."""
    names = connection.headers.keys()
    is_marked = any(name in _BROWSER_HEADERS or name.startswith("sec-") for name in names)
    return is_marked or connection.headers.get("user-agent", "").lower().startswith("mozilla")


def _is_here(connection: HTTPConnection) -> bool:
    """Return whether the client is on this machine and, as far as headers show, not behind a
    proxy on it."""
    client = connection.client
    is_passed_on = any(name in connection.headers for name in _PROXY_HEADERS)
    return client is not None and is_loopback(client.host) and not is_passed_on


def bearer_of(connection: HTTPConnection) -> str:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def cookie_name(scope: Scope) -> str:
    """Return a name for this port, because a browser keeps the cookies of all ports of a host
    together."""
    server = scope.get("server") or ("", 0)
    name = f"holdfast_{server[1]}"
    return f"__Host-{name}" if is_encrypted(scope) else name


def is_encrypted(scope: Scope) -> bool:
    return scope.get("scheme") in ("https", "wss")


class ValidTokens:
    """Asks the supervisor whether a token is valid, at most once in `VALID_SECONDS`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._valid_until: dict[Caller, float] = {}

    async def check(self, caller: Caller) -> None:
        """Raises the supervisor's refusal."""
        now = time.monotonic()
        if self._valid_until.get(caller, 0.0) > now:
            return
        await self._channel.ask("hello", {}, caller, is_repeatable=True)
        if len(self._valid_until) >= _MOST_VALID:
            self._valid_until.clear()
        self._valid_until[caller] = now + VALID_SECONDS
