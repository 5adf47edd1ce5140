"""One HTTP request, for probes and webhooks: HTTP/1.1 by h11, over asyncio.

Bounded in time and in the bytes read of an answer. Follows no redirect and keeps no connection. An
error names the host, never the rest of an address, which may hold a secret. Certificates are
checked, except those of this machine if the caller says so.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from holdfast.adapters.probes import tcp
from holdfast.system import deadlines
from holdfast.vocabulary.addresses import is_loopback

LARGEST_BODY = 64 * 1024
LARGEST_HEAD = 64 * 1024
_READ = 16 * 1024
_PORTS = {"http": 80, "https": 443}


class HttpError(Exception):
    """No answer came; the text says why, without the address."""


class HttpResponse(NamedTuple):
    """What a server answered; `body` is the beginning of the body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class UrlParts(NamedTuple):
    """The parts of a URL."""

    is_tls: bool
    host: str
    port: int
    target: str
    authority: str


def address_of(url: str) -> UrlParts:
    """Split a URL; raises HttpError if it is no address of HTTP."""
    from urllib.parse import quote, urlsplit

    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        raise HttpError("the address is malformed") from None
    if scheme not in _PORTS or not host:
        raise HttpError("the address is not one of HTTP")
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port is None else f"{shown}:{port}"
    return UrlParts(scheme == "https", host, port or _PORTS[scheme], target, authority)


def _is_this_machine(host: str) -> bool:
    # Names below `localhost` mean this machine by agreement: enough for a certificate.
    return is_loopback(host) or host.lower().endswith(".localhost")


async def request(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    timeout_seconds: float = 10.0,
    largest_body: int = LARGEST_BODY,
    trusts_loopback: bool = False,
    is_checked: bool | None = None,
    only: str | None = None,
) -> HttpResponse:
    """Return the answer to one request; raises HttpError if none came in time.

    At most `largest_body` bytes of the body are read: 0 reads none, for a body may be endless.
    `is_checked` says whether a certificate is checked; without it, the host decides. `only` names a
    file: this certificate alone is trusted, whatever its name.
    """
    where = address_of(url)
    if is_checked is None:
        is_checked = not (trusts_loopback and _is_this_machine(where.host))
    try:
        return await deadlines.wait_for(
            _exchange(where, method, headers or {}, body, largest_body, is_checked, only),
            timeout_seconds,
        )
    except TimeoutError:
        raise HttpError(f"{where.authority} did not answer in {timeout_seconds:g} s") from None
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message or "not trusted"
        raise HttpError(f"the certificate of {where.authority} is refused: {why}") from None
    except (OSError, EOFError) as error:
        raise HttpError(f"{where.authority}: {_reason(error)}") from None


async def _exchange(
    where: UrlParts,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    largest_body: int,
    is_checked: bool,
    only: str | None,
) -> HttpResponse:
    context = None
    if where.is_tls and only is not None:
        context = await asyncio.to_thread(_trusting, only)
    elif where.is_tls:
        # It reads the system's certificates, which would hold up the loop.
        context = await asyncio.to_thread(tls_context, is_checked=is_checked)
    reader, writer = await tcp.connect(where.host, where.port, context)
    try:
        return await _talk(reader, writer, where, method, headers, body, largest_body)
    finally:
        # Not awaited: a peer that never closes its side must not hold us up.
        writer.transport.abort()


async def _talk(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    where: UrlParts,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    largest_body: int,
) -> HttpResponse:
    import h11

    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
    try:
        head = h11.Request(
            method=method, target=where.target, headers=list(_headers(where, headers, body))
        )
        sent = connection.send(head) or b""
        sent += (connection.send(h11.Data(data=body)) or b"") if body else b""
        writer.write(sent + (connection.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        return await _answer(h11, connection, reader, largest_body)
    except h11.ProtocolError as error:
        raise HttpError(f"{where.authority} does not speak HTTP as it should: {error}") from None


def _headers(
    where: UrlParts, headers: Mapping[str, str], body: bytes
) -> Iterable[tuple[bytes, bytes]]:
    names = {name.lower() for name in headers}
    ours = {"host": where.authority, "connection": "close", "accept": "*/*"}
    ours["user-agent"] = "holdfast"
    if body:
        ours["content-length"] = str(len(body))
    together = {**{name: value for name, value in ours.items() if name not in names}, **headers}
    yield from (
        (name.encode("latin-1", "replace"), value.encode()) for name, value in together.items()
    )


async def _answer(
    h11: Any, connection: Any, reader: asyncio.StreamReader, largest_body: int
) -> HttpResponse:
    status, body = 0, bytearray()
    headers: tuple[tuple[str, str], ...] = ()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(_READ)
            if not data and not status:
                raise EOFError("closed the connection without an answer")
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = tuple(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers
            )
            if largest_body <= 0:
                return HttpResponse(status, headers, b"")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) >= largest_body:
                return HttpResponse(status, headers, bytes(body[:largest_body]))
        elif isinstance(event, h11.EndOfMessage):
            return HttpResponse(status, headers, bytes(body))
        elif isinstance(event, h11.ConnectionClosed):
            raise EOFError("closed the connection without an answer")


@lru_cache(maxsize=2)
def tls_context(*, is_checked: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trusting(path: str) -> ssl.SSLContext:
    """Return a context that trusts one certificate, self-made or by an authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(path)
    return context


def preload() -> None:
    """Import what the first request needs."""
    import urllib.parse  # noqa: F401

    import h11  # noqa: F401


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
