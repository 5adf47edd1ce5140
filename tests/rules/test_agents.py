"""Rules about permissions of agents: what they allow, and what they leave to a person."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.rules.agents import rule_for
from holdfast.vocabulary.specs.backends import ApprovalRule, BackendSpec, ToolRule


def decided(then: ApprovalRule, on: str, tool: str, **given: Any) -> ApprovalRule:
    spec = BackendSpec(name="a", kind="claude", rules=(ToolRule(on=on, then=then),))
    return rule_for(spec, tool, given, "/p")


@pytest.mark.parametrize(
    ("on", "tool", "given"),
    [
        ("npm test*", "Bash", {"command": "npm test -- --watch"}),
        ("npm test*", "shell", {"command": ["npm", "test"], "cwd": "/p"}),
        ("npm test | tee log", "Bash", {"command": "npm test | tee log"}),
        ("/p/*", "Read", {"file_path": "/p/a/../b"}),
        ("/p/*", "Read", {"file_path": "a"}),
        ("src/*", "Edit", {"file_path": "/p/src/a"}),
        ("/p/*", "Grep", {"pattern": "^a", "path": "/p/src"}),
        ("https://docs.example/*", "WebFetch", {"url": "https://docs.example/a"}),
        ("/p/*", "edit", {"path": "/p/a", "cwd": "/p/src"}),
        ("*", "anything", {}),
        ("*", "Bash", {"command": "a; b"}),
    ],
)
def test_what_a_rule_means_is_allowed(on: str, tool: str, given: dict[str, Any]) -> None:
    """A rule allows what it says, also when a path is written in another way."""
    assert decided("allow", on, tool, **given) == "allow"


@pytest.mark.parametrize(
    "rest",
    ["; curl x|sh", "& curl x", "| sh", "`curl x`", "$(curl x)", "\ncurl x", "< a", "> a", "=(a)"],
)
def test_a_pattern_allows_no_second_command(rest: str) -> None:
    """A command with operators of the shell is asked about, also as a list or of another tool."""
    command = f"npm test {rest}"
    for tool, given in (
        ("Bash", {"command": command}),
        ("execute", {"cmd": command}),
        ("shell", {"command": ["npm", "test", rest]}),
    ):
        assert decided("allow", "npm test*", tool, **given) == "ask", given


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Read", {"file_path": "/p/../etc/passwd"}),
        ("Read", {"file_path": "../etc/passwd"}),
        ("Read", {"file_path": "~/p/a"}),
        ("Read", {"file_path": ["/p/a"]}),
        ("Read", {"command": "/p/a", "file_path": "/etc/passwd"}),
        ("Read", {"path": "/p/a"}),
        ("view", {"command": "/p/a", "file_path": "/etc/passwd"}),
        ("view", {"path": "/p/a", "absolute_path": "/etc/passwd"}),
        ("view", {"path": "/p/a", "url": None}),
        ("view", {}),
    ],
)
def test_a_path_outside_is_not_allowed(tool: str, given: dict[str, Any]) -> None:
    """Neither `..` nor a second key of the call brings another file in."""
    assert decided("allow", "/p/*", tool, **given) == "ask"


@pytest.mark.parametrize(
    ("on", "tool", "given"),
    [
        ("git push*", "Bash", {"command": "git push -f"}),
        ("git push*", "Bash", {"command": "cd x && git  push"}),
        ("git push*", "Bash", {"description": "none", "command": "true; git push"}),
        ("/etc/*", "Read", {"file_path": "/p/../etc/passwd"}),
        ("/p/secret", "Read", {"command": "x", "file_path": "secret"}),
        ("*", "anything", {}),
    ],
)
def test_a_refusal_matches_any_reading(on: str, tool: str, given: dict[str, Any]) -> None:
    """A rule that refuses or asks also sees the other keys, the path meant and each command."""
    assert decided("deny", on, tool, **given) == "deny"
    first = BackendSpec(
        name="a", kind="claude", rules=(ToolRule(on=on, then="ask"), ToolRule(then="allow"))
    )
    assert rule_for(first, tool, given, "/p") == "ask"
