"""Agents that speak the Agent Client Protocol: Gemini CLI, OpenCode, and any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
from holdfast.adapters.backends.lines import (
    Facts,
    as_count,
    as_dict,
    as_list,
    as_text,
    class_of,
    judge,
    version_in,
    word,
)
from holdfast.adapters.backends.rpc import Rpc, final, only
from holdfast.vocabulary.agents import AgentEventKind as Kind
from holdfast.vocabulary.agents import FailureClass
from holdfast.vocabulary.specs.backends import BackendSpec

VERSION = 1
_RPC = Rpc({"jsonrpc": "2.0"})
_HELLO, _OPEN, _PROMPT = "holdfast-initialize", "holdfast-session", "holdfast-prompt-"
_REASONS = {"end_turn": "done", "cancelled": "interrupted", "max_tokens": "limit"}
_OVER = ("completed", "failed")


class _Program(NamedTuple):
    """What is particular about one program that speaks ACP."""

    usual: str = ""
    words: tuple[str, ...] = ()
    install: str = ""
    login: str = ""
    key: str = ""
    """The variable in which it takes its key."""
    model: str = ""
    """The option for the model."""
    codes: Mapping[int, FailureClass] = {}


PROGRAMS = {
    "acp": _Program(),
    "gemini": _Program(
        usual="gemini",
        words=("--acp",),
        install="npm install -g @google/gemini-cli",
        login="gemini",
        key="GEMINI_API_KEY",
        model="--model",
        codes={41: FailureClass.NEEDS_LOGIN, 55: FailureClass.NEEDS_TRUST},
    ),
    "opencode": _Program(
        usual="opencode",
        words=("acp",),
        install="npm install -g opencode-ai",
        login="opencode auth login",
    ),
}


class Acp:
    """The adapter of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._program = PROGRAMS[kind]
        self.usual = self._program.usual
        self.install = self._program.install
        is_known = bool(self.usual)
        self.questions: Mapping[str, tuple[str, ...]] = (
            {"version": ("--version",)} if is_known else {}
        )

    def understand(
        self, spec: BackendSpec, program: str, answers: Mapping[str, Answer]
    ) -> Installed:
        said = answers.get("version")
        return Installed(
            path=program,
            version=version_in(said.out) if said is not None else None,
            capabilities=("prompt", "interrupt", "approvals", "mcp"),
        )

    def plan(self, launch: Launch) -> Plan:
        spec, known = launch.spec, self._program
        words = [launch.program or self.usual, *spec.command[1:]]
        is_pty = spec.mode == "pty"
        # A command that the configuration names says itself how it speaks ACP.
        if not is_pty and len(spec.command) <= 1:
            words += known.words
        if spec.model and known.model:
            words += [known.model, spec.model]
        env = {known.key: spec.key} if spec.key and known.key else {}
        return Plan(argv=(*words, *spec.args), env=env, has_ready=not is_pty)

    def dialect(self, launch: Launch, memory: dict[str, Any]) -> AcpDialect:
        return AcpDialect(launch, memory)

    def judge(self, ended: Ended) -> Verdict:
        name = self.usual or "the agent"
        return judge(ended, name, self._program.login, dict(self._program.codes))


