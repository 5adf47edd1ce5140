"""Sessions with model servers, against fakes of Ollama's and OpenAI's dialects."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from tests.engine.agents.conftest import AgentHold, kinds, text_of
from tests.harness import kill_9, program, wait_for

KEY = "hf-planted-model-key-7b1d9c"
DIALECTS = ("fake-ollama", "fake-lm-studio", "fake-openai")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Servers(AgentHold):
    """With a fake model server as a service of its own."""

    def __init__(self) -> None:
        self.port, self.own_port, self.silent_port = free_port(), free_port(), free_port()
        super().__init__()
        self.environ["MODEL_KEY"] = KEY

    def declare(self, **_: Any) -> None:
        server = "fake_model_server.py"
        url, own = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.own_port}"
        common = {"url": url, "key": "${MODEL_KEY}", "model": "tiny"}
        backends = {
            "fake-ollama": {"kind": "ollama", **common},
            "fake-lm-studio": {"kind": "lm_studio", **common},
            "fake-openai": {"kind": "openai", **common, "url": f"{url}/v1"},
            "deep": {"kind": "openai", **common, "health": "answers"},
            "other-model": {"kind": "ollama", **common, "model": "missing"},
            "wrong-key": {"kind": "openai", "url": url, "key": f"wrong-{KEY}", "model": "tiny"},
            "hasty": {"kind": "openai", **common, "first_token": "300ms", "gap": "300ms"},
            "unreachable": {"kind": "ollama", "url": f"http://127.0.0.1:{self.silent_port}"},
            "with-service": {"kind": "openai", "url": own, "service": "models"},
        }
        self.write(
            {
                "services": {
                    "server": {
                        "command": program(server, self.port, KEY),
                        "readiness": {"log": "listening"},
                        "restart": {"delay": "100ms"},
                    },
                    "models": {
                        "command": program(server, self.own_port),
                        "readiness": {"log": "listening"},
                        "autostart": False,
                    },
                },
                "backends": backends,
            }
        )

    def counts(self) -> dict[str, int]:
        with urlopen(f"http://127.0.0.1:{self.port}/counts", timeout=10) as answer:
            found: dict[str, int] = json.load(answer)
            return found

    def probe(self, backend: str) -> dict[str, Any]:
        answer = self.ask("list_backends", backends=[backend], probe=True)
        found: dict[str, Any] = answer["backends"][0]
        return found


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """One Holdfast with model servers for this module."""
    with Servers() as hold:
        hold.up()
        hold.wait_status("server", "running")
        yield hold


@pytest.mark.parametrize("backend", DIALECTS)
def test_a_prompt_is_answered_and_the_conversation_kept(servers: Servers, backend: str) -> None:
    """Each dialect streams text and usage; the next prompt has the conversation before it."""
    name = servers.begin(backend)
    events = servers.turn(name, "say hello world")
    assert (text_of(events), events[-1]["reason"]) == ("hello world", "done")
    usage = next(one for one in events if one["kind"] == "usage")
    assert (usage["input_tokens"], usage["output_tokens"]) == (11, 7)
    assert text_of(servers.turn(name, "history")) == (
        "user: say hello world | assistant: hello world | user: history"
    )
    found = servers.probe(backend)
    assert (found["failure"], found["health"], found["login"]) == (None, "models", "yes")
    assert any(model.startswith("tiny") for model in found["models"])


@pytest.mark.parametrize("backend", ["fake-ollama", "fake-openai"])
def test_an_interrupt_closes_the_request_at_the_server(servers: Servers, backend: str) -> None:
    """The server sees the end of the request, and the session answers the next prompt."""
    name = servers.begin(backend)
    before = servers.counts()["closed"]
    turn = servers.prompt(name, "hang")
    wait_for(lambda: "thinking" in text_of(servers.events(name)), what="the first piece")
    servers.ask("interrupt", session=name)
    assert servers.await_turn(name, turn)[-1]["reason"] == "interrupted"
    wait_for(lambda: servers.counts()["closed"] == before + 1, what="the request to be closed")
    assert text_of(servers.turn(name, "say on")) == "on"


def test_a_crash_of_the_bridge_rebuilds_the_conversation(servers: Servers) -> None:
    """kill −9 in mid-stream: the turn has failed; the next run has the conversation."""
    name = servers.begin("fake-openai")
    servers.turn(name, "say before")
    turn = servers.prompt(name, "hang")
    wait_for(lambda: "thinking" in text_of(servers.events(name)), what="the first piece")
    before = servers.service(name)["pid"]
    kill_9(before)
    assert servers.await_turn(name, turn)[-1]["reason"] == "failed"
    servers.await_condition(name, "ready")
    assert servers.service(name)["pid"] != before
    history = text_of(servers.turn(name, "history"))
    assert history.startswith("user: say before | assistant: before | user: hang")
    assert next(e for e in servers.events(name) if e["kind"] == "run.ended")["failure"] == "crashed"


def test_a_copy_of_a_conversation_has_its_history_for_ever(servers: Servers) -> None:
    """A fork goes on with the conversation, also after it was stopped and resumed."""
    name = servers.begin("fake-ollama")
    servers.turn(name, "say one")
    copy = servers.ask("fork_agent", session=name)["agent"]["service"]
    wanted = "user: say one | assistant: one | user: "
    assert text_of(servers.turn(copy, "history")) == wanted + "history"
    servers.ask("stop_agent", session=copy)
    servers.await_condition(copy, "stopped")
    servers.ask("resume_agent", session=copy)
    servers.await_condition(copy, "ready")
    assert text_of(servers.turn(copy, "history")).startswith(wanted)


def test_a_turn_outlives_the_supervisor(servers: Servers) -> None:
    """kill −9 of the supervisor in mid-stream: every piece is in the transcript once."""
    name = servers.begin("fake-openai")
    turn = servers.prompt(name, "count 1000")
    wait_for(lambda: len(text_of(servers.events(name)).split()) > 50, what="some pieces")
    servers.kill_supervisor()
    events = servers.await_turn(name, turn)
    assert text_of(events).split() == [str(number) for number in range(1000)]
    assert events[-1]["reason"] == "done"


@pytest.mark.parametrize("backend", ["fake-ollama", "fake-openai"])
@pytest.mark.parametrize(
    ("prompt", "said"), [("cut", "without saying that it is done"), ("break", "the stream")]
)
def test_a_stream_without_its_end_is_a_failure(
    servers: Servers, backend: str, prompt: str, said: str
) -> None:
    """A missing `done` is told; what came before it is kept, and the session goes on."""
    name = servers.begin(backend)
    events = servers.turn(name, prompt)
    assert text_of(events) == "thinking "
    assert events[-1]["reason"] == "failed"
    assert said in events[-1]["text"]
    assert text_of(servers.turn(name, "say on")) == "on"


@pytest.mark.parametrize(("prompt", "said"), [("silent", "no first token"), ("hang", "no next")])
def test_a_server_that_says_nothing_is_left(servers: Servers, prompt: str, said: str) -> None:
    """The watchdogs of the first token and of the gap end the request at the server, too."""
    name = servers.begin("hasty")
    before = servers.counts()["closed"]
    events = servers.turn(name, prompt)
    assert events[-1]["reason"] == "failed"
    assert said in events[-1]["text"]
    wait_for(lambda: servers.counts()["closed"] == before + 1, what="the request to be closed")


def test_a_wrong_key_is_named_and_never_shown(servers: Servers) -> None:
    """A refused key needs a login; the server's words are told without the key."""
    name = servers.begin("wrong-key")
    assert servers.turn(name, "say no")[-1]["reason"] == "failed"
    agent = servers.await_condition(name, "ready")
    assert agent["failure"] == "needs_login"
    assert "`key`" in agent["fix"]
    found = servers.probe("wrong-key")
    assert (found["failure"], found["health"], found["login"]) == ("needs_login", "reachable", "no")
    recorded = servers.raw(name).decode()
    shown = json.dumps([servers.events(name), found, agent]) + recorded
    assert "Incorrect API key" in shown
    assert KEY not in shown


