"""Claude Code, by its stream of JSON lines, with permission requests over standard input.

Asked for by `-p --input-format stream-json --output-format stream-json --verbose`, it stays for
many turns. An exit code says little: a refused login exits with «success» and `is_error`.
"""

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
    parse,
    raw,
    version_in,
    word,
    write,
)
from holdfast.vocabulary.agents import AgentEventKind as Kind
from holdfast.vocabulary.agents import FailureClass
from holdfast.vocabulary.specs.backends import BackendSpec

LOGIN = "claude auth login"
INSTALL = "npm install -g @anthropic-ai/claude-code"
_HELLO = "holdfast-hello"


class Claude:
    """The adapter."""

    kind = "claude"
    usual = "claude"
    install = INSTALL
    questions: Mapping[str, tuple[str, ...]] = {
        "version": ("--version",),
        "help": ("--help",),
        "login": ("auth", "status"),
    }

    def understand(
        self, spec: BackendSpec, program: str, answers: Mapping[str, Answer]
    ) -> Installed:
        said, status = answers["help"].out, answers["login"]
        has_key = any(spec.env.get(name) for name in ("ANTHROPIC_API_KEY",)) or spec.key
        is_in = bool(as_dict(parse(status.out.encode())).get("loggedIn")) or status.code == 0
        login = "yes" if has_key or is_in else "no" if status.code == 1 else "unknown"
        able = ["prompt", "interrupt", "approvals"]
        able += ["resume"] if "--resume" in said else []
        able += ["fork"] if "--fork-session" in said else []
        able += ["mcp"] if "--mcp-config" in said else []
        return Installed(
            path=program,
            version=version_in(answers["version"].out),
            capabilities=tuple(able),
            login=login,  # type: ignore[arg-type]
            failure=FailureClass.NEEDS_LOGIN if login == "no" else None,
            sentence="claude is not logged in" if login == "no" else "",
            fix=LOGIN if login == "no" else "",
        )

    def plan(self, launch: Launch) -> Plan:
        spec = launch.spec
        program = launch.program or self.usual
        words = [program, *spec.command[1:]]
        is_pty = spec.mode == "pty"
        if not is_pty:
            words += ["-p", "--input-format", "stream-json", "--output-format", "stream-json"]
            words += ["--verbose", "--include-partial-messages"]
            words += ["--permission-prompt-tool", "stdio"]
        if launch.provider_id is None:
            words += ["--session-id", launch.session.removeprefix("session-")]
        else:
            words += ["--resume", launch.provider_id]
            words += ["--fork-session"] if launch.is_fork else []
        if spec.model:
            words += ["--model", spec.model]
        if launch.mcp:
            server = {"command": launch.mcp[0], "args": list(launch.mcp[1:])}
            servers = {"mcpServers": {"holdfast": server}}
            words += ["--mcp-config", msgspec.json.encode(servers).decode()]
        env = {"ANTHROPIC_API_KEY": spec.key} if spec.key else {}
        if spec.url:
            env["ANTHROPIC_BASE_URL"] = spec.url
        return Plan(argv=(*words, *spec.args), env=env, has_ready=not is_pty)

    def dialect(self, launch: Launch, memory: dict[str, Any]) -> ClaudeDialect:
        return ClaudeDialect(memory)

    def judge(self, ended: Ended) -> Verdict:
        return judge(ended, "claude", LOGIN, {})


