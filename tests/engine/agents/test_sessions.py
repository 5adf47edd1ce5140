"""Sessions with a scripted agent: prompts, permissions, interrupts, budgets, transcripts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError
from tests.engine.agents.conftest import SECRET, AgentHold, kinds, text_of
from tests.harness import wait_for


def test_a_session_answers_prompts(hold: AgentHold) -> None:
    """A prompt is answered in the events of its turn, and usage is counted."""
    name = hold.begin()
    events = hold.turn(name, "say hello world")
    assert text_of(events) == "hello world"
    assert kinds(events)[0] == "turn.started"
    assert events[-1]["reason"] == "done"
    agent = hold.await_condition(name, "ready")
    assert (agent["input_tokens"], agent["output_tokens"], agent["turn"]) == (11, 7, 1)
    custom = hold.ask("metrics", services=[name])["services"][name]["custom"]
    assert (custom["input_tokens"], custom["turns"], custom["cost"]) == (11, 1, 0.01)
    assert agent["provider_id"] == agent["session"].removeprefix("session-")


def test_prompts_wait_for_their_turn(hold: AgentHold) -> None:
    """Prompts that come together are answered one after another, in their order."""
    name = hold.begin()
    turns = [hold.prompt(name, f"say {word}") for word in ("one", "two", "three")]
    assert turns == [1, 2, 3]
    assert [text_of(hold.await_turn(name, turn)) for turn in turns] == ["one", "two", "three"]


def test_a_live_session_is_attached_to(hold: AgentHold) -> None:
    """The same backend in the same folder is used again, unless a new session is asked for."""
    first = hold.begin(working_dir="")
    again = hold.ask("start_or_attach", backend="claude")
    assert again["outcome"] == "attached"
    assert hold.begin() != first


def waiting(hold: AgentHold, name: str) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        session = hold.agent(name)["session"]
        entries = hold.ask("approvals")["waiting"]
        found = [one for one in entries if one["session"] == session]
        return found[0] if found else None

    found: dict[str, Any] = wait_for(find, what="an approval")
    return found


def test_a_permission_is_asked_of_a_person(hold: AgentHold) -> None:
    """The exact call stands in the inbox; approved, the agent does it."""
    name = hold.begin()
    turn = hold.prompt(name, 'tool Bash {"command": "rm -r build"}')
    entry = waiting(hold, name)
    assert entry["arguments"]["tool"] == "Bash"
    assert entry["arguments"]["input"] == {"command": "rm -r build"}
    assert hold.agent(name)["condition"] == "waiting_approval"
    hold.ask("approve", approval=entry["approval"])
    events = hold.await_turn(name, turn)
    assert text_of(events) == "it was done"
    settled = next(one for one in events if one["kind"] == "approval.settled")
    assert settled["is_approved"] is True


def test_a_refusal_tells_the_agent_why(hold: AgentHold) -> None:
    """The reason of a refusal reaches the agent."""
    name = hold.begin()
    turn = hold.prompt(name, 'tool Bash {"command": "git push"}')
    hold.ask("reject", approval=waiting(hold, name)["approval"], reason="not on a Friday")
    assert text_of(hold.await_turn(name, turn)) == "refused: not on a Friday"


def test_nobody_decides_in_time(hold: AgentHold) -> None:
    """A permission that nobody decides within `approve_within` is refused."""
    name = hold.begin("impatient")
    events = hold.turn(name, "tool Bash {}")
    assert "nobody approved it in time" in text_of(events)


def test_rules_decide_without_a_person(hold: AgentHold) -> None:
    """The first rule that matches tool and target decides."""
    name = hold.begin("ruled")
    assert text_of(hold.turn(name, 'tool Read {"file_path": "a.txt"}')) == "it was done"
    denied = text_of(hold.turn(name, 'tool Bash {"command": "git push -f"}'))
    assert denied.startswith("refused: a rule")


def test_a_turn_is_interrupted(hold: AgentHold) -> None:
    """An interrupt ends the turn; the session goes on."""
    name = hold.begin()
    turn = hold.prompt(name, "hang")
    wait_for(lambda: "text.delta" in kinds(hold.events(name)))
    hold.ask("interrupt", session=name)
    assert hold.await_turn(name, turn)[-1]["reason"] == "interrupted"
    assert text_of(hold.turn(name, "say still here")) == "still here"


def test_an_agent_that_retries_has_not_crashed(hold: AgentHold) -> None:
    """Trouble with the network is a condition of a running agent, never a crash."""
    name = hold.begin()
    turn = hold.prompt(name, "retry")
    agent = hold.await_condition(name, "retrying")
    assert (agent["state"], agent["failure"]) == ("running", "upstream_unreachable")
    assert "ENOTFOUND" in agent["sentence"]
    hold.ask("interrupt", session=name)
    hold.await_turn(name, turn)


def test_a_stalled_turn_is_interrupted(hold: AgentHold) -> None:
    """Without a sign of life for `stall`, the turn is interrupted; the session stays."""
    name = hold.begin("quick")
    events = hold.turn(name, "hang")
    assert events[-1]["reason"] == "interrupted"
    assert any("no sign of life" in one.get("text", "") for one in events)


def test_a_stalled_agent_that_takes_no_interrupt_is_started_again(hold: AgentHold) -> None:
    """If the interrupt does not help, another process goes on with the conversation."""
    name = hold.begin("quick")
    hold.turn(name, "say before")
    events = hold.turn(name, "deaf")
    assert events[-1]["reason"] == "interrupted"
    wait_for(lambda: "run.ended" in kinds(hold.events(name)))
    ended = next(one for one in hold.events(name) if one["kind"] == "run.ended")
    assert ended["failure"] == "stalled"
    hold.await_condition(name, "ready")
    assert "say before | deaf | history" in text_of(hold.turn(name, "history"))


def test_a_turn_that_takes_too_long_is_ended_by_its_budget(hold: AgentHold) -> None:
    """`seconds` ends a turn in its middle, and the reason is the limit."""
    name = hold.begin("hasty")
    assert hold.turn(name, "hang")[-1]["reason"] == "limit"
    with pytest.raises(HoldfastError, match="budget"):
        hold.prompt(name, "say two")


def test_a_budget_is_enforced(hold: AgentHold) -> None:
    """When the budget is used up, further prompts are refused with the reason."""
    name = hold.begin("poor")
    hold.turn(name, "say one")
    with pytest.raises(HoldfastError, match="budget"):
        hold.prompt(name, "say two")


def test_unknown_output_is_kept(hold: AgentHold) -> None:
    """What the adapter does not know is in the transcript as it was printed."""
    name = hold.begin()
    events = hold.turn(name, "junk")
    raw = [one["text"] for one in events if one["kind"] == "raw"]
    assert raw == ["not json at all", '{"type":"martian","x":1}']
    assert text_of(events) == "after junk"


def test_a_failed_login_in_a_turn_names_the_cure(hold: AgentHold) -> None:
    """«success» with `is_error` is a failure, and its class has a command that helps."""
    name = hold.begin()
    assert hold.turn(name, "login")[-1]["reason"] == "failed"
    agent = hold.agent(name)
    assert (agent["failure"], agent["fix"]) == ("needs_login", "claude auth login")


def test_no_secret_of_the_environment_is_told(hold: AgentHold) -> None:
    """A key that the agent prints piece by piece is in no event, status or transcript."""
    name = hold.begin()
    events = hold.turn(name, "env ANTHROPIC_API_KEY")
    assert text_of(events).startswith("the value of ANTHROPIC_API_KEY is ")
    assert text_of(events).endswith(" and nothing else")
    assert SECRET[20:] not in text_of(events)
    shown = json.dumps([events, hold.agent(name), hold.ask("events", limit=1000)])
    assert SECRET not in shown
    folder = hold.state / "agents" / hold.agent(name)["session"]
    for path in folder.iterdir():
        assert SECRET not in path.read_text(), path


def test_a_conversation_is_forked(hold: AgentHold) -> None:
    """A fork begins with what was said, and the original stays as it is."""
    name = hold.begin()
    hold.turn(name, "say first")
    forked = hold.ask("fork_agent", session=name)["agent"]["service"]
    assert "say first | history" in text_of(hold.turn(forked, "history"))
    assert hold.agent(forked)["provider_id"].startswith("fork-")
    assert "say first | history" in text_of(hold.turn(name, "history"))


def test_a_stopped_session_is_resumed_exactly(hold: AgentHold) -> None:
    """Stop and resume: another process, the same conversation."""
    name = hold.begin()
    hold.turn(name, "say one")
    hold.ask("stop_agent", session=name)
    hold.await_condition(name, "stopped")
    with pytest.raises(HoldfastError, match="does not run"):
        hold.prompt(name, "say nothing")
    assert hold.ask("resume_agent", session=name)["outcome"] == "resumed"
    assert "say one | history" in text_of(hold.turn(name, "history"))


def test_the_transcript_is_read_by_people(hold: AgentHold) -> None:
    """As Markdown it has prompts, answers and tools."""
    name = hold.begin("ruled")
    hold.turn(name, 'tool Read {"file_path": "a.txt"}')
    text = hold.ask("transcript", session=name, format="markdown")["markdown"]
    assert "## Turn 1" in text
    assert "**Read** `a.txt`" in text
    assert "it was done" in text
    hold.ask("stop_agent", session=name)

    def transcript() -> str:
        return str(hold.ask("transcript", session=name, format="markdown")["markdown"])

    wait_for(lambda: "its process ended: it was stopped" in transcript(), what="the end of the run")


def test_a_task_is_delegated(hold: AgentHold) -> None:
    """Delegating answers what the other backend said, and stops it."""
    answer = hold.ask("delegate", backend="claude", text="say forty-two")
    assert (answer["reason"], answer["text"]) == ("done", "forty-two")
    hold.await_condition(answer["session"], "stopped")


def test_a_turn_with_large_events_is_followed(hold: AgentHold) -> None:
    """Events that are too large to stay in memory reach who waits for the end of the turn."""
    answer = hold.ask("delegate", backend="claude", text="say " + "word " * 80_000 + "end")
    assert answer["reason"] == "done"
    assert answer["text"].endswith("word end")


def test_a_session_that_was_there_is_not_stopped_by_a_delegation(hold: AgentHold) -> None:
    """Whoever waits for a session with `delegate` stops only what was opened for the task."""
    name = hold.begin()
    hold.turn(name, "say mine")
    assert hold.ask("delegate", session=name)["text"] == "mine"
    task = hold.ask("delegate", backend="claude", text="say theirs", seconds=0)
    assert task["reason"] == "working"
    shared = hold.ask("delegate", backend="claude", text="say a", seconds=0)["session"]
    hold.prompt(shared, "say b")
    assert hold.ask("delegate", session=shared)["reason"] == "done"
    other = {"token": hold.ask("create_token", token_name="waits", role="operator")["text"]}
    waited = hold.ask("delegate", session=task["session"], caller={**other, "door": "tcp"})
    assert waited["text"] == "theirs"
    hold.await_condition(task["session"], "stopped")
    # This stop would have come before the other one.
    assert text_of(hold.turn(name, "say still here")) == "still here"
    assert text_of(hold.turn(shared, "say c")) == "c"


def test_a_confined_session_stays_confined(hold: AgentHold) -> None:
    """A copy of it, or its service declared anew, is not started behind a link that leads out."""
    token = hold.ask("create_token", token_name="remote-agents", role="operator")["text"]
    folder, outside = hold.project / "confined", hold.folder / "elsewhere"
    folder.mkdir()
    outside.mkdir()
    name = hold.begin(working_dir="confined", caller={"token": token, "door": "tcp"})
    hold.turn(name, "say inside")
    hold.ask("stop_agent", session=name)
    session = hold.await_condition(name, "stopped")["session"]
    hold.ask("remove", services=[name], keep_logs=True)
    folder.rename(hold.project / "confined-before")
    folder.symlink_to(outside)
    hold.ask("resume_agent", session=session)
    copy = hold.ask("fork_agent", session=session)["agent"]["service"]
    for one in (name, copy):
        state = wait_for(
            lambda one=one: (s := hold.agent(one)["state"]) in ("failed", "running") and s
        )
        assert state == "failed", one


def test_a_transcript_that_cannot_be_written_loses_nothing(hold: AgentHold) -> None:
    """A prompt that comes meanwhile is given once, told once and counted once afterwards."""
    name = hold.begin()
    hold.turn(name, "say before")
    session = hold.await_condition(name, "ready")["session"]
    transcript = hold.state / "agents" / session / "events.jsonl"
    aside = transcript.with_suffix(".aside")
    transcript.rename(aside)
    transcript.mkdir()
    try:
        turn = hold.prompt(name, "say after")
        wait_for(lambda: f"the session {session} failed" in hold.own_logs())
    finally:
        transcript.rmdir()
        aside.rename(transcript)
    events = hold.await_turn(name, turn)
    assert text_of(events) == "after"
    assert kinds(events)[0] == "turn.started"
    numbers = [event["seq"] for event in hold.events(name)]
    assert numbers == list(range(1, len(numbers) + 1))
    agent = hold.await_condition(name, "ready")
    assert (agent["input_tokens"], agent["turn"]) == (22, 2)


def test_a_token_for_other_services_reaches_no_session(hold: AgentHold) -> None:
    """A session is known to limits by its service: who was given others neither sees, reads,
    resumes nor copies it, also beside a service that was given; who was given it may do that."""
    name = hold.begin()
    hold.turn(name, "say something private")
    session = hold.agent(name)["session"]

    def caller(label: str, service: str) -> dict[str, str]:
        made = hold.ask("create_token", token_name=label, role="operator", services=[service])
        return {"token": made["text"], "door": "tcp"}

    other, own = caller("other-agents", "mine*"), caller("this-agent", name)
    assert hold.ask("list_agents", caller=other)["agents"] == []
    for named in (name, session, "session-none"):
        for command, fields in {
            "transcript": {},
            "prompt": {"text": "say more"},
            "start_or_attach": {"service": "mine1"},
            "fork_agent": {"service": "mine2"},
        }.items():
            with pytest.raises(HoldfastError, match="limited to"):
                hold.ask(command, session=named, caller=other, **fields)
    told = hold.ask("list_backends", backends=["claude"], caller=other)["backends"]
    assert told[0]["sessions"] == []
    assert [one["service"] for one in hold.ask("list_agents", caller=own)["agents"]] == [name]
    assert hold.ask("transcript", session=session, caller=own)["events"]
    assert hold.ask("prompt", session=name, text="say more", caller=own)["turn"] == 2
    hold.await_turn(name, 2)


def test_an_approved_call_is_done_as_it_was_asked(hold: AgentHold) -> None:
    """A secret in it is in no inbox and no transcript, and yet the agent's call is unchanged."""
    name = hold.begin()
    turn = hold.prompt(name, f'tool Bash {{"command": "login --with {SECRET}"}}')
    entry = waiting(hold, name)
    assert SECRET not in json.dumps(entry)
    hold.ask("approve", approval=entry["approval"])
    events = hold.await_turn(name, turn)
    assert text_of(events) == "it was done"
    assert SECRET not in json.dumps(events)