class AcpDialect:
    """The language of one run. `memory`: `session`, `options` of each permission that is asked,
    `is_loading` while the agent tells again what was said before."""

    def __init__(self, launch: Launch, memory: dict[str, Any]) -> None:
        self._launch = launch
        self.memory = memory

    def greet(self) -> bytes:
        files = {"readTextFile": False, "writeTextFile": False}
        able = {"fs": files, "terminal": False}
        return _RPC.request(_HELLO, "initialize", protocolVersion=VERSION, clientCapabilities=able)

    def say(self, act: Act) -> bytes:
        session = self.memory.get("session")
        match act:
            case Prompt(turn, text):
                content = [{"type": "text", "text": text}]
                identity = f"{_PROMPT}{turn}"
                return _RPC.request(identity, "session/prompt", sessionId=session, prompt=content)
            case Interrupt():
                return _RPC.notify("session/cancel", sessionId=session)
            case Decide(request, is_approved, _):
                asked = as_dict(self.memory.get("options", {}).pop(request, None))
                chosen = asked.get("allow" if is_approved else "reject")
                outcome = (
                    {"outcome": "selected", "optionId": chosen}
                    if chosen is not None
                    else {"outcome": "cancelled"}
                )
                return _RPC.answer(asked.get("id", request), {"outcome": outcome})

    def hear(self, stream: str, line: bytes) -> Heard:
        return _RPC.hear(stream, line, asked=self._asked, told=self._told, answered=self._answered)

    def _answered(self, identity: str, result: Facts, error: Facts | None) -> Heard | None:
        if identity == _HELLO:
            return self._on_hello(result, error)
        if identity == _OPEN:
            return self._on_open(result, error)
        if identity.startswith(_PROMPT):
            return self._on_end_of_turn(result, error)
        return None

    def _on_hello(self, result: Facts, error: Facts | None) -> Heard:
        if error is not None:
            return final(_said(error))
        able = as_dict(result.get("agentCapabilities"))
        servers = []
        if self._launch.mcp:
            program, *words = self._launch.mcp
            servers = [{"name": "holdfast", "command": program, "args": words, "env": []}]
        params: Facts = {"cwd": self._launch.folder, "mcpServers": servers}
        before = self._launch.provider_id
        if before is None:
            return Heard([], _RPC.request(_OPEN, "session/new", **params))
        further = as_dict(able.get("sessionCapabilities"))
        if self._launch.is_fork:
            if "fork" not in further:
                text = "the agent cannot fork a conversation"
                return final(text)
            return Heard([], _RPC.request(_OPEN, "session/fork", sessionId=before, **params))
        self.memory["session"] = before
        if "resume" in further:
            return Heard([], _RPC.request(_OPEN, "session/resume", sessionId=before, **params))
        if not able.get("loadSession"):
            text = "no saved session: the agent cannot load a conversation"
            return final(text)
        self.memory["is_loading"] = True
        return Heard([], _RPC.request(_OPEN, "session/load", sessionId=before, **params))

    def _on_open(self, result: Facts, error: Facts | None) -> Heard:
        self.memory.pop("is_loading", None)
        if error is not None:
            return final(_said(error))
        session = result.get("sessionId") or self.memory.get("session")
        self.memory["session"] = session
        models = as_dict(result.get("models"))
        bound = word(Kind.SESSION_BOUND, provider_id=session, model=models.get("currentModelId"))
        return only(bound)

    def _on_end_of_turn(self, result: Facts, error: Facts | None) -> Heard:
        if error is not None:
            said = _said(error)
            return only(word(Kind.TURN_FINISHED, reason="failed", text=said))
        stopped = str(result.get("stopReason"))
        reason = _REASONS.get(stopped, "failed")
        usage = as_dict(result.get("usage"))
        words = []
        if usage:
            counted = {
                "input_tokens": as_count(usage.get("inputTokens")),
                "output_tokens": as_count(usage.get("outputTokens")),
            }
            words.append(word(Kind.USAGE, **counted))
        text = stopped if reason == "failed" else None
        return Heard([*words, word(Kind.TURN_FINISHED, reason=reason, text=text)])

    def _asked(self, identity: Any, method: str, params: Facts) -> Heard | None:
        if method != "session/request_permission":
            return None
        options = [as_dict(option) for option in as_list(params.get("options"))]
        request = str(identity)
        self.memory.setdefault("options", {})[request] = {
            "id": identity,
            "allow": _option(options, "allow_once", "allow_always"),
            "reject": _option(options, "reject_once", "reject_always"),
        }
        call = as_dict(params.get("toolCall"))
        return only(
            word(
                Kind.APPROVAL_REQUESTED,
                request=request,
                tool=str(call.get("kind") or call.get("title") or "tool"),
                title=str(call.get("title") or ""),
                input=as_dict(call.get("rawInput")),
                id=call.get("toolCallId"),
            )
        )

    def _told(self, method: str, params: Facts) -> Heard | None:
        if method != "session/update":
            return None
        if self.memory.get("is_loading"):
            return Heard([])
        update = as_dict(params.get("update"))
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                return only(word(Kind.TEXT_DELTA, text=as_text(update.get("content"))))
            case "agent_thought_chunk":
                return only(word(Kind.THOUGHT_DELTA, text=as_text(update.get("content"))))
            case "tool_call":
                return only(_started(update))
            case "tool_call_update":
                return only(_updated(update))
            case "plan":
                return only(word(Kind.PLAN, entries=as_list(update.get("entries"))))
            case "usage_update":
                cost = as_dict(update.get("cost")).get("amount")
                return only(word(Kind.USAGE, total_cost=cost))
            case "user_message_chunk" | "available_commands_update" | "current_mode_update":
                return Heard([])
            case _:
                return None


def _started(update: Facts) -> Any:
    return word(
        Kind.TOOL_STARTED,
        id=str(update.get("toolCallId")),
        tool=str(update.get("kind") or "tool"),
        title=str(update.get("title") or ""),
        input=as_dict(update.get("rawInput")),
    )


def _updated(update: Facts) -> Any:
    identity, status = str(update.get("toolCallId")), update.get("status")
    text = as_text(update.get("content")) or as_text(update.get("rawOutput"))
    if status in _OVER:
        return word(Kind.TOOL_FINISHED, id=identity, is_error=status == "failed", text=text)
    return word(Kind.TOOL_UPDATED, id=identity, text=text or None)


def _option(options: list[Facts], *kinds: str) -> Any:
    for kind in kinds:
        for option in options:
            if option.get("kind") == kind:
                return option.get("optionId")
    return None


def _said(error: Facts) -> str:
    text = str(error.get("message") or "")
    detail = as_text(as_dict(error.get("data")).get("details"))
    said = f"{text}: {detail}" if detail else text
    is_login = error.get("code") == -32000 and class_of([said]) is None
    return f"authentication required: {said}" if is_login else said


def adapter_for(kind: str) -> Acp:
    return Acp(kind)
