"""THE table from errors to HTTP: the status of each code, and problem details (RFC 9457)."""

from __future__ import annotations

from math import ceil

from starlette.responses import JSONResponse

from holdfast.client.connection import Unreachable
from holdfast.vocabulary.errors import HoldfastError

STATUS: dict[str, int] = {
    "usage": 400,
    "unauthorized": 401,
    "refused": 403,
    "unknown_service": 404,
    "not_found": 404,
    "invalid_transition": 409,
    "conflict": 409,
    "failed": 409,
    "command_failed": 424,
    "spawn_failed": 409,
    "unknown_outcome": 409,
    "configuration": 422,
    "resource_exceeded": 429,
    "too_many_requests": 429,
    "internal": 500,
    "no_daemon": 503,
    "shutting_down": 503,
    "keeper_gone": 503,
    "timeout": 504,
}
TITLES = {
    400: "The request is malformed",
    401: "A token is needed",
    403: "Refused",
    404: "Not found",
    405: "Not allowed here",
    409: "Conflict with the current state",
    413: "Too large",
    422: "It cannot be done with these values",
    424: "A command that was to be run failed",
    429: "Too much at once",
    500: "A mistake of Holdfast's own",
    503: "Not available now",
    504: "It took too long",
}
UNPROCESSABLE = 422
"""The request has the published types, but its values mean nothing here."""


def problem(error: HoldfastError, status: int | None = None) -> JSONResponse:
    """Return the answer for an error; `status` overrides the table."""
    status = status or STATUS.get(error.code, 500)
    if isinstance(error, Unreachable):
        status = 503
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status == 503:
        headers["Retry-After"] = "1"
    if "retry_after" in error.details:
        headers["Retry-After"] = str(max(1, ceil(float(error.details["retry_after"]))))
    return refusal(status, error.message, error.code, error.hint, headers, error.details)


def refusal(
    status: int,
    detail: str,
    code: str,
    hint: str = "",
    headers: dict[str, str] | None = None,
    details: dict[str, object] | None = None,
) -> JSONResponse:
    content = {
        "type": f"urn:holdfast:error:{code}",
        "title": TITLES.get(status, TITLES[409]),
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
    }
    if details:
        content["details"] = details
    return JSONResponse(content, status, headers, media_type="application/problem+json")
