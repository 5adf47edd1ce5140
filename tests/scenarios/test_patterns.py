"""Patterns over output match the text as it is shown; `raw` asks for the bytes."""

from __future__ import annotations

from tests.harness import Hold, quick

COLOURED = [
    "sh",
    "-c",
    "printf '\\033[32mready\\033[0m on \\033[1m8080\\033[0m\\r\\n'; exec sleep 1000",
]
READY = "^ready on 8080$"
BYTES = "ready\\x1b\\[0m on"


def test_colours_hide_no_line(hold: Hold) -> None:
    """From `wait`, `logs`, a readiness probe, and a service that depends on the line."""
    hold.services(
        web=quick(COLOURED, readiness={"log": READY}),
        bytes=quick(COLOURED, readiness={"log": BYTES, "raw": True}),
        deaf=quick(COLOURED, readiness={"log": BYTES}),
        after=quick(depends_on={"web": {"condition": "log", "pattern": READY}}),
        after_bytes=quick(depends_on={"web": {"pattern": BYTES, "raw": True}}),
        never=quick(depends_on={"web": {"pattern": READY, "raw": True}}),
    )
    hold.cli("up", "-d", "--timeout", "1s", expect=1)
    for name in ("web", "bytes"):
        assert hold.ask("wait", service=name, condition="ready")["met"]
    for name in ("after", "after-bytes"):
        assert hold.ask("wait", service=name)["met"]
    found = hold.ask("wait", service="web", condition=f"log:{READY}")
    assert found["line"] == "ready on 8080"
    found = hold.ask("wait", service="web", condition=f"log:{BYTES}", raw=True)
    assert found["line"].startswith("\x1b[32mready")
    assert len(hold.ask("logs", service="web", grep=READY)["lines"]) == 1
    assert len(hold.ask("logs", service="web", grep=BYTES, raw=True)["lines"]) == 1
    assert not hold.ask("logs", service="web", grep=BYTES)["lines"]
    assert not hold.ask("wait", service="deaf", condition="ready", timeout=0)["met"]
    assert hold.service("never")["status"] == "pending"
