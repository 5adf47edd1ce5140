"""Pages of other sites in a real browser: refused, nothing changed, on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import OTHER_SITE, BrowsedHold
from tests.harness import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

FORM = """(url) => {
    const form = document.createElement("form");
    form.method = "POST";
    form.action = url;
    form.enctype = "text/plain";
    const field = document.createElement("input");
    field.name = '{"services": ["web"], "x": "';
    field.value = '"}';
    form.append(field);
    document.body.append(form);
    form.submit();
}"""
FETCH = """async ([url, credentials, mode]) => {
    try {
        const answer = await fetch(url, {method: "POST", credentials, mode, body: "{}"});
        return `${answer.type} ${answer.status}`;
    } catch (error) {
        return "failed";
    }
}"""
READ = """async ([url, credentials]) => {
    try {
        return await (await fetch(url, {credentials})).text();
    } catch (error) {
        return "failed";
    }
}"""
SOCKET = """(url) => new Promise((resolve) => {
    const socket = new WebSocket(url, ["holdfast"]);
    socket.onopen = () => resolve("open");
    socket.onclose = () => resolve("closed");
})"""


@pytest.fixture
def logged_in(context: BrowserContext, hold: BrowsedHold) -> BrowserContext:
    """Somebody is logged in, with this very browser."""
    page = context.new_page()
    page.goto(hold.link())
    page.wait_for_selector("[data-page=overview][data-state=shown]")
    page.close()
    return context


def page_at(context: BrowserContext, host: str, port: int) -> Page:
    page = context.new_page()
    page.goto(f"http://{host}:{port}/")
    return page


def is_untouched(hold: BrowsedHold, pid: int) -> bool:
    service = hold.service("web")
    return bool(service["status"] == "running" and service["pid"] == pid)


@pytest.mark.parametrize("host", [OTHER_SITE, "holdfast.localhost", "127.0.0.1"])
def test_another_page_changes_nothing(
    logged_in: BrowserContext, hold: BrowsedHold, elsewhere: int, host: str
) -> None:
    """A form, a fetch with and without the cookie, a socket: by another site, and by another
    port of the same host, to which the browser shows the same cookie."""
    pid, seen = hold.service("web")["pid"], len(hold.refusals())
    target = hold.at(host if host != OTHER_SITE else "holdfast.localhost")
    page = page_at(logged_in, host, elsewhere)
    for credentials, mode in (("include", "cors"), ("include", "no-cors"), ("omit", "cors")):
        told = page.evaluate(FETCH, [f"{target}/api/services/stop", credentials, mode])
        assert told in ("failed", "opaque 0")
        assert page.evaluate(READ, [f"{target}/api/status", credentials]) == "failed"
    assert page.evaluate(SOCKET, target.replace("http:", "ws:") + "/ws") == "closed"
    with page.expect_navigation():
        page.evaluate(FORM, f"{target}/api/services/stop")
    assert "may not use this Holdfast" in page.content()
    assert is_untouched(hold, pid)
    by = f"a page of http://{host}:{elsewhere}"
    found = wait_for(lambda: (new := hold.refusals()[seen:]) and len(new) >= 3 and new)
    assert {one["actor"] for one in found} == {by}
    assert {one["decision"] for one in found} == {"refused"}
    wait_for(lambda: any(one["door"] == "websocket" for one in hold.refusals()[seen:]))
    assert any(one["command"] == "POST /api/services/stop" for one in hold.refusals()[seen:])


def test_a_name_that_was_rebound(context: BrowserContext, hold: BrowsedHold) -> None:
    """Of another site, it now means this machine: the same origin to a browser, and refused."""
    pid, seen = hold.service("web")["pid"], len(hold.refusals())
    page = context.new_page()
    answer = page.goto(f"http://{OTHER_SITE}:{hold.port}/dashboard")
    assert answer is not None
    assert answer.status == 403
    told = page.evaluate(READ, ["/api/status", "include"])
    assert "is not a name of this Holdfast" in told
    assert is_untouched(hold, pid)
    wait_for(lambda: len(hold.refusals()) >= seen + 2)
    assert f'"{OTHER_SITE}:{hold.port}"' in hold.refusals()[-1]["reason"]
