"""Journeys through overview, services, one service and metrics, in a real browser."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import (
    BrowsedHold,
    Visitor,
    accessibility_faults,
    set_theme,
    sideways,
)
from tests.harness import kill_9, quick, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]
BROKEN = "echo connecting; echo 'FATAL permission denied on data/idx.lock' >&2; exit 1"
GROUPS = {"front": ["web", "api"]}
SHORT = {"delay": "100ms", "max_delay": "200ms", "max_restarts": 3}
PHONE = {"width": 360, "height": 740}


def declared() -> dict[str, Any]:
    """A small shop, of which one service crashes again and again."""
    loop = {"restart": {"delay": "300ms", "max_delay": "300ms", "max_restarts": "unlimited"}}
    services = {
        "db": quick(tags=["infra"]),
        "api": quick(depends_on=["db"], tags=["shop"]),
        "web": quick(depends_on=["api"], tags=["shop"]),
        "catalog": quick(["sh", "-c", BROKEN], depends_on=["db"], start_seconds=0, **loop),
        "search": quick(depends_on={"catalog": {"condition": "ready"}}),
        "idle": quick(autostart=False),
        "moved": quick(restart={**SHORT, "reset_after": "100ms"}),
        "sick": quick(health_check={"exec": ["sh", "-c", "exit 9"], "interval": "200ms"}),
    }
    return {name: {"autostart": False, **fields} for name, fields in services.items()}


@pytest.fixture(scope="module")
def hold() -> Iterator[BrowsedHold]:
    with BrowsedHold(declared(), groups=GROUPS) as made:
        made.ask("start", services=["db", "api", "web", "catalog", "search"], wait=False)
        made.wait_status("web", "running")
        yield made


def runs_of(hold: BrowsedHold, name: str) -> int:
    return int(hold.ask("runs", service=name, limit=1)["runs"][0]["number"])


def gate_pid(hold: BrowsedHold) -> int:
    """The process of the gate that listens now."""
    found = [
        one["data"]["pid"]
        for one in hold.ask("events", limit=5000)["events"]
        if one["kind"] == "process:started" and one["service"] == "holdfast.gate"
    ]
    return int(found[-1])


def test_the_first_service_turns_green(context: BrowserContext) -> None:
    """An empty project says what to do; a service that is declared then appears and runs; when
    everything is stopped, the page says so instead of a lost connection."""
    with BrowsedHold({}) as hold:
        visitor = Visitor(context, hold)
        page = visitor.log_in()
        page.wait_for_selector("text=No services yet")
        hold.services(web=quick())
        hold.cli("up", "-d")
        page.wait_for_selector("[aria-label='web: running']")
        page.goto(visitor.url("services"))
        page.wait_for_selector("tr[data-key=web] [data-state=running]")
        visitor.allow(r"WebSocket connection|ERR_|failed: ")
        hold.cli("down")
        page.wait_for_selector(".banner:has-text('Holdfast was stopped')")
        visitor.check()


def test_a_crash_loop_is_explained(visit: Visit, hold: BrowsedHold) -> None:
    """Banner and list name it with its cause; the buttons lead to the log and restart it."""
    page = visit()
    page.wait_for_selector(".banner:has-text('catalog keeps crashing')")
    ill = page.locator("[data-service=catalog]")
    ill.get_by_role("link", name="catalog").wait_for()
    assert "exit" in str(ill.text_content())
    ill.get_by_role("button", name="Show error in log: catalog").click()
    page.wait_for_url("**/services/catalog/logs?level=3")
    page.wait_for_selector("text=FATAL permission denied")
    card = page.get_by_role("region", name="Diagnosis")
    card.wait_for()
    assert "FATAL permission denied on data/idx.lock" in str(card.text_content())
    before = runs_of(hold, "catalog")
    page.get_by_role("button", name=re.compile("^Re?start")).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Restart catalog").click()
    wait_for(lambda: runs_of(hold, "catalog") > before, what="another run")


def test_a_failed_dependency_is_seen_in_the_graph(visit: Visit) -> None:
    """What is ill and what waits for it stays bright, the rest dims; edges say what is unmet."""
    page = visit("services?view=graph")
    search = page.locator("[data-node=search]")
    search.wait_for()
    page.wait_for_selector("path[data-unmet]", state="attached")
    page.wait_for_selector("[data-node=db][data-dim]")
    assert search.get_attribute("data-dim") is None
    search.click()
    page.wait_for_selector("text=it needs catalog")
    assert page.locator("[data-node=catalog]").get_attribute("data-lit") is not None
    page.locator("[data-node=web]").press("Enter")
    page.wait_for_selector("[data-page=service][data-service=web]")


def test_filter_group_and_bulk(visit: Visit, hold: BrowsedHold) -> None:
    """Words filter, the address keeps them, and a verb for several asks once and does all."""
    page = visit("services?group=tag")
    page.wait_for_selector("text=shop · 2 services")
    page.get_by_role("searchbox", name="Filter").fill("tag:shop -name:api")
    page.wait_for_selector("tr[data-key=api]", state="detached")
    assert "q=tag" in page.url
    page.reload()
    page.wait_for_selector("tr[data-key=web]")
    assert page.locator("tr[data-key]").count() == 1
    page.get_by_role("searchbox", name="Filter").fill("tag:shop")
    page.get_by_label("Select all").check()
    page.wait_for_selector("text=2 selected")
    before = {name: runs_of(hold, name) for name in ("api", "web")}
    region = page.get_by_role("region", name="Selected services")
    region.get_by_role("button", name="Restart", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Restart 2 services").click()
    page.wait_for_selector(".toast:has-text('2 services restarted')")
    assert all(runs_of(hold, name) > number for name, number in before.items())


def test_a_key_is_about_everything_that_is_selected(visit: Visit, hold: BrowsedHold) -> None:
    """However quickly it follows the choice of the second service, by keys or by mouse."""
    page = visit("services?q=tag:shop")
    page.locator("tr[data-key=api]").focus()
    for key in ("x", "ArrowDown", "x", "r"):
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Restart 2 services").wait_for()
    dialog.get_by_role("button", name="Cancel").click()
    page.keyboard.press("Escape")
    page.wait_for_selector("text=2 selected", state="detached")
    page.get_by_label("Select api").check()
    page.get_by_label("Select web").check()
    before = {name: runs_of(hold, name) for name in ("api", "web")}
    page.keyboard.press("r")
    dialog.get_by_role("button", name="Restart 2 services").click()
    page.wait_for_selector(".toast:has-text('2 services restarted')")
    assert all(runs_of(hold, name) > number for name, number in before.items())


def test_stop_is_done_when_the_supervisor_says_so(visit: Visit, hold: BrowsedHold) -> None:
    """It asks first and names who needs it; the row follows the state; start brings it back."""
    page = visit("services/db")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    assert "api" in str(dialog.text_content())
    dialog.get_by_role("button", name="Cancel").click()
    assert hold.service("db")["status"] == "running"
    page.goto(page.url.replace("/db", "/idle"))
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_selector("[data-role=state] [data-state=running]")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop idle").click()
    page.wait_for_selector("[data-role=state] [data-state=stopped]")
    assert hold.service("idle")["status"] == "stopped"


def test_every_tab_has_an_address(visit: Visit, visitor: Visitor) -> None:
    """Reload shows the same tab; each has its content."""
    page = visit("services/web/history")
    page.get_by_role("region", name="Runs as a table").get_by_text("#1").wait_for()
    page.reload()
    page.wait_for_selector("[role=tab][aria-selected=true]:has-text('History')")
    for tab, text in (
        ("health", "it is running"),
        ("config", "holdfast.json"),
        ("dependencies", "What web needs"),
        ("metrics", "State history on the same axis"),
        ("terminal", "has no terminal of its own"),
    ):
        page.get_by_role("tab", name=tab.capitalize()).click()
        page.wait_for_url(f"**/services/web/{tab}")
        page.wait_for_selector(f"main >> text={text}")


def test_what_changed_since_the_last_good_run(
    visit: Visit, visitor: Visitor, hold: BrowsedHold
) -> None:
    """History shows before and now, each run names what differed, and Config marks the lines."""
    hold.ask("start", services=["moved"])
    wait_for(lambda: hold.ask("explain", service="moved")["explanations"][0]["changes"]["run"])
    hold.ask("stop", services=["moved"])
    page = visit("services/moved/history")
    page.get_by_role("region", name="Runs as a table").get_by_text("#1").wait_for()
    services = declared()
    services["moved"] |= {"command": ["sh", "-c", "exit 3"], "env": {"LEVEL": "7"}}
    hold.write({"services": services, "groups": GROUPS})
    try:
        hold.ask("reload")
        hold.ask("start", services=["moved"], wait=False)
        change = page.get_by_role("region", name="What changed", exact=True)
        change.wait_for()
        for word in ("since the last good run, 1", "sleep 1000", "exit 3", "env.LEVEL"):
            assert word in str(change.text_content())
        assert "command_words" not in str(change.text_content())
        page.locator("[data-run='2']:has-text('command')").wait_for()
        assert accessibility_faults(page) == []
        page.get_by_role("tab", name="Config").click()
        page.wait_for_selector("tr:has-text('command') >> text=since run 1")
        hold.ask("start", services=["sick"], wait=False)
        page.goto(visitor.url("services/sick/health"))
        page.wait_for_selector("[aria-label=Checks] [data-state=failed]")
        page.wait_for_selector("[aria-label='Health history'] >> text=exit code 9")
        assert accessibility_faults(page) == []
    finally:
        hold.ask("stop", services=["moved", "sick"])
        hold.write({"services": declared(), "groups": GROUPS})
        hold.ask("reload")


def test_metrics_of_several_on_one_axis(visit: Visit) -> None:
    """The address chooses services and range; each chart has a summary and a table."""
    page = visit("metrics?s=db,web&range=10m")
    chart = page.get_by_role("img", name=re.compile("^Memory. db: now "))
    chart.wait_for()
    page.wait_for_selector("canvas")
    region = page.get_by_role("region", name="Memory", exact=True)
    region.get_by_role("button", name="Table").click()
    page.get_by_role("region", name="Memory as a table").wait_for()
    page.get_by_role("button", name="Leave out db").click()
    page.wait_for_url("**/metrics?s=web&range=10m")


def test_a_viewer_is_offered_no_verb(visit: Visit, hold: BrowsedHold) -> None:
    """No button acts; the menu says why; the supervisor refuses anyway."""
    page = visit("services", "--role", "viewer")
    page.wait_for_selector("tr[data-key=web] [data-state=running]")
    assert page.get_by_role("button", name="Restart web").count() == 0
    page.get_by_role("button", name="More for web").click()
    item = page.get_by_role("menuitem", name="Restart", exact=False).first
    assert item.get_attribute("aria-disabled") == "true"
    assert "may look" in str(item.get_attribute("title"))
    page.keyboard.press("Escape")
    page.goto(page.url.replace("services", "services/web"))
    page.wait_for_selector("[data-role=state]")
    assert page.get_by_role("button", name="Stop", exact=True).count() == 0
    assert hold.service("web")["status"] == "running"


def test_the_keyboard_is_enough(visit: Visit, hold: BrowsedHold) -> None:
    """Pages, rows, verbs, menu and palette without a mouse."""
    page = visit()
    page.wait_for_selector("[aria-label='web: running']")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_selector("tr[data-key=web]")
    page.keyboard.press("/")
    page.keyboard.type("web")
    page.wait_for_selector("tr[data-key=db]", state="detached")
    page.locator("tr[data-key=web]").focus()
    page.keyboard.press("x")
    page.wait_for_selector("text=1 selected")
    before = runs_of(hold, "web")
    page.keyboard.press("r")
    wait_for(lambda: runs_of(hold, "web") > before, what="another run")
    page.wait_for_selector(".toast:has-text('web restarted')")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-page=service][data-service=web]")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("metrics of web")
    page.wait_for_selector("[role=option][aria-selected=true]:has-text('Metrics of web')")
    page.keyboard.press("Enter")
    page.wait_for_url("**/services/web/metrics")


def test_copies_have_no_token(visit: Visit, context: BrowserContext) -> None:
    """A menu ends with the same deed for the command line, curl, Python and assistants."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit("services")
    for way, begin, expected in (
        ("CLI", "holdfast restart web", "restart web"),
        ("curl", "curl -X POST", "$HOLDFAST_TOKEN"),
        ("Python", "import json", "HOLDFAST_TOKEN"),
        ("MCP call", '{"name":"control"', '"action":"restart"'),
    ):
        page.get_by_role("button", name="More for web").click()
        page.get_by_role("menuitem", name=way, exact=True).click()
        page.locator(".toast", has_text=f"Copied: {begin}").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert expected in copied
        assert "holdfast_" not in copied


