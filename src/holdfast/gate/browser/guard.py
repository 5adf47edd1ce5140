"""What every request must pass before anything else looks at it: Host, Origin, Sec-Fetch, size.

A page of another site must not reach Holdfast through a visitor's browser, neither by a form nor
by a name that suddenly means this machine. Pages of allowed origins may use HTTP with a token.
Programs send none of these headers but Host. A cookie counts only together with the proof that one
of our own pages sent it. The supervisor puts refused requests on record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.client.channel import Channel
from holdfast.gate.body_limits import LARGEST_BODY, BodyLimits, LimitedBody, TooLarge
from holdfast.gate.callers import PAGE_HEADER, bearer_of, cookie_name, is_encrypted
from holdfast.gate.errors import problem, refusal
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.names import BROWSER_HOST

MOST_REPORTS = 30
"""Refusals a minute that go on record, so that a flood of them does not reach the supervisor."""
LONGEST_TEXT = 8 * 1024
"""Characters of a stranger's text that are looked at. The record keeps less, but a secret that was
cut could not be recognised."""
CORS_METHODS = "GET, POST, PUT, PATCH, DELETE"
CORS_HEADERS = "Authorization, Content-Type, Last-Event-ID, Idempotency-Key"
CORS_EXPOSED = "X-Holdfast-Cursor, Retry-After"
CORS_SECONDS = "600"
_LONGEST_NUMBER = 18
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", BROWSER_HOST)
_EVERYWHERE = ("0.0.0.0", "[::]")
_NO_LINKS = ("/api/", "/dashboard/api/", "/metrics", "/session", "/mcp")
"""Paths that are no pages: a page of another site may not even link to them."""
_REFERENCE = "/api/reference"
_SAME_SITE = frozenset({"same-origin", "none"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class AllowedOrigins(NamedTuple):
    """Names by which this gate may be called, and origins of pages that may use it."""

    hosts: frozenset[str]
    origins: frozenset[str]
    own: frozenset[str] = frozenset()
    """Origins of our own pages: only those may use a cookie."""
    is_everywhere: bool = False
    """Whether the gate listens at every address of this machine."""

    @classmethod
    def at(
        cls, host: str, port: int, *, is_tls: bool, origins: Iterable[str] = ()
    ) -> AllowedOrigins:
        name = _bracketed(host)
        is_everywhere = name in _EVERYWHERE
        names = {*_LOOPBACK} if is_everywhere else {*_LOOPBACK, name}
        hosts, own = _hosts_and_origins(names, port, is_tls=is_tls)
        given = {origin.rstrip("/").lower() for origin in origins}
        # A proxy in front of us has such a name, and it shows our own pages, too.
        hosts |= {origin.partition("://")[2] for origin in given}
        return cls(hosts, own | given, own, is_everywhere)

    def and_port(self, port: int, host: str, *, is_tls: bool) -> AllowedOrigins:
        """Return the same with the names of a second port, which serves the same pages."""
        more = AllowedOrigins.at(host, port, is_tls=is_tls)
        return self._replace(
            hosts=self.hosts | more.hosts,
            origins=self.origins | more.origins,
            own=self.own | more.own,
        )

    def at_address(self, scope: Scope) -> AllowedOrigins:
        """A gate that listens everywhere may also be called by the address that the client used:
        no page of another site can make a browser use that name and read the answer."""
        server = scope.get("server")
        if not self.is_everywhere or server is None:
            return self
        name = _bracketed(server[0].removeprefix("::ffff:"))
        hosts, own = _hosts_and_origins({name}, server[1], is_tls=is_encrypted(scope))
        return AllowedOrigins(self.hosts | hosts, self.origins | own, self.own | own)

    def is_own(self, origin: str, host: str) -> bool:
        """Return whether a page of this origin is ours, as the browser shows it."""
        return origin in self.own or (origin in self.origins and origin.endswith(f"://{host}"))


class Rejection(NamedTuple):
    """Why a request goes no further."""

    status: int
    reason: str
    code: str = "refused"
    hint: str = ""
    by: str = ""

    def answer(self) -> Response:
        return refusal(self.status, self.reason, self.code, self.hint)


_TOO_LARGE = Rejection(413, f"a body has at most {LARGEST_BODY >> 20} MiB", "usage")


class Guard:
    """Middleware around everything."""

    def __init__(
        self,
        app: ASGIApp,
        allowed: AllowedOrigins,
        reports: RefusalReports,
        body_limits: BodyLimits,
    ) -> None:
        self._app = app
        self._allowed = allowed
        self._body_limits = body_limits
        self._reports = reports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        allowed = self._allowed.at_address(scope)
        rejection = check(scope, allowed)
        if rejection is not None:
            await self._reject(rejection, scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            origin = _header(scope, b"origin")
            if origin and origin not in allowed.own:
                send = readable_by(origin, send)
                if is_preflight(scope):
                    await preflight_answer()(scope, receive, send)
                    return
            await self._pass_on(scope, receive, send)

    async def _reject(
        self, rejection: Rejection, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if rejection.status == 403:
            self._reports.report(scope, rejection.reason, rejection.by)
        if scope["type"] == "http":
            await rejection.answer()(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, with no more of a body than this client may send."""
        body = LimitedBody(self._body_limits, scope, receive)
        try:
            await body.check(int(_header(scope, b"content-length") or 0))
            await self._app(scope, body.receive, send)
        except (TooLarge, HoldfastError) as error:
            if error is not body.refusal:
                raise
            if isinstance(error, HoldfastError):
                answer = problem(error)
            else:
                answer = refusal(413, str(error), "usage")
            # We do not wait for the rest of the body.
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
        finally:
            body.release()


