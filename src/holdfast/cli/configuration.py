"""`holdfast plan` and `holdfast reload`: what a changed configuration does, and doing it."""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.cli.services import describe
from holdfast.cli.terminal import screen
from holdfast.cli.up import tell_unread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHANGES = 8
"""Exit code of `plan --exit-code` when a reload would do something."""
MARKS = {
    "add": ("+", "green"),
    "remove": ("-", "red"),
    "restart": ("!", "yellow"),
    "change": ("~", "cyan"),
}


def plan(call: Call) -> int:
    result = call.ask("plan", services=call.operands, **_fields(call))
    tell_unread(call, result["config"])
    if call.is_json:
        call.emit(result)
    else:
        for line in render(call, result["services"], result["settings"]):
            call.say(line)
        for name, words in (result.get("scaled") or {}).items():
            held = f"  {name}: {words}; `scale` holds until that number changes"
            call.say(call.paint(held, "dim"))
        if result["changes"]:
            call.say(call.paint("holdfast reload does this", "dim"))
    return CHANGES if result["changes"] and call.options.get("exit_code") else 0


def reload(call: Call) -> int:
    if call.options.get("dry_run"):
        return plan(call)
    wait = not call.options.get("no_wait")
    delete_logs = bool(call.options.get("delete_logs"))
    result = call.ask("reload", wait=wait, delete_logs=delete_logs, **_fields(call))
    tell_unread(call, result["config"])
    failed = any(outcome["outcome"] == "failed" for outcome in result["services"].values())
    if call.is_json:
        call.emit(result)
        return int(failed)
    for line in render(call, result["plan"], result["settings"]):
        call.say(line)
    for name, outcome in result["services"].items():
        if outcome["outcome"] not in ("changed", "added"):
            for line in describe(call, name, outcome):
                call.say(line)
    return int(failed)


def render(call: Call, steps: dict[str, Any], settings: list[str]) -> list[str]:
    """A line for every service that is touched, as a diff would show it, and a sum."""
    touched = {
        name: {**step, "action": "restart"} if _only_follows(step) else step
        for name, step in steps.items()
        if step["action"] in MARKS or step.get("follows")
    }
    width = max((len(name) for name in touched), default=0)
    lines = []
    for name, step in touched.items():
        mark, colour = MARKS[step["action"]]
        about = _about(step)
        line = f"{mark} {name:<{width}}  {step['action']}"
        lines.append(call.paint(line, colour) + (f"  {about}" if about else ""))
    if settings:
        lines.append(call.paint("~ settings", "cyan") + f"  {', '.join(settings)}")
    for name, step in steps.items():
        if name not in touched and step.get("overrides"):
            lines.append(call.paint(f"  {name}: unchanged, {_overridden(step)}", "dim"))
    unchanged = len(steps) - len(touched)
    if not touched and not settings:
        lines.append(f"nothing to change ({screen.counted(unchanged, 'service')})")
    else:
        lines.append(call.paint(f"{screen.counted(unchanged, 'service')} unchanged", "dim"))
    return lines


def _only_follows(step: dict[str, Any]) -> bool:
    return bool(step.get("follows")) and step["action"] not in MARKS


def _about(step: dict[str, Any]) -> str:
    parts = [", ".join(step["fields"])] if step["fields"] else []
    if step.get("at_next_start"):
        parts.append("at its next start")
    if step.get("follows") and not (step["action"] == "restart" and step["fields"]):
        parts.append(f"restarts with {', '.join(step['follows'])}")
    if step.get("overrides"):
        parts.append(_overridden(step))
    return "; ".join(parts)


def _overridden(step: dict[str, Any]) -> str:
    others = [name for name, value in sorted(step["overrides"].items()) if value]
    words = "started with other " + " and ".join(others)
    return f"{words}, which ends" if step["action"] == "restart" else words


def _fields(call: Call) -> dict[str, Any]:
    """The file, if one was named; else the one in use."""
    named = call.options.get("config") or call.environ.get("HOLDFAST_CONFIG")
    return {"config": os.path.realpath(os.path.join(call.folder, named))} if named else {}
