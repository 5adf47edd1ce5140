"""A real Holdfast whose backends are scripted programs that speak the dialects of real agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import Hold, program, wait_for

SECRET = "sk-ant-api03-planted-secret-0123456789abcdefghijklmnop"

FAILURES = {
    "flag": "error: unknown option '--verbos'",
    "trust": "Not inside a trusted directory and --skip-git-repo-check was not specified.",
    "login": "Invalid API key · Please run /login",
    "other": "something else",
}
"""What a backend says whose name is `bad-` and this word."""


class AgentHold(Hold):
    """With the backends that are given; `claude` is the scripted one."""

    def __init__(self, **backends: Any) -> None:
        super().__init__(ANTHROPIC_API_KEY=SECRET)
        self.declare(**(backends or {"claude": {}}))

    def declare(self, **backends: Any) -> None:
        written = {}
        for name, keys in backends.items():
            kind = keys.get("kind", "claude")
            written[name] = {
                "kind": kind,
                "command": program(f"fake_{kind}.py"),
                "mcp": False,
                **keys,
            }
        self.write({"services": {}, "backends": written})

    def begin(self, backend: str = "claude", **fields: Any) -> str:
        """Start a session; returns the name of its service."""
        answer = self.ask("start_or_attach", backend=backend, new=True, **fields)
        return str(answer["agent"]["service"])

    def agent(self, name: str) -> dict[str, Any]:
        for one in self.ask("list_agents")["agents"]:
            if name in (one["service"], one["session"]):
                found: dict[str, Any] = one
                return found
        raise AssertionError(f"no session {name}")

    def await_condition(self, name: str, *wanted: str, seconds: float = 30.0) -> dict[str, Any]:
        found: dict[str, Any] = wait_for(
            lambda: (a := self.agent(name))["condition"] in wanted and a,
            seconds,
            f"{name} to be {' or '.join(wanted)}",
        )
        return found

    def prompt(self, name: str, text: str) -> int:
        return int(self.ask("prompt", session=name, text=text)["turn"])

    def turn(self, name: str, text: str, seconds: float = 30.0) -> list[dict[str, Any]]:
        """Give a prompt and return the events of its turn."""
        return self.await_turn(name, self.prompt(name, text), seconds)

    def await_turn(self, name: str, turn: int, seconds: float = 30.0) -> list[dict[str, Any]]:
        def ended() -> list[dict[str, Any]] | None:
            events = self.events(name)
            ends = [e for e in events if e["kind"] == "turn.finished" and e["turn"] == turn]
            if not ends:
                return None
            begins = [e for e in events if e["kind"] == "turn.started" and e["turn"] == turn]
            return [e for e in events if begins[0]["seq"] <= e["seq"] <= ends[0]["seq"]]

        found: list[dict[str, Any]] = wait_for(ended, seconds, f"turn {turn} of {name}")
        return found

    def events(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("transcript", session=name, limit=10_000)["events"]
        return found


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["kind"] == "text.delta")


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["kind"] for event in events]


@pytest.fixture(scope="module")
def hold() -> Iterator[AgentHold]:
    """One Holdfast for the stories of a module."""
    rules = [
        {"tool": "Read", "then": "allow"},
        {"tool": "Bash", "on": "git push*", "then": "deny"},
    ]
    with AgentHold(
        claude={},
        impatient={"approve_within": "300ms"},
        ruled={"rules": rules},
        quick={"stall": "500ms"},
        poor={"budget": {"turns": 1}},
        hasty={"budget": {"seconds": "300ms"}},
        fragile={"max_crashes": 2},
        missing={"command": "no-such-program-here"},
        **{f"bad-{name}": {"env": {"FAKE_FAILURE": said}} for name, said in FAILURES.items()},
    ) as hold:
        hold.up()
        yield hold
