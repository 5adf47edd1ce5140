"""The verbs about what Holdfast permits: mode, lockdown, unlock, approvals."""

from __future__ import annotations

import os
import time

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations
from holdfast.client.connection import ConnectionLost
from holdfast.client.discovery import SupervisorAway, connect
from holdfast.vocabulary.errors import NoDaemon, TimedOut, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SWITCH_SECONDS = 30.0
LOCKDOWN_FILE = "lockdown.json"
HEADS = ("ID", "WHO", "COMMAND", "BECAUSE", "LEFT")


@Verb(
    "policies",
    "Show the policies and filters in force",
    commands=("policies",),
    about="The first policy that is about a request decides. Mode proxy has none.",
    examples=(("holdfast policies", "which requests are refused or wait for approval"),),
)
def policies(call: Call) -> int:
    found = call.ask("policies")
    if call.is_json:
        call.emit(found)
        return 0
    if found["runtime_mode"] == "proxy":
        call.say("mode proxy has no policies and no filters; `holdfast mode advanced` adds them")
        return 0
    if not found["policies"]:
        call.say("no policy is configured")
    else:
        rows = [
            (policy["name"], policy["effect"], _matches(policy), policy["reason"] or "-")
            for policy in found["policies"]
        ]
        call.say_table(("POLICY", "EFFECT", "REQUESTS", "REASON"), rows)
    filters = found.get("filters") or {}
    for pattern in filters.get("forbid") or ():
        call.say(f"filter: no text may match {pattern}")
    if filters.get("max_length"):
        call.say(f"filter: a text has at most {filters['max_length']} characters")
    return 0


def _matches(policy: dict[str, Any]) -> str:
    """Say which requests a policy is about."""
    kinds = ("actors", "roles", "doors", "commands", "services", "tags", "paths")
    parts = [f"{kind} {','.join(policy[kind])}" for kind in kinds if policy.get(kind)]
    if policy.get("times"):
        parts.append("at certain times")
    return "; ".join(parts) or "all"


@Verb(
    "mode",
    "Show the runtime mode, or change it",
    operands="[proxy|advanced]",
    most=1,
    commands=("get_mode", "set_mode"),
    about=(
        "Mode advanced adds policies and approvals, request filtering, emergency lockdown and\n"
        "security metrics. The supervisor is replaced by one of that mode; only services\n"
        "with mode_env or follows_mode are restarted. It holds until `down`; runtime_mode: in\n"
        "the configuration makes it lasting."
    ),
    examples=(
        ("holdfast mode", "which one it is, and what it has loaded"),
        ("holdfast mode advanced", "switch"),
    ),
)
def mode(call: Call) -> int:
    if not call.operands:
        return _report_mode(call, call.ask("get_mode"))
    wanted = call.operands[0]
    if wanted not in ("proxy", "advanced"):
        raise UsageError(f'no mode "{wanted}"', "holdfast mode proxy, or advanced")
    answer = call.ask("set_mode", mode=wanted)
    if "switching_to" not in answer:
        return _report_mode(call, answer)
    if not call.is_json:
        call.say(answer["message"])
        if answer.get("restarts"):
            call.say(f"restarted with it: {', '.join(answer['restarts'])}")
    return _report_mode(call, _await_mode(call, wanted))


def _await_mode(call: Call, wanted: str) -> dict[str, Any]:
    """Wait for the supervisor of this mode; returns its answer."""
    deadline = time.monotonic() + SWITCH_SECONDS
    while time.monotonic() < deadline:
        try:
            call.use(connect(call.places))
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


def _report_mode(call: Call, found: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(found)
        return 0
    call.say(f"mode {found['runtime_mode']}, {found['service_count']} parts loaded")
    call.say(f"core: {', '.join(found['proxy_services'])}")
    if found.get("advanced_services"):
        call.say(f"advanced: {', '.join(found['advanced_services'])}")
    return 0


@Verb(
    "lockdown",
    "Refuse every change from every door, until unlock",
    options=(Option("--reason", "why, for everybody who is refused", "TEXT"),),
    commands=("lockdown",),
    about=(
        "Admins may still stop things. Sessions of assistants end, workflows and what waits\n"
        "for approval are cancelled. What runs goes on. Survives every restart."
    ),
    examples=(('holdfast lockdown --reason "a token leaked"', "stop everybody else"),),
)
def lockdown(call: Call) -> int:
    reason = call.options.get("reason")
    if not reason:
        raise UsageError("a lockdown needs a reason", 'holdfast lockdown --reason "…"')
    return _report_lockdown(call, call.ask("lockdown", reason=reason))


@Verb(
    "unlock",
    "End a lockdown",
    commands=("unlock",),
    about="Works also when nothing runs here any more.",
    examples=(("holdfast unlock", "let changes pass again"),),
)
def unlock(call: Call) -> int:
    try:
        answer = call.ask("unlock")
    except SupervisorAway:
        raise
    except NoDaemon:
        if not os.path.lexists(os.path.join(call.places.state, LOCKDOWN_FILE)):
            raise
        answer = _unlock_alone(call)
    return _report_lockdown(call, answer)


def _unlock_alone(call: Call) -> dict[str, Any]:
    """Start a Holdfast, unlock it and end it again, because nothing runs."""
    from holdfast.cli.down import ShutdownReport, shut_down
    from holdfast.client.launch import ensure_running

    daemon = ensure_running(call.places, call.environ)
    call.use(daemon.connection)
    try:
        return call.ask("unlock")
    finally:
        if daemon.keeper is not None:
            shut_down(call, ShutdownReport(), keep_running=False, now=False)


def _report_lockdown(call: Call, answer: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(answer)
        return 0
    call.say(answer["message"])
    if answer.get("cancelled"):
        call.say(f"cancelled: {', '.join(answer['cancelled'])}")
    return 0


@Verb(
    "approvals",
    "List requests that wait for approval",
    commands=("approvals",),
    examples=(("holdfast approvals", "who asks for what, and how long it waits"),),
)
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
            request["approval"],
            f"{request['actor']} ({request['role']}, {request['door']})",
            " ".join(
                (
                    request["command"],
                    *(f"{name}={value}" for name, value in request["arguments"].items()),
                )
            ),
            request["reason"],
            _time_left(request["expires_at"], now),
        )
        for request in found["waiting"]
    ]
    call.say_table(HEADS, rows)
    return 0


def _time_left(expires_at: float | None, now: float) -> str:
    return "-" if expires_at is None else durations.show(max(0.0, expires_at - now))


@Verb(
    "approve",
    "Approve a request, so that it is carried out",
    operands="ID",
    least=1,
    most=1,
    options=(Option("--reason", "for the record", "TEXT"),),
    commands=("approve",),
    examples=(("holdfast approve approval-1f2e3d4c", "yes"),),
)
def approve(call: Call) -> int:
    return _decide(call, "approve")


@Verb(
    "reject",
    "Reject a request that waits for approval",
    operands="ID",
    least=1,
    most=1,
    options=(Option("--reason", "for the caller who asked, and for the record", "TEXT"),),
    commands=("reject",),
    examples=(('holdfast reject approval-1f2e3d4c --reason "not today"', "no"),),
)
def reject(call: Call) -> int:
    return _decide(call, "reject")


def _decide(call: Call, command: str) -> int:
    answer = call.ask(command, approval=call.operands[0], reason=call.options.get("reason"))
    if call.is_json:
        call.emit(answer)
    else:
        call.say(answer["message"])
    return 0
