"""Prompts: three requests that people make of assistants, with the facts of this moment."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import rewrite_hint
from holdfast.gate.mcp.call import McpClient
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.errors import UsageError


class Prompt(NamedTuple):
    """One prompt and its argument."""

    name: str
    about: str
    argument: str
    meaning: str
    is_required: bool
    work: Callable[[McpClient, str], Awaitable[str]]

    def described(self) -> dict[str, Any]:
        argument = {
            "name": self.argument,
            "description": self.meaning,
            "required": self.is_required,
        }
        return {"name": self.name, "description": self.about, "arguments": [argument]}


async def _diagnose(client: McpClient, name: str) -> str:
    known = (await client.ask("explain", service=name))["explanations"][0]
    result = await client.ask("logs", service=name, tail=60, max_bytes=answers.DEFAULT_BYTES)
    lines, _ = answers.newest_lines(answers.show_lines(result["lines"]), answers.DEFAULT_BYTES)
    return "\n".join(
        [
            f"Find out what is wrong with the service {name} and say how to mend it.",
            "What Holdfast knows of it:",
            answers.fence(
                [f"{known['summary']}", f"next: {rewrite_hint(known['next'])}", *_hints(known)]
            ),
            "What it printed last:",
            answers.fence(lines or ["(nothing)"]),
            "Read more with `logs`, look at the code with `read` and `search`, and restart it "
            "with `control` only once you know the cause. Verify with `wait`.",
        ]
    )


def _hints(known: dict[str, Any]) -> list[str]:
    happened = [redact(str(one.get("text", ""))) for one in known.get("happened") or ()]
    return [
        *(f"happened: {text}" for text in happened[-10:]),
        *map(rewrite_hint, known.get("hints") or ()),
    ]


async def _explain_restarts(client: McpClient, name: str) -> str:
    runs = (await client.ask("runs", service=name, limit=10))["runs"]
    fields = ("number", "started_at", "duration", "exit_code", "signal", "reason", "error_type")
    lines = [
        json.dumps({key: run[key] for key in fields if run.get(key) is not None}) for run in runs
    ]
    return "\n".join(
        [
            f"Explain why the service {name} was restarted, run by run, and what the pattern is.",
            "Its newest runs, the latest first:",
            answers.fence([redact(line) for line in lines] or ["(none)"]),
            "Read the end of each run with `logs` and its number in `run`; distinguish crashes "
            "from what people asked for.",
        ]
    )


async def _review_changes(client: McpClient, since: str) -> str:
    begin = since or "the last commit"
    rev = f" with rev {since}" if since else ""
    return (
        f"Review what changed in this project since {begin}. Use `git` with op log and op diff"
        f"{rev}, then `status` and `logs` to see whether services still do their work. Tell "
        "mistakes first, each with file and line, then what should be tested."
    )


TABLE = (
    Prompt(
        "diagnose", "Find out what is wrong with a service", "service", "its name", True, _diagnose
    ),
    Prompt(
        "explain_restarts",
        "Explain why a service was restarted",
        "service",
        "its name",
        True,
        _explain_restarts,
    ),
    Prompt(
        "review_changes",
        "Review what changed in the project",
        "since",
        "a commit, branch or tag",
        False,
        _review_changes,
    ),
)
PROMPTS = {prompt.name: prompt for prompt in TABLE}


async def text_of(client: McpClient, prompt: Prompt, arguments: dict[str, str]) -> str:
    """Return the text of a prompt; raises UsageError for wrong arguments."""
    for name in arguments:
        if name != prompt.argument:
            raise UsageError(f'{prompt.name} has no argument "{name}"; known: {prompt.argument}')
    value = arguments.get(prompt.argument, "")
    if prompt.is_required and not value:
        raise UsageError(f"{prompt.name} needs {prompt.argument}")
    return await prompt.work(client, value)