class ClaudeDialect:
    """The language of one run of Claude Code."""

    def __init__(self, memory: dict[str, Any]) -> None:
        self.memory = memory
        """`asked`: the input of each tool that waits for a permission; `bound`: the id."""

    def greet(self) -> bytes:
        return write(
            {
                "type": "control_request",
                "request_id": _HELLO,
                "request": {"subtype": "initialize", "hooks": None},
            }
        )

    def say(self, act: Act) -> bytes:
        match act:
            case Prompt(_, text):
                content = [{"type": "text", "text": text}]
                message = {"role": "user", "content": content}
                return write({"type": "user", "message": message, "parent_tool_use_id": None})
            case Interrupt(turn):
                return _control(f"holdfast-interrupt-{turn}", {"subtype": "interrupt"})
            case Decide(request, is_approved, reason):
                given = self.memory.get("asked", {}).pop(request, {})
                answer: Facts = {"behavior": "deny", "message": reason or "It was refused."}
                if is_approved:
                    answer = {"behavior": "allow", "updatedInput": given}
                response = {"subtype": "success", "request_id": request, "response": answer}
                return write({"type": "control_response", "response": response})

    def hear(self, stream: str, line: bytes) -> Heard:
        facts = parse(line) if stream == "out" else None
        if facts is None:
            return Heard([raw(line, stream)] if line.strip() else [])
        kind = facts.get("type")
        handler = getattr(self, f"_on_{kind}", None) if isinstance(kind, str) else None
        if handler is None:
            return Heard([raw(line)])
        try:
            heard: Heard | None = handler(facts)
        except (TypeError, ValueError, KeyError, AttributeError):
            heard = None
        return heard if heard is not None else Heard([raw(line)])

    def _on_system(self, facts: Facts) -> Heard | None:
        match facts.get("subtype"):
            case "init":
                words = []
                self.memory["bound"] = str(facts.get("session_id") or "")
                words.append(
                    word(
                        Kind.SESSION_BOUND,
                        provider_id=facts.get("session_id"),
                        model=facts.get("model"),
                        version=facts.get("claude_code_version"),
                    )
                )
                return Heard(words)
            case "api_retry":
                return Heard(
                    [
                        word(
                            Kind.RETRYING,
                            attempt=as_count(facts.get("attempt")),
                            most=as_count(facts.get("max_retries")),
                            delay=facts.get("retry_delay_ms", 0) / 1000,
                            cause=str(facts.get("error") or facts.get("error_status") or ""),
                        )
                    ]
                )
            case _:
                return None

    def _on_control_response(self, facts: Facts) -> Heard | None:
        response = as_dict(facts.get("response"))
        if response.get("request_id") != _HELLO:
            return Heard([])
        if response.get("subtype") == "error":
            return Heard([word(Kind.WARNING, text=str(response.get("error")))])
        # The id of the conversation comes with the first turn only; it is the one that was given.
        return Heard([word(Kind.SESSION_BOUND, account=_account(response))])

    def _on_control_request(self, facts: Facts) -> Heard:
        request = as_dict(facts.get("request"))
        identity = str(facts.get("request_id"))
        if request.get("subtype") != "can_use_tool":
            error = {"subtype": "error", "request_id": identity, "error": "not supported"}
            return Heard([], write({"type": "control_response", "response": error}))
        given = as_dict(request.get("input"))
        self.memory.setdefault("asked", {})[identity] = given
        return Heard(
            [
                word(
                    Kind.APPROVAL_REQUESTED,
                    request=identity,
                    tool=str(request.get("tool_name")),
                    title=str(request.get("title") or request.get("description") or ""),
                    input=given,
                    reason=request.get("decision_reason"),
                )
            ]
        )

    def _on_control_cancel_request(self, facts: Facts) -> Heard:
        identity = str(facts.get("request_id"))
        self.memory.get("asked", {}).pop(identity, None)
        settled = word(
            Kind.APPROVAL_SETTLED, request=identity, is_approved=False, reason="taken back"
        )
        return Heard([settled])

    def _on_stream_event(self, facts: Facts) -> Heard:
        event = as_dict(facts.get("event"))
        match event.get("type"):
            case "content_block_delta":
                delta = as_dict(event.get("delta"))
                if delta.get("type") == "text_delta":
                    self.memory["streamed"] = True
                    return Heard([word(Kind.TEXT_DELTA, text=str(delta.get("text") or ""))])
                if delta.get("type") == "thinking_delta":
                    return Heard([word(Kind.THOUGHT_DELTA, text=str(delta.get("thinking") or ""))])
                return Heard([])
            case _:
                return Heard([])

    def _on_assistant(self, facts: Facts) -> Heard:
        words: list[AgentWord] = []
        message = as_dict(facts.get("message"))
        was_streamed = self.memory.pop("streamed", False)
        for block in as_list(message.get("content")):
            part = as_dict(block)
            if part.get("type") == "tool_use":
                words.append(
                    word(
                        Kind.TOOL_STARTED,
                        id=str(part.get("id")),
                        tool=str(part.get("name")),
                        input=as_dict(part.get("input")),
                    )
                )
            elif part.get("type") == "text" and not was_streamed:
                words.append(word(Kind.TEXT_DELTA, text=as_text(part.get("text"))))
        if facts.get("error"):
            words.append(word(Kind.WARNING, text=str(facts["error"])))
        return Heard(words)

    def _on_user(self, facts: Facts) -> Heard:
        words = []
        for block in as_list(as_dict(facts.get("message")).get("content")):
            part = as_dict(block)
            if part.get("type") == "tool_result":
                words.append(
                    word(
                        Kind.TOOL_FINISHED,
                        id=str(part.get("tool_use_id")),
                        is_error=bool(part.get("is_error")),
                        text=as_text(part.get("content")),
                    )
                )
        return Heard(words)

    def _on_result(self, facts: Facts) -> Heard:
        usage = as_dict(facts.get("usage"))
        is_error = bool(facts.get("is_error"))
        subtype = str(facts.get("subtype") or "")
        text = as_text(facts.get("result")) or "; ".join(map(str, as_list(facts.get("errors"))))
        is_interrupted = subtype == "error_during_execution" and not facts.get("result")
        reason = "interrupted" if is_interrupted else "failed" if is_error else "done"
        return Heard(
            [
                word(
                    Kind.USAGE,
                    input_tokens=_sum(
                        usage,
                        "input_tokens",
                        "cache_creation_input_tokens",
                        "cache_read_input_tokens",
                    ),
                    output_tokens=_sum(usage, "output_tokens"),
                    total_cost=facts.get("total_cost_usd"),
                ),
                word(
                    Kind.TURN_FINISHED,
                    reason=reason,
                    text=text if reason == "failed" else None,
                    result=text if reason == "done" else None,
                ),
            ]
        )

    def _on_rate_limit_event(self, facts: Facts) -> Heard:
        info = as_dict(facts.get("rate_limit_info"))
        return Heard(
            [word(Kind.RATE_LIMIT, status=info.get("status"), resets_at=info.get("resetsAt"))]
        )


def _control(identity: str, request: Facts) -> bytes:
    return write({"type": "control_request", "request_id": identity, "request": request})


def _account(response: Facts) -> str | None:
    account = as_dict(as_dict(response.get("response")).get("account"))
    found = account.get("apiKeySource") or account.get("subscriptionType")
    return str(found) if found else None


def _sum(usage: Facts, *names: str) -> int:
    return sum(as_count(usage.get(name)) or 0 for name in names)


def adapter_for(kind: str) -> Claude:
    return Claude()
