"""Sessions with a real llama.cpp server and a tiny model of our own making.

They need a Python with the packages xllamacpp and gguf: HOLDFAST_LLAMA names it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.engine.agents.conftest import AgentHold, text_of
from tests.harness import PROGRAMS, kill_9, wait_for

PYTHON = os.environ.get("HOLDFAST_LLAMA", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="HOLDFAST_LLAMA names no Python with xllamacpp")


@pytest.fixture(scope="module")
def llama() -> Iterator[AgentHold]:
    """One Holdfast with llama.cpp as a service that its backend starts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with AgentHold() as hold:
        command = [PYTHON, str(PROGRAMS / "llama_server.py"), str(hold.folder), str(port)]
        llama = {
            "command": command,
            "autostart": False,
            "readiness": {"log": "listening"},
            "restart": {"delay": "100ms"},
        }
        url = f"http://127.0.0.1:{port}"
        backend = {"kind": "openai", "url": url, "service": "llama", "health": "answers"}
        hold.write({"services": {"llama": llama}, "backends": {"local": backend}})
        hold.up()
        yield hold


def test_a_real_llama_is_started_answers_is_interrupted_and_comes_back(llama: AgentHold) -> None:
    """C35 with llama.cpp: the service starts first, text streams, an interrupt ends the turn at
    once, and kill −9 of the server fails only the turn."""
    name = llama.begin("local")
    turn = llama.prompt(name, "Tell me everything.")
    wait_for(lambda: text_of(llama.events(name)), what="the first piece")
    llama.ask("interrupt", session=name)
    events = llama.await_turn(name, turn)
    assert events[-1]["reason"] == "interrupted"
    found = llama.ask("list_backends", backends=["local"], probe=True)["backends"][0]
    assert (found["health"], found["failure"]) == ("answers", None)
    assert len(found["models"]) == 1
    turn = llama.prompt(name, "Once more.")
    last = len(llama.events(name))
    wait_for(lambda: text_of(llama.events(name)[last:]), what="the first piece")
    kill_9(llama.service("llama")["pid"])
    assert llama.await_turn(name, turn)[-1]["reason"] == "failed"
    assert llama.agent(name)["crashes"] == 0
