"""Journeys through the page of AI agents, with a scripted agent as a real process."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import BrowsedHold, Visitor, accessibility_faults, set_theme, sideways
from tests.harness import program, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

Visit = Callable[..., "Page"]
PHONE = {"width": 360, "height": 740}
HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>"


@pytest.fixture(scope="module")
def hold() -> Iterator[BrowsedHold]:
    claude = {"kind": "claude", "command": program("fake_claude.py"), "mcp": False}
    out = {**claude, "env": {"FAKE_LOGGED_OUT": "1"}}
    missing = {**claude, "command": "no-such-program-here"}
    with BrowsedHold({}, backends={"claude": claude, "out": out, "missing": missing}) as made:
        yield made


@pytest.fixture
def agent(hold: BrowsedHold) -> Iterator[str]:
    """The id of a session of its own that is ready."""
    session = str(hold.ask("start_or_attach", backend="claude", new=True)["agent"]["session"])
    await_condition(hold, session, "ready")
    yield session
    hold.ask("stop_agent", session=session)
    hold.ask("forget_agent", session=session)


def await_condition(hold: BrowsedHold, session: str, wanted: str) -> None:
    def condition() -> str:
        agents = hold.ask("list_agents")["agents"]
        return next(str(one["condition"]) for one in agents if one["session"] == session)

    wait_for(lambda: condition() == wanted, what=f"{session} to be {wanted}")


def send(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Prompt for").fill(text)
    page.keyboard.press("Enter")


def test_a_session_is_begun_by_keyboard_alone(visit: Visit, hold: BrowsedHold) -> None:
    """The palette starts it, a prompt is answered, and it is stopped and resumed in the same
    conversation."""
    page = visit()
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_selector("[data-backend=claude]")
    palette(page, "start a session with claude")
    page.wait_for_selector("dialog >> text=Start a session with claude")
    page.keyboard.press("Enter")
    page.wait_for_url("**/agents/session-*")
    session = page.url.rpartition("/")[2]
    page.get_by_role("textbox", name="Prompt for").focus()
    page.keyboard.type("say good morning")
    page.keyboard.press("Enter")
    talk = page.get_by_role("log", name="Conversation")
    talk.get_by_text("good morning", exact=True).wait_for()
    palette(page, "stop claude")
    page.wait_for_selector("dialog >> text=can be resumed")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-state=stopped] >> text=Stopped")
    palette(page, "resume claude")
    page.wait_for_selector("[data-state=running] >> text=Running")
    send(page, "history")
    talk.get_by_text("say good morning | history").wait_for()
    hold.ask("stop_agent", session=session)
    hold.ask("forget_agent", session=session)
    page.wait_for_selector("[data-state=missing]")


def palette(page: Page, what: str) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill(what)
    page.wait_for_selector("[role=option][aria-selected=true] >> text=/claude/i")
    page.keyboard.press("Enter")


def test_an_answer_streams_and_is_interrupted(visit: Visit, hold: BrowsedHold, agent: str) -> None:
    """What it says is seen while it works; an interrupt ends the turn, not the session; what looks
    like markup is text."""
    page = visit(f"agents/{agent}")
    talk = page.get_by_role("log", name="Conversation")
    send(page, f"say {HOSTILE}")
    talk.get_by_text(HOSTILE, exact=True).wait_for()
    assert talk.locator("img, b").count() == 0
    send(page, "hang")
    talk.get_by_text("thinking").wait_for()
    page.get_by_role("button", name="Interrupt", exact=True).click()
    talk.get_by_text("The turn is over: interrupted").wait_for()
    await_condition(hold, agent, "ready")


def test_a_permission_is_decided_beside_the_talk(
    visit: Visit, hold: BrowsedHold, agent: str
) -> None:
    """It stands under the conversation with the exact call; the reason of a refusal reaches the
    agent."""
    page = visit(f"agents/{agent}")
    talk = page.get_by_role("log", name="Conversation")
    send(page, 'tool Bash {"command": "rm -r build"}')
    card = page.locator("[data-approval]")
    card.get_by_text("rm -r build").wait_for()
    card.get_by_role("button", name="Reject").click()
    page.get_by_label("Reason").fill("not today")
    page.keyboard.press("Enter")
    talk.get_by_text("refused: not today", exact=True).wait_for()
    card.wait_for(state="detached")
    send(page, 'tool Bash {"command": "ls"}')
    card.get_by_role("button", name="Approve").click()
    talk.get_by_text("it was done", exact=True).wait_for()
    assert talk.locator("details [data-state=done]").count() == 1
    assert talk.locator("details [data-state=failed]").count() == 1


def test_programs_read_the_same_events(hold: BrowsedHold, agent: str) -> None:
    """A stream of server-sent events tells what was said, and goes on with what is said next."""
    token = hold.ask("create_token", token_name="reader", role="viewer")["text"]
    hold.ask("prompt", session=agent, text="say first")
    request = urllib.request.Request(
        hold.at("127.0.0.1") + f"/api/agents/{agent}/transcript",
        headers={"Authorization": f"Bearer {token}", "Accept": "text/event-stream"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        await_line(answer, '"text":"first"')
        hold.ask("prompt", session=agent, text="say second")
        await_line(answer, '"text":"second"')


def await_line(answer: Iterable[bytes], wanted: str) -> None:
    assert any(wanted in line.decode().replace(": ", ":") for line in answer)


def test_output_says_what_went_wrong(visit: Visit, hold: BrowsedHold, agent: str) -> None:
    """After a crash the conversation says so and goes on; the tab Output has diagnosis and log."""
    page = visit(f"agents/{agent}")
    send(page, "die 3")
    talk = page.get_by_role("log", name="Conversation")
    talk.get_by_text("half an ans").wait_for()
    talk.get_by_text("The turn failed").wait_for()
    talk.get_by_text("It runs again").wait_for()
    page.get_by_role("tab", name="Output").click()
    page.wait_for_url(f"**/agents/{agent}/output")
    page.wait_for_selector("summary")
    page.wait_for_selector(".loglist >> text=half an ans")


def test_backends_name_what_helps(
    visit: Visit, visitor: Visitor, hold: BrowsedHold, context: BrowserContext
) -> None:
    """A check says what is missing and which command mends it; a viewer starts nothing."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit("agents")
    page.get_by_role("button", name="Check them").click()
    page.wait_for_selector("[data-backend=claude] >> text=logged in")
    told = hold.ask("list_backends")["backends"]
    wrong = [one for one in told if one["failure"]]
    assert {one["name"] for one in wrong} == {"out", "missing"}
    for one in wrong:
        page.wait_for_selector(f"[data-backend={one['name']}] >> text={one['fix']}")
    page.get_by_role("button", name="More for claude").click()
    page.get_by_role("menuitem", name="CLI").click()
    page.wait_for_selector(".toast:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == "holdfast agent start claude"
    viewer = visit("agents", "--role", "viewer")
    viewer.wait_for_selector("[data-backend=claude]")
    assert viewer.get_by_role("button", name="Start claude").count() == 0


def test_everybody_can_use_it(visit: Visit, visitor: Visitor, agent: str) -> None:
    """WCAG 2.2 AA in both themes, wide and at 360 px, without sideways scrolling."""
    page = visit(f"agents/{agent}")
    send(page, "tool Bash {}")
    page.wait_for_selector("[data-approval]")
    for theme in ("dark", "light"):
        set_theme(page, theme)
        for place in ("agents", f"agents/{agent}", f"agents/{agent}/output"):
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(visitor.url(place))
            page.wait_for_selector(f"html[data-theme={theme}] [data-page][data-state=shown]")
            assert (place, accessibility_faults(page)) == (place, [])
            page.set_viewport_size(PHONE)  # type: ignore[arg-type]
            assert (place, accessibility_faults(page)) == (place, [])
            assert (place, sideways(page) <= 0) == (place, True)
