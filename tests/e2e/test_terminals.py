"""Terminals in a real browser: they survive a reload, have one driver, and obey no program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import BrowsedHold, Visitor, accessibility_faults
from tests.harness import kill_9, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHELL = {
    "command": ["sh", "-i"],
    "terminal": True,
    "start_seconds": 0,
    "environment": "clean",
    "env": {"PS1": "$ ", "TERM": "xterm-256color", "PATH": "/usr/bin:/bin"},
}


@pytest.fixture(scope="module")
def hold() -> Iterator[BrowsedHold]:
    services = dict.fromkeys(("sh", "shared", "lost", "hostile"), SHELL)
    web = {"command": ["sleep", "1000"], "start_seconds": 0}
    with BrowsedHold({**services, "web": web}, commands={"allow_terminals": True}) as made:
        yield made


CHOSEN = "document.querySelector('.termbox').holdfastChosen()"


def text_of(page: Page) -> str:
    """What the terminal shows, and what scrolled off it."""
    return str(page.evaluate("document.querySelector('.termbox')?.holdfastText?.() ?? ''"))


def wait_for_text(page: Page, text: str) -> None:
    wait_for(lambda: text in text_of(page), what=f"{text!r} in {text_of(page)[-300:]!r}")


def drive(page: Page) -> None:
    """Wait until what is typed reaches the program."""
    page.wait_for_selector("[data-term=live][data-mine=true]")
    page.click(".termbox")


def run(page: Page, command: str) -> None:
    page.keyboard.type(command)
    page.keyboard.press("Enter")


def test_a_terminal_survives_a_reload(visit: Callable[..., Page], hold: BrowsedHold) -> None:
    """The screen is there again, the process is the same, and its size is the page's."""
    page = visit("terminals/sh")
    drive(page)
    run(page, "echo holdfast-$((40+2)); printf '\\033[31mred\\033[0m\\n'; sleep 1000 & echo pid $!")
    wait_for_text(page, "holdfast-42")
    wait_for_text(page, "pid ")
    before = text_of(page).rstrip()
    pid = hold.service("sh")["pid"]
    page.reload()
    drive(page)
    wait_for(lambda: text_of(page).rstrip() == before, what="the same screen")
    run(page, "kill $!; stty size")
    columns, rows = str(page.get_attribute("[data-size]", "data-size")).split("x")
    wait_for_text(page, f"{rows} {columns}")
    assert hold.service("sh")["pid"] == pid
    page.keyboard.press("Control+Shift+F")
    page.keyboard.type("HOLDFAST-4")
    wait_for(lambda: page.evaluate(CHOSEN) == "holdfast-4")
    page.keyboard.press("Escape")
    page.evaluate("sessionStorage.clear()")
    page.goto("about:blank")
    other = visit("terminals/sh")
    wait_for_text(other, "holdfast-42")


def test_one_drives_and_others_watch(
    visit: Callable[..., Page], visitor: Visitor, hold: BrowsedHold
) -> None:
    """A second page has the first one's size and cannot type until it takes the keyboard."""
    one = visit("terminals/shared")
    drive(one)
    two = visitor.context.new_page()
    two.set_viewport_size({"width": 900, "height": 500})
    two.goto(visitor.url("terminals/shared"))
    two.wait_for_selector("text=Somebody else types here; you watch")
    size = one.get_attribute("[data-size]", "data-size")
    wait_for(lambda: two.get_attribute("[data-size]", "data-size") == size)
    run(one, "echo seen-$((1+1))")
    wait_for_text(two, "seen-2")
    two.click(".termbox")
    run(two, "echo not-$((1+1))")
    two.click("text=Take the keyboard")
    drive(two)
    one.wait_for_selector("text=Somebody else types here; you watch")
    run(two, "echo mine-$((1+2))")
    wait_for_text(one, "mine-3")
    assert "not-2" not in text_of(one)


def test_it_goes_on_when_the_gate_was_killed(
    visit: Callable[..., Page], visitor: Visitor, hold: BrowsedHold
) -> None:
    """The page comes back by itself, with what was printed meanwhile, once."""
    visitor.allow("ERR_CONNECTION|WebSocket|Failed to load resource")
    page = visit("terminals/lost")
    drive(page)
    run(page, "sleep 1; echo after-$((5+5))")
    wait_for_text(page, "after-$((5+5))\n")
    kill_9(hold.gate_pid())
    page.wait_for_selector("[data-link=lost]", state="attached")
    drive(page)
    wait_for_text(page, "after-10")
    assert text_of(page).count("after-10") == 1


def test_a_program_asks_and_the_person_decides(
    visit: Callable[..., Page], visitor: Visitor, hold: BrowsedHold
) -> None:
    """The clipboard is written after a yes only, several lines are pasted after a yes only, and a
    replay answers no query."""
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit("terminals/hostile")
    drive(page)
    page.evaluate("navigator.clipboard.writeText('mine')")
    run(page, "printf '\\033]52;c;b3duZWQ=\\a'")
    page.wait_for_selector("text=The program wants to write your clipboard")
    page.click("role=button[name='Cancel']")
    assert page.evaluate("navigator.clipboard.readText()") == "mine"
    page.evaluate("navigator.clipboard.writeText('echo one-$((1))\\necho two-$((2))\\n')")
    page.click(".termbox")
    page.keyboard.press("Control+Shift+V")
    page.wait_for_selector("text=Paste 2 lines?")
    assert "one-1" not in text_of(page)
    page.click("role=button[name='Paste']")
    wait_for_text(page, "two-2")
    # A query in the recording: whoever replays it must not answer into the program.
    run(page, "printf '\\033[c'; sleep 1; echo clean-$((1))")
    wait_for_text(page, "clean-1")
    wait_for(lambda: b"?1;2c" in hold.raw("hostile"))
    size = len(hold.raw("hostile"))
    page.evaluate("sessionStorage.clear()")
    other = visitor.context.new_page()
    other.goto(visitor.url("terminals/hostile"))
    wait_for_text(other, "clean-1")
    assert len(hold.raw("hostile")) == size


def test_a_shell_opens_beside_a_service_and_is_replayed(
    visit: Callable[..., Page], hold: BrowsedHold
) -> None:
    """A new terminal has a service's environment; what was recorded is shown at any moment."""
    page = visit("terminals")
    page.click("text=Open terminal")
    page.click("role=menuitem[name='web']")
    page.wait_for_url("**/terminals/web-terminal-*")
    drive(page)
    run(page, "echo first-$((1)); sleep 1; echo second-$((2))")
    wait_for_text(page, "second-2")
    page.click("text=Replay")
    page.wait_for_selector("[data-replay]:not([data-replay='0'])")
    page.get_by_label("Moment of the recording").focus()
    page.keyboard.press("Home")
    page.wait_for_selector("[data-replay='0']")
    page.click("role=button[name='Play']")
    page.wait_for_selector("[data-replay]:not([data-replay='0'])")
    page.click("role=button[name='Close the replay']")


def test_terminals_are_accessible_and_left_by_a_key(visit: Callable[..., Page]) -> None:
    """F6 leaves the terminal; no rule of WCAG 2.2 AA is broken."""
    page = visit("terminals/sh")
    drive(page)
    page.keyboard.press("F6")
    assert page.evaluate("document.activeElement.id") == "page"
    assert accessibility_faults(page) == []


def test_who_may_look_only_looks(visit: Callable[..., Page]) -> None:
    """A viewer's page says so and offers nothing."""
    page = visit("terminals/sh", "--role", "viewer")
    page.wait_for_selector("text=Read only: your role may look")
    assert page.locator("text=Take the keyboard").count() == 0
