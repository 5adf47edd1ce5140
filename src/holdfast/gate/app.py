"""The gate's application: its routes, and what every answer carries."""

from __future__ import annotations

import time
from functools import cache

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdfast
from holdfast.client.channel import Channel
from holdfast.gate.failures import problem, refusal
from holdfast.gate.guard import Allowed, Guard
from holdfast.gate.rest import Rest
from holdfast.gate.websocket import WebSocketDoor
from holdfast.vocabulary.errors import HoldfastError

IDENTITY = "X-Holdfast-Instance"
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
)


def build(line_socket: str, allowed: Allowed, instance: str) -> Starlette:
    channel = Channel(line_socket)
    started = time.monotonic()

    async def health(_: Request) -> Response:
        """Holdfast's own: this process answers."""
        facts = {"status": "ok", "version": holdfast.__version__}
        return JSONResponse({**facts, "uptime": round(time.monotonic() - started, 3)})

    async def ready(_: Request) -> Response:
        """Whether the supervisor answers, too."""
        try:
            hello = await channel.ask("hello", {}, None, is_repeatable=True)
        except HoldfastError as error:
            return problem(error)
        return JSONResponse({"status": "ready", "version": hello.get("version")})

    async def description(_: Request) -> Response:
        """What there is, for programs; the same for everybody, so no token is needed."""
        return Response(document(), media_type="application/json")

    rest = Rest(channel, lambda: Channel(line_socket))
    return Starlette(
        routes=[
            Route("/health", health, methods=["GET"]),
            Route("/ready", ready, methods=["GET"]),
            Route("/api/openapi.json", description, methods=["GET"]),
            *rest.routes(),
            WebSocketRoute("/ws", WebSocketDoor(channel, lambda: Channel(line_socket))),
        ],
        middleware=[Middleware(Marks, instance=instance), Middleware(Guard, allowed=allowed)],
        exception_handlers={HTTPException: _http_error},
    )


@cache
def document() -> bytes:
    from holdfast.gate.openapi import describe

    return msgspec.json.encode(describe())


class Marks:
    """Headers of every answer: who we are, and what a browser must not do with it."""

    def __init__(self, app: ASGIApp, instance: str) -> None:
        self._app = app
        self._headers = [*_HEADERS, (IDENTITY.lower().encode(), instance.encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        await self._app(scope, receive, marked if scope["type"] == "http" else send)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "usage"}.get(error.status_code, "failed")
    hint = "/api/openapi.json lists what there is" if error.status_code == 404 else ""
    headers = dict(error.headers or {})
    return refusal(error.status_code, str(error.detail), code, hint, headers)
