"""A scripted agent that speaks the Agent Client Protocol, version 1.

Standard library only. The prompt says what it does: `say TEXT`, `tool COMMAND` asks for permission,
`hang`, `die`, `history`. A conversation is a file in HOME, and loading one tells it again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
HOME = Path(os.environ.get("HOME", "/tmp")) / "fake-acp"
SESSION: Facts = {"id": "", "prompts": []}


def send(**facts: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **facts}) + "\n")
    sys.stdout.flush()


def update(kind: str, /, **facts: Any) -> None:
    known = {"sessionId": SESSION["id"], "update": {"sessionUpdate": kind, **facts}}
    send(method="session/update", params=known)


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def read() -> Facts:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    found: Facts = json.loads(line)
    return found


def save() -> None:
    HOME.mkdir(exist_ok=True, parents=True)
    (HOME / f"{SESSION['id']}.json").write_text(json.dumps(SESSION["prompts"]))


def open_session(message: Facts) -> None:
    before = message["params"].get("sessionId")
    path = HOME / f"{before}.json"
    if before is not None and not path.exists():
        error = {"code": -32602, "message": f"session not found: {before}"}
        send(id=message["id"], error=error)
        return
    SESSION["prompts"] = json.loads(path.read_text()) if before is not None else []
    is_same = message["method"] == "session/load"
    SESSION["id"] = before if is_same else f"acp-{os.getpid()}"
    save()
    for prompt in SESSION["prompts"]:
        update("user_message_chunk", content={"type": "text", "text": prompt})
        say(f"(told again: {prompt})")
    send(id=message["id"], result=None if is_same else {"sessionId": SESSION["id"]})


def wait_for_interrupt() -> str:
    while read().get("method") != "session/cancel":
        pass
    return "cancelled"


def use_tool(command: str) -> str:
    call = {"toolCallId": "call-1", "title": command, "kind": "execute"}
    update("tool_call", **call, rawInput={"command": command})
    options = [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    asked = {"toolCall": {**call, "rawInput": {"command": command}}, "options": options}
    send(id=0, method="session/request_permission", params={"sessionId": SESSION["id"], **asked})
    while "result" not in (answer := read()):
        pass
    is_allowed = answer["id"] == 0 and answer["result"]["outcome"].get("optionId") == "yes"
    update("tool_call_update", toolCallId="call-1", status="completed" if is_allowed else "failed")
    return "it was done" if is_allowed else "refused"


def obey(text: str) -> str:
    word, _, rest = text.partition(" ")
    if word == "say":
        say(rest)
    elif word == "history":
        say(" | ".join(SESSION["prompts"]))
    elif word == "tool":
        say(use_tool(rest))
    elif word == "hang":
        say("thinking")
        return wait_for_interrupt()
    elif word == "die":
        os._exit(9)
    elif word == "junk":
        sys.stdout.write('not json at all\n{"type":"martian","x":1}\n')
        say("after junk")
    return "end_turn"


def main() -> None:
    while True:
        message = read()
        match message.get("method"):
            case "initialize":
                able = {"loadSession": True, "sessionCapabilities": {"fork": {}}}
                result = {"protocolVersion": 1, "agentCapabilities": able, "authMethods": []}
                send(id=message["id"], result=result)
            case "session/new" | "session/load" | "session/fork":
                open_session(message)
            case "session/prompt":
                text = message["params"]["prompt"][0]["text"]
                SESSION["prompts"].append(text)
                save()
                send(id=message["id"], result={"stopReason": obey(text)})
            case _:
                pass


if __name__ == "__main__":
    main()
