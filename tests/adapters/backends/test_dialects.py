"""What every adapter promises, over recorded and broken streams: none raises, nothing is lost."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.backends.adapter import (
    Decide,
    Ended,
    Heard,
    Interrupt,
    Launch,
    Prompt,
)
from holdfast.adapters.backends.registry import BUILT_IN, adapter_for
from holdfast.vocabulary.agents import AgentEventKind, FailureClass
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.specs.backends import BackendSpec

SESSION = "session-00000000-0000-4000-8000-000000000000"
RECORDED: dict[str, list[dict[str, Any]]] = {
    "claude": [
        {"type": "control_response",
         "response": {"subtype": "success", "request_id": "holdfast-hello", "response": {}}},
        {"type": "system", "subtype": "init", "session_id": "id-1", "model": "m"},
        {"type": "stream_event", "event": {"type": "content_block_delta", "index": 0,
         "delta": {"type": "text_delta", "text": "hi"}}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}},
        {"type": "control_request", "request_id": "r1",
         "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "hi",
         "usage": {"input_tokens": 1, "output_tokens": 2}},
    ],
    "codex": [
        {"id": "holdfast-hello", "result": {}},
        {"id": "holdfast-thread", "result": {"thread": {"id": "id-1"}, "model": "m"}},
        {"method": "item/agentMessage/delta", "params": {"itemId": "i", "delta": "hi"}},
        {"id": 5, "method": "item/commandExecution/requestApproval",
         "params": {"itemId": "i2", "command": "ls"}},
        {"method": "thread/tokenUsage/updated",
         "params": {"tokenUsage": {"total": {"inputTokens": 1, "outputTokens": 2}}}},
        {"method": "turn/completed", "params": {"turn": {"status": "completed"}}},
    ],
    "acp": [
        {"id": "holdfast-initialize", "result": {"protocolVersion": 1, "agentCapabilities": {}}},
        {"id": "holdfast-session", "result": {"sessionId": "id-1"}},
        {"method": "session/update", "params": {"update": {"sessionUpdate": "agent_message_chunk",
         "content": {"type": "text", "text": "hi"}}}},
        {"id": 5, "method": "session/request_permission", "params": {
         "toolCall": {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls"}},
         "options": [{"optionId": "y", "kind": "allow_once"}]}},
        {"id": "holdfast-prompt-1", "result": {"stopReason": "end_turn",
         "usage": {"inputTokens": 1, "outputTokens": 2}}},
    ],
}  # fmt: skip
"""One turn of each dialect, as the programs print it."""
KINDS = tuple(BUILT_IN)
SERVERS = ("ollama", "lm_studio", "openai")
"""Kinds whose dialect is that of our own bridge."""
BRIDGED: list[dict[str, Any]] = [
    {"kind": "session.bound", "provider_id": "id-1", "model": "m"},
    {"kind": "thought.delta", "text": "hm"},
    {"kind": "text.delta", "text": "hi"},
    {"kind": "approval.requested", "request": "r1", "input": {"command": "ls"}},
    {"kind": "usage", "input_tokens": 1, "output_tokens": 2},
    {"kind": "turn.finished", "reason": "done"},
]


def stream_of(kind: str) -> list[dict[str, Any]]:
    return BRIDGED if kind in SERVERS else RECORDED.get(kind) or RECORDED["acp"]


def launch(kind: str, **facts: Any) -> Launch:
    spec = BackendSpec(name="x", kind=kind, model="a-model", key="a-key")
    return Launch(spec=spec, session=SESSION, folder="/work", program="/bin/agent", **facts)


def hear_all(kind: str, lines: list[bytes], memory: dict[str, Any] | None = None) -> list[Heard]:
    dialect = adapter_for(kind).dialect(launch(kind), {} if memory is None else memory)
    return [dialect.hear("out", line) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorded_turn_is_told_in_the_one_vocabulary(kind: str) -> None:
    """Ready, text, a permission, usage, the end: the same words from every dialect."""
    heard = hear_all(kind, [json.dumps(facts).encode() for facts in stream_of(kind)])
    words = [word for one in heard for word in one.words]
    found = {word.kind for word in words}
    assert found >= {
        AgentEventKind.SESSION_BOUND,
        AgentEventKind.TEXT_DELTA,
        AgentEventKind.APPROVAL_REQUESTED,
        AgentEventKind.USAGE,
        AgentEventKind.TURN_FINISHED,
    }
    assert AgentEventKind.RAW not in found
    assert "".join(w.data["text"] for w in words if w.kind is AgentEventKind.TEXT_DELTA) == "hi"
    asked = next(w.data for w in words if w.kind is AgentEventKind.APPROVAL_REQUESTED)
    assert asked["input"] == {"command": "ls"}
    used = next(w.data for w in words if w.kind is AgentEventKind.USAGE)
    assert (used["input_tokens"], used["output_tokens"]) == (1, 2)
    assert words[-1].data["reason"] == "done"


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_supervisor_goes_on_at_any_line(kind: str) -> None:
    """A new dialect with the old memory, as JSON, understands the rest as the old one would."""
    lines = [json.dumps(facts).encode() for facts in stream_of(kind)]
    whole = hear_all(kind, lines)
    for cut in range(len(lines)):
        memory: dict[str, Any] = {}
        before = hear_all(kind, lines[:cut], memory)
        after = hear_all(kind, lines[cut:], json.loads(json.dumps(memory)))
        assert before + after == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "subtype", "message", "content", "event", "delta", "response", "id"),
                    *("method", "params", "result", "error", "update", "sessionUpdate", "item"),
                    *("request", "request_id", "turn", "usage", "toolCall", "options", "text"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("kind", KINDS)
@given(line=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_line_raises_and_none_is_lost(kind: str, line: bytes) -> None:
    """Whatever is printed: it is understood, or kept as it was."""
    for stream in ("out", "err"):
        dialect = adapter_for(kind).dialect(launch(kind), {})
        heard = dialect.hear(stream, line)
        for word in heard.words:
            if word.kind is AgentEventKind.RAW:
                text = word.data["text"]
                assert text == line.decode("utf-8", "backslashreplace")
        is_object = line.lstrip().startswith(b"{")
        if not is_object and line.strip():
            assert [word.kind for word in heard.words] == [AgentEventKind.RAW]


@pytest.mark.parametrize("kind", KINDS)
@given(at=st.integers(0, 5), name=st.text(max_size=5), value=JSON)
def test_a_broken_field_does_no_harm(kind: str, at: int, name: str, value: Any) -> None:
    """Any field of a recorded line may be anything: the next line is understood all the same."""
    recorded = stream_of(kind)
    broken = dict(recorded[at % len(recorded)])
    broken[list(broken)[len(name) % len(broken)]] = value
    dialect = adapter_for(kind).dialect(launch(kind), {})
    dialect.hear("out", json.dumps(broken).encode())
    json.dumps(dialect.memory)
    text = recorded[2]
    heard = dialect.hear("out", json.dumps(text).encode())
    assert [word.kind for word in heard.words] in ([AgentEventKind.TEXT_DELTA], [])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_is_one_line_each(kind: str) -> None:
    """Greeting, prompt, interrupt and both decisions are lines of JSON; a prompt keeps its text."""
    memory: dict[str, Any] = {}
    hear_all(kind, [json.dumps(facts).encode() for facts in stream_of(kind)], memory)
    dialect = adapter_for(kind).dialect(launch(kind), memory)
    text = 'two\nlines "and" ünïcode'
    said = [
        dialect.greet(),
        dialect.say(Prompt(1, text)),
        dialect.say(Interrupt(1)),
        dialect.say(Decide("5", False, "no")),
        dialect.say(Decide("r1", True, "")),
    ]
    if kind in SERVERS:
        assert said[3:] == [b"", b""], "a model server asks for no permission"
        del said[3:]
    for data in said:
        assert data.endswith(b"\n")
        for line in data.splitlines():
            json.loads(line)
    assert json.dumps(text, ensure_ascii=False).encode()[1:-1] in said[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_names_the_conversation_and_no_secret(kind: str) -> None:
    """The key is in the environment and never among the arguments."""
    adapter = adapter_for(kind)
    for facts in ({}, {"provider_id": "id-1"}, {"provider_id": "id-1", "is_fork": True}):
        plan = adapter.plan(launch(kind, mcp=("holdfast", "mcp"), **facts))
        assert plan.argv[0] == (sys.executable if kind in SERVERS else "/bin/agent")
        assert not any("a-key" in word for word in plan.argv)
    if kind == "claude":
        assert plan.argv[plan.argv.index("--resume") + 1] == "id-1"
        assert "--fork-session" in plan.argv


@pytest.mark.parametrize(
    ("kind", "code", "errors", "failure"),
    [
        ("claude", 1, "Invalid API key · Please run /login", FailureClass.NEEDS_LOGIN),
        ("claude", 1, "No conversation found with session ID: x", FailureClass.LOST_CONVERSATION),
        ("claude", 1, "error: unknown option '--x'", FailureClass.BAD_FLAG),
        ("claude", 137, "", FailureClass.CRASHED),
        ("codex", 2, "error: unexpected argument '--x' found", FailureClass.BAD_FLAG),
        ("codex", 1, "Not inside a trusted directory", FailureClass.NEEDS_TRUST),
        ("codex", 1, "no rollout found for thread id x (-32600)", FailureClass.LOST_CONVERSATION),
        ("gemini", 41, "Please set an Auth method", FailureClass.NEEDS_LOGIN),
        ("gemini", 55, "", FailureClass.NEEDS_TRUST),
        ("gemini", 1, "fetch failed: getaddrinfo ENOTFOUND", FailureClass.UPSTREAM_UNREACHABLE),
        ("opencode", 1, "429 Too Many Requests", FailureClass.RATE_LIMITED),
        ("ollama", 1, "Traceback: 429", FailureClass.CRASHED),
        ("openai", 1, "conversation not found: x", FailureClass.LOST_CONVERSATION),
        ("acp", 127, "sh: my-agent: not found", FailureClass.NOT_INSTALLED),
    ],
)
def test_an_end_has_a_class(kind: str, code: int, errors: str, failure: FailureClass) -> None:
    """What was printed and how it exited decide; the sentence says it in words."""
    ended = Ended(code, None, 1.0, False, (errors,) if errors else (), ())
    verdict = adapter_for(kind).judge(ended)
    assert verdict.failure is failure
    assert verdict.sentence


def test_an_unknown_kind_names_the_known_ones() -> None:
    """Nothing is guessed about a kind that nobody knows."""
    with pytest.raises(Failed, match="no adapter"):
        adapter_for("abacus")
