"""Logs in a real browser: following, searching, links, hostile lines, a flood, a lost gate."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import BrowsedHold, Visitor, accessibility_faults, set_theme
from tests.harness import kill_9, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = [
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>",
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J after",
    "user \u202egnp.exe\u202c said",
    "javascript:alert(1) http://a.example/?<b>",
    "\x00\x01\x07 bells",
]
PRINT = """
import sys
for line in sys.stdin:
    for text in eval(line):
        sys.stdout.buffer.write(text.encode() + b"\\n")
    sys.stdout.flush()
"""
SOME = [f"line {number} ERROR of web" if number == 30 else f"line {number}" for number in range(80)]


def printer() -> dict[str, Any]:
    """A service that prints what it is sent."""
    return {
        "command": [sys.executable, "-I", "-S", "-c", PRINT],
        "stdin": "pipe",
        "start_seconds": 0,
    }


@pytest.fixture(scope="module")
def hold() -> Iterator[BrowsedHold]:
    services = {"web": printer(), "db": printer(), "hostile": printer(), "flood": printer()}
    with BrowsedHold(services) as made:
        say(made, "web", SOME)
        say(made, "db", [f"query {number}" for number in range(20)])
        say(made, "hostile", HOSTILE)
        yield made


def say(hold: BrowsedHold, service: str, lines: list[str] | str) -> None:
    """Let a service print lines: a list, or what makes one."""
    before = len(hold.raw(service))
    text = lines if isinstance(lines, str) else repr(lines)
    hold.ask("send_input", service=service, data=base64.b64encode(f"{text}\n".encode()).decode())
    wait_for(lambda: len(hold.raw(service)) > before)


def lines_of(page: Page) -> list[str]:
    """What the visible rows say."""
    found: list[str] = page.evaluate(
        "() => [...document.querySelectorAll('.logrow:not([hidden]) .logtext')]"
        ".map((row) => row.textContent)"
    )
    return found


def wait_for_line(page: Page, text: str) -> None:
    wait_for(lambda: any(text in line for line in lines_of(page)), what=f"{text!r} on the page")


def test_lines_come_as_they_are_printed(visit: Callable[..., Page], hold: BrowsedHold) -> None:
    """The newest line is in sight; reading further up pauses, counts, and End follows again."""
    page = visit("logs?s=web")
    wait_for_line(page, "line 79")
    page.hover(".loglist")
    page.mouse.wheel(0, -300)
    page.wait_for_selector("[data-following=false]")
    say(hold, "web", ["while reading 1", "while reading 2"])
    page.wait_for_selector("text=2 new lines, resume following")
    assert not any("while reading" in line for line in lines_of(page))
    page.keyboard.press("End")
    page.wait_for_selector("[data-following=true]")
    wait_for_line(page, "while reading 2")
    assert any("run 1 started" in line for line in page.evaluate(ALL_SHOWN))


ALL_SHOWN = """async () => {
    const box = document.querySelector('.loglist');
    box.scrollTop = 0;
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const rows = document.querySelectorAll('.logrow:not([hidden]) .logtext');
    return [...rows].map((row) => row.textContent);
}"""


def test_a_hit_is_seen_in_its_context_and_linked(
    visit: Callable[..., Page], visitor: Visitor, hold: BrowsedHold
) -> None:
    """Filter two services, show the hit where it stands, open its link in a second tab."""
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit("logs?s=web,db")
    wait_for_line(page, "query 19")
    page.keyboard.press("/")
    page.keyboard.type("line 30 error")
    page.wait_for_selector("[data-hits='1']")
    page.click("text=Filter")
    wait_for(lambda: lines_of(page) == [SOME[30]], what="only the hit")
    assert page.inner_text(".logrow mark").lower() == "line 30 error"
    page.click(".logrow mark")
    page.keyboard.press("Enter")
    wait_for(lambda: SOME[29] in lines_of(page) and SOME[31] in lines_of(page))
    assert page.inner_text(".logchosen .logtext") == SOME[30]
    page.keyboard.press("y")
    link = wait_for(lambda: page.evaluate("navigator.clipboard.readText()"))
    assert "at=web:" in link
    other = visitor.context.new_page()
    other.goto(link)
    other.wait_for_selector(".logchosen")
    assert other.inner_text(".logchosen .logtext") == SOME[30]
    wait_for(lambda: SOME[29] in lines_of(other) and SOME[31] in lines_of(other))


def test_errors_and_history_are_found(visit: Callable[..., Page]) -> None:
    """`E` goes to the next error; the supervisor searches everything that is stored."""
    page = visit("logs?s=web,db")
    wait_for_line(page, "query 19")
    page.keyboard.press("e")
    wait_for(lambda: page.locator(".logchosen .logtext").all_inner_texts() == [SOME[30]])
    page.fill("input[type=search]", "query 7")
    page.click("text=Search all history")
    page.click(".loghits a >> text=query 7")
    page.wait_for_selector(".logchosen >> text=query 7")


def test_hostile_lines_are_text(visit: Callable[..., Page]) -> None:
    """Markup, escapes and marks of direction do nothing; what could deceive is seen."""
    page = visit("logs?s=hostile")
    wait_for_line(page, "bells")
    found = lines_of(page)
    assert HOSTILE[0] in found
    assert "red  after" in found
    assert any("\u27e8U+202E\u27e9gnp.exe" in line for line in found)
    assert page.locator(".logrow img, .logrow script, .logrow a").count() == 0
    assert "owned" not in page.title()
    assert page.locator(".logrow .a1").inner_text() == "red"


HOLD_FRAMES = """() => {
    const draw = window.requestAnimationFrame;
    const held = [];
    window.requestAnimationFrame = (call) => held.push(call);
    window.drawAgain = () => {
        window.requestAnimationFrame = draw;
        held.forEach((call) => draw.call(window, call));
    };
}"""


def test_a_flood_is_sampled_and_can_be_loaded(
    visit: Callable[..., Page], hold: BrowsedHold
) -> None:
    """What came while a page painted nothing is a line that says how much, loaded on demand."""
    page = visit("logs?s=flood")
    page.wait_for_selector("[data-logs=live]")
    say(hold, "flood", ["before"])
    wait_for_line(page, "before")
    page.evaluate(HOLD_FRAMES)
    for part in range(8):
        say(hold, "flood", f"['flood {part} %06d ' % n + 'x' * 180 for n in range(2000)]")
    page.evaluate("drawAgain()")
    wait_for_line(page, "flood 7 001999")
    page.evaluate(ALL_SHOWN)
    kept = int(page.get_attribute("[data-kept]", "data-kept") or 0)
    assert kept < 16_000
    page.fill("input[type=search]", "nothing has this")
    page.click("text=Filter")
    rows = page.locator(".loggap .logtext")
    rows.first.wait_for()
    assert "MB not shown: too fast" in rows.first.inner_text()
    while gaps := rows.count():
        page.click("text=Load it >> nth=0")
        wait_for(lambda now=gaps: rows.count() < now)
    page.click("text=Clear filter")
    wait_for(lambda: int(page.get_attribute("[data-kept]", "data-kept") or 0) >= 16_000)
    page.keyboard.press("Escape")


def test_logs_go_on_when_the_gate_was_killed(
    visit: Callable[..., Page], visitor: Visitor, hold: BrowsedHold
) -> None:
    """Nothing is lost and nothing comes twice when the gate dies with kill -9."""
    visitor.allow("ERR_CONNECTION|WebSocket|Failed to load resource|503|502")
    page = visit("logs?s=db")
    wait_for_line(page, "query 19")
    kill_9(hold.gate_pid())
    say(hold, "db", ["while the gate was away"])
    wait_for_line(page, "while the gate was away")
    page.wait_for_selector("[data-link=live]")
    say(hold, "db", ["and after"])
    wait_for_line(page, "and after")
    assert len([line for line in lines_of(page) if line == "while the gate was away"]) == 1
    assert len([line for line in lines_of(page) if line == "query 19"]) == 1


def test_logs_are_accessible(visit: Callable[..., Page]) -> None:
    """No rule of WCAG 2.2 AA is broken, dark and light, wide and on a phone."""
    page = visit("logs?s=web,db&q=line")
    for theme in ("dark", "light"):
        set_theme(page, theme)
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 740})
            page.wait_for_selector(".logrow mark")
            assert accessibility_faults(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