REMEMBER_BANNERS = """() => {
    const key = "banners-seen";
    const note = () => {
        const known = new Set(JSON.parse(sessionStorage.getItem(key) ?? "[]"));
        for (const one of document.querySelectorAll(".banner b")) known.add(one.textContent);
        sessionStorage.setItem(key, JSON.stringify([...known]));
    };
    new MutationObserver(note).observe(document.body, {childList: true, subtree: true});
    note();
}"""
BANNERS_SEEN = "JSON.parse(sessionStorage.getItem('banners-seen'))"


def test_the_mode_switch_reloads_the_page(visit: Visit, hold: BrowsedHold) -> None:
    """Proxy mode says what advanced mode adds; the banner tells of the switch, the page comes back
    in the new mode at the same address, and nobody calls it a lost connection."""
    page = visit("security")
    page.wait_for_selector("text=Mode advanced adds to it")
    assert accessibility_faults(page) == []
    page.evaluate(REMEMBER_BANNERS)
    page.get_by_role("button", name="Switch to advanced…").first.click()
    with page.expect_event("load"):
        page.get_by_role("dialog").get_by_role("button", name="Switch to advanced").click()
    page.get_by_role("tab", name="Policies").wait_for()
    page.wait_for_selector(".banner:has-text('The mode is advanced')")
    seen = page.evaluate(BANNERS_SEEN)
    assert "Mode switching…" in seen
    assert "Connection lost" not in seen
    page.goto(page.url.replace("security", "services?view=tiles"))
    page.wait_for_selector("[aria-label='web: running']")
    with page.expect_event("load"):
        hold.ask("set_mode", mode="proxy")
    page.wait_for_selector(".banner:has-text('The mode is proxy')")
    assert page.url.endswith("services?view=tiles")


