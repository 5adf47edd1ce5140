"""How sessions end and go on: crashes, bad starts, and the deaths of supervisor and keeper."""

from __future__ import annotations

import os
import signal

import pytest

from tests.engine.agents.conftest import FAILURES, AgentHold, kinds, text_of
from tests.harness import kill_9, wait_for


def test_a_crash_resumes_the_exact_conversation(hold: AgentHold) -> None:
    """kill −9 in mid-turn: the turn has failed, and the next process has the conversation."""
    name = hold.begin()
    hold.turn(name, "say before")
    turn = hold.prompt(name, "hang")
    wait_for(lambda: text_of(hold.events(name)).endswith("thinking"))
    before = hold.service(name)["pid"]
    kill_9(before)
    assert hold.await_turn(name, turn)[-1]["reason"] == "failed"
    hold.await_condition(name, "ready")
    assert hold.service(name)["pid"] != before
    assert "say before | hang | history" in text_of(hold.turn(name, "history"))
    ended = [one for one in hold.events(name) if one["kind"] == "run.ended"]
    assert (ended[0]["failure"], ended[0]["signal"]) == ("crashed", "SIGKILL")


@pytest.mark.parametrize(
    ("backend", "failure"),
    [
        ("flag", "bad_flag"),
        ("trust", "needs_trust"),
        ("login", "needs_login"),
        ("other", "crashed"),
    ],
)
def test_an_exit_before_ready_is_diagnosed_and_not_repeated(
    hold: AgentHold, backend: str, failure: str
) -> None:
    """C7: an agent that ends before it is ready is not restarted; its class and words are told."""
    service, said = hold.begin(f"bad-{backend}"), FAILURES[backend]
    agent = hold.await_condition(service, failure)
    assert said[:20] in agent["sentence"]
    assert agent["fix"]
    assert kinds(hold.events(service)).count("run.started") == 1
    explained = hold.ask("explain", service=service)["explanations"][0]
    assert said[:20] in explained["summary"]
    assert agent["fix"] in explained["next"]


def test_a_program_that_is_not_there(hold: AgentHold) -> None:
    """A missing program is told with the command that installs it."""
    service = hold.begin("missing")
    agent = hold.await_condition(service, "not_installed")
    assert "npm install" in agent["fix"]
    found = hold.ask("list_backends", backends=["missing"], probe=True)["backends"][0]
    assert found["failure"] == "not_installed"


def test_three_crashes_suppress_it(hold: AgentHold) -> None:
    """Crashes in a row end in `suppressed`; a restart by hand is always possible."""
    name = hold.begin("fragile")
    for turn in (1, 2):
        hold.prompt(name, "die kill")
        hold.await_turn(name, turn)
        if turn == 1:
            hold.await_condition(name, "ready")
    agent = hold.await_condition(name, "suppressed")
    assert agent["crashes"] == 2
    assert "holdfast agent restart" in agent["fix"]
    hold.ask("restart_agent", session=name)
    hold.await_condition(name, "ready")


def test_a_lost_conversation_is_named(hold: AgentHold) -> None:
    """Resume is by exact id: if the backend has lost it, this is said and nothing else is taken."""
    name = hold.begin()
    hold.turn(name, "say one")
    hold.ask("stop_agent", session=name)
    hold.await_condition(name, "stopped")
    found = hold.agent(name)["provider_id"]
    (hold.folder / "fake-claude" / f"{found}.json").unlink()
    hold.ask("resume_agent", session=name)
    assert found in hold.await_condition(name, "lost_conversation")["sentence"]


def numbers(hold: AgentHold, name: str) -> list[int]:
    return [int(word) for word in text_of(hold.events(name)).split()]


def test_no_event_is_lost_or_told_twice_when_the_supervisor_dies(hold: AgentHold) -> None:
    """kill −9 of the supervisor in mid-turn, twice: every piece is in the transcript once."""
    name = hold.begin()
    turn = hold.prompt(name, "count 1500")
    for least in (50, 400):
        wait_for(lambda least=least: len(numbers(hold, name)) > least)
        hold.kill_supervisor()
    events = hold.await_turn(name, turn)
    assert numbers(hold, name) == list(range(1500))
    assert [one["seq"] for one in hold.events(name)] == list(range(1, len(hold.events(name)) + 1))
    assert events[-1]["reason"] == "done"
    assert text_of(hold.turn(name, "say on")) == "on"


def test_a_permission_outlives_the_supervisor(hold: AgentHold) -> None:
    """The agent waits, and the next supervisor has the same entry in its inbox."""
    name = hold.begin()
    turn = hold.prompt(name, "tool Bash {}")
    before = wait_for(lambda: hold.agent(name)["approvals"])
    hold.kill_supervisor()
    wait_for(lambda: hold.ask("approvals")["waiting"])
    assert hold.agent(name)["approvals"] == before
    hold.ask("approve", approval=before[0])
    assert text_of(hold.await_turn(name, turn)) == "it was done"


def test_a_turn_outlives_the_keeper(hold: AgentHold) -> None:
    """kill −9 of the keeper in mid-turn: the agent goes on, and what it said is there once."""
    name = hold.begin()
    turn = hold.prompt(name, "count 1000")
    wait_for(lambda: len(numbers(hold, name)) > 50)
    pid, keeper = hold.service(name)["pid"], hold.keeper_pid
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: hold.keeper_pid != keeper, what="the next keeper")
    hold.await_turn(name, turn)
    assert hold.service(name)["pid"] == pid
    assert numbers(hold, name) == list(range(1000))
    assert text_of(hold.turn(name, "say on")) == "on"
