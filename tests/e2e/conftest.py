"""A real Chromium and a real Holdfast with its gate, for what only a browser can show.

`hold` is one Holdfast for a module, `chromium` its browser; `visit` logs a person in with a
profile of their own and watches their pages: an error on the console, a failed request or a request
to another host fails the test. What a test provokes on purpose it announces with `Visitor.allow`.
What the browser tells arrives only while the test asks it something: poll with calls of the page
(`wait_for_selector`, `evaluate`), never with `page.url` or lists of events alone.
"""

from __future__ import annotations

import fcntl
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import holdfast
from tests.harness import Hold, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

ROOT = Path(__file__).parents[2]
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
PATIENCE_MS = 45_000
LATE = ("GL Driver Message", "task queue exceeded allotted deadline")
"""How slow this machine is, as the software says that draws instead of a graphics card, and the
terminal's own queue of work."""
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
"""The rules of accessibility, where the packages of web/ are installed."""


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


@pytest.fixture(scope="session")
def built_page() -> None:
    """Build the page where it is missing or stale. An installed Holdfast has it."""
    if Path(holdfast.__file__).parents[2] != ROOT:
        return
    built = Path(holdfast.__file__).parent / "gate" / "dashboard"
    built.mkdir(exist_ok=True)
    with (ROOT / "web" / "index.html").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build = [sys.executable, "hatch_build.py"]
        if subprocess.run([*build, "--needs-build"], cwd=ROOT, check=False).returncode == 0:
            done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def chromium(built_page: None) -> Iterator[Browser]:
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
    made = chromium.new_context(ignore_https_errors=True, reduced_motion="reduce")
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


class BrowsedHold(Hold):
    """A Holdfast that serves HTTP on a port of its own choice."""

    def __init__(self, services: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__(HOLDFAST_HTTP="on", HOLDFAST_HTTP_PORT="0")
        web = {"command": ["sleep", "1000"], "start_seconds": 0}
        self.write({**settings, "services": {"web": web} if services is None else services})
        self.up()
        self.find_door()

    def find_door(self) -> None:
        address = wait_for(lambda: self.status()["supervisor"]["doors"].get("http"))
        self.port = int(address.rpartition(":")[2])
        self.scheme = address.partition(":")[0]

    def at(self, host: str) -> str:
        return f"{self.scheme}://{host}:{self.port}"

    def link(self, *options: str) -> str:
        return str(self.json("dashboard", *options)["url"])

    def gate_pid(self) -> int:
        """The process of the newest gate."""
        events = self.ask("events", limit=1000)["events"]
        begun = [one for one in events if one["kind"] == "process:started"]
        return int([one for one in begun if one["service"] == "holdfast.gate"][-1]["data"]["pid"])

    def refusals(self) -> list[dict[str, Any]]:
        records = self.ask("audit", limit=1000)["records"]
        return [one for one in records if one["role"] == "stranger"]


@pytest.fixture(scope="module")
def hold() -> Iterator[BrowsedHold]:
    with BrowsedHold() as made:
        yield made


class Visitor:
    """A person with a browser, logged in; their pages are watched."""

    def __init__(self, context: BrowserContext, hold: BrowsedHold) -> None:
        self.context = context
        self.hold = hold
        self.faults: list[str] = []
        self._allowed: list[re.Pattern[str]] = []
        context.on("page", self._watch)

    def log_in(self, *options: str) -> Page:
        """Open the link of `holdfast dashboard`, as a person would; returns the overview."""
        page = self.context.new_page()
        page.goto(self.hold.link(*options))
        page.wait_for_selector("[data-page=overview]")
        return page

    def open(self, path: str) -> Page:
        """Open an address below the dashboard in a new tab."""
        page = self.context.new_page()
        page.goto(self.url(path))
        return page

    def url(self, path: str) -> str:
        return f"{self.hold.at('holdfast.localhost')}/dashboard/{path}"

    def allow(self, pattern: str) -> None:
        """From now on, faults that match are no faults."""
        self._allowed.append(re.compile(pattern))

    def check(self) -> None:
        found = [one for one in self.faults if not any(it.search(one) for it in self._allowed)]
        assert found == []

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", self._on_console)
        page.on("request", self._on_request)
        page.on("requestfailed", self._on_failed)

    def _on_console(self, message: Any) -> None:
        is_late = any(words in message.text for words in LATE)
        if message.type in ("error", "warning") and not is_late:
            self.faults.append(f"console: {message.text}")

    def _on_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("http", "https", "ws", "wss") and url.hostname not in (
            "holdfast.localhost",
            "127.0.0.1",
        ):
            self.faults.append(f"another host: {request.url}")

    def _on_failed(self, request: Request) -> None:
        # A page that is left gives up what it asked for.
        if request.failure != "net::ERR_ABORTED":
            self.faults.append(f"failed: {request.url}: {request.failure}")


@pytest.fixture
def visitor(context: BrowserContext, hold: BrowsedHold) -> Iterator[Visitor]:
    """A person who is not logged in yet."""
    made = Visitor(context, hold)
    yield made
    made.check()


@pytest.fixture
def visit(visitor: Visitor) -> Callable[..., Page]:
    """Log a person in and open a place of the dashboard: `visit("services/web")`, with the
    options of `holdfast dashboard` behind it."""

    def go(path: str = "", *options: str) -> Page:
        page = visitor.log_in(*options)
        if path:
            page.goto(visitor.url(path))
        return page

    return go


AXE_RUN = """async () => {
    const answer = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa",
                                                     "wcag22aa"]});
    return answer.violations.map((one) => `${one.id}: ${one.help}: `
        + one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join("; "));
}"""


def accessibility_faults(page: Page) -> list[str]:
    """What WCAG 2.2 AA forbids of what this page shows now."""
    if not AXE.is_file():
        done = subprocess.run(
            [sys.executable, "scripts/page.py", "packages"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    if not page.evaluate("() => 'axe' in window"):
        # As a debugger does it: the page's policy admits no script of ours.
        client = page.context.new_cdp_session(page)
        client.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
        client.detach()
    found: list[str] = page.evaluate(AXE_RUN)
    return found


PREFER = """async (values) => (await fetch("/api/preferences", {
    method: "POST",
    headers: {"Content-Type": "application/json",
              "X-Holdfast-Page": localStorage.getItem("holdfast-page")},
    body: JSON.stringify({values}),
})).status"""


def set_theme(page: Page, theme: str) -> None:
    """Show the page in this theme from now on."""
    assert page.evaluate(PREFER, {"theme": theme}) == 200
    page.evaluate(f"localStorage.setItem('holdfast-theme', {json.dumps(theme)})")
    page.reload()


def sideways(page: Page) -> int:
    """How many pixels the page is wider than the window."""
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return int(wide)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of another site, with a page that has nothing on it."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>another site</title>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
