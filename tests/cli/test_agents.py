"""`holdfast agent`: what a person at a terminal sees of sessions with a scripted agent."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.engine.agents.conftest import AgentHold
from tests.harness import wait_for


@pytest.fixture(scope="module")
def hold() -> Iterator[AgentHold]:
    """One Holdfast with a session, `claude-1`."""
    missing = {"kind": "codex", "command": "no-such-program-here"}
    with AgentHold(claude={}, missing=missing) as hold:
        hold.up()
        assert "claude-1: started" in hold.cli("agent", "start", "claude").stdout
        yield hold


def test_a_turn_is_followed_to_its_end(hold: AgentHold) -> None:
    """`prompt --follow` shows text and ends with the turn; --json has each event on a line."""
    done = hold.cli("agent", "prompt", "claude-1", "say hello there", "--follow")
    assert "hello there" in done.stdout
    done = hold.cli("agent", "prompt", "claude-1", "say again", "--follow", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["kind"] for event in (events[0], events[-1])] == ["turn.started", "turn.finished"]
    assert hold.cli("agent", "prompt", "claude-1", "login", "-f", expect=1).returncode == 1


def test_backends_and_sessions_are_listed(hold: AgentHold) -> None:
    """`ls` shows both; `doctor` names what is wrong and the cure, and exits 1."""
    shown = hold.cli("agent", "ls").stdout
    assert "claude-1" in shown
    assert hold.json("agent", "ls")["agents"][0]["service"] == "claude-1"
    told = hold.cli("agent", "doctor", expect=1).stdout
    assert "9.9.9" in told
    assert "npm install -g @openai/codex" in told


def test_a_chat_is_a_conversation(hold: AgentHold) -> None:
    """Lines are prompts; /quit leaves, and the session goes on."""
    path = hold.folder / "said"
    path.write_text("say one\n\nsay two\n/quit\n")
    with path.open() as said:
        done = hold.cli("agent", "chat", "claude-1", stdin=said)
    assert "one" in done.stdout
    assert "two" in done.stdout
    assert hold.agent("claude-1")["condition"] == "ready"


def test_a_session_is_stopped_resumed_and_forgotten(hold: AgentHold) -> None:
    """The verbs of a session's life, and its transcript as text."""
    hold.cli("agent", "start", "claude", "--another", "--name", "other")
    hold.cli("agent", "prompt", "other", "say something", "--follow")
    assert "third: forked" in hold.cli("agent", "fork", "other", "--name", "third").stdout
    hold.cli("agent", "stop", "other")
    wait_for(lambda: hold.agent("other")["condition"] == "stopped")
    assert "resumed" in hold.cli("agent", "resume", "other").stdout
    assert "## Turn 1" in hold.cli("agent", "transcript", "other", "--markdown").stdout
    assert "something" in hold.cli("agent", "transcript", "other").stdout
    hold.cli("agent", "stop", "other")
    wait_for(lambda: hold.agent("other")["condition"] == "stopped")
    assert "forgotten" in hold.cli("agent", "rm", "other").stdout
    assert "other" not in hold.cli("agent", "ls").stdout