def test_a_missing_model_is_named(servers: Servers) -> None:
    """A server without the model is reachable, lists what it has, and the turn says why."""
    found = servers.probe("other-model")
    assert (found["health"], found["failure"]) == ("reachable", "bad_flag")
    assert "tiny:latest" in found["models"]
    name = servers.begin("other-model")
    assert "model missing not found" in servers.turn(name, "say x")[-1]["text"]


def test_the_third_level_asks_for_an_answer(servers: Servers) -> None:
    """`health: answers` asks the model for one token."""
    before = servers.counts()["chats"]
    assert servers.probe("deep")["health"] == "answers"
    assert servers.counts()["chats"] == before + 1


def test_a_server_that_is_not_there_is_no_crash(servers: Servers) -> None:
    """The session is alive and says so; the breaker opens, and closes when the server comes."""
    name = servers.begin("unreachable")
    agent = servers.await_condition(name, "retrying")
    assert agent["failure"] == "upstream_unreachable"
    pid = servers.service(name)["pid"]
    events = servers.turn(name, "say x")
    assert events[-1]["reason"] == "failed"
    assert "it is asked again in" in events[-1]["text"]
    assert (servers.probe("unreachable")["health"], servers.agent(name)["crashes"]) == ("none", 0)
    command = program("fake_model_server.py", servers.silent_port)
    servers.ask("run", argv=command, service="late-server")
    servers.await_condition(name, "ready")
    wait_for(lambda: kinds(servers.events(name)).count("session.bound") > 1, what="the probe")
    assert servers.service(name)["pid"] == pid
    assert text_of(servers.turn(name, "say there")) == "there"
    servers.ask("stop", services=["late-server"])
    events = servers.turn(name, "say gone")
    assert kinds(events) == ["turn.started", "retrying", "retrying", "turn.finished"]
    assert events[-1]["reason"] == "failed"
    assert (servers.service(name)["pid"], servers.agent(name)["crashes"]) == (pid, 0)


def test_the_server_dies_in_the_middle_and_comes_back(servers: Servers) -> None:
    """The turn fails with its reason; the server, a service, is restarted and answers again."""
    name = servers.begin("fake-openai")
    events = servers.turn(name, "die")
    assert (text_of(events), events[-1]["reason"]) == ("thinking ", "failed")
    servers.wait_status("server", "running")

    def is_answered() -> bool:
        return text_of(servers.turn(name, "say again")) == "again"

    wait_for(is_answered, what="an answer of the server that came back")


def test_a_session_starts_the_service_of_its_server(servers: Servers) -> None:
    """C35: `service:` is started first, and the first prompt is answered."""
    assert servers.service("models")["status"] == "pending"
    name = servers.begin("with-service")
    assert text_of(servers.turn(name, "say up")) == "up"
    assert servers.service("models")["status"] == "running"
