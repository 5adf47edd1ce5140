"""A real browser logs in by the link of `holdfast dashboard`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.conftest import BrowsedHold

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

STOP = """async () => (await fetch("/api/services/stop", {
    method: "POST",
    headers: {"Content-Type": "application/json",
              "X-Holdfast-Page": localStorage.getItem("holdfast-page")},
    body: JSON.stringify({services: ["web"]}),
})).status"""
STATUS = """async () => (await fetch("/api/status")).status"""
SOCKET = """() => new Promise((resolve) => {
    const page = localStorage.getItem("holdfast-page");
    const url = location.origin.replace("http", "ws") + "/ws";
    const socket = new WebSocket(url, ["holdfast", `holdfast.page.${page}`]);
    socket.onopen = () => socket.send(JSON.stringify({event: "command", id: 1,
        data: {command: "status"}}));
    socket.onmessage = (message) => resolve(message.data);
    socket.onclose = () => resolve("closed");
})"""


def test_in_once_and_out(context: BrowserContext, hold: BrowsedHold) -> None:
    """The link works once, and leaves no secret in the address; logging out ends it."""
    errors: list[str] = []
    requests: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    link = hold.link()
    page.goto(link)
    page.wait_for_selector("[data-page=overview][data-state=shown]")
    base, _, secret = link.partition("/login#")
    assert page.url == f"{base}/dashboard/"
    assert "admin" in str(page.text_content(".top"))
    page.wait_for_selector("[aria-label='web: running']")
    assert page.evaluate("history.length") <= 2
    assert not any(secret in url for url in requests if "#" not in url)
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert (cookie["secure"], cookie["domain"]) == (False, "holdfast.localhost")
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate(STATUS) == 200
    assert page.evaluate(SOCKET) != "closed"
    page.click("text=admin")
    page.click("role=menuitem[name='Log out']")
    page.wait_for_selector("[data-state=nobody]")
    assert context.cookies() == []
    assert page.evaluate(STATUS) == 401
    assert hold.service("web")["status"] == "running"
    again = context.new_page()
    again.goto(link)
    again.wait_for_selector("[data-state=refused]")
    assert context.cookies() == []
    assert errors == []


def test_what_a_role_may_not_the_page_may_not(context: BrowserContext, hold: BrowsedHold) -> None:
    """A viewer's browser looks; an operator's stops."""
    page = context.new_page()
    page.goto(hold.link("--role", "viewer"))
    page.wait_for_selector("[data-page=overview][data-state=shown]")
    assert page.evaluate(STOP) == 403
    page.goto("about:blank")
    page.goto(hold.link("--role", "operator"))
    page.wait_for_selector("[data-page=overview][data-state=shown]")
    assert page.evaluate(STOP) == 200
    hold.cli("start", "web")


def test_over_https(context: BrowserContext) -> None:
    """With the certificate that the gate made itself, the cookie goes over TLS only."""
    with BrowsedHold(tls="self") as hold:
        page = context.new_page()
        page.goto(hold.link())
        page.wait_for_selector("[data-page=overview][data-state=shown]")
        (cookie,) = context.cookies()
        assert cookie["name"] == f"__Host-holdfast_{hold.port}"
        assert cookie["secure"] is True
        assert page.url.startswith("https://holdfast.localhost:")
