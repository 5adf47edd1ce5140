"""What clients pass on to their model: some the text of a result, some its structured content."""

from __future__ import annotations

import json
from typing import Any

from holdfast.gate.mcp.tools import offered
from holdfast.vocabulary.specs.mcp import McpSpec
from tests.gate.mcp.conftest import McpHold

CALLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "status": ({"names": ["bad"], "detail": True}, ("bad", "exit 3", "oh no", "sh -c")),
    "control": ({"action": "start", "names": ["bad"]}, ("failed", "exit code: 3", "oh no")),
    "logs": ({"name": "web"}, ("hello", "next cursor")),
    "wait": ({"names": ["web"], "until": "log", "pattern": "^hel"}, ("met", "hello")),
    "run": ({"argv": ["sh", "-c", "echo out; exit 4"]}, ("exit code 4", "out")),
    "send": ({"name": "cat", "text": "echo me", "keys": "enter"}, ("echo me", "next cursor")),
    "delegate": ({"backend": "talker", "task": "say well done"}, ("done", "well done")),
    "read": ({"path": "a.txt"}, ("1\tone", "etag")),
    "edit": (
        {"path": "a.txt", "edits": [{"old": "two", "new": "2"}], "dry_run": True},
        ("-two", "+2"),
    ),
    "write": ({"path": "made.txt", "content": "x\n"}, ("created made.txt", "etag")),
    "search": ({"pattern": "three"}, ("a.txt:3:three",)),
    "git": ({"op": "log"}, ("one",)),
    "git_change": ({"op": "checkpoint"}, ("checkpoint",)),
}


def text_of_all(result: Any) -> str:
    """What a client passes on that knows only text."""
    return "\n".join(part.text for part in result.content if part.type == "text")


def structured_or_text(result: Any) -> str:
    """What a client passes on that prefers structured content, as Claude Code and Codex do."""
    if result.structured_content is None:
        return text_of_all(result)
    return json.dumps(result.structured_content, ensure_ascii=False)


def test_both_kinds_of_client_learn_the_same(assistants: McpHold) -> None:
    """From every tool: neither form of its answer says less than the other."""
    assert set(CALLS) == set(offered(McpSpec(run=True, send=True, delegate=True)))

    async def story(client: Any) -> None:
        await client.call_tool("control", {"action": "start", "names": ["bad"]})
        for tool, (arguments, facts) in CALLS.items():
            result = await client.call_tool(tool, arguments)
            for seen in (text_of_all(result), structured_or_text(result)):
                for fact in facts:
                    assert fact in seen, (tool, fact, seen)
            assert text_of_all(result) == structured_or_text(result), tool

    assistants.talk(story)
