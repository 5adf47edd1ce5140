"""A scripted stand-in for Claude Code: its command line, its stream of JSON lines, its habits.

Standard library only. The prompt says what it does: `say TEXT`, `tool TOOL {input}` asks for
permission, `count N` prints many pieces, `hang`, `die CODE`, `env NAME`, `retry`, `junk`,
`limit`. A conversation is a file in HOME, so that resuming one shows that it is the same.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
HOME = Path(os.environ.get("HOME", "/tmp")) / "fake-claude"


def send(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def option(name: str) -> str | None:
    words = sys.argv[1:]
    return words[words.index(name) + 1] if name in words else None


class Conversation:
    """What a session of it remembers, on disk as the real one has it."""

    def __init__(self) -> None:
        resumed, chosen = option("--resume"), option("--session-id")
        self.id = resumed or chosen or "none"
        self.path = HOME / f"{self.id}.json"
        self.prompts: list[str] = []
        if resumed is not None:
            if not self.path.exists():
                print(f"No conversation found with session ID: {resumed}", file=sys.stderr)
                sys.exit(1)
            self.prompts = json.loads(self.path.read_text())
            if "--fork-session" in sys.argv:
                self.id = f"fork-{os.getpid()}"
                self.path = HOME / f"{self.id}.json"
        elif self.path.exists():
            print(f"Error: Session ID {chosen} is already in use.", file=sys.stderr)
            sys.exit(1)

    def add(self, text: str) -> None:
        self.prompts.append(text)
        HOME.mkdir(exist_ok=True, parents=True)
        self.path.write_text(json.dumps(self.prompts))


def read() -> Facts:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    found: Facts = json.loads(line)
    return found


def delta(text: str) -> None:
    event = {"type": "content_block_delta", "index": 0}
    send(type="stream_event", event={**event, "delta": {"type": "text_delta", "text": text}})


def say(text: str) -> None:
    delta(text)
    send(
        type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": text}]}
    )


def result(text: str = "", **facts: Any) -> None:
    usage = {"input_tokens": 11, "output_tokens": 7}
    known = {"subtype": "success", "is_error": False, "result": text, "usage": usage}
    send(type="result", **{**known, "total_cost_usd": 0.01 * len(TALK.prompts), **facts})


def tool(name: str, given: Facts) -> None:
    identity = f"tool-{len(TALK.prompts)}"
    block = {"type": "tool_use", "id": identity, "name": name, "input": given}
    send(type="assistant", message={"role": "assistant", "content": [block]})
    asked = {"subtype": "can_use_tool", "tool_name": name, "input": given}
    send(type="control_request", request_id=f"ask-{identity}", request=asked)
    while True:
        facts = read()
        if facts.get("type") == "control_response":
            break
        if answer_control(facts):
            result(subtype="error_during_execution", is_error=True)
            return
    answer = facts["response"]["response"]
    is_allowed = answer["behavior"] == "allow"
    if is_allowed and answer["updatedInput"] != given:
        is_allowed, answer = False, {"message": "the input is another one"}
    text = "it was done" if is_allowed else f"refused: {answer['message']}"
    content = [{"type": "tool_result", "tool_use_id": identity, "is_error": not is_allowed,
                "content": text}]  # fmt: skip
    send(type="user", message={"role": "user", "content": content})
    say(text)
    result(text)


def answer_control(facts: Facts) -> bool:
    """Answer a control request; returns whether it was an interrupt."""
    if facts.get("type") != "control_request":
        return False
    response = {"subtype": "success", "request_id": facts["request_id"], "response": {}}
    send(type="control_response", response=response)
    return bool(facts["request"]["subtype"] == "interrupt")


def obey(text: str) -> None:  # noqa: C901
    word, _, rest = text.partition(" ")
    if word == "say":
        say(rest)
        result(rest)
    elif word == "history":
        say(f"{TALK.id}: {' | '.join(TALK.prompts)}")
        result()
    elif word == "tool":
        name, _, given = rest.partition(" ")
        tool(name, json.loads(given or "{}"))
    elif word == "count":
        for number in range(int(rest)):
            delta(f"{number} ")
            time.sleep(0.002)
        send(type="assistant", message={"role": "assistant", "content": []})
        result()
    elif word == "stamp":
        for _ in range(int(rest)):
            delta(f" {time.time():.5f} ")
            time.sleep(0.02)
        send(type="assistant", message={"role": "assistant", "content": []})
        result()
    elif word == "hang":
        delta("thinking")
        while not answer_control(read()):
            pass
        result(subtype="error_during_execution", is_error=True)
    elif word == "deaf":
        signal.pause()
    elif word == "die":
        delta("half an ans")
        os.kill(os.getpid(), signal.SIGKILL) if rest == "kill" else sys.exit(int(rest or 1))
    elif word == "env":
        text = f"the value of {rest} is {os.environ.get(rest)} and nothing else"
        for at in range(0, len(text), 4):
            delta(text[at : at + 4])
        send(type="assistant", message={"role": "assistant", "content": []})
        result()
    elif word == "retry":
        send(type="system", subtype="api_retry", attempt=1, max_retries=10, retry_delay_ms=500,
             error="ENOTFOUND")  # fmt: skip
        while not answer_control(read()):
            pass
        result(subtype="error_during_execution", is_error=True)
    elif word == "junk":
        sys.stdout.write('not json at all\n{"type":"martian","x":1}\n')
        say("after junk")
        result()
    elif word == "login":
        result("Invalid API key · Please run /login", is_error=True)
    else:
        say(text)
        result()


def main() -> None:
    if "--version" in sys.argv:
        print("9.9.9 (Claude Code)")
        return
    if "--help" in sys.argv:
        print("--resume --fork-session --mcp-config --session-id")
        return
    if sys.argv[1:3] == ["auth", "status"]:
        is_in = not os.environ.get("FAKE_LOGGED_OUT")
        print(json.dumps({"loggedIn": is_in}))
        sys.exit(0 if is_in else 1)
    if os.environ.get("FAKE_FAILURE"):
        print(os.environ["FAKE_FAILURE"], file=sys.stderr)
        sys.exit(1)
    global TALK
    TALK = Conversation()
    while True:
        facts = read()
        if facts.get("type") == "user":
            text = facts["message"]["content"][0]["text"]
            TALK.add(text)
            send(type="system", subtype="init", session_id=TALK.id, model="fake",
                 claude_code_version="9.9.9")  # fmt: skip
            obey(text)
        else:
            answer_control(facts)


TALK: Conversation
if __name__ == "__main__":
    main()
