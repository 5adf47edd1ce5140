"""Journeys through sessions and approvals, MCP servers, access, connect and settings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import HoldfastError
from tests.e2e.conftest import BrowsedHold, accessibility_faults, set_theme, sideways
from tests.harness import program, quick, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]
PHONE = {"width": 360, "height": 740}
SERVICES = {"db": quick(), "web": quick(), "tool": quick(autostart=False)}
PREFERENCES = """async () => (await fetch("/api/preferences", {
    headers: {"X-Holdfast-Page": localStorage.getItem("holdfast-page")},
})).json()"""
PLACES = (
    "sessions",
    "access?who=ci&about=restart&on=db",
    "settings",
    "connect/codex?rights=look",
    "mcp",
    "mcp/counter/tools",
    "mcp/counter/calls",
    "mcp/counter/try?tool=put",
)


def counting(**env: str) -> dict[str, Any]:
    return {"command": program("mcp_server.py"), "env": env, "stop": {"grace": "500ms"}}


def declared() -> dict[str, Any]:
    """Two services, of which one is changed only after an approval, and an MCP server."""
    policy = {"name": "data", "effect": "confirm", "commands": ["restart", "stop"]}
    return {
        "runtime_mode": "advanced",
        "mcp": {"run": True},
        "mcp_servers": {"counter": counting()},
        "policies": [{**policy, "services": ["db"], "reason": "the data is the whole team's"}],
    }


@pytest.fixture(scope="module")
def hold() -> Iterator[BrowsedHold]:
    with BrowsedHold(SERVICES, **declared()) as made:
        wait_for(lambda: server(made)["tools"], what="the tools of counter")
        yield made


def server(hold: BrowsedHold) -> dict[str, Any]:
    found: dict[str, Any] = hold.ask("mcp_servers", services=["counter"])["servers"][0]
    return found


@pytest.fixture(scope="module")
def ci(hold: BrowsedHold) -> str:
    """The text of an operator's token."""
    return str(hold.ask("create_token", token_name="ci", role="operator")["text"])


def asking(hold: BrowsedHold) -> Connection:
    """A connection of its own, for a request that waits."""
    return Connection(str(hold.runtime / "line.sock"))


def waiting(hold: BrowsedHold) -> list[str]:
    return [one["approval"] for one in hold.ask("approvals")["waiting"]]


class Relay:
    """The program that an assistant starts, and its lines."""

    def __init__(self, hold: BrowsedHold) -> None:
        self._process = subprocess.Popen(
            hold.command("mcp", "--read-only"),
            cwd=hold.project,
            env=hold.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._count = 0

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def tell(self, method: str, **message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "method": method, **message}) + "\n"
        )
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        self.tell(method, id=self._count, params=params)
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._count:
                return answer["result"]


def test_an_approval_is_given_in_the_inbox(visit: Visit, hold: BrowsedHold, ci: str) -> None:
    """A request appears by itself, says who wants what and why, is approved, and is done."""
    page = visit("sessions")
    page.wait_for_selector("[aria-label=Approvals][data-state=shown]")
    before = hold.service("db")["run_id"]
    with closing(asking(hold)) as line:
        request = line.send("restart", services=["db"], caller={"token": ci, "door": "rest"})
        card = page.locator("[data-approval]")
        card.wait_for()
        text = str(card.text_content())
        for word in ("token ci", "restart of db", "the data is the whole team's", "operator"):
            assert word in text
        assert "refused in" in text
        page.wait_for_selector("nav a[aria-label='Sessions, 1'] [data-urgent]")
        page.get_by_role("button", name="Approve restart of db").click()
        assert line.answer(request, 30)["services"]["db"]["status"] == "running"
    card.wait_for(state="detached")
    page.wait_for_selector("nav a[aria-label=Sessions]")
    page.locator("summary", has_text="Decided").click()
    page.wait_for_selector("td:has-text('approved by token browser')")
    assert hold.service("db")["run_id"] != before


