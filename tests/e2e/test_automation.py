"""Workflows, schedules, audit and security, in a browser, against one Holdfast in mode advanced."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import HoldfastError, Refused
from tests.e2e.conftest import BrowsedHold, Visitor, accessibility_faults, set_theme
from tests.harness import quick, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]
HOSTILE = "hello from greet\\n<img src=x>\\n\\033[31mred\\033[0m\\342\\200\\256gnp.exe\\n"
PHONE = {"width": 360, "height": 740}


def gated(gate: Path) -> str:
    """A command that prints, waits until a pipe is written to, and prints again."""
    return f"echo building; read line < {gate}; echo built $line"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipe that holds a workflow until somebody writes into it."""
    path = tmp_path_factory.mktemp("gate") / "pipe"
    os.mkfifo(path)
    path.chmod(0o666)
    path.parent.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def hold(gate: Path) -> Iterator[BrowsedHold]:
    services = {
        "db": quick(),
        "web": quick(depends_on=["db"]),
        "tick": quick(["true"], schedule={"every": "1h"}, start_seconds=0),
        "night": quick(["true"], schedule="30 3 * * *", start_seconds=0),
    }
    wait = {"command": "sh", "args": ["-c", gated(gate)]}
    settings = {
        "runtime_mode": "advanced",
        "commands": {
            "build": wait,
            "greet": {"command": "printf", "args": [HOSTILE]},
            "bad": "false",
        },
        "workflows": {
            "release": {
                "description": "Build, then restart",
                "steps": [{"command": "build"}, {"restart": "web"}],
            },
            "broken": {"steps": [{"command": "greet"}, {"command": "bad"}, {"restart": "web"}]},
        },
        "policies": [
            {
                "name": "frozen",
                "effect": "deny",
                "commands": ["pause"],
                "services": ["db"],
                "reason": "the database is frozen",
                "times": "Mon-Sun 00:00-24:00",
            },
            {"name": "second", "effect": "confirm", "roles": ["agent"], "commands": ["restart"]},
        ],
        "security": {"filters": {"max_length": 5000, "forbid": ["*rm -rf*"]}},
    }
    with BrowsedHold(services, **settings) as made:
        made.wait_status("web", "running")
        yield made


def runs_of(hold: BrowsedHold, name: str) -> int:
    return int(hold.ask("runs", service=name, limit=1)["runs"][0]["number"])


def let_through(gate: Path, text: str) -> None:
    """Write into the pipe once somebody reads it."""

    def write() -> bool:
        try:
            pipe = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        os.write(pipe, f"{text}\n".encode())
        os.close(pipe)
        return True

    wait_for(write, what="a reader of the pipe")


def begin_release(page: Page) -> None:
    page.get_by_role("button", name="Run release").click()
    page.get_by_role("dialog").get_by_role("button", name="Run release").click()
    page.wait_for_selector("[data-step='1'][data-outcome=begun]")


def test_a_workflow_shows_its_steps_as_they_go(
    visit: Visit, visitor: Visitor, hold: BrowsedHold, gate: Path
) -> None:
    """Output appears while the step runs; another page sees the same steps; the address keeps."""
    page = visit("workflows")
    before = runs_of(hold, "web")
    begin_release(page)
    page.wait_for_selector("[data-step='1'] .printed:has-text('building')")
    assert page.locator("[data-step='2']").get_attribute("data-outcome") == "waiting"
    assert "restart web" in str(page.locator("[data-step='2']").text_content())
    other = visitor.open("workflows")
    other.wait_for_selector("[data-run] [data-state=running]")
    assert other.get_by_role("button", name="Run release").get_attribute("aria-disabled") == "true"
    let_through(gate, "number 7")
    page.wait_for_selector("[data-step='1'] .printed:has-text('built number 7')")
    page.wait_for_selector("[data-role=outcome] [data-state=done]")
    other.wait_for_selector("[data-run] [data-state=done]")
    assert runs_of(hold, "web") == before + 1
    page.reload()
    page.wait_for_selector("[data-step='2'][data-outcome=done]")
    assert accessibility_faults(page) == []


