"""`holdfast explain` and `holdfast alerts`: what is wrong, and why."""

from __future__ import annotations

import shlex
import time
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.status import notices_of
from holdfast.cli.terminal import durations, screen

ALERT_HEADS = ("SEVERITY", "SINCE", "TIMES", "CAUSE", "MESSAGE")
TARGET_HEADS = ("TARGET", "WAY", "FROM", "TOLD", "SKIPPED", "LAST", "STATE")
COLOURS = {"critical": "red", "warning": "yellow", "info": "cyan"}


def alerts(call: Call) -> int:
    result = call.ask(
        "alerts",
        services=call.operands,
        history=bool(call.options.get("all")),
        limit=call.options.get("tail", 50),
    )
    if call.is_json:
        call.emit(result)
        return 0
    columns = screen.width()
    if call.options.get("targets"):
        rows = [_target_row(target) for target in result["targets"]]
        if not rows:
            call.say("no targets; `alerts:` in the configuration names some")
            return 0
        call.say("\n".join(screen.table(TARGET_HEADS, rows, call.paint, columns)))
        return 0
    if not result["alerts"]:
        call.say("no alerts" if call.options.get("all") else "no open alerts")
        return 0
    rows = [_alert_row(alert) for alert in result["alerts"]]
    lines = screen.table(ALERT_HEADS, rows, call.paint, columns)
    for number, alert in enumerate(result["alerts"], 1):
        severity = alert["severity"]
        if alert.get("cleared_at") is None and lines[number].startswith(severity):
            rest = lines[number][len(severity) :]
            lines[number] = call.paint(severity, COLOURS.get(severity)) + rest
    call.say("\n".join(lines))
    return 0


def _alert_row(alert: dict[str, Any]) -> tuple[str, ...]:
    message = alert["message"]
    if alert.get("cleared_because"):
        message += f" — over: {alert['cleared_because']}"
    elif alert.get("cleared_at") is not None:
        message += " — told once"
    is_open = alert.get("cleared_at") is None
    return (
        alert["severity"] if is_open else "over",
        durations.show_time(alert["since"]),
        str(alert["count"]),
        alert["cause"],
        message,
    )


def _target_row(target: dict[str, Any]) -> tuple[str, ...]:
    state = "ok"
    if target.get("failures"):
        since = time.time() - (target.get("failing_since") or time.time())
        state = f"failing for {durations.show(since)}: {target.get('reason') or 'why is unknown'}"
    return (
        target["name"],
        target["way"],
        target["severity"],
        str(target["delivered"]),
        str(target["skipped"]),
        durations.show_time(target.get("last_delivered_at")),
        state,
    )


def explain(call: Call) -> int:
    service = call.operands[0] if call.operands else None
    result = call.ask("explain", service=service)
    if call.is_json:
        call.emit(result)
        return 0
    for notice in notices_of(result, call.paint):
        call.say(notice)
    found: list[dict[str, Any]] = result["explanations"]
    if service is None:
        _show_all(call, found, result["fine"])
        return 0
    for number, one in enumerate(found):
        if number:
            call.say()
        for line in full(call, one):
            call.say(line)
    return 0


def _show_all(call: Call, found: list[dict[str, Any]], fine: list[str]) -> None:
    for one in found:
        state = screen.being(one["status"], call.paint)
        call.say(f"{one['service']} is {state}: {one['summary']}; next: {one['next']}")
    if found:
        names = ", ".join(one["service"] for one in found[:3])
        call.say(call.paint(f"more: holdfast explain SERVICE ({names})", "dim"))
    elif fine:
        call.say("all is fine: " + ", ".join(fine))
    else:
        call.say("no services yet; `holdfast run -- COMMAND` or a holdfast.yaml brings some")


def full(call: Call, one: dict[str, Any]) -> list[str]:
    """Everything about one service, in sections that have something to say."""
    name, state = one["service"], screen.being(one["status"], call.paint)
    lines = [
        f"{name} is {state} since {durations.show_time(one['since'])}: {one['summary']}",
        f"next: {one['next']}",
    ]
    if one.get("started_by"):
        lines.append(one["started_by"])
    lines += [f"hint: {hint}" for hint in one["hints"]]
    for alert in one["alerts"]:
        times = f" ({alert['count']} times)" if alert["count"] > 1 else ""
        lines.append(f"alert: {alert['severity']}, {alert['cause']}{times}: {alert['message']}")
    lines += _section(call, "before", [_happened(it) for it in one["happened"]])
    lines += _section(call, "last run", _ending(one.get("ending")))
    lines += _section(call, "changed since the last good run", _changes(one.get("changes")))
    lines += _section(call, "last lines of standard output", _quoted(one["last_out"]))
    lines += _section(call, "last lines of standard error", _quoted(one["last_err"]))
    lines += _section(call, "started as", _started_as(call, one))
    lines += _section(call, "unknown", one["unknown"])
    return lines


def _section(call: Call, title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    return ["", call.paint(title, "bold"), *(f"  {line}" for line in lines)]


def _happened(event: dict[str, Any]) -> str:
    return f"{durations.show_time(event['time'])}  {event['text']}"


def _ending(ending: dict[str, Any] | None) -> list[str]:
    if ending is None:
        return []
    if ending.get("stage"):
        return [f"it never ran: the step «{ending['stage']}» failed"]
    if ending.get("signal"):
        how = f"ended by {ending['signal']}"
    elif ending.get("code") is not None:
        how = f"exit code {ending['code']}"
    else:
        return ["how it ended is unknown"]
    if ending.get("seconds") is not None:
        how += f" after {durations.show(ending['seconds'])}"
    return [f"{how}: {ending['meaning']}" if ending.get("meaning") else how]


def _changes(changes: dict[str, Any] | None) -> list[str]:
    if changes is None or changes.get("run") is None:
        return []
    told = []
    for change in changes["fields"]:
        before, after = change.get("before"), change.get("after")
        values = f": {before} → {after}" if before is not None or after is not None else ""
        told.append(f"{change['field']}{values}")
    return told


def _quoted(lines: list[str]) -> list[str]:
    return [f"| {line}" for line in lines]


def _started_as(call: Call, one: dict[str, Any]) -> list[str]:
    told = [f"command: {shlex.join(one['command'])}", f"folder: {one['working_dir']}"]
    environment: dict[str, str | None] = one["environment"]
    if call.options.get("environment"):
        for name, value in environment.items():
            told.append(f"{name}={value}" if value is not None else f"{name} is set")
    elif environment:
        count = len(environment)
        told.append(f"environment: {count} variables (--environment lists them, without secrets)")
    return told
