"""What the models of real assistants see of Holdfast's tools, set up by `mcp config --write`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.agents import programs
from tests.agents.models import Call, ModelServer, Say, Step
from tests.agents.programs import CLAUDE, CODEX, PROGRAMS, Program
from tests.gate.mcp.conftest import HELLO, McpHold, quick


@pytest.fixture(scope="module")
def hold() -> Iterator[McpHold]:
    bad = ["sh", "-c", "echo oh no; exit 3"]
    services = {
        "web": quick(HELLO),
        "bad": quick(bad, autostart=False, start_retries=0),
    }
    with McpHold({"run": True, "send": True}, **services) as hold:
        hold.environ["PATH"] = programs.make_holdfast(hold.folder)
        hold.up("web")
        yield hold


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as models:
        yield models


def play(hold: McpHold, models: ModelServer, program: Program, *steps: Step) -> list[str]:
    """Let an assistant play a script; return the results that its model saw."""
    programs.path_of(program.name)
    home = hold.folder / program.name
    # Its own file first, which may be where Holdfast is written to.
    environ = {**hold.environ, **program.environ(home, hold.project, models.url)}
    words = ["holdfast", "mcp", "config", program.name, "--write"]
    subprocess.run(words, cwd=hold.project, env=environ, check=True, timeout=60)
    models.play(*steps, Say("All is well."))
    done = program.run(hold.project, "How are the services?", environ)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "All is well." in done.stdout, (done.stdout, done.stderr)
    return models.results


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_model_sees_the_words_of_a_tool(
    hold: McpHold, models: ModelServer, program: Program
) -> None:
    """In every assistant: the state of a service, and what it printed."""
    status, logs = play(hold, models, program, Call("status"), Call("logs", {"name": "web"}))
    assert "web  running" in status
    assert "hello" in logs


@pytest.mark.parametrize("program", [CLAUDE, CODEX], ids=lambda program: program.name)
def test_a_model_sees_why_something_failed(
    hold: McpHold, models: ModelServer, program: Program
) -> None:
    """The output of a program, and the cause of a failure: nothing is kept from the model."""
    ran, failed = play(
        hold,
        models,
        program,
        Call("run", {"argv": ["sh", "-c", "echo out; exit 4"]}),
        Call("control", {"action": "start", "names": ["bad"]}),
    )
    assert "exit code 4" in ran
    assert "out" in ran
    assert "exit code: 3" in failed
    assert "oh no" in failed


def test_a_model_is_told_what_holdfast_is_for(hold: McpHold, models: ModelServer) -> None:
    """The instructions of the server reach it with the first request."""
    play(hold, models, CLAUDE)
    assert "keeps this project's services running" in models.requests[0].text