def test_a_failed_workflow_says_where(visit: Visit, context: BrowserContext) -> None:
    """By keys alone, from the palette: which step failed, why, and what was not done. Markup and
    control sequences in its output do nothing."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit()
    page.keyboard.type("gw")
    page.wait_for_selector("[data-workflow=broken]")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("run workflow broken")
    page.wait_for_selector("[role=option][aria-selected=true]:has-text('Run workflow broken')")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Run broken").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-role=outcome] [data-state=failed]")
    page.wait_for_selector("[data-step='1'] .printed:has-text('hello from greet')")
    printed = str(page.locator("[data-step='1'] .printed").text_content())
    assert "<img src=x>\nred\u27e8U+202E\u27e9gnp.exe" in printed
    assert "exit code 1" in str(page.locator("[data-step='2']").text_content())
    page.wait_for_selector("[data-step='3'][data-outcome=skipped]")
    page.get_by_role("button", name="Copy as").click()
    page.get_by_role("menuitem", name="CLI", exact=True).click()
    page.locator(".toast", has_text="Copied: holdfast workflow run broken").wait_for()


def test_a_workflow_can_be_cancelled(visit: Visit, hold: BrowsedHold) -> None:
    """It asks first; the command ends, no further step begins."""
    page = visit("workflows")
    before = runs_of(hold, "web")
    begin_release(page)
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel workflow release").click()
    page.wait_for_selector("[data-role=outcome] [data-state=cancelled]")
    assert runs_of(hold, "web") == before
    assert hold.ask("workflows")["under_way"] == []


def test_pages_go_on_with_the_next_supervisor(
    visit: Visit, visitor: Visitor, hold: BrowsedHold
) -> None:
    """The supervisor is killed in the middle of a step: the run says so and is not begun again, and
    the audit goes on being live."""
    audit = visit("audit?q=command:pause")
    audit.wait_for_selector("[data-page=audit][data-state=shown]")
    shown = audit.locator("tr[data-key]").count()
    page = visitor.open("workflows")
    begin_release(page)
    before = runs_of(hold, "web")
    hold.kill_supervisor()
    page.wait_for_selector("[data-role=outcome]:has-text('interrupted')")
    page.wait_for_selector("[data-step='2'][data-outcome=skipped]")
    page.get_by_role("button", name="Run again…").wait_for()
    assert (hold.ask("workflows")["under_way"], runs_of(hold, "web")) == ([], before)
    with pytest.raises(Refused):
        hold.ask("pause", services=["db"])
    wait_for(lambda: audit.locator("tr[data-key]").count() > shown, what="another record")


def test_a_restart_with_commands_around_it(visit: Visit, hold: BrowsedHold) -> None:
    """The form makes the request; each command is a step with its output; arguments hold."""
    page = visit("services/web")
    before = runs_of(hold, "web")
    page.get_by_role("button", name="More for web").click()
    page.get_by_role("menuitem", name="Custom restart…").click()
    page.wait_for_url("**/workflows/custom-restart/web")
    page.wait_for_selector("[data-page=workflows][data-state=shown]")
    assert page.get_by_role("combobox", name="Service").input_value() == "web"
    page.get_by_label("Before it").fill("greet")
    page.get_by_label("Variables for the next run").fill("COLOUR=teal")
    assert accessibility_faults(page) == []
    page.get_by_role("button", name="Restart…").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart web").click()
    page.wait_for_selector("[data-role=outcome] [data-state=done]")
    page.wait_for_selector("[data-step='1'] .printed:has-text('hello from greet')")
    assert "restart web" in str(page.locator("[data-step='2']").text_content())
    assert runs_of(hold, "web") == before + 1
    assert "COLOUR" in json.dumps(hold.service("web")["overrides"])


def test_schedules_say_when(visit: Visit, hold: BrowsedHold) -> None:
    """The next time, the schedule and where it ended; run now, suspend, and take up again."""
    page = visit("schedules")
    row = page.locator("[data-schedule=tick]")
    row.wait_for()
    page.wait_for_selector("[data-schedule=tick]:has-text('every 1h')")
    page.wait_for_selector("[data-schedule=night]:has-text('30 3 * * *')")
    assert "in 59m" in str(row.text_content()) or "in 1h" in str(row.text_content())
    row.get_by_role("button", name="Run now: tick").click()
    page.wait_for_selector("[data-schedule=tick]:has-text('exit code 0')")
    row.get_by_role("button", name="More for tick").click()
    page.get_by_role("menuitem", name="Suspend…").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop tick").click()
    page.wait_for_selector("[data-schedule=tick]:not([data-armed]):has-text('suspended')")
    row.get_by_role("button", name="Run now: tick").click()
    page.wait_for_selector("[data-schedule=tick][data-armed]")


def test_the_audit_is_live_filtered_and_exported(
    visit: Visit, visitor: Visitor, hold: BrowsedHold
) -> None:
    """A record appears by itself; words filter, the address keeps them; the export is the chain."""
    page = visit("audit")
    page.wait_for_selector("[data-page=audit][data-state=shown]")
    with pytest.raises(Refused):
        hold.ask("pause", services=["db"])
    page.wait_for_selector("tr:has-text('pause') >> text=refused")
    page.get_by_role("searchbox", name="Filter").fill("command:pause")
    rows = page.locator("tr[data-key]")
    others = rows.filter(has_not_text="pause")
    wait_for(lambda: rows.count() > 0 and others.count() == 0, what="records of pauses alone")
    page.reload()
    row = rows.first
    row.wait_for()
    row.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("the database is frozen").wait_for()
    assert accessibility_faults(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("searchbox", name="Filter").fill("")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="As JSON lines, with the chain").click()
    lines = download.value.path().read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [one["prev"] for one in records[1:]] == [one["hash"] for one in records[:-1]]
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="As CSV").click()
    assert download.value.path().read_text().startswith("seq,time,actor")


def test_a_request_that_was_denied_is_on_record(
    visit: Visit, visitor: Visitor, hold: BrowsedHold
) -> None:
    """An assistant asks, a person denies with a reason, the reason arrives, and the audit has who
    asked, who decided, and how it ended."""
    bot = hold.ask("create_token", token_name="bot", role="agent", commands=["restart"])["text"]
    before = runs_of(hold, "web")
    page = visit("sessions")
    with closing(Connection(str(hold.runtime / "line.sock"))) as line:
        request = line.send("restart", services=["web"], caller={"token": bot, "door": "rest"})
        page.get_by_role("button", name="Reject restart of web").click()
        page.wait_for_selector("dialog >> text=is told that it was rejected")
        page.keyboard.type("not before lunch")
        page.keyboard.press("Enter")
        with pytest.raises(HoldfastError, match="not before lunch"):
            line.answer(request, 30)
    page.goto(visitor.url("audit?q=lunch"))
    page.wait_for_selector("tr:has-text('token bot'):has-text('restart') >> text=refused")
    page.wait_for_selector("tr:has-text('token browser'):has-text('reject')")
    assert runs_of(hold, "web") == before


def test_an_altered_record_is_found(visit: Visit, hold: BrowsedHold) -> None:
    """The chain is whole; with one word of one record changed, the page says which is not."""
    page = visit("audit")
    page.get_by_role("button", name="Verify the chain").click()
    page.wait_for_selector(".chip.is-ok:has-text('whole')")
    (path,) = [
        one for one in hold.state.rglob("audit*") if one.is_file() and one.stat().st_size > 500
    ]
    content = path.read_bytes()
    try:
        path.write_bytes(content.replace(b'"outcome":"ok"', b'"outcome":"no"', 1))
        page.get_by_role("button", name="Verify the chain").click()
        page.wait_for_selector(".chip.is-bad:has-text('not whole')")
        assert accessibility_faults(page) == []
    finally:
        grown = path.read_bytes()[len(content) :]
        path.write_bytes(content + grown)
    page.get_by_role("button", name="Verify the chain").click()
    page.wait_for_selector(".chip.is-ok:has-text('whole')")


def test_lockdown_and_unlock(visit: Visit, visitor: Visitor, hold: BrowsedHold) -> None:
    """One big button, a reason and a typed word; every page says so; verbs are refused; unlock."""
    page = visit("security")
    button = page.get_by_role("button", name="Lock down…")
    button.wait_for()
    assert button.get_attribute("aria-disabled") == "true"
    page.get_by_label("Reason").fill("a token leaked")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type lockdown to confirm").fill("lockdown")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-locked]:has-text('a token leaked')")
    assert hold.ask("policies")["lockdown"]["reason"] == "a token leaked"
    assert accessibility_faults(page) == []
    other = visitor.open("services/web")
    other.wait_for_selector(".banner:has-text('a token leaked')")
    before = runs_of(hold, "web")
    other.get_by_role("button", name="Restart", exact=True).click()
    other.wait_for_selector(".toast[data-kind=bad]:has-text('lockdown')")
    assert runs_of(hold, "web") == before
    page.get_by_role("button", name="Unlock…").click()
    page.get_by_role("dialog").get_by_role("button", name="Unlock").click()
    page.wait_for_selector("text=Stop every change, now")
    other.wait_for_selector(".banner:has-text('a token leaked')", state="detached")
    page.get_by_role("tab", name="Refusals").click()
    page.wait_for_selector("[aria-label='Refusals as a table'] >> text=lockdown")


def test_policies_and_filters_are_shown(visit: Visit) -> None:
    """In the order in which they decide, in words; each tab has an address."""
    page = visit("security/policies")
    row = page.locator("[data-policy=frozen]")
    row.wait_for()
    for word in ("denies", "pause", "db", "the database is frozen", "00:00–24:00"):
        assert word in str(row.text_content())
    assert "asks for approval" in str(page.locator("[data-policy=second]").text_content())
    page.get_by_role("tab", name="Filters").click()
    page.wait_for_url("**/security/filters")
    page.wait_for_selector("text=*rm -rf*")
    page.wait_for_selector("text=5,000 characters")


def test_who_may_only_look(visit: Visit, visitor: Visitor) -> None:
    """A viewer sees what there is, is offered nothing, and is told who may."""
    page = visit("workflows", "--role", "viewer")
    button = page.get_by_role("button", name="Run release")
    button.wait_for()
    assert button.get_attribute("aria-disabled") == "true"
    page.goto(visitor.url("audit"))
    page.wait_for_selector("text=It takes an admin")
    page.goto(visitor.url("schedules"))
    page.wait_for_selector("[data-schedule=tick]")
    assert page.get_by_role("button", name="Run now: tick").count() == 0
    page.goto(visitor.url("security"))
    page.get_by_role("button", name="Lock down…").wait_for()
    assert (
        page.get_by_role("button", name="Lock down…").get_attribute("title") == "it takes an admin"
    )


PLACES = (
    "workflows", "workflows/custom-restart", "schedules", "audit", "security",
    "security/policies", "security/filters", "security/refusals",
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
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, path
