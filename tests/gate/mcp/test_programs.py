"""`run` and `send` in the place of a shell: lines for a shell, input, terminals, screens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gate.mcp.conftest import McpHold, quick, text_of
from tests.harness import PYTHON

ASKING = "name = input('your name? '); print('hello', name); input('more? ')"
CURSOR = (
    "import os, sys, tty; tty.setraw(0); w = sys.stdout.write\n"
    "w('\\x1b[?1049h\\x1b[?1h\\x1b[2J\\x1b[2;3Hmenu\\x1b[4;3Hready'); sys.stdout.flush()\n"
    "seen = b''\n"
    "while not seen.endswith(b'q'):\n"
    "    seen += os.read(0, 99)\n"
    "    w('\\x1b[3;3H\\x1b[2K' + repr(seen)); sys.stdout.flush()\n"
    "w('\\x1b[?1049lleft\\n')\n"
)


@pytest.fixture(scope="module")
def hold() -> Iterator[McpHold]:
    services = {"web": quick(["sleep", "1000"]), "cat": quick(["cat"], stdin="pipe")}
    with McpHold({"run": True, "send": True}, **services) as hold:
        hold.up()
        yield hold


async def said(client: Any, tool: str, **given: Any) -> str:
    return text_of(await client.call_tool(tool, given))


def test_a_line_for_the_shell(hold: McpHold) -> None:
    """With pipes and variables; its name is that of its program, and the same line is joined."""

    async def story(client: Any) -> None:
        told = await said(client, "run", command="printf 'a\\nb\\n' | wc -l; exit 3")
        assert re.search(r"^exit code 3 \(printf-[0-9a-f]{4}\)\n```\n *2\n```$", told)
        both = await said(client, "run", command="true", argv=["true"])
        assert "`command` or `argv`, one of them" in both
        assert "`command` or `argv`, one of them" in await said(client, "run")
        assert "exit code 0" in await said(client, "run", argv="true")

    hold.talk(story)


def test_standard_input_is_given(hold: McpHold) -> None:
    """All of it, with its end; what wants none is not disturbed."""

    async def story(client: Any) -> None:
        text = "é\n" * 50_000
        assert "100000" in await said(client, "run", argv=["wc", "-m"], stdin=text)
        assert "exit code 0" in await said(client, "run", argv=["true"], stdin=text)
        both = await said(client, "run", argv=["cat"], stdin="x", terminal=True)
        assert "stdin or terminal, not both" in both

    hold.talk(story)


def test_what_ended_with_a_run_is_named(hold: McpHold) -> None:
    """A process that was left in the background does not go on, and that is said."""

    async def story(client: Any) -> None:
        told = await said(client, "run", command="sleep 300 & echo begun")
        # Under the shell's name, if it was not yet the other program when it was found.
        assert re.search(r"\nended with it: (sleep|bash|sh) \(pid \d+\)", told), told
        assert "begun" in told

    hold.talk(story)


def test_a_conversation(hold: McpHold) -> None:
    """A program that asks is answered; `until` waits for a pattern or for the next question."""

    async def story(client: Any) -> None:
        asked = await said(client, "run", argv=[PYTHON, "-c", ASKING], name="ask", terminal=True)
        assert "your name?" in asked
        assert "still runs" in asked
        told = await said(client, "send", name="ask", text="Ada", keys=["enter"], until="prompt")
        assert "hello Ada" in told
        assert "more?" in told
        assert "NOT met" not in told
        missed = await said(
            client, "send", name="ask", text="x", until="nothing like it", wait_s=0.5
        )
        assert "NOT met: nothing like it" in missed
        ended = await said(client, "send", name="ask", keys="ctrl-c", until="Interrupt")
        assert "KeyboardInterrupt" in ended

    hold.talk(story)


def test_a_pattern_counts_from_what_was_typed(hold: McpHold) -> None:
    """An earlier line that matches is no answer."""

    async def story(client: Any) -> None:
        for word in ("one", "two"):
            given = {"name": "cat", "text": f"say {word}", "keys": ["enter"]}
            told = await said(client, "send", **given, until="^say (one|two)$", wait_s=20)
            assert f"say {word}\n" in told
            assert "NOT met" not in told

    hold.talk(story)


def test_a_full_screen_program(hold: McpHold) -> None:
    """Its screen is shown as text, its cursor keys are those of applications; then it leaves."""

    async def story(client: Any) -> None:
        argv = [PYTHON, "-c", CURSOR]
        shown = await said(client, "run", argv=argv, name="menu", terminal=True)
        assert re.search(r"^screen, \d+x\d+, cursor at line 4, column 8:$", shown, re.MULTILINE)
        assert "\n  menu\n\n  ready\n" in shown
        pressed = await said(client, "send", name="menu", keys=["up", "f5", "a"])
        assert "  b'\\x1bOA\\x1b[15~a'" in pressed
        assert "next cursor" in pressed
        screen = await said(client, "logs", name="menu", screen=True)
        assert "  menu\n" in screen
        left = await said(client, "send", name="menu", text="q")
        assert "left" in left
        no_screen = await said(client, "logs", name="cat", screen=True)
        assert "has no terminal" in no_screen

    hold.talk(story)


def test_what_can_only_mean_one_thing_is_taken(hold: McpHold) -> None:
    """One value for a list, a list as text, a number as text; a number too large is cut, and
    said."""

    async def story(client: Any) -> None:
        assert "web  running" in await said(client, "status", names="web")
        assert "web  running" in await said(client, "status", names='["web"]')
        told = await said(client, "wait", names="web", timeout_s=600)
        assert "web: met" in told
        assert told.endswith("-- timeout_s is at most 50, which was used")
        assert "next cursor" in await said(client, "logs", name="web", tail="5")
        wrong = await said(client, "logs", name="web", tail="many")
        assert "tail" in wrong

    hold.talk(story)