def check(scope: Scope, allowed: AllowedOrigins) -> Rejection | None:
    """Return why the request is rejected; None if it may pass."""
    headers = Headers(scope=scope)
    if any(len(headers.getlist(name)) > 1 for name in ("host", "origin", "authorization")):
        # A proxy in front of us may use the other one.
        return Rejection(400, "Host, Origin and Authorization are sent once", "usage")
    host = headers.get("host", "").lower()
    if host not in allowed.hosts:
        reason = f'"{_redacted(headers.get("host", ""))}" is not a name of this Holdfast'
        hint = "use its address, or add the origin to allowed_origins"
        return Rejection(403, reason, hint=hint)
    origin = headers.get("origin")
    if origin is not None:
        written, origin = _redacted(origin), origin.lower()
        if origin not in allowed.origins:
            reason = f'pages of "{written}" may not use this Holdfast'
            hint = "add the origin to allowed_origins"
            return Rejection(403, reason, hint=hint, by=written)
    site = headers.get("sec-fetch-site")
    if origin is None and site is not None and site not in _SAME_SITE:
        is_link = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"
        path = str(scope["path"])
        if not is_link or (path.startswith(_NO_LINKS) and path != _REFERENCE):
            return Rejection(403, "a page of another site asked for this", by="another site")
    if "cookie" in headers:
        rejection = _check_cookie(scope, headers, origin, allowed)
        if rejection is not None:
            return rejection
    length = headers.get("content-length", "0")
    is_number = length.isdecimal() and len(length) <= _LONGEST_NUMBER
    return None if is_number and int(length) <= LARGEST_BODY else _TOO_LARGE


def _check_cookie(
    scope: Scope, headers: Headers, origin: str | None, allowed: AllowedOrigins
) -> Rejection | None:
    """A browser sends a cookie with every request, whichever page made it. So a request that
    changes something or stays open needs more proof."""
    is_socket = scope["type"] == "websocket"
    if not is_socket and scope["method"] in _SAFE_METHODS:
        return None
    connection = HTTPConnection(scope)
    if cookie_name(scope) not in connection.cookies or bearer_of(connection):
        return None
    is_ours = origin is not None and allowed.is_own(origin, headers.get("host", "").lower())
    if not is_socket:
        is_ours = is_ours or (origin is None and headers.get("sec-fetch-site") == "same-origin")
    if is_ours and (is_socket or PAGE_HEADER in headers):
        return None
    reason = "a cookie alone changes nothing: no page of ours sent this"
    hint = f"pages send {PAGE_HEADER}; programs use a token instead of a cookie"
    return Rejection(403, reason, hint=hint, by=_redacted(origin or ""))


def _hosts_and_origins(
    names: set[str], port: int, *, is_tls: bool
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the Host and Origin headers that browsers send for these names."""
    scheme = "https" if is_tls else "http"
    hosts = {f"{name}:{port}" for name in names}
    if port == _DEFAULT_PORTS[scheme]:
        hosts |= names  # a browser leaves it out
    return frozenset(hosts), frozenset(f"{scheme}://{host}" for host in hosts)


def _redacted(written: str) -> str:
    """Redact a stranger's text, then cut it and make it lower case."""
    return redact(written[:LONGEST_TEXT])[:100].lower()


def _bracketed(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host


def _header(scope: Scope, name: bytes) -> str:
    found = next((value for key, value in scope["headers"] if key == name), b"")
    return str(found.decode("latin-1"))


# Pages of other origins that the configuration allows (CORS). They use a token: cookies are for
# our own pages only.


def is_preflight(scope: Scope) -> bool:
    """Return whether a browser asks if it may send a request, before it does."""
    is_options = scope["method"] == "OPTIONS"
    return is_options and "access-control-request-method" in Headers(scope=scope)


def preflight_answer() -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": CORS_METHODS,
            "Access-Control-Allow-Headers": CORS_HEADERS,
            "Access-Control-Max-Age": CORS_SECONDS,
        },
    )


def readable_by(origin: str, send: Send) -> Send:
    """Return a `send` whose answers pages of this origin may read, and of no other."""
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1", "replace")),
        (b"access-control-expose-headers", CORS_EXPOSED.encode()),
        (b"vary", b"Origin"),
    ]

    async def send_readable(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return send_readable


class RefusalReports:
    """Reports requests that the guard refused, so that the supervisor records them.

    A stranger's text may hold a secret. It is redacted here and, with the values that only the
    supervisor knows, there.
    """

    def __init__(self, channel: Channel, clock: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._clock = clock
        self._since, self._count = -60.0, 0
        self._sending: set[asyncio.Task[None]] = set()

    def report(self, scope: Scope, reason: str, by: str = "") -> None:
        now = self._clock()
        if now - self._since >= 60.0:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > MOST_REPORTS:
            return
        is_http = scope["type"] == "http"
        # Without the query, which may hold anything.
        asked = f"{scope['method'] if is_http else 'WebSocket'} {scope['path']}"
        written = {"asked": asked, "reason": reason, "by": by}
        fields = {name: redact(text[:LONGEST_TEXT]) for name, text in written.items()}
        fields["door"] = "rest" if is_http else "websocket"
        task = asyncio.get_running_loop().create_task(self._send(fields))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, fields: dict[str, str]) -> None:
        try:
            await self._channel.ask("report_refusal", fields, None, is_repeatable=False)
        except HoldfastError:
            pass  # no supervisor answers, or this gate is not kept by one
