"""Logging in by a link, logging out, and as whom a browser is logged in.

The secret of a link stands behind its `#`, which no browser sends. A script takes it out of the
address and posts it. Only our own pages may use the cookie that comes back, and no GET request
changes anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.client.channel import Caller, Channel
from holdfast.gate.callers import PAGE_HEADER, bearer_of, caller_of, cookie_name, is_encrypted
from holdfast.gate.errors import problem, refusal
from holdfast.gate.http_limits import prove
from holdfast.vocabulary.errors import HoldfastError, Refused, Unauthorized
from holdfast.vocabulary.names import HAND_OVER_PATH

LONGEST_CODE = 200


class LoginRoutes:
    """The routes for people with a browser; decides nothing."""

    def __init__(self, channel: Channel, leave: Callable[[], None]) -> None:
        self._channel = channel
        self._leave = leave

    def routes(self) -> list[Route]:
        def get(path: str, page: Any) -> Route:
            return Route(path, page, methods=["GET"])

        def post(path: str, page: Any) -> Route:
            return Route(path, page, methods=["POST"])

        return [
            get("/session", self.session),
            post("/login", self.log_in),
            post("/logout", self.log_out),
            post(HAND_OVER_PATH, self.hand_over),
        ]

    async def session(self, request: Request) -> Response:
        """Tell a page as which actor its browser is logged in."""
        try:
            caller = caller_of(request)
            hello = await self._channel.ask("hello", {}, caller, is_repeatable=True)
        except HoldfastError as error:
            return problem(error)
        if caller.token:
            prove(request.scope, caller.token)
        facts = {name: hello[name] for name in ("actor", "role", "version", "project")}
        return JSONResponse(facts, headers=_UNSTORED)

    async def log_in(self, request: Request) -> Response:
        """Exchange the secret of a link for a cookie and the proof that our pages send with it."""
        if PAGE_HEADER not in request.headers:
            return refusal(403, "no page of ours sent this", "refused", "open the link again")
        code = await _code_of(request)
        if code is None:
            return refusal(400, 'the body is {"code": "…"}', "usage")
        try:
            # Never repeated, because a link works once.
            caller = Caller(code, "rest")
            login = await self._channel.ask("log_in", {}, caller, is_repeatable=False)
        except HoldfastError as error:
            return problem(error)
        token = login["token"]
        facts = {name: token[name] for name in ("name", "role", "expires_at")}
        answer = JSONResponse({**facts, "page": login["page"]}, headers=_UNSTORED)
        seconds = round(token["expires_at"] - token["created_at"])
        _set_cookie(answer, request, login["text"], seconds)
        return answer

    async def log_out(self, request: Request) -> Response:
        """End this browser's login and delete its cookie."""
        answer: Response = JSONResponse({"message": "logged out"}, headers=_UNSTORED)
        if cookie_name(request.scope) in request.cookies and not bearer_of(request):
            try:
                await self._channel.ask("log_out", {}, caller_of(request), is_repeatable=False)
            except HoldfastError as error:
                # A login that the supervisor refuses is gone already; report any other failure.
                if not isinstance(error, Refused):
                    return problem(error)
        _set_cookie(answer, request, "", 0)
        return answer

    async def hand_over(self, request: Request) -> Response:
        """Give the port to the next gate, if our supervisor has planned that."""
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
