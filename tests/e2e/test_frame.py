"""What is around every page: the login, the palette, keys, themes, a token that is revoked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.e2e.conftest import BrowsedHold, Visitor, accessibility_faults

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_a_revoked_token_ends_the_page(
    visit: Callable[..., Page], visitor: Visitor, hold: BrowsedHold
) -> None:
    """The page says that nobody is logged in, and shows nothing more."""
    visitor.allow("401")
    page = visit("logs")
    page.wait_for_selector("[data-link=live]", state="attached")
    for token in hold.ask("list_tokens")["tokens"]:
        if token["name"].startswith("browser"):
            hold.cli("token", "revoke", token["name"])
    page.wait_for_selector("[data-state=nobody]")
    page.wait_for_selector("text=You are not logged in")
    assert page.locator(".rail").count() == 0


def test_the_login_leads_to_where_one_wanted_to_be(visitor: Visitor, hold: BrowsedHold) -> None:
    """Before the login, a deep link asks for it; after it, the link's place is shown."""
    visitor.allow("401")
    page = visitor.open("logs?s=web&q=sleep")
    page.wait_for_selector("[data-state=nobody]")
    assert accessibility_faults(page) == []
    page.goto(hold.link())
    page.wait_for_selector("[data-page=logs]")
    assert page.input_value("input[type=search]") == "sleep"


def test_the_palette_goes_everywhere(visit: Callable[..., Page]) -> None:
    """By keys alone: open it, type, choose; `?` lists all keys; two keys go to a page."""
    page = visit()
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog.palette")
    page.keyboard.type("logs")
    page.wait_for_selector("[role=option][aria-selected=true] >> text=Logs")
    assert accessibility_faults(page) == []
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-page=logs]")
    page.keyboard.press("?")
    page.wait_for_selector("dialog >> text=Next error")
    page.keyboard.press("Escape")
    page.keyboard.type("gt")
    page.wait_for_selector("[data-page=terminals]")
    page.go_back()
    page.wait_for_selector("[data-page=logs]")


def test_a_theme_is_kept_and_holds_before_the_login(
    visit: Callable[..., Page], visitor: Visitor
) -> None:
    """Dark or light stays over a reload and a logout, whatever the system has."""
    page = visit()
    for theme in ("dark", "light"):
        page.keyboard.press("Control+k")
        page.wait_for_selector("dialog.palette")
        page.keyboard.type(f"theme {theme}")
        page.wait_for_selector(f"[role=option][aria-selected=true] >> text=Theme: {theme}")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"html[data-theme={theme}]")
        page.reload()
        page.wait_for_selector(f"html[data-theme={theme}] [data-page=overview]")
    visitor.allow("401")
    visitor.context.clear_cookies()
    page.reload()
    page.wait_for_selector("html[data-theme=light] [data-state=nobody]")
