"""The verbs about services with instances: scale, rolling-restart."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.services import describe, tell
from holdfast.vocabulary.errors import UsageError


def scale(call: Call) -> int:
    instances: dict[str, int] = {}
    for operand in call.operands:
        name, equals, count = operand.partition("=")
        if not equals or not name or not count.isdecimal():
            raise UsageError(f'"{operand}" is not SERVICE=N', "holdfast scale web=4")
        instances[name] = int(count)
    wait = not call.options.get("no_wait")
    return tell(call, call.ask("scale", instances=instances, wait=wait))


def rolling_restart(call: Call) -> int:
    fields = {"timeout": call.options["timeout"]} if "timeout" in call.options else {}
    result = call.ask("rolling_restart", services=call.operands, **fields)
    is_failed = bool(result.get("reason"))
    if call.is_json:
        call.emit(result)
        return int(is_failed)
    remaining = result.get("remaining") or []
    for name, outcome in result["services"].items():
        if name not in remaining:
            for line in describe(call, name, outcome):
                call.say(line)
    if remaining:
        call.note(f"not restarted, still on the run from before: {', '.join(remaining)}")
    return int(is_failed)
