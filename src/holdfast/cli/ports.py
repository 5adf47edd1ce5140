"""`holdfast ports`: which ports are ours, and who has one."""

from __future__ import annotations

from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.vocabulary.errors import UsageError

HEADS = ("PORT", "SERVICE", "PID", "PROJECT", "COMMAND")


@Verb(
    "ports",
    "Show which ports are leased, and who holds one",
    operands="[PORT]",
    most=1,
    options=(Option("-a --all", "also those of strangers and of other projects"),),
    commands=("ports",),
    about=(
        "A service with `port: auto` gets a port that is free and that no other Holdfast of\n"
        "yours leases, and keeps it. With a port: who listens there, with pid and command,\n"
        "and the service if it is one."
    ),
    examples=(
        ("holdfast ports", "the ports of this project"),
        ("holdfast ports 3000", "who holds :3000?"),
    ),
)
def ports(call: Call) -> int:
    fields: dict[str, Any] = {"all": True} if call.options.get("all") else {}
    if call.operands:
        text = call.operands[0].lstrip(":")
        if not text.isdecimal():
            raise UsageError(f'"{call.operands[0]}" is no port', "for example: holdfast ports 3000")
        fields["port"] = int(text)
    result = call.ask("ports", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    if "port" in fields:
        return _tell_one(call, fields["port"], result)
    if not result["ports"]:
        call.say("no ports: no service has one, or listens")
        return 0
    rows = [
        (
            str(one["port"]),
            _service(one),
            "-" if one["pid"] is None else str(one["pid"]),
            "-" if one["ours"] else one["project"] or "-",
            one["command"] or "-",
        )
        for one in result["ports"]
    ]
    call.say_table(HEADS, rows)
    return 0


def _tell_one(call: Call, port: int, result: dict[str, Any]) -> int:
    for one in result["ports"]:
        whose = f"{_service(one)} of {'this project' if one['ours'] else one['project']}"
        if one["pid"] is None and one["service"] is None:
            call.say(f"port {port} is held by a process that cannot be told (of another user?)")
        elif one["pid"] is None:
            call.say(f"port {port} is leased to {whose}; nobody listens there")
        else:
            of = f": {whose}" if one["service"] else ""
            call.say(f"port {port} is held by pid {one['pid']} ({one['command']}){of}")
    if not result["ports"]:
        held = "" if result.get("free") else ", but somebody we may not see has it"
        call.say(f"nobody that we may see listens on port {port}{held}")
    return 0


def _service(one: dict[str, Any]) -> str:
    if one["service"] is None:
        return "-"
    name = one.get("name")
    return one["service"] if name in (None, "port") else f"{one['service']} ({name})"
