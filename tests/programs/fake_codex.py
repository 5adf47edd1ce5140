"""A scripted stand-in for `codex app-server`: its JSON-RPC lines without the field `jsonrpc`.

Standard library only. The prompt says what it does: `say TEXT`, `tool COMMAND` asks for permission,
`hang`, `die`, `history`. A conversation is a file in HOME.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
HOME = Path(os.environ.get("HOME", "/tmp")) / "fake-codex"
THREAD: Facts = {"id": "", "prompts": []}


def send(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def tell(method: str, **params: Any) -> None:
    send(method=method, params={"threadId": THREAD["id"], **params})


def read() -> Facts:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    found: Facts = json.loads(line)
    return found


def open_thread(message: Facts) -> None:
    params = message["params"]
    before = params.get("threadId")
    path = HOME / f"{before}.json"
    if before is not None and not path.exists():
        send(id=message["id"], error={"code": -32600, "message": f"no rollout found for {before}"})
        return
    THREAD["prompts"] = json.loads(path.read_text()) if before is not None else []
    is_same = message["method"] == "thread/resume"
    THREAD["id"] = before if is_same else f"thread-{os.getpid()}"
    save()
    thread = {"id": THREAD["id"], "cliVersion": "9.9.9"}
    send(id=message["id"], result={"thread": thread, "model": "fake"})


def save() -> None:
    HOME.mkdir(exist_ok=True, parents=True)
    (HOME / f"{THREAD['id']}.json").write_text(json.dumps(THREAD["prompts"]))


def say(text: str) -> None:
    item = {"type": "agentMessage", "id": "item-1", "text": text}
    tell("item/started", item={**item, "text": ""})
    tell("item/agentMessage/delta", itemId="item-1", delta=text)
    tell("item/completed", item=item)


def end(status: str = "completed") -> None:
    used = {"inputTokens": 11 * len(THREAD["prompts"]), "outputTokens": 7 * len(THREAD["prompts"])}
    tell("thread/tokenUsage/updated", tokenUsage={"total": used})
    tell("turn/completed", turn={"id": "turn-1", "status": status, "error": None})


def wait_for_interrupt() -> None:
    while True:
        message = read()
        if message.get("method") == "turn/interrupt":
            send(id=message["id"], result={})
            end("interrupted")
            return


def obey(text: str) -> None:
    word, _, rest = text.partition(" ")
    if word == "say":
        say(rest)
        end()
    elif word == "history":
        say(" | ".join(THREAD["prompts"]))
        end()
    elif word == "tool":
        item = {"type": "commandExecution", "id": "item-2", "command": rest, "cwd": "."}
        tell("item/started", item=item)
        asked = {"itemId": "item-2", "command": rest, "reason": "it writes"}
        send(id=77, method="item/commandExecution/requestApproval", params=asked)
        answer = read()
        is_allowed = answer["id"] == 77 and answer["result"]["decision"] == "accept"
        status = "completed" if is_allowed else "declined"
        tell("item/completed", item={**item, "status": status, "aggregatedOutput": status})
        say("it was done" if is_allowed else "refused")
        end()
    elif word == "hang":
        tell("item/agentMessage/delta", itemId="item-1", delta="thinking")
        wait_for_interrupt()
    elif word == "die":
        os._exit(9)
    elif word == "junk":
        sys.stdout.write('not json at all\n{"type":"martian","x":1}\n')
        say("after junk")
        end()
    elif word == "retry":
        tell("error", error={"message": "Reconnecting… 1/5: ENOTFOUND"}, willRetry=True)
        wait_for_interrupt()


def main() -> None:
    if "--version" in sys.argv:
        print("codex-cli 9.9.9")
        return
    if "--help" in sys.argv or "login" in sys.argv:
        print("app-server")
        return
    while True:
        message = read()
        match message.get("method"):
            case "initialize":
                send(id=message["id"], result={"userAgent": "fake"})
            case "thread/start" | "thread/resume" | "thread/fork":
                open_thread(message)
            case "turn/start":
                send(id=message["id"], result={"turn": {"id": "turn-1", "status": "inProgress"}})
                text = message["params"]["input"][0]["text"]
                THREAD["prompts"].append(text)
                save()
                tell("turn/started", turn={"id": "turn-1"})
                obey(text)
            case _:
                pass


if __name__ == "__main__":
    main()
