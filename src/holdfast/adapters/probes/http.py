"""Whether an address answers as expected: status, and optionally what is in the body.

One request, one connection, one deadline for everything (the caller's). At most 256 KiB of a
body are looked at. Credentials in an address and headers are sent and never told.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from holdfast.adapters.probes import Finding, tcp
from holdfast.vocabulary.probe_spec import HttpTarget

BODY_BYTES = 256 * 1024
MOST_REDIRECTS = 5
_AGENT = "holdfast"
_REDIRECTS = (301, 302, 303, 307, 308)
_PORTS = {"http": 80, "https": 443}

Search = Callable[[str, bytes], Awaitable[bool]]
"""Tells whether an expression is found in bytes."""


class Answer(NamedTuple):
    status: int
    location: str | None
    body: bytes


async def check(target: HttpTarget, search: Search) -> Finding:
    """Ask once; redirects are followed only where the target says so."""
    import h11

    url = urlsplit(target.url)
    headers = target.headers
    for _ in range(MOST_REDIRECTS + 1):
        try:
            answer = await _ask(url, target, headers)
        except h11.RemoteProtocolError:
            return Finding(False, f"{shown(url)} did not answer as HTTP does")
        except (asyncio.IncompleteReadError, EOFError, ConnectionResetError):
            return Finding(False, f"{shown(url)} closed the connection without an answer")
        except OSError as error:
            return Finding(False, tcp.describe(error, url.hostname or "", port_of(url)))
        if not target.follow or answer.status not in _REDIRECTS or not answer.location:
            return await _judge(target, answer, search)
        there = urlsplit(urljoin(url.geturl(), answer.location))
        if there.scheme not in _PORTS or not there.hostname:
            return Finding(False, "redirected to what is no HTTP address")
        if (there.scheme, there.netloc) != (url.scheme, url.netloc):
            headers = {}  # they were meant for the other one
        url = there
    return Finding(False, f"redirected more than {MOST_REDIRECTS} times")


async def _judge(target: HttpTarget, answer: Answer, search: Search) -> Finding:
    told = f"answered {answer.status}{_phrase(answer.status)}"
    if not any(low <= answer.status <= high for low, high in target.status):
        return Finding(False, told)
    if target.body is not None and not await search(target.body, answer.body):
        return Finding(False, f'{told}, but "{target.body}" is not in the body')
    return Finding(True, told)


async def _ask(url: SplitResult, target: HttpTarget, headers: dict[str, str]) -> Answer:
    host = url.hostname or ""
    tls = None
    if url.scheme == "https":
        is_verified = not tcp.is_loopback(host) if target.verify is None else target.verify
        tls = await _context(is_verified)
    streams = await tcp.connect(host, port_of(url), tls)
    try:
        return await _exchange(streams, url, target, headers)
    finally:
        streams.close()


async def _exchange(
    streams: tcp.Streams, url: SplitResult, target: HttpTarget, headers: dict[str, str]
) -> Answer:
    import h11

    talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=tcp.READ_LIMIT)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    request = h11.Request(method=target.method, target=path, headers=_headers(url, headers))
    sent = (talk.send(request) or b"") + (talk.send(h11.EndOfMessage()) or b"")
    streams.writer.write(sent)
    await streams.writer.drain()
    status, location = 0, None
    body = bytearray()
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA:
            talk.receive_data(await streams.reader.read(tcp.READ_LIMIT))
        elif isinstance(event, h11.Response):
            status = event.status_code
            found: Any = dict(event.headers).get(b"location")
            location = found.decode("latin-1") if found else None
            # A body that nobody asks about may be endless: an event stream, a log.
            if target.body is None:
                return Answer(status, location, b"")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) >= BODY_BYTES:
                return Answer(status, location, bytes(body[:BODY_BYTES]))
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, location, bytes(body))
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            raise EOFError


def _headers(url: SplitResult, headers: dict[str, str]) -> list[tuple[str, str]]:
    given = {name.lower() for name in headers}
    own = {"Host": netloc(url), "User-Agent": _AGENT, "Accept": "*/*", "Connection": "close"}
    if url.username is not None:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
        own["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return [*((k, v) for k, v in own.items() if k.lower() not in given), *headers.items()]


async def _context(is_verified: bool) -> ssl.SSLContext:
    if is_verified:
        # Reads the certificates of the system: a while of work that the loop must not do.
        return await asyncio.get_running_loop().run_in_executor(None, _verifying)
    return _trusting()


@lru_cache(1)
def _verifying() -> ssl.SSLContext:
    return ssl.create_default_context()


@lru_cache(1)
def _trusting() -> ssl.SSLContext:
    """For this machine itself: who could stand between, could do anything already."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def port_of(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def netloc(url: SplitResult) -> str:
    """Host and port, without user and password."""
    return url.netloc.rpartition("@")[2]


def shown(url: SplitResult) -> str:
    """An address as it may be told: no user, no password, no query."""
    return f"{url.scheme}://{netloc(url)}{url.path}"


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
