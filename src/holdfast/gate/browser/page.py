"""The dashboard's built page and its files, as browsers get them.

All of it is read when the gate starts: later, the files on disk may be another version. It shows
nothing by itself; everything on it is asked for with the caller's own rights.
"""

from __future__ import annotations

import gzip
import mimetypes
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.gate.errors import refusal

PATH = "/dashboard/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""Styles are set by scripts, too: a terminal has no other way to place its cells."""
MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Holdfast: no dashboard</title>
<body style="font: 16px/1.5 sans-serif; max-width: 40em; margin: 15vh auto; padding: 0 1em">
<h1>This Holdfast has no dashboard</h1>
<p>It was installed from its sources with <code>HOLDFAST_SKIP_WEB=1</code>. All else works.</p>
<p>To have the dashboard, install it again without that variable, or run
<code>python hatch_build.py</code> in the sources, and then <code>holdfast upgrade</code>.</p>
</html>
"""
_IMMUTABLE = "public, max-age=31536000, immutable"
"""Names of assets hold a digest of their content."""
_COMPRESSED = frozenset({"text/javascript", "text/css", "text/html", "image/svg+xml"})
_KINDS = {".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


class PageFile:
    """One file, and its compressed form as soon as somebody wants it."""

    def __init__(self, name: str, content: bytes) -> None:
        suffix = name[name.rfind(".") :]
        kind = _KINDS.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        self.kind = kind
        self.content = content
        self._compressed: bytes | None = None

    def compressed(self) -> bytes | None:
        if self.kind not in _COMPRESSED:
            return None
        if self._compressed is None:
            self._compressed = gzip.compress(self.content, 9, mtime=0)
        return self._compressed


class BuiltPage:
    """The routes of the page; decides nothing."""

    def __init__(self) -> None:
        folder = resources.files("holdfast.gate") / "dashboard"
        self._files: dict[str, PageFile] = {}
        if folder.is_dir():
            for item in folder.iterdir():
                if item.is_file():
                    self._files[item.name] = PageFile(item.name, item.read_bytes())
            if (assets := folder / "assets").is_dir():
                for item in assets.iterdir():
                    name = f"assets/{item.name}"
                    self._files[name] = PageFile(item.name, item.read_bytes())

    def routes(self) -> list[Route]:
        def get(path: str, page: Any) -> Route:
            return Route(path, page, methods=["GET"])

        return [
            get("/", self.to_page),
            get("/dashboard", self.index),
            get("/login", self.index),
            get("/favicon.ico", self.icon),
            get(PATH + "{name:path}", self.file),
        ]

    async def to_page(self, request: Request) -> Response:
        return RedirectResponse(request.scope.get("root_path", "") + PATH, 307)

    async def index(self, request: Request) -> Response:
        """Send the page; it finds out from its address what it shows."""
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
        found = self._files.get("index.html")
        if found is None:
            return Response(MISSING, 503, headers, "text/html")
        # Below this the page finds its files and Holdfast, also behind a proxy with a longer path.
        base = f'<base href="{request.scope.get("root_path", "")}{PATH}" />'.encode()
        content = found.content.replace(b"<head>", b"<head>\n    " + base, 1)
        return Response(content, 200, headers, "text/html")

    async def icon(self, request: Request) -> Response:
        return self._send(request, "favicon.svg", "no-cache")

    async def file(self, request: Request) -> Response:
        """Send a file of the page. Every other address is a place in the page."""
        name = request.path_params["name"]
        if name.startswith("api/"):
            return refusal(404, "there is no such path", "not_found", "GET /api/openapi.json")
        if name.startswith("assets/"):
            return self._send(request, name, _IMMUTABLE)
        if name in self._files and name != "index.html":
            return self._send(request, name, "no-cache")
        return await self.index(request)

    def _send(self, request: Request, name: str, caching: str) -> Response:
        found = self._files.get(name)
        if found is None:
            # A page of another version asks for it: it is told to reload itself.
            return refusal(404, "this file is of another version", "not_found", "reload the page")
        headers = {"Cache-Control": caching, "Vary": "Accept-Encoding"}
        content = found.content
        if "gzip" in request.headers.get("accept-encoding", ""):
            compressed = found.compressed()
            if compressed is not None:
                content, headers["Content-Encoding"] = compressed, "gzip"
        return Response(content, 200, headers, found.kind)
