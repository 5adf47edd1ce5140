"""The gate's own pages: health, the OpenAPI document, metrics, log downloads, the reference.

Decides nothing: a page that needs a right asks the supervisor with the caller's token.
"""

from __future__ import annotations

import asyncio
import time
from functools import cache
from importlib import resources
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

import holdfast
from holdfast.client.channel import Channel
from holdfast.gate.callers import caller_of, with_process
from holdfast.gate.errors import UNPROCESSABLE, problem
from holdfast.gate.output import extract, open_log
from holdfast.gate.rest.arguments import convert_text, field_types
from holdfast.gate.rest.routes import command_routes
from holdfast.vocabulary.errors import HoldfastError, NotFound, UsageError
from holdfast.vocabulary.output import LogPart

CURSOR = "X-Holdfast-Cursor"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RAW, PLAIN = "application/octet-stream", "text/plain; charset=utf-8"
REFERENCE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


class Pages:
    """The routes that are no commands."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._started = time.monotonic()

    def routes(self) -> list[Route]:
        def get(path: str, page: Any) -> Route:
            return Route(path, page, methods=["GET"])

        return [
            get("/health", self.health),
            get("/ready", self.ready),
            get("/metrics", self.metrics),
            get("/api/openapi.json", self.description),
            get("/api/services/{service}/log", self.download),
            get("/api", self.to_reference),
            get("/api/reference", self.reference),
            get("/api/reference/{name}", self.reference),
        ]

    async def health(self, _: Request) -> Response:
        """Say that this process answers."""
        facts = {"status": "ok", "version": holdfast.__version__}
        return JSONResponse({**facts, "uptime": round(time.monotonic() - self._started, 3)})

    async def ready(self, _: Request) -> Response:
        """Say whether the supervisor answers, too."""
        try:
            hello = await self._channel.ask("hello", {}, None, is_repeatable=True)
        except HoldfastError as error:
            return problem(error)
        return JSONResponse({"status": "ready", "version": hello.get("version")})

    async def description(self, _: Request) -> Response:
        """Send the OpenAPI document. It is the same for everybody and needs no token."""
        # The first time it takes a quarter of a second, so it runs in a thread.
        content = await asyncio.to_thread(document)
        return Response(content, media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        """Send the numbers of `metrics` as Prometheus reads them."""
        try:
            if request.scope["query_string"]:
                raise UsageError("/metrics has no arguments", "GET /api/metrics has some")
            caller = await with_process(caller_of(request), request)
            answer = await self._channel.ask("metrics", {}, caller, is_repeatable=True)
        except HoldfastError as error:
            return problem(error)
        from holdfast.exposition.prometheus import text

        return Response(text(answer), headers={"Content-Type": METRICS_TYPE})

    async def download(self, request: Request) -> Response:
        """Send a log as a file of any size, in pieces."""
        try:
            caller = await with_process(caller_of(request), request)
            service = request.path_params["service"]
            part = _wanted_part(request)
        except HoldfastError as error:
            return problem(error)
        try:
            reader, end = await open_log(self._channel, service, caller)
            found = await extract(reader, end, part)
        except HoldfastError as error:
            return problem(error, UNPROCESSABLE if error.code == UsageError.code else None)
        is_plain = part.format == "text"
        headers = {
            "Content-Type": PLAIN if is_plain else RAW,
            "Content-Disposition": f'attachment; filename="{_file_name(reader.service)}"',
            "Cache-Control": "no-store",
            CURSOR: found.cursor,
        }
        return StreamingResponse(found.pieces(is_plain=is_plain), headers=headers)

    async def to_reference(self, _: Request) -> Response:
        return RedirectResponse("/api/reference", 308)

    async def reference(self, request: Request) -> Response:
        """Send the page that shows and tries the commands."""
        name = request.path_params.get("name", "page.html")
        if name not in REFERENCE:
            return problem(NotFound("there is no such page", "the reference is at /api/reference"))
        kind = f"{REFERENCE[name]}; charset=utf-8"
        headers = {"Content-Type": kind, "Cache-Control": "no-cache"}
        return Response(_file(name), headers=headers)


def _wanted_part(request: Request) -> LogPart:
    """Return which part of a log the request asks for."""
    kinds = field_types(LogPart)
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name not in kinds or name in given:
            known = ", ".join(kinds)
            raise UsageError(f'"{name}" is not known, or given twice', f"known: {known}")
        given[name] = convert_text(value, kinds[name], name)
    return LogPart(**given)


def _file_name(service: str) -> str:
    """Return a harmless file name, whatever the service is called."""
    return "".join(letter for letter in service if letter.isalnum() or letter in "._-@") + ".log"


def preload() -> None:
    """Load now what is seldom wanted: when it is, the files on disk may be another version."""
    import holdfast.exposition.prometheus
    import holdfast.gate.rest.openapi  # noqa: F401

    command_routes()
    for name in REFERENCE:
        _file(name)


@cache
def document() -> bytes:
    from holdfast.gate.rest.openapi import describe

    return msgspec.json.encode(describe())


@cache
def _file(name: str) -> bytes:
    return resources.files("holdfast.gate").joinpath("reference", name).read_bytes()
