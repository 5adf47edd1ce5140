"""A real Chromium and a real Holdfast with its gate, for what only a browser can show."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import Hold, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

NAMES = ("chromium", "chromium-browser", "google-chrome")
OTHER_SITE = "evil.example"
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Names of other sites are of this machine here, as a rebinding name server would say.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
)


def program() -> str:
    """The browser; without one the tests are skipped, but not where they are required."""
    named = os.environ.get("HOLDFAST_E2E_BROWSER")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = "no Chromium here: scripts/browser installs it (Debian, as root)"
        if os.environ.get("HOLDFAST_E2E") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = program()
    from playwright.sync_api import sync_playwright

    # A user's own goes on with its sandbox; root has none to go into.
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A profile of its own."""
    made = chromium.new_context(ignore_https_errors=True)
    made.set_default_timeout(15_000)
    yield made
    made.close()


class BrowsedHold(Hold):
    """A Holdfast that serves HTTP on a port of its own choice."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(HOLDFAST_HTTP="on", HOLDFAST_HTTP_PORT="0")
        web = {"command": ["sleep", "1000"], "start_seconds": 0}
        self.write({**settings, "services": {"web": web}})
        self.up()
        address = wait_for(lambda: self.status()["supervisor"]["doors"].get("http"))
        self.port = int(address.rpartition(":")[2])
        self.scheme = address.partition(":")[0]

    def at(self, host: str) -> str:
        return f"{self.scheme}://{host}:{self.port}"

    def link(self, *options: str) -> str:
        return str(self.json("dashboard", *options)["url"])

    def refusals(self) -> list[dict[str, Any]]:
        records = self.ask("audit", limit=1000)["records"]
        return [one for one in records if one["role"] == "stranger"]


@pytest.fixture(scope="module")
def hold() -> Iterator[BrowsedHold]:
    with BrowsedHold() as made:
        yield made


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of another site, with a page that has nothing on it."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>another site</title>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