def test_a_lost_connection_is_no_planned_restart(
    visit: Visit, visitor: Visitor, hold: BrowsedHold
) -> None:
    """Nobody answers and nothing was announced: the page says so with the age of what it shows,
    offers no verb, and comes back by itself."""
    visitor.allow(r"WebSocket connection|ERR_|failed: ")
    page = visit("services/web")
    page.wait_for_selector("[data-role=state] [data-state=running]")
    supervisor, gate = hold.supervisor_pid, gate_pid(hold)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        kill_9(gate)
        banner = page.locator(".banner", has_text="Connection lost")
        banner.wait_for()
        assert re.search(r"What you see is \d+s? .*old", str(banner.text_content()))
        button = page.get_by_role("button", name="Restart", exact=True)
        assert button.get_attribute("title") == "the connection is lost"
        assert accessibility_faults(page) == []
    finally:
        os.kill(supervisor, signal.SIGCONT)
    page.wait_for_selector("[data-link=live]")
    banner.wait_for(state="detached")
    assert button.get_attribute("aria-disabled") is None


def test_nothing_is_done_twice_when_everything_dies(
    visit: Visit, visitor: Visitor, hold: BrowsedHold
) -> None:
    """Gate and supervisor are killed while a verb is under way: the page comes back by itself, and
    the service has one new run."""
    visitor.allow(r"WebSocket connection|ERR_|failed: ")
    page = visit("services/idle")
    page.get_by_role("button", name="Start", exact=True).wait_for()
    before = hold.service("idle")["run"] or 0
    gate = gate_pid(hold)
    supervisor = hold.supervisor_pid
    page.get_by_role("button", name="Start", exact=True).click()
    kill_9(supervisor)
    kill_9(gate)
    page.wait_for_selector("[data-role=state] [data-state=running]")
    page.wait_for_selector("[data-link=live]")
    wait_for(lambda: hold.supervisor_pid != supervisor, what="a new supervisor")
    page.wait_for_selector("[data-role=state] [data-state=running]")
    assert hold.service("idle")["run"] == before + 1
    hold.ask("stop", services=["idle"])
    page.wait_for_selector("[data-role=state] [data-state=stopped]")


