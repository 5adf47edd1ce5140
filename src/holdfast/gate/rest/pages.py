"""The gate's own pages: whether it lives, its description, metrics, downloads, the reference.

Like everywhere in the gate, nothing is decided here: what needs a right is asked with the
caller's token.
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
from holdfast.gate.callers import caller_of
from holdfast.gate.errors import UNFIT, problem
from holdfast.gate.output import extract, open_log
from holdfast.gate.rest.arguments import converted, kinds_of
from holdfast.gate.rest.routes import ways
from holdfast.vocabulary.errors import HoldfastError, NotFound, UsageError
from holdfast.vocabulary.output import LogPart

CURSOR = "X-Holdfast-Cursor"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RAW, PLAIN = "application/octet-stream", "text/plain; charset=utf-8"
REFERENCE = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


class Pages:
    """Over the same channel as everything else."""

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
        """Holdfast's own: this process answers."""
        facts = {"status": "ok", "version": holdfast.__version__}
        return JSONResponse({**facts, "uptime": round(time.monotonic() - self._started, 3)})

    async def ready(self, _: Request) -> Response:
        """Whether the supervisor answers, too."""
        try:
            hello = await self._channel.ask("hello", {}, None, is_repeatable=True)
        except HoldfastError as error:
            return problem(error)
        return JSONResponse({"status": "ready", "version": hello.get("version")})

    async def description(self, _: Request) -> Response:
        """What there is, for programs; the same for everybody, so no token is needed."""
        # A quarter of a second, the first time; nobody else waits for it.
        made = await asyncio.to_thread(document)
        return Response(made, media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        """The numbers of `metrics` as Prometheus reads them."""
        try:
            if request.scope["query_string"]:
                raise UsageError("/metrics has no arguments", "GET /api/metrics has some")
            answer = await self._channel.ask("metrics", {}, caller_of(request), is_repeatable=True)
        except HoldfastError as error:
            return problem(error)
        from holdfast.exposition.prometheus import text

        return Response(text(answer), headers={"Content-Type": METRICS_TYPE})

    async def download(self, request: Request) -> Response:
        """A log as a file, of any size, in pieces."""
        try:
            caller, service = caller_of(request), request.path_params["service"]
            part = wanted(request)
        except HoldfastError as error:
            return problem(error)
        try:
            reader, end = await open_log(self._channel, service, caller)
            found = await extract(reader, end, part)
        except HoldfastError as error:
            return problem(error, UNFIT if error.code == UsageError.code else None)
        is_plain = part.format == "text"
        headers = {
            "Content-Type": PLAIN if is_plain else RAW,
            "Content-Disposition": f'attachment; filename="{file_name(reader.service)}"',
            "Cache-Control": "no-store",
            CURSOR: found.cursor,
        }
        return StreamingResponse(found.pieces(is_plain=is_plain), headers=headers)

    async def to_reference(self, _: Request) -> Response:
        return RedirectResponse("/api/reference", 308)

    async def reference(self, request: Request) -> Response:
        """The page that shows and tries the commands; it reads the description."""
        name = request.path_params.get("name", "page.html")
        if name not in REFERENCE:
            return problem(NotFound("there is no such page", "the reference is at /api/reference"))
        kind = f"{REFERENCE[name]}; charset=utf-8"
        headers = {"Content-Type": kind, "Cache-Control": "no-cache"}
        return Response(_file(name), headers=headers)


def wanted(request: Request) -> LogPart:
    """What of a log is asked for."""
    kinds = kinds_of(LogPart)
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name not in kinds or name in given:
            known = ", ".join(kinds)
            raise UsageError(f'"{name}" is not known, or given twice', f"known: {known}")
        given[name] = converted(value, kinds[name], name)
    return LogPart(**given)


def file_name(service: str) -> str:
    """Names of services are harmless; what is not, is left out."""
    return "".join(it for it in service if it.isalnum() or it in "._-@") + ".log"


def preload() -> None:
    """Load what is seldom asked for. Not when it is: the files on disk may be another version
    by then."""
    import holdfast.exposition.prometheus
    import holdfast.gate.rest.openapi  # noqa: F401

    ways()
    for name in REFERENCE:
        _file(name)


@cache
def document() -> bytes:
    from holdfast.gate.rest.openapi import describe

    return msgspec.json.encode(describe())


@cache
def _file(name: str) -> bytes:
    return resources.files("holdfast.gate").joinpath("reference", name).read_bytes()
