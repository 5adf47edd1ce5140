"""The tools that run programs and type into them: run, send.

A program that `run` starts is a supervised task, which goes on when the call is over.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
from typing import Annotated, Any

from msgspec import Meta

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import Answer
from holdfast.gate.mcp.arguments import ToolArguments
from holdfast.gate.mcp.call import LONGEST_SECONDS, ToolCall
from holdfast.gate.mcp.keys import bytes_of
from holdfast.gate.mcp.processes import MaxBytes, Seconds
from holdfast.gate.mcp.screen import has_application_keys, is_full_screen, takes_pastes
from holdfast.gate.mcp.terminals import read_terminal, screen_text
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.names import is_service_name

_MOST_LINES = 2000
_MOST_EVENTS = 20
_ENDED = ("exited", "failed", "stopped", "backoff")


class RunArguments(ToolArguments, frozen=True, kw_only=True):
    command: Annotated[str, Meta(description="a line for the shell")] | None = None
    argv: Annotated[list[str], Meta(description="or words, without a shell")] = []
    stdin: Annotated[str, Meta(description="its standard input")] | None = None
    terminal: Annotated[bool, Meta(description="for interactive programs; go on with send")] = False
    cwd: Annotated[str, Meta(description="relative to the project")] = ""
    env: dict[str, str] = {}
    timeout_s: Seconds = 25.0
    name: str | None = None
    keep: Annotated[bool, Meta(description="let it run on when you leave")] = False
    max_bytes: MaxBytes = answers.DEFAULT_BYTES

    @property
    def words(self) -> list[str]:
        if (self.command is None) == (not self.argv):
            raise UsageError("run needs `command` or `argv`, one of them")
        return self.argv if self.command is None else [_shell(), "-c", self.command]


def _shell() -> str:
    """Return the shell that models write for, where there is one."""
    return "bash" if shutil.which("bash") else "sh"


async def run(call: ToolCall, given: RunArguments) -> Answer:
    words = given.words
    name = given.name or _task_name(given)
    fields: dict[str, Any] = {"terminal": True} if given.terminal else {}
    if given.stdin is not None:
        if given.terminal:
            raise UsageError("run takes stdin or terminal, not both", "send types into a terminal")
        fields["input"] = _base64(given.stdin)
    begun = await call.ask(
        "run",
        argv=words,
        service=name,
        working_dir=given.cwd,
        environment=given.env,
        task=True,
        wait=False,
        keep=given.keep,
        **fields,
    )
    joined = begun["outcome"]["outcome"] == "already_running"
    timeout = call.remaining(given.timeout_s)
    waiting = _ended_or_asks(call, name, timeout, is_terminal=given.terminal)
    await call.with_progress(waiting, min(given.timeout_s, LONGEST_SECONDS), f"{name} runs")
    status = (await call.ask("status", services=[name]))["services"][name]
    head = [_run_head(name, status, joined)]
    if status["status"] in _ENDED:
        head += await _ended_with_it(call, name, status)
    elif given.terminal:
        seen = await read_terminal(call, name)
        if is_full_screen(seen.data):
            return Answer("\n".join([*head, await screen_text(call, seen)]))
    most = answers.bound_bytes(given.max_bytes)
    fields = {"run": status["run"]} if status.get("run") else {}
    lines = await _output_of(call, {"service": name, "limit": _MOST_LINES, **fields}, most)
    shown = answers.fence(lines) if lines else "(it printed nothing)"
    is_error = status["status"] == "failed" and status.get("exit_code") is None
    return Answer("\n".join([*head, shown]), is_error)


async def _ended_or_asks(call: ToolCall, name: str, timeout: float, *, is_terminal: bool) -> None:
    """Wait until it has ended; in a terminal, also until it is silent, as if it waits for input."""
    waits = [call.ask("wait", service=name, condition="exited", timeout=timeout)]
    if is_terminal:
        silent = f"silent:{_ASKS_SECONDS}"
        waits.append(call.ask("wait", service=name, condition=silent, timeout=timeout))
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def _ended_with_it(call: ToolCall, name: str, status: dict[str, Any]) -> list[str]:
    """Name the processes that it left in the background, which are ended with it."""
    await call.ask("wait", service=name, condition="gone", timeout=_GONE_SECONDS)
    found = (await call.ask("events", services=[name], limit=_MOST_EVENTS))["events"]
    ended = [event for event in found if event["kind"] == EventKind.TREE_ENDED.value]
    if not ended or ended[-1].get("run_id") != status.get("run_id"):
        return []
    report = ended[-1]["data"].get("report") or ()
    left = [f"{one['name']} (pid {one['pid']})" for one in report]
    note = "what shall run on is a run of its own, without &"
    return [f"ended with it: {', '.join(left[:10])}; {note}"] if left else []


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


async def _output_of(call: ToolCall, fields: dict[str, Any], most: int) -> list[str]:
    """Return the whole output, or its beginning and, twice as long, its end, where results are."""
    whole = await call.ask("logs", max_bytes=answers.MOST_BYTES, **fields)
    lines = answers.show_lines(whole["lines"])
    size = sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)
    if not whole["more"] and size <= most:
        return lines
    begun = await call.ask("logs", max_bytes=most // 4, **fields)
    rest = {"service": fields["service"], "limit": _MOST_LINES, "tail": _MOST_LINES}
    rest |= {"cursor": begun["cursor"], "max_bytes": answers.MOST_BYTES}
    ended = await call.ask("logs", **rest)
    lines = answers.show_lines(line for line in ended["lines"] if line.get("note") != "cut")
    head = answers.show_lines(begun["lines"])
    tail, _ = answers.newest_lines(lines, most - len("\n".join(head).encode("utf-8", "replace")))
    between = f"-- lines left out: logs with cursor {begun['cursor']} reads on here --"
    return [*head, between, *tail]


def _run_head(name: str, status: dict[str, Any], joined: bool) -> str:
    before = "joined what ran already; " if joined else ""
    if status["status"] not in _ENDED:
        return f"{before}{name} still runs (pid {status['pid']}): use wait, logs, control on it"
    if status.get("exit_code") is not None:
        return f"{before}exit code {status['exit_code']} ({name})"
    return f"{before}{status.get('reason') or status['status']} ({name})"


def _task_name(given: RunArguments) -> str:
    """Return one name for the same program, folder and variables. A task that runs already is
    joined, and its runs and their output are found under that name."""
    first = (given.command or "").split()[:1] or given.argv[:1] or ["task"]
    word = os.path.basename(first[0]).lower()
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in word)
    rest = [given.cwd, given.stdin or "", *(f"{k}={v}" for k, v in given.env.items())]
    whole = "\0".join([*given.words, "", *rest])
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:4]
    name = f"{plain.strip('-')[:40] or 'task'}-{digest}"
    assert is_service_name(name)
    return name


_SCREEN_BYTES = 8 * 1024
_QUIET_SECONDS = 0.3
_ASKS_SECONDS = 1.5
"""A program in a terminal that prints nothing for so long probably waits for input."""
_PROMPT = "prompt"
_GONE_SECONDS = 2.0


class SendArguments(ToolArguments, frozen=True, kw_only=True):
    name: str
    text: str = ""
    keys: Annotated[
        list[str], Meta(description="pressed after the text: enter, up, ctrl-c, f1, alt-x …")
    ] = []
    until: (
        Annotated[
            str, Meta(description="wait for a line that matches; `prompt`: until it asks for more")
        ]
        | None
    ) = None
    wait_s: (
        Annotated[float, Meta(ge=0, le=LONGEST_SECONDS, description="default 2, with until 25")]
        | None
    ) = None


async def send(call: ToolCall, given: SendArguments) -> Answer:
    if not given.text and not given.keys:
        raise UsageError("there is nothing to send", "give text or keys; logs reads without typing")
    end = await call.ask("logs", service=given.name, tail=1, limit=1, max_bytes=200)
    status = (await call.ask("status", services=[given.name]))["services"][given.name]
    fields: dict[str, Any] = {"service": given.name}
    if status.get("terminal"):
        seen = await read_terminal(call, given.name)
        typed = _typed(given, seen.data)
    else:
        typed, is_end = _written(given)
        fields |= {"eof": True} if is_end else {}
    await call.ask("send_input", data=_base64(typed), **fields)
    is_met = await _until_answered(call, given, end["cursor"])
    result = await call.ask(
        "logs", service=given.name, cursor=end["cursor"], max_bytes=answers.DEFAULT_BYTES
    )
    notes = [] if is_met else [f"NOT met: {given.until}"]
    notes.append(f"next cursor {result['cursor']}")
    if status.get("terminal"):
        seen = await read_terminal(call, given.name)
        if is_full_screen(seen.data[-_SCREEN_BYTES:]):
            return Answer(f"{await screen_text(call, seen)}\n-- {'; '.join(notes)}")
    lines, _ = answers.newest_lines(answers.show_lines(result["lines"]), answers.DEFAULT_BYTES)
    shown = answers.fence(lines) if lines else "it printed nothing yet"
    return Answer(f"{shown}\n-- {'; '.join(notes)}")


def _typed(given: SendArguments, seen: bytes) -> str:
    """Return what a terminal sends for text and keys, in the modes that the program has set."""
    text = given.text
    if "\n" in text and takes_pastes(seen):
        text = f"\x1b[200~{text.replace(chr(27), '')}\x1b[201~"
    is_application = has_application_keys(seen)
    return text + "".join(bytes_of(key, is_application=is_application) for key in given.keys)


def _written(given: SendArguments) -> tuple[str, bool]:
    """Return what is written to a pipe, and whether the input ends then. A pipe has no keys:
    closing it ends the input, and a newline ends a line."""
    text, is_end = given.text, False
    for key in given.keys:
        if key == "ctrl-d":
            is_end = True
        elif key == "enter":
            text += "\n"
        else:
            raise UsageError(
                f"{given.name} has no terminal, so there is no {key}",
                "control with action signal reaches it",
            )
    return text, is_end


async def _until_answered(call: ToolCall, given: SendArguments, cursor: str) -> bool:
    """Wait for its answer; return False if that did not come in time."""
    default = 2.0 if given.until is None else 25.0
    seconds = call.remaining(default if given.wait_s is None else given.wait_s)
    if not seconds:
        return given.until is None
    if given.until not in (None, _PROMPT):
        fields = {"condition": f"log:{given.until}", "cursor": cursor}
        matching = call.ask("wait", service=given.name, timeout=seconds, **fields)
        result = await call.with_progress(matching, seconds, f"waiting for {given.until}")
        return bool(result["met"])
    if given.until is None:
        silent = {"condition": f"silent:{min(_QUIET_SECONDS, seconds)}"}
        await call.ask("wait", service=given.name, timeout=seconds, **silent)
        return True
    waiting = _until_prompt(call, given.name, cursor, seconds)
    return await call.with_progress(waiting, seconds, "waiting for a prompt")


async def _until_prompt(call: ToolCall, name: str, cursor: str, seconds: float) -> bool:
    """Wait until it has printed something whose last line is not finished, and is silent."""
    deadline = asyncio.get_running_loop().time() + seconds
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        quiet = f"silent:{min(_QUIET_SECONDS, left)}"
        result = await call.ask("wait", service=name, condition=quiet, timeout=left)
        said = await call.ask("logs", service=name, cursor=cursor, limit=_MOST_LINES)
        lines = said["lines"]
        if lines and lines[-1].get("partial") and answers.line_text(lines[-1]).strip():
            return True
        if result["status"] in _ENDED:
            return False
        printed = call.ask(
            "wait", service=name, condition="log:", timeout=left, cursor=said["cursor"]
        )
        await printed
    return False