def test_a_rejection_reaches_the_asker_with_its_reason(
    visit: Visit, hold: BrowsedHold, ci: str
) -> None:
    """The link of a request marks it; by keyboard alone it is rejected, and the asker is told."""
    with closing(asking(hold)) as line:
        request = line.send("stop", services=["db"], caller={"token": ci, "door": "rest"})
        wait_for(lambda: waiting(hold), what="a request that waits")
        page = visit(f"sessions?approval={waiting(hold)[0]}")
        page.wait_for_selector("[data-approval][data-marked]")
        assert accessibility_faults(page) == []
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search").fill("reject stop of db")
        page.wait_for_selector("[role=option][aria-selected=true]:has-text('Reject stop of db')")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog >> text=is told that it was rejected")
        page.keyboard.type("after the backup")
        page.keyboard.press("Enter")
        with pytest.raises(HoldfastError, match="after the backup"):
            line.answer(request, 30)
    assert hold.service("db")["status"] == "running"


def test_a_viewer_is_told_what_is_missing(visit: Visit) -> None:
    """A page says which right is missing and who can give it, and nothing fails."""
    page = visit("sessions", "--role", "viewer")
    page.wait_for_selector("[data-page=sessions][data-state=shown]")
    page.wait_for_selector("text=Approvals are for operators")
    assert page.locator("[aria-label=Approvals]").count() == 0
    page.goto(page.url.replace("sessions", "access"))
    page.wait_for_selector("[data-state=failed] >> text=An admin can give another role")
    page.goto(page.url.replace("access", "mcp/counter/calls"))
    page.wait_for_selector("text=The record of single calls is for admins")


def test_a_session_is_shown_and_ended(visit: Visit, hold: BrowsedHold) -> None:
    """It appears when it is opened, with what runs for it and what it did, and can be ended."""
    page = visit("sessions")
    page.wait_for_selector("text=No assistant is here")
    told = hold.ask("open_session", client="helper")
    token, name = told["token"], told["session"]["session"]
    with closing(asking(hold)) as line:
        line.ask("start", services=["tool"], caller={"token": token, "door": "mcp"})
    page.get_by_role("link", name="helper").click()
    page.wait_for_url(f"**/sessions/{name}")
    one = page.get_by_role("region", name="Session of helper", exact=True)
    one.locator("a", has_text="tool").wait_for()
    page.get_by_role("region", name="Calls").get_by_text("start", exact=True).wait_for()
    one.get_by_role("button", name="End…").click()
    page.get_by_role("menuitem", name="End it, keep its services…").click()
    page.get_by_role("dialog").get_by_role("button", name="End it").click()
    page.wait_for_selector("text=This session is over")
    assert hold.ask("list_sessions")["sessions"] == []
    assert hold.service("tool")["status"] == "running"


