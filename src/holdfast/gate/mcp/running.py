"""The tool `run`: a program as a supervised task, which goes on when the call is over."""

from __future__ import annotations

import hashlib
import os
from typing import Annotated, Any

from msgspec import Meta

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import Answer
from holdfast.gate.mcp.arguments import Arguments
from holdfast.gate.mcp.call import LONGEST_SECONDS, Call
from holdfast.gate.mcp.processes import MaxBytes, Seconds, facts_of
from holdfast.vocabulary.names import is_service_name

_MOST_LINES = 2000
_ENDED = ("exited", "failed", "stopped", "backoff")


class RunArguments(Arguments, frozen=True, kw_only=True):
    argv: Annotated[list[str], Meta(min_length=1, description="words; no shell")]
    cwd: Annotated[str, Meta(description="relative to the project")] = ""
    env: dict[str, str] = {}
    timeout_s: Seconds = 25.0
    name: str | None = None
    max_bytes: MaxBytes = answers.DEFAULT_BYTES


async def run(call: Call, given: RunArguments) -> Answer:
    name = given.name or _name_of(given)
    begun = await call.ask(
        "run",
        argv=given.argv,
        service=name,
        working_dir=given.cwd,
        environment=given.env,
        task=True,
        wait=False,
    )
    joined = begun["outcome"]["outcome"] == "already_running"
    timeout = call.remaining(given.timeout_s)
    waiting = call.ask("wait", service=name, condition="exited", timeout=timeout)
    await call.meanwhile(waiting, min(given.timeout_s, LONGEST_SECONDS), f"{name} runs")
    status = (await call.ask("status", services=[name]))["services"][name]
    most = answers.bounded(given.max_bytes)
    fields: dict[str, Any] = {"run": status["run"]} if status.get("run") else {}
    lines = await _printed(call, {"service": name, "limit": _MOST_LINES, **fields}, most)
    head = _head(name, status, joined)
    text = f"{head}\n{answers.fenced(lines)}" if lines else f"{head}\n(it printed nothing)"
    is_error = status["status"] == "failed" and status.get("exit_code") is None
    return Answer(text, {"services": [facts_of(name, status)]}, is_error)


async def _printed(call: Call, fields: dict[str, Any], most: int) -> list[str]:
    """All of it, or the beginning and, twice as long, the end: that is where results stand."""
    whole = await call.ask("logs", max_bytes=answers.MOST_BYTES, **fields)
    told = answers.told(whole["lines"])
    if not whole["more"] and sum(len(line.encode("utf-8", "replace")) + 1 for line in told) <= most:
        return told
    begun = await call.ask("logs", max_bytes=most // 4, **fields)
    rest = {"service": fields["service"], "limit": _MOST_LINES, "tail": _MOST_LINES}
    rest |= {"cursor": begun["cursor"], "max_bytes": answers.MOST_BYTES}
    ended = await call.ask("logs", **rest)
    lines = answers.told(line for line in ended["lines"] if line.get("note") != "cut")
    head = answers.told(begun["lines"])
    tail, _ = answers.newest(lines, most - len("\n".join(head).encode("utf-8", "replace")))
    between = f"-- lines left out: logs with cursor {begun['cursor']} reads on here --"
    return [*head, between, *tail]


def _head(name: str, status: dict[str, Any], joined: bool) -> str:
    before = "joined what ran already; " if joined else ""
    if status["status"] not in _ENDED:
        return f"{before}{name} still runs (pid {status['pid']}): use wait, logs, control on it"
    if status.get("exit_code") is not None:
        return f"{before}exit code {status['exit_code']} ({name})"
    return f"{before}{status.get('reason') or status['status']} ({name})"


def _name_of(given: RunArguments) -> str:
    """The same program, folder and variables are the same task: it is joined, and its runs and
    their output are found under one name."""
    word = os.path.basename(given.argv[0]).lower()
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in word)
    whole = "\0".join([*given.argv, "", given.cwd, *(f"{k}={v}" for k, v in given.env.items())])
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:4]
    name = f"{plain.strip('-')[:40] or 'task'}-{digest}"
    assert is_service_name(name)
    return name
