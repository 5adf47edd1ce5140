"""Checks whether an address answers as expected: status, and optionally the body.

One request, one connection; one deadline for everything. At most 256 KiB of a body are read.
Credentials in an address and headers are sent but never shown.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import unquote, urljoin, urlsplit

from holdfast.adapters import http_client
from holdfast.adapters.http_client import HttpError, HttpResponse
from holdfast.adapters.probes import Finding
from holdfast.vocabulary.specs.probes import HttpTarget

BODY_BYTES = 256 * 1024
MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)

Search = Callable[[str, bytes], Awaitable[bool]]
"""Tells whether an expression occurs in bytes."""


async def check(target: HttpTarget, timeout: float, search: Search) -> Finding:
    """Ask once; redirects are followed only if the target says so."""
    url, headers = target.url, {**_credentials(target.url), **target.headers}
    for _ in range(MOST_REDIRECTS + 1):
        try:
            answer = await http_client.request(
                url,
                method=target.method,
                headers=headers,
                timeout_seconds=timeout,
                largest_body=BODY_BYTES if target.body is not None else 0,
                trusts_loopback=True,
                is_checked=target.verify,
            )
        except HttpError as error:
            return Finding(False, str(error))
        location = _location(answer)
        if not target.follow or answer.status not in _REDIRECTS or location is None:
            return await _judge(target, answer, search)
        there = urljoin(url, location)
        if _origin(there) != _origin(url):
            headers = {}  # they were meant for the other host
        url = there
    return Finding(False, f"redirected more than {MOST_REDIRECTS} times")


async def _judge(target: HttpTarget, answer: HttpResponse, search: Search) -> Finding:
    told = f"answered {answer.status}{_phrase(answer.status)}"
    if not any(low <= answer.status <= high for low, high in target.status):
        return Finding(False, told)
    if target.body is not None and not await search(target.body, answer.body):
        return Finding(False, f'{told}, but "{target.body}" is not in the body')
    return Finding(True, told)


def _credentials(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _location(answer: HttpResponse) -> str | None:
    return next((value for name, value in answer.headers if name.lower() == "location"), None)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def shown(url: str) -> str:
    """Return an address that may be shown: no user, no password, no query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