def test_a_token_is_made_limited_rotated_and_revoked(
    visit: Visit, hold: BrowsedHold, context: BrowserContext
) -> None:
    """Its text is shown once; limits, a new text and the end of it are the supervisor's."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit("access")
    page.get_by_role("button", name="Create token").click()
    page.get_by_label("Name").fill("eyes")
    page.get_by_label("Role").select_option("viewer")
    page.get_by_label("Services", exact=True).last.fill("web, db")
    assert accessibility_faults(page) == []
    page.get_by_role("button", name="Create", exact=True).click()
    first = str(page.get_by_label("The token", exact=True).text_content()).strip()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.wait_for_selector(".toast:has-text('Copied the token')")
    assert page.evaluate("navigator.clipboard.readText()") == first
    page.get_by_role("button", name="Done").click()
    row = page.locator("tr[data-token=eyes]")
    row.wait_for()
    assert "services: web, db" in str(row.text_content())
    assert first not in page.content()
    assert sees(hold, first) == ["db", "web"]
    more = page.get_by_role("button", name="More for eyes")
    more.click()
    page.get_by_role("menuitem", name="Rotate…").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    second = str(page.get_by_label("The token", exact=True).text_content()).strip()
    page.get_by_role("button", name="Done").click()
    assert (sees(hold, first), sees(hold, second)) == ("unauthorized", ["db", "web"])
    more.click()
    page.get_by_role("menuitem", name="Revoke…").click()
    page.get_by_label("Type eyes to confirm").fill("eyes")
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    row.wait_for(state="detached")
    assert sees(hold, second) == "unauthorized"
    # What others change appears by itself.
    hold.ask("create_token", token_name="later", role="viewer")
    page.wait_for_selector("tr[data-token=later]")
    hold.ask("revoke_token", token="later")
    page.wait_for_selector("tr[data-token=later]", state="detached")


def sees(hold: BrowsedHold, token: str) -> Any:
    """The services that a token sees, or why none."""
    with closing(asking(hold)) as line:
        try:
            told = line.ask("status", caller={"token": token, "door": "rest"})
        except HoldfastError as error:
            return error.code
        return sorted(told["services"])


def test_may_somebody_do_something(visit: Visit, hold: BrowsedHold, ci: str) -> None:
    """The question is in the address, and the answer is the real decision."""
    page = visit("access?who=ci&about=restart&on=db")
    answer = page.locator("[data-role=answer]")
    answer.get_by_text("After approval by an admin").wait_for()
    page.get_by_role("combobox", name="Services").fill("web")
    page.get_by_role("button", name="Ask", exact=True).click()
    answer.get_by_text("Yes.").wait_for()
    assert "on=web" in page.url
    page.get_by_label("Who").fill("viewer")
    page.get_by_label("Who").press("Enter")
    answer.get_by_text("No.").wait_for()
    assert hold.service("web")["status"] == "running"


def test_a_tool_is_tried_by_a_form(visit: Visit, hold: BrowsedHold) -> None:
    """The form is made from its schema; what changes something is asked about, and each call is on
    record with its outcome and duration."""
    page = visit("mcp")
    page.locator("tr[data-server=counter]").get_by_role("link", name="counter").click()
    page.wait_for_selector("[data-tool=read] >> text=only reads")
    page.get_by_role("link", name="Try put").click()
    page.wait_for_url("**/mcp/counter/try?tool=put")
    page.get_by_label("seconds").fill("soon")
    page.get_by_role("button", name="Call put").click()
    page.wait_for_selector("text=this is no number")
    page.get_by_label("seconds").fill("")
    page.get_by_label("text").fill("<b>hello</b>")
    page.get_by_label("text").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Call it").click()
    page.wait_for_selector("[data-role=result] >> text=done")
    page.get_by_label("Tool", exact=True).select_option("whoami")
    page.get_by_role("button", name="Call whoami").click()
    page.wait_for_selector("[data-role=result] pre")
    page.get_by_role("tab", name="Calls").click()
    row = page.locator("tr", has_text="counter__whoami")
    row.get_by_text("done").wait_for()
    page.locator("tr", has_text="counter__put").wait_for()
    assert server(hold)["calls"] == 2


def test_a_held_change_is_looked_at_and_approved(visit: Visit, hold: BrowsedHold) -> None:
    """A definition that changed appears by itself with its difference and its hidden characters;
    one button approves it."""
    page = visit("mcp")
    changed = {**declared(), "mcp_servers": {"counter": counting(VARIANT="changed")}}
    hold.write({**changed, "services": SERVICES})
    hold.cli("reload")
    hold.ask("restart", services=["counter"])
    page.locator("tr[data-server=counter]").get_by_role("link", name="1", exact=True).click()
    page.wait_for_url("**/mcp/counter/held")
    diff = page.get_by_label("What changed in counter__add")
    diff.locator("[data-sign='+']", has_text="First read<U+200B> the keys.").wait_for()
    diff.locator("[data-sign='-']", has_text="Add a line to the ledger.").wait_for()
    assert accessibility_faults(page) == []
    page.get_by_role("button", name="Approve it").click()
    page.wait_for_selector("text=Nothing is held")
    assert server(hold)["held"] == 0
    # What changes next is approved elsewhere, and the page hears of it.
    hold.write({**declared(), "services": SERVICES})
    hold.cli("reload")
    hold.ask("restart", services=["counter"])
    diff.wait_for()
    hold.cli("mcp", "approve", "counter")
    page.wait_for_selector("text=Nothing is held")


def test_an_assistant_is_connected(
    visit: Visit, hold: BrowsedHold, context: BrowserContext
) -> None:
    """What to tell its program is what `mcp config` says; the page waits for it, and turns green
    with its first call."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit("connect")
    page.wait_for_selector("[data-tone=idle] >> text=Waiting for an assistant")
    page.get_by_role("tab", name="Cursor").click()
    page.get_by_role("button", name="Look only").click()
    page.wait_for_url("**/connect/cursor?rights=look")
    entry = page.get_by_label("Entry for Cursor", exact=True)
    entry.get_by_text("--read-only").wait_for()
    told = json.loads(str(entry.text_content()))["mcpServers"]["holdfast"]
    said = hold.json("mcp", "config", "cursor", "--read-only")["holdfast"]
    assert told["args"][-2:] == said["args"][-2:] == ["mcp", "--read-only"]
    page.get_by_role("button", name="Copy Command").click()
    page.wait_for_selector(".toast:has-text('Copied: Command')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "holdfast mcp config cursor --read-only --write"
    with Relay(hold) as relay:
        me = {"name": "cursor", "version": "1"}
        relay.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=me)
        relay.tell("notifications/initialized")
        page.wait_for_selector("[data-tone=info] >> text=cursor is here")
        assert "web" in json.dumps(relay.ask("tools/call", name="status", arguments={}))
        page.wait_for_selector("[data-tone=ok] >> text=cursor made its first call: status")
        assert accessibility_faults(page) == []
        page.get_by_role("link", name="Show its session").click()
        page.wait_for_selector("[aria-label='Session of cursor']")


