"""Model servers over HTTP: Ollama, LM Studio, and whatever speaks the dialect of OpenAI.

The run of a session is a program of ours (`http_bridge`) that holds the conversation. The key is in
its environment, never in its arguments, and nothing that it prints has it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.adapters.backends.adapter import (
    Act,
    Answer,
    Decide,
    Ended,
    Heard,
    Installed,
    Interrupt,
    Launch,
    Plan,
    Prompt,
    Verdict,
)
from holdfast.adapters.backends.http_bridge import KEY
from holdfast.adapters.backends.lines import (
    Facts,
    as_dict,
    as_list,
    as_text,
    class_of,
    parse,
    raw,
    texts_of,
    word,
    write,
)
from holdfast.vocabulary.agents import AgentEventKind, FailureClass
from holdfast.vocabulary.specs.backends import BackendSpec

BRIDGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "http_bridge.py")
ADDRESSES = {
    "ollama": "http://127.0.0.1:11434",
    "lm_studio": "http://127.0.0.1:1234",
    "openai": "http://127.0.0.1:8080",
}
"""Where each kind listens unless it is told otherwise; for `openai`, llama.cpp."""
_REFUSED = (401, 403)


class HttpServer:
    """The adapter."""

    usual = sys.executable
    install = ""
    questions: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def check(self, spec: BackendSpec) -> Plan:
        """Say how the server is asked for its health."""
        return self._bridge(spec, "check", {})

    def understand(
        self, spec: BackendSpec, program: str, answers: Mapping[str, Answer]
    ) -> Installed:
        said = answers["check"]
        found = as_dict(parse(said.out.encode()))
        level = as_text(found.get("level")) or "none"
        error = as_text(found.get("error")) or ("" if found else said.err.strip()[-300:])
        if not found and not error:
            error = "it did not answer in time"
        is_refused = found.get("status") in _REFUSED
        failure = None
        if is_refused:
            failure = FailureClass.NEEDS_LOGIN
        elif error:
            is_there = level != "none" and found.get("status") is None
            failure = FailureClass.BAD_FLAG if is_there else FailureClass.UPSTREAM_UNREACHABLE
        if level == "models" and spec.health == "answers":
            failure = failure if is_refused else FailureClass.UPSTREAM_UNREACHABLE
        return Installed(
            path=self.address_of(spec),
            version=as_text(found.get("version")) or None,
            capabilities=("prompt", "interrupt", "resume", "fork"),
            login="no" if is_refused else "yes" if level in ("models", "answers") else "unknown",
            failure=failure,
            sentence=f"{self.address_of(spec)}: {error}" if error else "",
            fix=self._fix(spec, failure),
            health=level,
            models=tuple(map(as_text, as_list(found.get("models")))),
        )

    def plan(self, launch: Launch) -> Plan:
        settings = {
            "session": launch.session,
            "history": launch.history,
            "is_resumed": launch.provider_id is not None,
            "is_fork": launch.is_fork,
        }
        return self._bridge(launch.spec, "serve", settings)

    def dialect(self, launch: Launch, memory: dict[str, Any]) -> BridgeDialect:
        return BridgeDialect(memory)

    def judge(self, ended: Ended) -> Verdict:
        """Judge by the last words. The bridge ends by itself for a lost conversation only."""
        texts = texts_of(ended)
        found = class_of(texts[:1])
        failure, line = found or (FailureClass.CRASHED, texts[0][:300] if texts else "")
        is_over = ended.code is not None or ended.signal is not None
        if is_over and failure is not FailureClass.LOST_CONVERSATION:
            how = ended.signal or f"exit code {ended.code}"
            sentence = f"the bridge to {self.kind} ended ({how})"
            return Verdict(failure=FailureClass.CRASHED, sentence=sentence, retry="backoff")
        fix = self._fix(None, failure)
        return Verdict(failure=failure, sentence=f"{self.kind}: {line}", fix=fix)

    def address_of(self, spec: BackendSpec) -> str:
        return spec.url or ADDRESSES[self.kind]

    def _bridge(self, spec: BackendSpec, action: str, settings: Facts) -> Plan:
        settings = {
            "dialect": self.kind,
            "url": self.address_of(spec),
            "model": spec.model,
            "first_token": spec.first_token,
            "gap": spec.gap,
            "health": spec.health,
            **settings,
        }
        words = (sys.executable, "-I", "-S", BRIDGE, action)
        env = {KEY: spec.key} if spec.key else {}
        return Plan(argv=(*words, msgspec.json.encode(settings).decode()), env=env)

    def _fix(self, spec: BackendSpec | None, failure: FailureClass | None) -> str:
        match failure:
            case FailureClass.NEEDS_LOGIN:
                return "set the `key` of the backend in holdfast.yaml"
            case FailureClass.UPSTREAM_UNREACHABLE if spec is not None and spec.service:
                return f"holdfast start {spec.service}"
            case FailureClass.UPSTREAM_UNREACHABLE:
                return "start the model server, or correct the `url` of the backend"
            case FailureClass.BAD_FLAG:
                return "install the model at the server, or correct the `model` of the backend"
            case _:
                return ""


class BridgeDialect:
    """The language of our bridge: the events themselves, one a line."""

    def __init__(self, memory: dict[str, Any]) -> None:
        self.memory = memory

    def greet(self) -> bytes:
        return write({"do": "begin"})

    def say(self, act: Act) -> bytes:
        match act:
            case Prompt(turn, text):
                return write({"do": "prompt", "turn": turn, "text": text})
            case Interrupt(turn):
                return write({"do": "interrupt", "turn": turn})
            case Decide():
                return b""  # it asks for no permission

    def hear(self, stream: str, line: bytes) -> Heard:
        facts = parse(line) if stream == "out" else None
        if facts is None:
            return Heard([raw(line, stream)] if line.strip() else [])
        try:
            kind = AgentEventKind(facts.pop("kind", None))
        except ValueError:
            return Heard([raw(line)])
        return Heard([word(kind, **facts)])


def adapter_for(kind: str) -> HttpServer:
    return HttpServer(kind)