PLACES = (
    "", "services", "services?view=tiles", "services?view=graph", "services?group=tag",
    "services/catalog", "services/catalog/history", "services/web/health", "services/web/config",
    "services/web/dependencies", "services/web/metrics", "services/web/terminal",
    "metrics?s=web,db",
)  # fmt: skip


@pytest.mark.parametrize(("theme", "is_phone"), [("dark", False), ("light", False), ("dark", True)])
def test_everybody_can_use_it(visit: Visit, visitor: Visitor, theme: str, is_phone: bool) -> None:
    """WCAG 2.2 AA in both themes; at 360 px nothing scrolls sideways."""
    page = visit()
    if is_phone:
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    set_theme(page, theme)
    for path in PLACES:
        page.goto(visitor.url(path))
        page.wait_for_selector("[data-page][data-state=shown]")
        assert accessibility_faults(page) == [], path
        if is_phone:
            assert sideways(page) <= 0, path


def test_a_thousand_services(context: BrowserContext) -> None:
    """Table, tiles and graph stay usable: few rows exist, every tile does, edges are drawn."""
    services = {
        f"s{number:04}": {
            "command": ["false" if number == 5 else "sleep", "1000"],
            "autostart": False,
            "start_retries": 0,
            **({"depends_on": [f"s{number // 8:04}"]} if number else {}),
        }
        for number in range(1000)
    }
    with BrowsedHold(services) as hold:
        hold.ask("start", services=["s0005"], wait=False)
        visitor = Visitor(context, hold)
        page = visitor.log_in()
        hold.wait_status("s0005", "failed")
        page.goto(visitor.url("services"))
        page.wait_for_selector("tr[data-key=s0000]")
        assert page.locator("tr[data-key]").count() < 80
        page.get_by_role("searchbox", name="Filter").fill("state:failed")
        page.wait_for_selector("tr[data-key=s0005]")
        assert page.locator("tr[data-key]").count() == 1
        page.goto(visitor.url("services?view=tiles"))
        page.wait_for_selector("[aria-label='s0005: failed']")
        assert page.locator(".tile").count() == 1000
        page.goto(visitor.url("services?view=graph"))
        page.wait_for_selector("[data-node=s0005][data-tone=bad]", state="attached")
        assert page.locator("[data-node]").count() == 1000
        assert page.locator(".edges path").count() == 999
        visitor.check()
