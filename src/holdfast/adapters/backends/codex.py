"""Codex, by its app server: JSON-RPC lines without the field `jsonrpc`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.adapters.backends.adapter import (
    Act,
    AgentWord,
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
    judge,
    version_in,
    word,
)
from holdfast.adapters.backends.rpc import Rpc, final, only
from holdfast.vocabulary.agents import AgentEventKind as Kind
from holdfast.vocabulary.agents import FailureClass
from holdfast.vocabulary.specs.backends import BackendSpec

LOGIN = "codex login"
INSTALL = "npm install -g @openai/codex"
_RPC = Rpc({})
_HELLO, _OPEN, _TURN, _STOP = "holdfast-hello", "holdfast-thread", "holdfast-turn-", "holdfast-end-"
_STATUS = {"completed": "done", "interrupted": "interrupted", "failed": "failed"}
_TOOLS = {
    "commandExecution": "shell",
    "fileChange": "edit",
    "mcpToolCall": "mcp",
    "webSearch": "web_search",
    "dynamicToolCall": "tool",
    "collabAgentToolCall": "agent",
}
_SILENT = (
    *("thread/started", "thread/status/changed", "turn/started", "turn/diff/updated"),
    *("thread/name/updated", "account/updated", "mcpServer/startupStatus/updated"),
    *("item/reasoning/summaryPartAdded", "remoteControl/status/changed", "skills/changed"),
    *("serverRequest/resolved", "thread/settings/updated", "app/list/updated"),
)


class Codex:
    """The adapter."""

    kind = "codex"
    usual = "codex"
    install = INSTALL
    questions: Mapping[str, tuple[str, ...]] = {
        "version": ("--version",),
        "help": ("--help",),
        "login": ("login", "status"),
    }

    def understand(
        self, spec: BackendSpec, program: str, answers: Mapping[str, Answer]
    ) -> Installed:
        has_server = "app-server" in answers["help"].out
        is_in = answers["login"].code == 0 or bool(spec.key)
        # A provider of the user's own needs no login, so being out of it is no failure by itself.
        able = ["prompt", "interrupt", "approvals", "resume", "fork", "mcp"] if has_server else []
        return Installed(
            path=program,
            version=version_in(answers["version"].out),
            capabilities=tuple(able),
            login="yes" if is_in else "no",
            failure=None if has_server else FailureClass.BAD_FLAG,
            sentence="" if has_server else "this codex has no app-server",
            fix="" if has_server else INSTALL,
        )

    def plan(self, launch: Launch) -> Plan:
        spec = launch.spec
        words = [launch.program or self.usual, *spec.command[1:]]
        if launch.mcp:
            program, *rest = launch.mcp
            words += ["-c", f"mcp_servers.holdfast.command={_toml(program)}"]
            words += ["-c", f"mcp_servers.holdfast.args={_toml(rest)}"]
        words += spec.args
        is_pty = spec.mode == "pty"
        if is_pty:
            words += ["resume", launch.provider_id] if launch.provider_id else []
        else:
            words += ["app-server"]
        env = {"OPENAI_API_KEY": spec.key, "CODEX_API_KEY": spec.key} if spec.key else {}
        return Plan(argv=tuple(words), env=env, has_ready=not is_pty)

    def dialect(self, launch: Launch, memory: dict[str, Any]) -> CodexDialect:
        return CodexDialect(launch, memory)

    def judge(self, ended: Ended) -> Verdict:
        codes = {2: FailureClass.BAD_FLAG} if not ended.was_ready else {}
        return judge(ended, "codex", LOGIN, codes)


class CodexDialect:
    """The language of one run. `memory`: `thread`, the `turn` under way, the ids of permissions
    that are `asked`, the message that is `streamed` and the tokens that were `counted`."""

    def __init__(self, launch: Launch, memory: dict[str, Any]) -> None:
        self._launch = launch
        self.memory = memory

    def greet(self) -> bytes:
        client = {"name": "holdfast", "title": "Holdfast", "version": "1"}
        return _RPC.request(_HELLO, "initialize", clientInfo=client)

    def say(self, act: Act) -> bytes:
        thread = self.memory.get("thread")
        match act:
            case Prompt(turn, text):
                given = [{"type": "text", "text": text, "text_elements": []}]
                return _RPC.request(f"{_TURN}{turn}", "turn/start", threadId=thread, input=given)
            case Interrupt(turn):
                current = self.memory.get("turn")
                return _RPC.request(
                    f"{_STOP}{turn}", "turn/interrupt", threadId=thread, turnId=current
                )
            case Decide(request, is_approved, _):
                identity = self.memory.get("asked", {}).pop(request, request)
                return _RPC.answer(identity, {"decision": "accept" if is_approved else "decline"})

    def hear(self, stream: str, line: bytes) -> Heard:
        return _RPC.hear(stream, line, asked=self._asked, told=self._told, answered=self._answered)

    def _answered(self, identity: str, result: Facts, error: Facts | None) -> Heard | None:
        if error is not None and identity.startswith(_TURN):
            text = str(error.get("message"))
            return only(word(Kind.TURN_FINISHED, reason="failed", text=text))
        if error is not None and identity in (_HELLO, _OPEN):
            return final(f"{error.get('message')} ({error.get('code')})")
        if error is not None:
            code = error.get("code")
            return only(word(Kind.WARNING, text=f"{error.get('message')} ({code})"))
        if identity == _HELLO:
            return Heard([], _RPC.notify("initialized") + self._open())
        if identity == _OPEN:
            thread = as_dict(result.get("thread"))
            self.memory["thread"] = thread.get("id")
            model, version = result.get("model"), thread.get("cliVersion")
            facts = {"provider_id": thread.get("id"), "model": model, "version": version}
            return only(word(Kind.SESSION_BOUND, **facts))
        if identity.startswith(_TURN):
            self.memory["turn"] = as_dict(result.get("turn")).get("id")
            return Heard([])
        return Heard([]) if identity.startswith(_STOP) else None

    def _open(self) -> bytes:
        spec, before = self._launch.spec, self._launch.provider_id
        params: Facts = {"cwd": self._launch.folder, "approvalPolicy": "on-request"}
        if spec.model:
            params["model"] = spec.model
        if before is None:
            return _RPC.request(_OPEN, "thread/start", sandbox="workspace-write", **params)
        method = "thread/fork" if self._launch.is_fork else "thread/resume"
        return _RPC.request(_OPEN, method, threadId=before, **params)

    def _asked(self, identity: Any, method: str, params: Facts) -> Heard | None:
        if not method.endswith("/requestApproval"):
            return None
        request = str(identity)
        self.memory.setdefault("asked", {})[request] = identity
        tool = _TOOLS.get(method.split("/")[1], "tool")
        given = {name: params[name] for name in ("command", "cwd", "grantRoot") if name in params}
        return only(
            word(
                Kind.APPROVAL_REQUESTED,
                request=request,
                tool=tool,
                title=str(params.get("reason") or ""),
                input={key: value for key, value in given.items() if value is not None},
                id=params.get("itemId"),
            )
        )

    def _told(self, method: str, params: Facts) -> Heard | None:
        item = as_dict(params.get("item"))
        match method:
            case "item/agentMessage/delta":
                self.memory["streamed"] = params.get("itemId")
                return only(word(Kind.TEXT_DELTA, text=as_text(params.get("delta"))))
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                return only(word(Kind.THOUGHT_DELTA, text=as_text(params.get("delta"))))
            case "item/commandExecution/outputDelta" | "item/fileChange/outputDelta":
                text = as_text(params.get("delta"))
                return only(word(Kind.TOOL_UPDATED, id=str(params.get("itemId")), text=text))
            case "item/started":
                return self._on_started(item)
            case "item/completed":
                return self._on_completed(item)
            case "turn/completed":
                return self._on_end_of_turn(as_dict(params.get("turn")))
            case "turn/plan/updated":
                return only(word(Kind.PLAN, entries=as_list(params.get("plan"))))
            case "thread/tokenUsage/updated":
                return self._on_usage(as_dict(as_dict(params.get("tokenUsage")).get("total")))
            case "account/rateLimits/updated":
                limits = as_dict(as_dict(params.get("rateLimits")).get("primary"))
                used, resets = limits.get("usedPercent"), limits.get("resetsAt")
                return only(word(Kind.RATE_LIMIT, used_percent=used, resets_at=resets))
            case "error":
                return self._on_error(params)
            case "warning" | "configWarning" | "deprecationNotice":
                text = as_text(params.get("message") or params.get("summary"))
                return only(word(Kind.WARNING, text=text))
            case _:
                return Heard([]) if method in _SILENT else None

    def _on_error(self, params: Facts) -> Heard:
        text = as_text(as_dict(params.get("error")).get("message"))
        kind = Kind.RETRYING if params.get("willRetry") else Kind.WARNING
        return only(word(kind, cause=text) if kind is Kind.RETRYING else word(kind, text=text))

    def _on_started(self, item: Facts) -> Heard:
        kind = str(item.get("type"))
        tool = _TOOLS.get(kind)
        if tool is None:
            return Heard([])
        given = {name: item[name] for name in ("command", "cwd", "arguments") if name in item}
        named = str(item.get("tool") or tool)
        return only(word(Kind.TOOL_STARTED, id=str(item.get("id")), tool=named, input=given))

    def _on_completed(self, item: Facts) -> Heard:
        kind = str(item.get("type"))
        if kind == "agentMessage" and self.memory.pop("streamed", None) != item.get("id"):
            return only(word(Kind.TEXT_DELTA, text=as_text(item.get("text"))))
        if kind not in _TOOLS:
            return Heard([])
        status = item.get("status")
        text = as_text(item.get("aggregatedOutput")) or as_text(item.get("result"))
        is_error = status in ("failed", "declined")
        identity = str(item.get("id"))
        return only(word(Kind.TOOL_FINISHED, id=identity, is_error=is_error, text=text))

    def _on_end_of_turn(self, turn: Facts) -> Heard:
        reason = _STATUS.get(str(turn.get("status")), "failed")
        text = as_text(as_dict(turn.get("error")).get("message")) if reason == "failed" else None
        self.memory.pop("turn", None)
        return only(word(Kind.TURN_FINISHED, reason=reason, text=text))

    def _on_usage(self, total: Facts) -> Heard:
        """Tell what was added; the server tells what the whole conversation has used."""
        before = as_dict(self.memory.get("counted"))
        now = {name: as_count(total.get(name)) or 0 for name in ("inputTokens", "outputTokens")}
        self.memory["counted"] = now
        added = {name: max(0, now[name] - (before.get(name) or 0)) for name in now}
        used: AgentWord = word(
            Kind.USAGE, input_tokens=added["inputTokens"], output_tokens=added["outputTokens"]
        )
        return only(used)


def _toml(value: str | list[str]) -> str:
    """Return a text or a list of texts as TOML, of which JSON's strings are a part."""
    return msgspec.json.encode(value).decode()


def adapter_for(kind: str) -> Codex:
    return Codex()
