"""What every request must pass before anybody looks at it: Host, Origin, Sec-Fetch, size.

A page of another site must not reach Holdfast through a visitor's browser, neither by a form
nor by a name that suddenly means this machine. Programs send none of these headers but Host.
A cookie is believed only together with the proof that one of our own pages sent it. What is
turned away goes on record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.gate.body_limits import LARGEST_BODY, Bodies, TooLarge
from holdfast.gate.browser import cross_origin
from holdfast.gate.callers import PAGE_HEADER, bearer_of, cookie_name, is_encrypted
from holdfast.gate.errors import problem, refusal
from holdfast.gate.refusals import LONGEST, Refusals
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.names import BROWSER_HOST

_LONGEST_NUMBER = 18
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", BROWSER_HOST)
_EVERYWHERE = ("0.0.0.0", "[::]")
_TOLD = ("/api/", "/dashboard/api/", "/metrics", "/session", "/mcp")
"""What a page of another site may not even lead to: no pages, but what is told of Holdfast."""
_REFERENCE = "/api/reference"
_SAME = frozenset({"same-origin", "none"})
_USUAL = {"http": 80, "https": 443}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Allowed(NamedTuple):
    """Names by which this gate may be called, and origins of pages that may use it."""

    hosts: frozenset[str]
    origins: frozenset[str]
    own: frozenset[str] = frozenset()
    """Origins of our own pages: only those may use a cookie."""
    is_everywhere: bool = False
    """Whether it listens at every address of this machine."""

    @classmethod
    def at(cls, host: str, port: int, *, is_tls: bool, origins: Iterable[str] = ()) -> Allowed:
        name = _bracketed(host)
        is_everywhere = name in _EVERYWHERE
        names = {*_LOOPBACK} if is_everywhere else {*_LOOPBACK, name}
        hosts, own = _called(names, port, is_tls=is_tls)
        given = {origin.rstrip("/").lower() for origin in origins}
        # By such a name a proxy in front of us is called, which shows our own pages, too.
        hosts |= {origin.partition("://")[2] for origin in given}
        return cls(hosts, own | given, own, is_everywhere)

    def at_address(self, scope: Scope) -> Allowed:
        """Listening everywhere, the address that a client came to is a name of ours, too: no
        page of another site can make a browser call us so and read what is answered."""
        server = scope.get("server")
        if not self.is_everywhere or server is None:
            return self
        name = _bracketed(server[0].removeprefix("::ffff:"))
        hosts, own = _called({name}, server[1], is_tls=is_encrypted(scope))
        return Allowed(self.hosts | hosts, self.origins | own, self.own | own)

    def is_own(self, origin: str, host: str) -> bool:
        """Whether a page of this origin is one of ours, as the browser was shown it."""
        return origin in self.own or (origin in self.origins and origin.endswith(f"://{host}"))


class _Turned(NamedTuple):
    """Why a request goes no further."""

    status: int
    reason: str
    code: str = "refused"
    hint: str = ""
    by: str = ""

    def answer(self) -> Response:
        return refusal(self.status, self.reason, self.code, self.hint)


_TOO_LARGE = _Turned(413, f"a body has at most {LARGEST_BODY >> 20} MiB", "usage")


class Guard:
    """Middleware around everything."""

    def __init__(self, app: ASGIApp, allowed: Allowed, refusals: Refusals, bodies: Bodies) -> None:
        self._app = app
        self._allowed = allowed
        self._bodies = bodies
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        allowed = self._allowed.at_address(scope)
        turned = _look(scope, allowed)
        if turned is None:
            origin = _header(scope, b"origin")
            if origin and scope["type"] == "http" and origin not in allowed.own:
                send = cross_origin.readable_by(origin, send)
                if cross_origin.is_preflight(scope, Headers(scope=scope)):
                    await cross_origin.permission()(scope, receive, send)
                    return
            if scope["type"] == "http":
                await self._pass_on(scope, receive, send)
            else:
                await self._app(scope, receive, send)
            return
        if turned.status == 403:
            self._refusals.tell(scope, turned.reason, turned.by)
        if scope["type"] == "http":
            await turned.answer()(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """To the application, with no more of a body than this client may send."""
        body = self._bodies.of(scope, receive)
        try:
            await body.check(int(_header(scope, b"content-length") or 0))
            await self._app(scope, body.receive, send)
        except (TooLarge, HoldfastError) as error:
            if error is not body.refused:
                raise
            if isinstance(error, HoldfastError):
                answer = problem(error)
            else:
                answer = refusal(413, str(error), "usage")
            # What is left of the body is not waited for.
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
        finally:
            body.release()


def _look(scope: Scope, allowed: Allowed) -> _Turned | None:
    headers = Headers(scope=scope)
    if any(len(headers.getlist(name)) > 1 for name in ("host", "origin", "authorization")):
        # Which of them counts, others in front of us may see differently.
        return _Turned(400, "Host, Origin and Authorization are sent once", "usage")
    host = headers.get("host", "").lower()
    if host not in allowed.hosts:
        reason = f'"{_shown(headers.get("host", ""))}" is not a name of this Holdfast'
        hint = "use its address, or add the origin to allowed_origins"
        return _Turned(403, reason, hint=hint)
    origin = headers.get("origin")
    if origin is not None:
        written, origin = _shown(origin), origin.lower()
        if origin not in allowed.origins:
            reason = f'pages of "{written}" may not use this Holdfast'
            hint = "add the origin to allowed_origins"
            return _Turned(403, reason, hint=hint, by=written)
    site = headers.get("sec-fetch-site")
    if origin is None and site is not None and site not in _SAME:
        is_link = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"
        path = str(scope["path"])
        if not is_link or (path.startswith(_TOLD) and path != _REFERENCE):
            return _Turned(403, "a page of another site asked for this", by="another site")
    if "cookie" in headers:
        turned = _look_at_cookie(scope, headers, origin, allowed)
        if turned is not None:
            return turned
    length = headers.get("content-length", "0")
    is_number = length.isdecimal() and len(length) <= _LONGEST_NUMBER
    return None if is_number and int(length) <= LARGEST_BODY else _TOO_LARGE


def _look_at_cookie(
    scope: Scope, headers: Headers, origin: str | None, allowed: Allowed
) -> _Turned | None:
    """A browser sends a cookie whoever made it ask; so what changes something, or stays
    open, needs more."""
    is_socket = scope["type"] == "websocket"
    if not is_socket and scope["method"] in _SAFE:
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
    return _Turned(403, reason, hint=hint, by=_shown(origin or ""))


def _called(names: set[str], port: int, *, is_tls: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Hosts and origins by which pages of these names are asked for."""
    scheme = "https" if is_tls else "http"
    hosts = {f"{name}:{port}" for name in names}
    if port == _USUAL[scheme]:
        hosts |= names  # a browser leaves it out
    return frozenset(hosts), frozenset(f"{scheme}://{host}" for host in hosts)


def _shown(written: str) -> str:
    """What a stranger wrote; hidden first and cut then, before its letters are made small."""
    return redact(written[:LONGEST])[:100].lower()


def _bracketed(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host


def _header(scope: Scope, name: bytes) -> str:
    found = next((value for key, value in scope["headers"] if key == name), b"")
    return str(found.decode("latin-1"))
