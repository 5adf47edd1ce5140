"""Lets pages of the origins that the configuration allows use HTTP, with a token.

Never with a cookie: that is for our own pages.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Scope, Send

METHODS = "GET, POST, PUT, PATCH, DELETE"
HEADERS = "Authorization, Content-Type, Last-Event-ID, Idempotency-Key"
EXPOSED = "X-Holdfast-Cursor, Retry-After"
REMEMBERED_SECONDS = "600"


def is_preflight(scope: Scope, headers: Headers) -> bool:
    """Whether a browser asks if it may send a request, before it does."""
    is_options = scope["type"] == "http" and scope["method"] == "OPTIONS"
    return is_options and "access-control-request-method" in headers


def permission() -> Response:
    """What a browser is told before it sends the request itself."""
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": HEADERS,
            "Access-Control-Max-Age": REMEMBERED_SECONDS,
        },
    )


def readable_by(origin: str, send: Send) -> Send:
    """What is sent, readable for pages of this origin and of no other."""
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
        (b"access-control-expose-headers", EXPOSED.encode()),
        (b"vary", b"Origin"),
    ]

    async def readable(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return readable
