"""The gate's application: its routes, its middleware, and the headers of every answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.client.channel import Channel
from holdfast.gate.body_limits import BodyLimits
from holdfast.gate.browser.guard import AllowedOrigins, Guard, RefusalReports
from holdfast.gate.browser.login import LoginRoutes
from holdfast.gate.browser.page import BuiltPage
from holdfast.gate.callers import ValidTokens
from holdfast.gate.errors import refusal
from holdfast.gate.mcp.door import McpDoor
from holdfast.gate.rest.door import RestDoor
from holdfast.gate.rest.pages import Pages
from holdfast.gate.ws.door import WebSocketDoor
from holdfast.vocabulary.names import IDENTITY_HEADER

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Pages load nothing but what this gate serves."""
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _CONTENT_POLICY.encode()),
)


def build(
    line_socket: str,
    allowed: AllowedOrigins,
    instance: str,
    mcp: McpDoor | None = None,
    leave: Callable[[], None] = lambda: None,
) -> Starlette:
    """`leave` ends this gate, so that another one can take its place."""
    channel = Channel(line_socket)
    tokens = ValidTokens(channel)

    def new_channel() -> Channel:
        return Channel(line_socket)

    return Starlette(
        routes=[
            *Pages(channel).routes(),
            *LoginRoutes(channel, leave).routes(),
            *BuiltPage().routes(),
            *(mcp.routes() if mcp is not None else ()),
            WebSocketRoute("/ws", WebSocketDoor(channel, new_channel)),
        ],
        middleware=[
            Middleware(SecurityHeaders, instance=instance),
            Middleware(
                Guard,
                allowed=allowed,
                reports=RefusalReports(channel),
                body_limits=BodyLimits(tokens),
            ),
            Middleware(RestDoor, channel=channel, new_channel=new_channel, tokens=tokens),
        ],
        exception_handlers={HTTPException: _http_error},
    )


class SecurityHeaders:
    """Adds to every answer when and by which Holdfast it was sent, and what a browser must not do
    with it."""

    def __init__(self, app: ASGIApp, instance: str) -> None:
        self._app = app
        self._headers = [*_HEADERS, (IDENTITY_HEADER.lower().encode(), instance.encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", ())
                names = {name for name, _ in own}
                more = [header for header in self._headers if header[0] not in names]
                date = (b"date", _date(int(time.time())))
                message["headers"] = [*own, *more, date]
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


@lru_cache(1)
def _date(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "usage"}.get(error.status_code, "failed")
    hint = "/api/openapi.json lists what there is" if error.status_code == 404 else ""
    headers = dict(error.headers or {})
    return refusal(error.status_code, str(error.detail), code, hint, headers)
