"""The same stories in every dialect, each spoken by a scripted program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.agents.conftest import AgentHold, text_of
from tests.harness import kill_9, wait_for

KINDS = ("claude", "codex", "acp")
TOOL = {"claude": 'tool Bash {"command": "ls"}', "codex": "tool ls", "acp": "tool ls"}


@pytest.fixture(scope="module")
def speakers() -> Iterator[AgentHold]:
    """One backend for each dialect."""
    with AgentHold(**{kind: {"kind": kind} for kind in KINDS}) as hold:
        hold.up()
        yield hold


@pytest.mark.parametrize("kind", KINDS)
def test_every_dialect_tells_the_same(speakers: AgentHold, kind: str) -> None:
    """Text, usage, a permission that is granted and one that is not, an interrupt, a crash."""
    hold, name = speakers, speakers.begin(kind)
    assert text_of(hold.turn(name, "say hello")) == "hello"
    for verb, said in (("approve", "it was done"), ("reject", "refused")):
        turn = hold.prompt(name, TOOL[kind])
        approval = wait_for(lambda: hold.agent(name)["approvals"], what="a permission")[0]
        entry = hold.ask("approvals")["waiting"][0]
        assert entry["arguments"]["input"]["command"] == "ls"
        hold.ask(verb, approval=approval)
        assert text_of(hold.await_turn(name, turn)).startswith(said)
    turn = hold.prompt(name, "hang")
    wait_for(lambda: text_of(hold.events(name)).endswith("thinking"))
    hold.ask("interrupt", session=name)
    assert hold.await_turn(name, turn)[-1]["reason"] == "interrupted"
    before = hold.agent(name)["provider_id"]
    kill_9(hold.service(name)["pid"])
    wait_for(lambda: hold.agent(name)["crashes"] == 1)
    hold.await_condition(name, "ready")
    assert hold.agent(name)["provider_id"] == before
    assert text_of(hold.turn(name, "history")).split(" | ")[-1] == "history"
    assert "say hello" in text_of(hold.events(name)[-4:])
    assert "told again" not in text_of(hold.events(name))


@pytest.mark.parametrize("kind", KINDS)
def test_every_dialect_forks_and_keeps_what_it_does_not_know(
    speakers: AgentHold, kind: str
) -> None:
    """A fork has the conversation under an id of its own; junk is kept as `raw`."""
    hold, name = speakers, speakers.begin(kind)
    raw = [e["text"] for e in hold.turn(name, "junk") if e["kind"] == "raw"]
    assert raw == ["not json at all", '{"type":"martian","x":1}']
    forked = hold.ask("fork_agent", session=name)["agent"]["service"]
    assert "junk | history" in text_of(hold.turn(forked, "history"))
    assert hold.agent(forked)["provider_id"] != hold.agent(name)["provider_id"]


@pytest.mark.parametrize("kind", ["codex", "acp"])
def test_a_lost_conversation_is_never_another(speakers: AgentHold, kind: str) -> None:
    """If the backend has lost it, the session is not ready, and says so."""
    hold, name = speakers, speakers.begin(kind)
    hold.turn(name, "say one")
    hold.ask("stop_agent", session=name)
    hold.await_condition(name, "stopped")
    found = hold.agent(name)["provider_id"]
    (hold.folder / f"fake-{kind}" / f"{found}.json").unlink()
    hold.ask("resume_agent", session=name)
    assert found in hold.await_condition(name, "lost_conversation")["sentence"]
