"""A gate without assistants is light and idle: the protocol's library is loaded for the first."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.connection import Unreachable
from holdfast.gate.browser.guard import AllowedOrigins
from holdfast.gate.mcp import door
from holdfast.vocabulary.specs.mcp import McpSpec
from tests.gate.mcp.conftest import McpHold
from tests.gate.mcp.test_http import bearer, post
from tests.harness import wait_for

LIBRARY = "pydantic_core"


@pytest.fixture(scope="module")
def hold() -> Iterator[McpHold]:
    with McpHold() as made:
        made.up()
        yield made


def has_library(pid: int) -> bool:
    return LIBRARY in Path(f"/proc/{pid}/maps").read_text()


def wakes(pid: int) -> int:
    """How often the process has gone to sleep so far, in all threads."""
    counts = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                counts += int(line.split()[1])
    return counts


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process does")
def test_a_gate_that_nobody_uses(hold: McpHold) -> None:
    """It sleeps: no timer wakes it. It loads nothing until an assistant comes."""
    pid = hold.gate_pid()

    def is_asleep() -> bool:
        before = wakes(pid)
        time.sleep(2.0)
        return wakes(pid) - before <= 1

    # What it loads at its start takes a moment.
    wait_for(is_asleep, 60, "the gate to sleep")
    assert not has_library(pid)
    assert post(hold, **bearer(hold.token))[0].status == 200
    assert hold.gate_pid() == pid
    assert has_library(pid)


def test_the_date_is_told(hold: McpHold) -> None:
    """Of each answer, as HTTP wants it, although no timer keeps it."""
    first = post(hold)[0].headers["date"]
    assert first.endswith(" GMT")
    wait_for(lambda: post(hold)[0].headers["date"] != first, what="another second")


def test_files_of_another_version_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the installed files have changed since it began, a gate leaves to the next one."""
    left: list[bool] = []
    allowed = AllowedOrigins.at("127.0.0.1", 1, is_tls=False, origins=[])

    async def ask() -> Any:
        mcp = door.McpDoor("/nowhere", McpSpec(), allowed, leave=lambda: left.append(True))
        monkeypatch.setattr(door, "_files_on_disk", lambda: [(1, 2), None])
        with pytest.raises(Unreachable, match="updated"):
            await mcp._server()

    asyncio.run(ask())
    assert left == [True]
