"""What every request must pass before anybody looks at it: Host, Origin, Sec-Fetch, size.

A page of another site must not reach Holdfast through a visitor's browser, neither by a form
nor by a name that suddenly means this machine. Programs send none of these headers but Host.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.gate.failures import refusal

LARGEST_BODY = 8 * 1024 * 1024
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SAME = frozenset({"same-origin", "none"})


class Allowed(NamedTuple):
    """Names by which this gate may be called, and origins of pages that may use it."""

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def at(cls, host: str, port: int, *, is_tls: bool, origins: Iterable[str] = ()) -> Allowed:
        names = {*_LOOPBACK, host if ":" not in host else f"[{host.strip('[]')}]"}
        names = {name for name in names if name not in ("0.0.0.0", "[::]")}
        hosts = {f"{name}:{port}" for name in names}
        scheme = "https" if is_tls else "http"
        own = {f"{scheme}://{name}" for name in hosts}
        given = {origin.rstrip("/").lower() for origin in origins}
        hosts |= {origin.partition("://")[2] for origin in given}
        return cls(frozenset(hosts), frozenset(own | given))


class Guard:
    """Middleware around everything."""

    def __init__(self, app: ASGIApp, allowed: Allowed) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = self._look(scope)
        if answer is None:
            await self._app(scope, _bounded(receive), send)
        elif scope["type"] == "http":
            await answer(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    def _look(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self._allowed.hosts:
            return refusal(
                403, f'"{host}" is not a name of this Holdfast', "refused",
                "use 127.0.0.1, or add the origin to allowed_origins",
            )  # fmt: skip
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._allowed.origins:
            return refusal(
                403, f'pages of "{origin[:200]}" may not use this Holdfast', "refused",
                "add the origin to allowed_origins",
            )  # fmt: skip
        site = headers.get("sec-fetch-site")
        if origin is None and site is not None and site not in _SAME:
            is_link = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"
            if not is_link or str(scope["path"]).startswith("/api"):
                return refusal(403, "a page of another site asked for this", "refused")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return refusal(413, f"a body has at most {LARGEST_BODY} bytes", "usage")
        return None


class TooLarge(Exception):
    """A body without a length that goes on and on."""


def _bounded(receive: Receive) -> Receive:
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > LARGEST_BODY:
                raise TooLarge
        return message

    return bounded
