"""The tools about services: status, control, logs, wait, send."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any, Literal

from msgspec import Meta

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import Answer
from holdfast.gate.mcp.arguments import Arguments
from holdfast.gate.mcp.call import LONGEST_SECONDS, Call
from holdfast.gate.mcp.wording import in_tools
from holdfast.secrets.redaction import redact_arguments
from holdfast.vocabulary.errors import UsageError

Seconds = Annotated[float, Meta(ge=0, le=LONGEST_SECONDS)]
MaxBytes = Annotated[int, Meta(ge=200, le=answers.MOST_BYTES)]
Names = Annotated[list[str], Meta(description="services, group:NAME or tag:NAME")]
_FACTS = {
    "pid": "pid",
    "uptime": "uptime_s",
    "restart_count": "restarts",
    "exit_code": "exit",
    "signal": "signal",
    "ready": "ready",
    "health": "health",
    "reason": "reason",
    "waiting_for": "waiting_for",
    "next_start_in": "next_start_in_s",
    "ports": "ports",
    "owner": "owner",
}
_MORE = {"cpu_percent": "cpu_percent", "memory_mb": "memory_mb", "run": "run", "said": "said"}
_DETAILED = 5
_DETAIL_LINES = 5
_SEARCHED_LINES = 10_000
_ANSWER_SECONDS = 2.0
"""So much later than it was told the supervisor may answer who is there and who is not."""
_AT_REST = ("pending", "stopped", "exited", "failed")


class StatusArguments(Arguments, frozen=True, kw_only=True):
    names: Names = []
    detail: Annotated[bool, Meta(description="also CPU, memory, why, last lines")] = False


async def status(call: Call, given: StatusArguments) -> Answer:
    result = await call.ask("status", services=given.names)
    services: dict[str, dict[str, Any]] = result["services"]
    lines = answers.oldest(table(services), answers.DEFAULT_BYTES)
    if left_out := len(services) - len(lines):
        services = dict(list(services.items())[: len(lines)])
        lines.append(f"-- {left_out} more: give names, group:NAME or tag:NAME")
    structured = {"services": [facts_of(name, it) for name, it in services.items()]}
    if given.detail:
        for place, (name, it) in enumerate(services.items()):
            structured["services"][place].update(_taken(it, _MORE))
            if place < _DETAILED:
                lines += await _detail(call, name, it)
    if not services:
        lines = ["no services"]
    return Answer("\n".join(lines), structured)


async def _detail(call: Call, name: str, status: dict[str, Any]) -> list[str]:
    explained = (await call.ask("explain", service=name))["explanations"][0]
    lines = ["", f"{name}: {explained['summary']}"]
    if explained.get("next"):
        lines.append(f"next: {in_tools(explained['next'])}")
    if owner := status.get("owner"):
        lines.append(f"started by {owner.get('client')} through {owner.get('call')}")
    if explained.get("command"):
        lines.append(f"command: {' '.join(redact_arguments(explained['command']))}")
    more = _taken(status, _MORE)
    if more:
        lines.append(", ".join(f"{key} {value}" for key, value in more.items()))
    printed = await last_lines(call, name, _DETAIL_LINES)
    return [*lines, answers.fenced(printed)] if printed else lines


async def last_lines(call: Call, name: str, count: int) -> list[str]:
    result = await call.ask("logs", service=name, tail=count, max_bytes=4000)
    return answers.told(result["lines"])


def facts_of(name: str, status: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "state": status["status"], **_taken(status, _FACTS)}


def _taken(status: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    found = {told: status[name] for name, told in names.items() if status.get(name) is not None}
    if "uptime_s" in found:
        found["uptime_s"] = round(found["uptime_s"], 1)
    return found


def table(services: dict[str, dict[str, Any]]) -> list[str]:
    """One line a service."""
    width = max((len(name) for name in services), default=0)
    return [f"{name:<{width}}  {in_words(it)}" for name, it in services.items()]


def in_words(it: dict[str, Any]) -> str:
    words = [it["status"]]
    if it.get("pid") is not None:
        words.append(f"pid {it['pid']} up {answers.seconds(it.get('uptime'))}")
    if it.get("ports"):
        words.append(" ".join(_port(name, port) for name, port in it["ports"].items()))
    if it.get("restart_count"):
        words.append(f"restarts {it['restart_count']}")
    if it.get("pid") is None and it.get("exit_code") is not None:
        words.append(f"exit {it['exit_code']}")
    if it.get("signal"):
        words.append(f"by {it['signal']}")
    if it.get("ready") is False:
        words.append("not ready")
    if it.get("health"):
        words.append(it["health"])
    if it.get("waiting_for"):
        words.append(f"waits for {', '.join(it['waiting_for'])}")
    if it.get("next_start_in") is not None:
        words.append(f"next start in {answers.seconds(it['next_start_in'])}")
    if it.get("reason") and it.get("pid") is None:
        words.append(f"({it['reason']})")
    if owner := it.get("owner"):
        words.append(f"[of {owner.get('client') or owner.get('session')}]")
    return " ".join(words)


def _port(name: str, port: int) -> str:
    return f":{port}" if name == "port" else f"{name}:{port}"


class ControlArguments(Arguments, frozen=True, kw_only=True):
    action: Literal["start", "stop", "restart", "pause", "resume", "signal"]
    names: Annotated[Names, Meta(min_length=1)]
    signal: Annotated[str, Meta(description="for action signal: HUP, USR1 …")] | None = None
    wait_s: Seconds = 10.0


async def control(call: Call, given: ControlArguments) -> Answer:
    fields: dict[str, Any] = {"services": given.names}
    if given.action == "signal":
        if given.signal is None:
            raise UsageError("action signal needs `signal`", "for example HUP")
        fields["signal"] = given.signal
    elif given.signal is not None:
        raise UsageError(f"action {given.action} takes no signal")
    patience = max(1.0, call.remaining(given.wait_s))
    if given.action in ("start", "restart"):
        # The same when the call is repeated: the command must be, too.
        fields |= {"wait": given.wait_s > 0, "timeout": max(1.0, given.wait_s)}
        patience += _ANSWER_SECONDS
    try:
        waiting = asyncio.wait_for(call.ask(given.action, **fields), patience)
        result = await call.meanwhile(waiting, given.wait_s, f"{given.action} is under way")
        outcomes: dict[str, dict[str, Any]] = result["services"]
    except asyncio.TimeoutError:
        if call.notice is not None:
            return answers.waits(call.notice)
        outcomes = {}
    now = (await call.ask("status", services=given.names))["services"]
    if given.action == "stop" and not outcomes:
        gone = [name for name, it in now.items() if _is_gone(it)]
        outcomes = {name: {"outcome": "stopped"} for name in gone}
    return _told(now, outcomes, f"{given.action} is still under way; use wait")


def _is_gone(it: dict[str, Any]) -> bool:
    return it.get("pid") is None and it["status"] in _AT_REST


def _told(
    now: dict[str, dict[str, Any]], outcomes: dict[str, dict[str, Any]], unfinished: str
) -> Answer:
    """How each service is now, and what there is to know of those that failed."""
    lines: list[str] = []
    listed: list[dict[str, Any]] = []
    is_error = False
    for name, it in now.items():
        outcome = outcomes.get(name)
        if outcome and outcome["outcome"] == "waiting":
            outcome = None
        facts = facts_of(name, it)
        said = outcome["outcome"].replace("_", " ") if outcome else unfinished
        lines.append(f"{name}: {said}; {in_words(it)}")
        facts["outcome"] = outcome["outcome"] if outcome else "under_way"
        if outcome and outcome["outcome"] == "failed":
            is_error = True
            if outcome.get("reason"):
                facts["reason"] = outcome["reason"]
                lines.append(f"reason: {outcome['reason']}")
            if outcome.get("exit_code") is not None:
                facts["exit"] = outcome["exit_code"]
                lines.append(f"exit code: {outcome['exit_code']}")
            printed = answers.told({"text": text} for text in outcome.get("last_lines") or ())
            if printed:
                facts["last_lines"] = printed
                lines += ["last lines:", answers.fenced(printed)]
        listed.append(facts)
    return Answer("\n".join(lines), {"services": listed}, is_error)


class LogsArguments(Arguments, frozen=True, kw_only=True):
    name: str
    tail: Annotated[int, Meta(ge=1, le=2000)] = 50
    cursor: Annotated[str, Meta(description="read on from here")] | None = None
    grep: Annotated[str, Meta(description="regular expression")] | None = None
    stream: Literal["both", "out", "err"] = "both"
    run: Annotated[int, Meta(description="number; -1 the newest; default all")] | None = None
    max_bytes: MaxBytes = answers.DEFAULT_BYTES


async def logs(call: Call, given: LogsArguments) -> Answer:
    most = answers.bounded(given.max_bytes)
    fields: dict[str, Any] = {"service": given.name}
    if given.stream != "both":
        fields["stream"] = given.stream
    if given.grep is not None:
        fields["grep"] = given.grep
    if given.run is not None:
        fields["run"] = given.run
    if given.cursor is not None:
        fields |= {"cursor": given.cursor, "limit": given.tail, "max_bytes": most}
    else:
        # More than is told: a line that was written over is short when it is cleaned.
        fields |= {"limit": given.tail, "max_bytes": answers.MOST_BYTES}
        fields["tail"] = given.tail if given.grep is None else _SEARCHED_LINES
    result = await call.ask("logs", **fields)
    left_out = answers.older(result["lines"])
    lines = answers.told(line for line in result["lines"] if line.get("note") != "cut")
    if given.cursor is None:
        lines, more = answers.newest(lines, most)
        left_out += more
    notes = [f"{left_out} older lines left out"] if left_out else []
    if given.grep is not None and given.cursor is None:
        notes.append(f"searched the last {_SEARCHED_LINES} lines")
    goes_on = "goes on: " if result["more"] else ""
    end = "; ".join([f"-- {len(lines)} lines", *notes, f"{goes_on}next cursor {result['cursor']}"])
    return Answer(f"{answers.fenced(lines)}\n{end}" if lines else end)


class WaitArguments(Arguments, frozen=True, kw_only=True):
    names: Annotated[list[str], Meta(min_length=1)]
    until: Literal["ready", "healthy", "exit", "log", "silence"] = "ready"
    pattern: Annotated[str, Meta(description="regular expression, for log")] | None = None
    quiet_s: Annotated[float, Meta(gt=0, le=LONGEST_SECONDS, description="for silence")] = 3.0
    timeout_s: Seconds = 25.0


async def wait(call: Call, given: WaitArguments) -> Answer:
    condition: str = given.until
    if given.until == "log":
        if not given.pattern:
            raise UsageError("until log needs `pattern`")
        condition = f"log:{given.pattern}"
    elif given.pattern is not None:
        raise UsageError(f"until {given.until} takes no pattern")
    elif given.until == "silence":
        condition = f"silent:{given.quiet_s}"
    elif given.until == "exit":
        condition = "exited"
    timeout = call.remaining(given.timeout_s)
    asked = [
        call.ask("wait", service=name, condition=condition, timeout=timeout) for name in given.names
    ]
    what = f"waiting for {', '.join(given.names)}: {given.until}"
    results = await call.meanwhile(asyncio.gather(*asked), given.timeout_s, what)
    is_met = all(result["met"] for result in results)
    lines, listed = [], []
    for result in results:
        facts = {
            "name": result["service"],
            "met": result["met"],
            "after_s": round(result["seconds"], 1),
            "state": result["status"],
            "exit": result.get("exit_code"),
        }
        listed.append({key: value for key, value in facts.items() if value is not None})
        words = f"{'met' if result['met'] else 'NOT met'} after {facts['after_s']} s"
        code = "" if result.get("exit_code") is None else f" exit {result['exit_code']}"
        lines.append(f"{result['service']}: {words}; {result['status']}{code}")
        if result.get("line"):
            lines.append(answers.fenced(answers.told([{"text": result["line"]}])))
        elif not result["met"]:
            printed = await last_lines(call, result["service"], _DETAIL_LINES)
            lines += ["last lines:", answers.fenced(printed)] if printed else []
    hopeless = [it for it in results if not it["met"] and it["seconds"] < timeout - 0.1]
    if hopeless:
        names = ", ".join(it["service"] for it in hopeless)
        lines.append(f"waiting longer does not help: control starts {names}")
    elif not is_met:
        lines.append("call wait again to go on waiting")
    return Answer("\n".join(lines), {"met": is_met, "services": listed})


KEYS = {
    "enter": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-z": "\x1a",
}
KeyName = Literal["enter", "tab", "escape", "up", "down", "ctrl-c", "ctrl-d", "ctrl-z"]
_QUIET_SECONDS = 0.3


class SendArguments(Arguments, frozen=True, kw_only=True):
    name: str
    text: str = ""
    key: Annotated[KeyName, Meta(description="pressed after the text")] | None = None
    wait_s: Annotated[float, Meta(ge=0, le=30)] = 2.0


async def send(call: Call, given: SendArguments) -> Answer:
    if not given.text and given.key is None:
        raise UsageError("there is nothing to send", "give text or key")
    end = await call.ask("logs", service=given.name, tail=1, limit=1, max_bytes=200)
    status = (await call.ask("status", services=[given.name]))["services"][given.name]
    is_terminal = bool(status.get("terminal"))
    fields: dict[str, Any] = {"service": given.name}
    typed = given.text
    if given.key is not None and not is_terminal:
        # A pipe has no keys: the end of input is closing it, a line ends with a newline.
        if given.key == "ctrl-d":
            fields["eof"] = True
        elif given.key == "enter":
            typed += "\n"
        else:
            raise UsageError(
                f"{given.name} has no terminal, so there is no {given.key}",
                "control with action signal reaches it",
            )
    elif given.key is not None:
        typed += KEYS[given.key]
    data = base64.b64encode(typed.encode("utf-8", "replace")).decode()
    await call.ask("send_input", data=data, **fields)
    if given.wait_s:
        silent = {"condition": f"silent:{min(_QUIET_SECONDS, given.wait_s)}"}
        await call.ask("wait", service=given.name, timeout=given.wait_s, **silent)
    result = await call.ask(
        "logs", service=given.name, cursor=end["cursor"], max_bytes=answers.DEFAULT_BYTES
    )
    lines, _ = answers.newest(answers.told(result["lines"]), answers.DEFAULT_BYTES)
    told = answers.fenced(lines) if lines else "it printed nothing yet"
    return Answer(f"{told}\n-- next cursor {result['cursor']}")
