"""The tools about services: status, control, logs, wait."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import Answer, rewrite_hint
from holdfast.gate.mcp.arguments import ToolArguments
from holdfast.gate.mcp.call import LONGEST_SECONDS, Identity, ToolCall
from holdfast.gate.mcp.terminals import read_terminal, screen_text
from holdfast.secrets.redaction import redact_arguments
from holdfast.system import deadlines
from holdfast.vocabulary.errors import UsageError

Seconds = Annotated[float, Meta(ge=0, le=LONGEST_SECONDS)]
MaxBytes = Annotated[int, Meta(ge=200, le=answers.MOST_BYTES)]
Names = Annotated[list[str], Meta(description="services, group:NAME or tag:NAME")]
_MORE = ("cpu_percent", "memory_mb", "run", "said")
_APPROVAL = "approval-"
_DETAILED = 5
_DETAIL_LINES = 15
_MET_LINES = 5
_ANSWER_SECONDS = 2.0
"""How much later than its timeout the supervisor may answer which services are ready."""
_AT_REST = ("pending", "stopped", "exited", "failed")
_FINISHED = ("stopped", "exited")
_MOST_FINISHED = 3
_LONGEST_BANNER = 240


class StatusArguments(ToolArguments, frozen=True, kw_only=True):
    names: Names = []
    detail: Annotated[bool, Meta(description="also CPU, memory, why, last lines")] = False


async def status(call: ToolCall, given: StatusArguments) -> Answer:
    approvals = [name for name in given.names if name.startswith(_APPROVAL)]
    decided = [await _approval(call, name) for name in approvals]
    rest = [name for name in given.names if name not in approvals]
    if not approvals:
        return await _status(call, given)
    if not rest:
        return Answer("\n".join(decided))
    found = await _status(call, msgspec.structs.replace(given, names=rest))
    return Answer("\n".join([*decided, found.text]))


async def _approval(call: ToolCall, name: str) -> str:
    """Say what became of a call that waits, or waited, for approval."""
    info = (await call.ask("get_approval", approval=name))["approval"]
    words = [f"{name}: {info['command']} is {info['state']}"]
    if info["state"] == "waiting":
        seconds = max(0.0, info["expires_at"] - time.time())
        words.append(f"for {answers.format_seconds(seconds)} more")
    if info.get("by"):
        words.append(f"by {info['by']}")
    facts = [info[key] for key in ("why", "outcome") if info.get(key)]
    return " ".join(words) + (f": {'; '.join(facts)}" if facts else "")


async def _status(call: ToolCall, given: StatusArguments) -> Answer:
    result = await call.ask("status", services=given.names)
    services: dict[str, dict[str, Any]] = result["services"]
    finished = [] if given.names else [name for name in services if _is_finished(services[name])]
    services = {name: one for name, one in services.items() if name not in finished}
    notices = [banner_line(one) for one in (result.get("supervisor") or {}).get("banners") or ()]
    me = None
    if any(one.get("owner") for one in services.values()):
        me = await call.client.identity()
    lines = answers.oldest_lines(table(services, me), answers.DEFAULT_BYTES)
    if left_out := len(services) - len(lines):
        services = dict(list(services.items())[: len(lines)])
        lines.append(f"-- {left_out} more: give names, group:NAME or tag:NAME")
    if finished:
        newest = ", ".join(finished[-_MOST_FINISHED:])
        lines.append(f"-- {len(finished)} finished tasks; names shows them: {newest}")
    if given.detail:
        for name, one in list(services.items())[:_DETAILED]:
            lines += await _detail(call, name, one)
    return Answer("\n".join([*notices, *(lines or ["no services"])]))


def banner_line(banner: dict[str, Any]) -> str:
    """Return what a banner says in one line."""
    parts = [banner["title"]]
    if progress := banner.get("progress"):
        parts.append(f"step {progress['step']} of {progress['steps']}, {progress['what']}")
    if banner.get("detail"):
        parts.append(banner["detail"])
    return f"! {': '.join(parts)}"[:_LONGEST_BANNER]


def _is_finished(status: dict[str, Any]) -> bool:
    """Return whether it is a task of `run` that is over."""
    return status.get("origin") == "run" and status["status"] in _FINISHED


async def _detail(call: ToolCall, name: str, status: dict[str, Any]) -> list[str]:
    explained = (await call.ask("explain", service=name))["explanations"][0]
    lines = ["", f"{name}: {explained['summary']}"]
    if explained.get("next"):
        lines.append(f"next: {rewrite_hint(explained['next'])}")
    if owner := status.get("owner"):
        lines.append(f"started by {owner.get('client')} through {owner.get('call')}")
    if explained.get("command"):
        lines.append(f"command: {' '.join(redact_arguments(explained['command']))}")
    more = [f"{name} {status[name]}" for name in _MORE if status.get(name) is not None]
    if more:
        lines.append(", ".join(more))
    printed = await last_lines(call, name, _DETAIL_LINES)
    return [*lines, answers.fence(printed)] if printed else lines


async def last_lines(call: ToolCall, name: str, count: int) -> list[str]:
    return (await _newest(call, name, count))[0]


async def _newest(call: ToolCall, name: str, count: int) -> tuple[list[str], str]:
    """Return the newest lines, and the cursor behind them."""
    result = await call.ask("logs", service=name, tail=count, max_bytes=4000)
    return answers.show_lines(result["lines"]), result["cursor"]


def table(services: dict[str, dict[str, Any]], me: Identity | None = None) -> list[str]:
    """Return one line for each service."""
    width = max((len(name) for name in services), default=0)
    return [f"{name:<{width}}  {in_words(one, me)}" for name, one in services.items()]


def in_words(status: dict[str, Any], me: Identity | None = None) -> str:
    words = [status["status"]]
    if status.get("pid") is not None:
        words.append(f"pid {status['pid']} up {answers.format_seconds(status.get('uptime'))}")
    if status.get("ports"):
        words.append(" ".join(_port(name, port) for name, port in status["ports"].items()))
    if status.get("restart_count"):
        words.append(f"restarts {status['restart_count']}")
    if status.get("pid") is None and status.get("exit_code") is not None:
        words.append(f"exit {status['exit_code']}")
    if status.get("signal"):
        words.append(f"by {status['signal']}")
    if status.get("ready") is False:
        words.append("not ready")
    if status.get("health"):
        words.append(status["health"])
    if status.get("waiting_for"):
        words.append(f"waits for {', '.join(status['waiting_for'])}")
    if status.get("next_start_in") is not None:
        words.append(f"next start in {answers.format_seconds(status['next_start_in'])}")
    if status.get("reason") and status.get("pid") is None:
        words.append(f"({status['reason']})")
    if owner := status.get("owner"):
        words.append(f"[{_whose(owner, me)}]")
    return " ".join(words)


def _whose(owner: dict[str, Any], me: Identity | None) -> str:
    """Return whose a service is, for the client that asks."""
    client = owner.get("client") or "an assistant"
    if owner.get("ended"):
        return f"left by {client}"
    sessions = (owner.get("session"), *(owner.get("with_others") or ()))
    if me is not None and me.session is not None and me.session in sessions:
        return "yours"
    return f"of another {client}" if me is not None and me.name == client else f"of {client}"


def _port(name: str, port: int) -> str:
    return f":{port}" if name == "port" else f"{name}:{port}"


class ControlArguments(ToolArguments, frozen=True, kw_only=True):
    action: Literal["start", "stop", "restart", "pause", "resume", "signal"]
    names: Annotated[Names, Meta(min_length=1)]
    signal: Annotated[str, Meta(description="for action signal: HUP, USR1 …")] | None = None
    keep: Annotated[bool, Meta(description="let it run on when you leave")] = False
    wait_s: Seconds = 10.0


async def control(call: ToolCall, given: ControlArguments) -> Answer:
    fields: dict[str, Any] = {"services": given.names}
    if given.action == "signal":
        if given.signal is None:
            raise UsageError("action signal needs `signal`", "for example HUP")
        fields["signal"] = given.signal
    elif given.signal is not None:
        raise UsageError(f"action {given.action} takes no signal")
    if given.keep and given.action not in ("start", "restart"):
        raise UsageError(f"action {given.action} takes no `keep`")
    timeout = max(1.0, call.remaining(given.wait_s))
    if given.action in ("start", "restart"):
        # Not the remaining time: a repeated call must repeat the same command.
        fields |= {"wait": given.wait_s > 0, "timeout": max(1.0, given.wait_s)}
        fields |= {"keep": True} if given.keep else {}
        timeout += _ANSWER_SECONDS
    try:
        waiting = deadlines.wait_for(call.ask(given.action, **fields), timeout)
        result = await call.with_progress(waiting, given.wait_s, f"{given.action} is under way")
        outcomes: dict[str, dict[str, Any]] = result["services"]
    except TimeoutError:
        if call.notice is not None:
            return answers.awaits_approval(call.notice)
        outcomes = {}
    now = (await call.ask("status", services=given.names))["services"]
    if given.action == "stop" and not outcomes:
        gone = [name for name, one in now.items() if _is_gone(one)]
        outcomes = {name: {"outcome": "stopped"} for name in gone}
    me = await call.client.identity()
    return _control_answer(now, outcomes, f"{given.action} is still under way; use wait", me)


def _is_gone(status: dict[str, Any]) -> bool:
    return status.get("pid") is None and status["status"] in _AT_REST


def _control_answer(
    now: dict[str, dict[str, Any]],
    outcomes: dict[str, dict[str, Any]],
    unfinished: str,
    me: Identity,
) -> Answer:
    """Say how each service is now, and why those failed that did."""
    lines: list[str] = []
    is_error = False
    for name, status in now.items():
        outcome = outcomes.get(name)
        if outcome and outcome["outcome"] == "waiting":
            outcome = None
        said = outcome["outcome"].replace("_", " ") if outcome else unfinished
        lines.append(f"{name}: {said}; {in_words(status, me)}")
        if outcome and outcome["outcome"] == "failed":
            is_error = True
            if outcome.get("reason"):
                lines.append(f"reason: {outcome['reason']}")
            if outcome.get("exit_code") is not None:
                lines.append(f"exit code: {outcome['exit_code']}")
            printed = answers.show_lines({"text": text} for text in outcome.get("last_lines") or ())
            if printed:
                lines += ["last lines:", answers.fence(printed)]
    return Answer("\n".join(lines), is_error)


class LogsArguments(ToolArguments, frozen=True, kw_only=True):
    name: str
    tail: Annotated[int, Meta(ge=1, le=2000)] = 50
    cursor: Annotated[str, Meta(description="read on from here")] | None = None
    grep: Annotated[str, Meta(description="regular expression; the whole log")] | None = None
    raw: Annotated[bool, Meta(description="grep in bytes, with colours")] = False
    stream: Literal["both", "out", "err"] = "both"
    run: Annotated[int, Meta(description="number; -1 the newest; default all")] | None = None
    screen: Annotated[bool, Meta(description="instead, its terminal's screen as text")] = False
    max_bytes: MaxBytes = answers.DEFAULT_BYTES


async def logs(call: ToolCall, given: LogsArguments) -> Answer:
    if given.screen:
        return Answer(await screen_text(call, await read_terminal(call, given.name)))
    most = answers.bound_bytes(given.max_bytes)
    fields: dict[str, Any] = {"service": given.name}
    if given.stream != "both":
        fields["stream"] = given.stream
    if given.grep is not None:
        fields |= {"grep": given.grep, "raw": given.raw}
    if given.run is not None:
        fields["run"] = given.run
    if given.cursor is not None:
        fields |= {"cursor": given.cursor, "limit": given.tail, "max_bytes": most}
    else:
        # Ask for more than is shown, because a line that was written over becomes short.
        fields |= {"tail": given.tail, "limit": given.tail, "max_bytes": answers.MOST_BYTES}
    result = await call.ask("logs", **fields)
    left_out = answers.count_older(result["lines"])
    lines = answers.marked_lines(line for line in result["lines"] if line.get("note") != "cut")
    if given.cursor is None:
        lines, more = answers.newest_marked(lines, most)
        left_out += more
    count = sum(not answers.is_mark(line) for line in lines)
    said = "lines" if given.grep is None else "lines that match"
    notes = [f"{left_out} older {said} left out"] if left_out else []
    goes_on = "goes on: " if result["more"] else ""
    end = "; ".join([f"-- {count} {said}", *notes, f"{goes_on}next cursor {result['cursor']}"])
    return Answer(f"{answers.fence(lines)}\n{end}" if lines else end)


class WaitArguments(ToolArguments, frozen=True, kw_only=True):
    names: Annotated[list[str], Meta(min_length=1)]
    until: Literal["ready", "healthy", "exit", "log", "silence"] = "ready"
    pattern: Annotated[str, Meta(description="regular expression, for log")] | None = None
    raw: Annotated[bool, Meta(description="pattern is for the bytes, with colours")] = False
    quiet_s: Annotated[float, Meta(gt=0, le=LONGEST_SECONDS, description="for silence")] = 3.0
    timeout_s: Seconds = 25.0


async def wait(call: ToolCall, given: WaitArguments) -> Answer:
    condition: str = given.until
    if given.until == "log":
        if not given.pattern:
            raise UsageError("until log needs `pattern`")
        condition = f"log:{given.pattern}"
    elif given.pattern is not None or given.raw:
        raise UsageError(f"until {given.until} takes no pattern")
    elif given.until == "silence":
        condition = f"silent:{given.quiet_s}"
    elif given.until == "exit":
        condition = "exited"
    statuses = (await call.ask("status", services=given.names))["services"]
    can_change = given.until != "exit"
    resting = {name: one for name, one in statuses.items() if can_change and _is_at_rest(one)}
    timeout = call.remaining(given.timeout_s)
    asked = [
        call.ask("wait", service=name, condition=condition, timeout=timeout, raw=given.raw)
        for name in statuses
        if name not in resting
    ]
    what = f"waiting for {', '.join(given.names)}: {given.until}"
    results = await call.with_progress(asyncio.gather(*asked), given.timeout_s, what)
    lines = []
    for name, status in resting.items():
        lines += await _wait_at_rest(call, given, name, status)
    for result in results:
        lines += await _wait_outcome(call, given, result)
    if any(not result["met"] and result["seconds"] >= timeout - 0.1 for result in results):
        lines.append("call wait again to go on waiting")
    return Answer("\n".join(lines))


def _is_at_rest(status: dict[str, Any]) -> bool:
    """Return whether it stays without a process until somebody starts it."""
    if status.get("pid") is not None or status["status"] not in _AT_REST:
        return False
    is_due = status.get("waiting_for") or status.get("next_scheduled") is not None
    is_wanted = status.get("desired") == "running" and status["status"] == "pending"
    return not is_due and not is_wanted


async def _wait_at_rest(
    call: ToolCall, given: WaitArguments, name: str, status: dict[str, Any]
) -> list[str]:
    """Answer at once for a service that does not run: waiting alone starts nothing."""
    if status.get("run") is None:
        return [f"{name}: NOT met; it was never started: control with action start starts it"]
    if given.until == "silence":
        return [f"{name}: met; {in_words(status)}"]
    if given.until == "log":
        fields = {"grep": given.pattern, "raw": given.raw, "limit": 1, "max_bytes": 4000}
        found = await call.ask("logs", service=name, run=-1, **fields)
        if lines := answers.show_lines(found["lines"]):
            return [f"{name}: met; {in_words(status)}", answers.fence(lines[:1])]
    again = "; its newest run printed no such line" if given.until == "log" else ""
    lines = [f"{name}: NOT met; {in_words(status)}{again}. control with action start starts it"]
    return [*lines, *await _last_words(call, name, _DETAIL_LINES)]


async def _wait_outcome(call: ToolCall, given: WaitArguments, result: dict[str, Any]) -> list[str]:
    """Say whether it was met, what stands in the way, and what was printed last."""
    name = result["service"]
    words = f"{'met' if result['met'] else 'NOT met'} after {result['seconds']:.1f} s"
    code = "" if result.get("exit_code") is None else f" exit {result['exit_code']}"
    lines = [f"{name}: {words}; {result['status']}{code}"]
    if result["met"]:
        if result.get("line"):
            lines.append(answers.fence(answers.show_lines([{"text": result["line"]}])))
        return [*lines, *await _last_words(call, name, _MET_LINES)]
    if given.until in ("ready", "healthy"):
        explained = (await call.ask("explain", service=name))["explanations"][0]
        lines.append(f"why: {explained['summary']}")
    return [*lines, *await _last_words(call, name, _DETAIL_LINES)]


async def _last_words(call: ToolCall, name: str, count: int) -> list[str]:
    printed, cursor = await _newest(call, name, count)
    if not printed:
        return ["(it printed nothing)"]
    return ["last lines:", answers.fence(printed), f"-- next cursor {cursor}"]
