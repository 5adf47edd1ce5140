"""`holdfast explain`: why a service is in its state, and what comes next."""

from __future__ import annotations

import shlex

from holdfast.cli.call import Call, note_edits
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations, screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@Verb(
    "explain",
    "Explain why a service is in its state, and what happens next",
    operands="[SERVICE]",
    most=1,
    options=(Option("--environment", "show the environment it is started with, without secrets"),),
    commands=("explain", "banners"),
    about=(
        "Tells what happened before, how the last run ended and what that means, its last\n"
        "lines, what changed in the configuration since the last good run, and hints.\n"
        "Without a service: a sentence for every one that is not fine."
    ),
    examples=(
        ("holdfast explain web", "why is it down, and what will happen?"),
        ("holdfast explain", "what is wrong, in a few lines"),
    ),
)
def explain(call: Call) -> int:
    service = call.operands[0] if call.operands else None
    result = call.ask("explain", service=service)
    if call.is_json:
        call.emit(result)
        return 0
    note_edits(call)
    if lockdown := result.get("lockdown"):
        text = f"LOCKED DOWN: {lockdown['reason']}, by {lockdown['by']} (holdfast unlock)"
        call.say(call.paint(text, "red"))
    explanations: list[dict[str, Any]] = result["explanations"]
    if service is None:
        _summarise(call, explanations, result["fine"])
        return 0
    for number, explanation in enumerate(explanations):
        if number:
            call.say()
        for line in _full(call, explanation):
            call.say(line)
    return 0


def _summarise(call: Call, explanations: list[dict[str, Any]], fine: list[str]) -> None:
    for one in explanations:
        state = screen.state_phrase(one["status"], call.paint)
        call.say(f"{one['service']} is {state}: {one['summary']}; next: {one['next']}")
    if explanations:
        names = ", ".join(one["service"] for one in explanations[:3])
        call.say(call.paint(f"more: holdfast explain SERVICE ({names})", "dim"))
    elif fine:
        call.say("all is fine: " + ", ".join(fine))
    else:
        call.say("no services yet; `holdfast run -- COMMAND` or a holdfast.yaml brings some")


def _full(call: Call, one: dict[str, Any]) -> list[str]:
    """Everything about one service; empty sections are left out."""
    name, state = one["service"], screen.state_phrase(one["status"], call.paint)
    lines = [
        f"{name} is {state} (since {durations.show_time(one['since'])}): {one['summary']}",
        f"next: {one['next']}",
    ]
    if one.get("started_by"):
        lines.append(one["started_by"])
    lines += [f"hint: {hint}" for hint in one["hints"]]
    for alert in one["alerts"]:
        times = f" ({alert['count']} times)" if alert["count"] > 1 else ""
        lines.append(f"alert: {alert['severity']}, {alert['cause']}{times}: {alert['message']}")
    lines += _section(call, "before", [_event_line(event) for event in one["happened"]])
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


def _event_line(event: dict[str, Any]) -> str:
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
    lines = []
    for change in changes["fields"]:
        before, after = change.get("before"), change.get("after")
        values = f": {before} → {after}" if before is not None or after is not None else ""
        lines.append(f"{change['field']}{values}")
    return lines


def _quoted(lines: list[str]) -> list[str]:
    return [f"| {line}" for line in lines]


def _started_as(call: Call, one: dict[str, Any]) -> list[str]:
    lines = [f"command: {shlex.join(one['command'])}", f"folder: {one['working_dir']}"]
    environment: dict[str, str | None] = one["environment"]
    if call.options.get("environment"):
        for name, value in environment.items():
            lines.append(f"{name}={value}" if value is not None else f"{name} is set")
    elif environment:
        count = len(environment)
        lines.append(f"environment: {count} variables (--environment lists them, without secrets)")
    return lines
