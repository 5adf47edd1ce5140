"""The verbs about what this Holdfast admits: mode, lockdown, unlock, approvals."""

from __future__ import annotations

import os
import time
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.terminal import durations, screen
from holdfast.client.connection import ConnectionLost
from holdfast.client.discovery import SupervisorAway, reach
from holdfast.vocabulary.errors import NoDaemon, TimedOut, UsageError

SWITCH_SECONDS = 30.0
LOCKDOWN_FILE = "lockdown.json"
HEADS = ("ID", "WHO", "COMMAND", "BECAUSE", "LEFT")


def mode(call: Call) -> int:
    if not call.operands:
        return _tell_mode(call, call.ask("get_mode"))
    wanted = call.operands[0]
    if wanted not in ("proxy", "advanced"):
        raise UsageError(f'no mode "{wanted}"', "holdfast mode proxy, or advanced")
    answer = call.ask("set_mode", mode=wanted)
    if "switching_to" not in answer:
        return _tell_mode(call, answer)
    if not call.is_json:
        call.say(answer["message"])
    return _tell_mode(call, _await_mode(call, wanted))


def _await_mode(call: Call, wanted: str) -> dict[str, Any]:
    """What the next supervisor says; it is there within moments."""
    deadline = time.monotonic() + SWITCH_SECONDS
    while time.monotonic() < deadline:
        try:
            call.use(reach(call.places))
            found = call.connect().ask("get_mode")
            if found["runtime_mode"] == wanted:
                return found
        except (ConnectionLost, NoDaemon):
            pass
        time.sleep(0.05)
    raise TimedOut(
        f"no supervisor of mode {wanted} answered within {SWITCH_SECONDS:g} s",
        "`holdfast mode` tells which one does",
    )


def _tell_mode(call: Call, found: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(found)
        return 0
    call.say(f"mode {found['runtime_mode']}, {found['service_count']} parts loaded")
    call.say(f"core: {', '.join(found['proxy_services'])}")
    if found.get("advanced_services"):
        call.say(f"advanced: {', '.join(found['advanced_services'])}")
    return 0


def lockdown(call: Call) -> int:
    reason = call.options.get("reason")
    if not reason:
        raise UsageError("a lockdown needs a reason", 'holdfast lockdown --reason "…"')
    return _tell_lockdown(call, call.ask("lockdown", reason=reason))


def unlock(call: Call) -> int:
    try:
        answer = call.ask("unlock")
    except SupervisorAway:
        raise
    except NoDaemon:
        if not os.path.lexists(os.path.join(call.places.state, LOCKDOWN_FILE)):
            raise
        answer = _unlock_alone(call)
    return _tell_lockdown(call, answer)


def _unlock_alone(call: Call) -> dict[str, Any]:
    """Nothing runs: a Holdfast is started for this, and ended again."""
    from holdfast.cli.down import Ends, shut_down
    from holdfast.client.launch import ensure_running

    launched = ensure_running(call.places, call.environ)
    call.use(launched.connection)
    try:
        return call.ask("unlock")
    finally:
        if launched.keeper is not None:
            shut_down(call, Ends(), keep_running=False, now=False)


def _tell_lockdown(call: Call, answer: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(answer)
        return 0
    call.say(answer["message"])
    if answer.get("cancelled"):
        call.say(f"cancelled: {', '.join(answer['cancelled'])}")
    return 0


def approvals(call: Call) -> int:
    found = call.ask("approvals")
    if call.is_json:
        call.emit(found)
        return 0
    if not found["waiting"]:
        call.say("nothing waits for approval")
        return 0
    now = time.time()
    rows = [
        (
            one["approval"],
            f"{one['actor']} ({one['role']}, {one['door']})",
            " ".join((one["command"], *(f"{k}={v}" for k, v in one["arguments"].items()))),
            one["reason"],
            durations.show(max(0.0, one["expires_at"] - now)),
        )
        for one in found["waiting"]
    ]
    call.say("\n".join(screen.table(HEADS, rows, call.paint, screen.width())))
    return 0


def approve(call: Call) -> int:
    return _decide(call, "approve")


def reject(call: Call) -> int:
    return _decide(call, "reject")


def _decide(call: Call, command: str) -> int:
    answer = call.ask(command, approval=call.operands[0], reason=call.options.get("reason"))
    if call.is_json:
        call.emit(answer)
    else:
        call.say(answer["message"])
    return 0