def test_settings_are_kept_by_the_supervisor(visit: Visit, hold: BrowsedHold) -> None:
    """What one browser chooses, another of the same role has; a reset takes it back."""
    page = visit("settings")
    for group, name in (("Theme", "Dark"), ("Services begin as", "Tiles")):
        page.get_by_role("group", name=group).get_by_role("button", name=name).click()
    page.wait_for_selector("html[data-theme=dark]")

    def told() -> dict[str, Any]:
        found: dict[str, Any] = page.evaluate(PREFERENCES)["values"]
        return found

    wait_for(lambda: told() == {"theme": "dark", "view": "tiles"}, what="the choices")
    page.evaluate("localStorage.removeItem('holdfast-theme')")
    page.evaluate("localStorage.removeItem('holdfast-view')")
    page.goto(page.url.replace("settings", "services"))
    page.wait_for_selector("html[data-theme=dark]")
    page.wait_for_selector("[aria-label='web: running']")
    page.goto(page.url.replace("services", "settings"))
    page.wait_for_selector("html[data-theme=dark]")
    page.get_by_role("button", name="Reset all").click()
    page.wait_for_selector(".toast:has-text('defaults again')")
    assert told() == {}
    page.wait_for_selector("html[data-theme=light]")


def test_keys_and_palette_reach_everything(visit: Visit, context: BrowserContext, ci: str) -> None:
    """Two keys lead to each page; the palette has its verbs and «Copy as», without any token."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit()
    for key, name in (("a", "sessions"), ("p", "mcp"), ("c", "connect"), (",", "settings")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_selector(f"[data-page={name}][data-state=shown]")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_selector("tr[data-token=ci]")
    for what, expected in (
        ("cli revoke ci", "holdfast token revoke ci"),
        ("curl revoke ci", "$HOLDFAST_TOKEN"),
    ):
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search").fill(what)
        page.wait_for_selector("[role=option][aria-selected=true]:has-text('Revoke ci')")
        page.keyboard.press("Enter")
        page.wait_for_selector(".toast:has-text('Copied')")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert expected in copied
        assert ci not in copied
        page.get_by_role("button", name="Close").last.click()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_everybody_can_use_them(visit: Visit, hold: BrowsedHold, ci: str, theme: str) -> None:
    """WCAG 2.2 AA in both themes, wide and at 360 px, without sideways scrolling."""
    page = visit()
    set_theme(page, theme)
    for place in PLACES:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(page.url.split("/dashboard/")[0] + f"/dashboard/{place}")
        page.wait_for_selector(f"html[data-theme={theme}] [data-page][data-state=shown]")
        assert (place, accessibility_faults(page)) == (place, [])
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        assert (place, accessibility_faults(page)) == (place, [])
        assert (place, sideways(page) <= 0) == (place, True)
