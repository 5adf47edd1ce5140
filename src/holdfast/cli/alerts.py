"""`holdfast alerts`: what is wrong now, what was wrong, and where alerts are delivered."""

from __future__ import annotations

import time

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations, screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADS = ("SEVERITY", "SINCE", "TIMES", "CAUSE", "MESSAGE")
TARGET_HEADS = ("TARGET", "WAY", "FROM", "TOLD", "SKIPPED", "LAST", "STATE")
COLOURS = {"critical": "red", "warning": "yellow", "info": "cyan"}


@Verb(
    "alerts",
    "List active alerts, and who was notified",
    operands="[SERVICE…]",
    most=None,
    options=(
        Option("-a --all", "those that are over, too"),
        Option("-n --tail", "with --all: only the newest; 50 by default", "N", "number"),
        Option("--targets", "where alerts are delivered to, and whether they arrive"),
    ),
    commands=("alerts",),
    examples=(
        ("holdfast alerts", "what is wrong now"),
        ("holdfast alerts --all web", "also what was wrong with web"),
        ("holdfast alerts --targets", "does the webhook work?"),
    ),
)
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
    if call.options.get("targets"):
        rows = [_target_row(target) for target in result["targets"]]
        if not rows:
            call.say("no targets; `alerts:` in the configuration names some")
            return 0
        call.say_table(TARGET_HEADS, rows)
        return 0
    if not result["alerts"]:
        call.say("no alerts" if call.options.get("all") else "no open alerts")
        return 0
    rows = [_alert_row(alert) for alert in result["alerts"]]
    lines = screen.table(HEADS, rows, call.paint, screen.width())
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
