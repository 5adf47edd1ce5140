"""What a browser needs: logging in by a link, logging out, and a first page.

A link's secret stands behind its `#`, which no browser sends: a script takes it out of the
address and posts it. The cookie that comes back is for our own pages alone; nothing that is
asked with GET changes anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.client.channel import Caller, Channel
from holdfast.gate.callers import PAGE_HEADER, bearer_of, caller_of, cookie_name, is_encrypted
from holdfast.gate.errors import problem, refusal
from holdfast.gate.http_limits import prove
from holdfast.vocabulary.errors import HoldfastError, Refused, Unauthorized
from holdfast.vocabulary.names import HAND_OVER_PATH

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
FILES = ("dashboard.html", "dashboard.js", "login.html", "login.js", "page.css")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LONGEST_CODE = 200


class Browser:
    """Routes for people; decides nothing, as everywhere in the gate."""

    def __init__(self, channel: Channel, leave: Callable[[], None]) -> None:
        self._channel = channel
        self._leave = leave
        # Now, not when first asked for: the files on disk may be another version by then.
        for name in FILES:
            _read(name)

    def routes(self) -> list[Route]:
        def get(path: str, page: Any) -> Route:
            return Route(path, page, methods=["GET"])

        def post(path: str, page: Any) -> Route:
            return Route(path, page, methods=["POST"])

        return [
            get("/", self.to_dashboard),
            get("/dashboard", self.dashboard),
            get("/login", self.login_page),
            get("/pages/{name}", self.file),
            get("/session", self.session),
            post("/login", self.log_in),
            post("/logout", self.log_out),
            post(HAND_OVER_PATH, self.hand_over),
        ]

    async def to_dashboard(self, _: Request) -> Response:
        return RedirectResponse("/dashboard", 307)

    async def dashboard(self, _: Request) -> Response:
        return page("dashboard.html")

    async def login_page(self, _: Request) -> Response:
        return page("login.html")

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            return refusal(404, f'no page "{name[:100]}"', "not_found")
        return page(name)

    async def session(self, request: Request) -> Response:
        """Who is logged in here."""
        try:
            caller = caller_of(request)
            hello = await self._channel.ask("hello", {}, caller, is_repeatable=True)
        except HoldfastError as error:
            return problem(error)
        if caller.token:
            prove(request.scope, caller.token)
        told = {name: hello[name] for name in ("actor", "role", "version", "project")}
        return JSONResponse(told, headers=_UNSTORED)

    async def log_in(self, request: Request) -> Response:
        """Exchange the secret of a link for a cookie and what our pages send beside it."""
        if PAGE_HEADER not in request.headers:
            return refusal(403, "no page of ours sent this", "refused", "open the link again")
        code = await _code_of(request)
        if code is None:
            return refusal(400, 'the body is {"code": "…"}', "usage")
        try:
            # Never repeated: it works once.
            caller = Caller(code, "rest")
            login = await self._channel.ask("log_in", {}, caller, is_repeatable=False)
        except HoldfastError as error:
            return problem(error)
        token = login["token"]
        told = {name: token[name] for name in ("name", "role", "expires_at")}
        answer = JSONResponse({**told, "page": login["page"]}, headers=_UNSTORED)
        seconds = round(token["expires_at"] - token["created_at"])
        _set_cookie(answer, request, login["text"], seconds)
        return answer

    async def log_out(self, request: Request) -> Response:
        """End this browser's login; the cookie goes in any case."""
        answer: Response = JSONResponse({"message": "logged out"}, headers=_UNSTORED)
        if cookie_name(request.scope) in request.cookies and not bearer_of(request):
            try:
                await self._channel.ask("log_out", {}, caller_of(request), is_repeatable=False)
            except HoldfastError as error:
                # One that is refused is as good as gone; if nobody could be asked, say so.
                if not isinstance(error, Refused):
                    return problem(error)
        _set_cookie(answer, request, "", 0)
        return answer

    async def hand_over(self, request: Request) -> Response:
        """Give the port to the next gate, if our supervisor knows of that."""
        try:
            token = bearer_of(request)
            if not token:
                raise Unauthorized("a token is needed", "")
            caller = Caller(token, "rest")
            await self._channel.ask("hand_over", {}, caller, is_repeatable=False)
        except HoldfastError as error:
            return problem(error)
        self._leave()
        return JSONResponse({"message": "the port is free in a moment"}, 202)


_UNSTORED = {"Cache-Control": "no-store"}


def page(name: str) -> Response:
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
    return Response(_read(name), headers=headers, media_type=KINDS[name.rpartition(".")[2]])


@cache
def _read(name: str) -> bytes:
    return (resources.files("holdfast.gate") / "dashboard" / name).read_bytes()


def _set_cookie(answer: Response, request: Request, value: str, seconds: int) -> None:
    answer.set_cookie(
        cookie_name(request.scope),
        value,
        max_age=seconds,
        path="/",
        secure=is_encrypted(request.scope),
        httponly=True,
        samesite="strict",
    )


async def _code_of(request: Request) -> str | None:
    try:
        value = json.loads(await request.body())
    except (ValueError, RecursionError):
        return None
    code = value.get("code") if isinstance(value, dict) else None
    return code if isinstance(code, str) and 0 < len(code) <= LONGEST_CODE else None
