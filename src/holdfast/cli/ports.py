"""`holdfast ports`: which ports are leased, and which process holds one."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
        return _report_port(call, fields["port"], result)
    if not result["ports"]:
        call.say("no ports: no service has one, or listens")
        return 0
    rows = [
        (
            str(entry["port"]),
            _service_of(entry),
            "-" if entry["pid"] is None else str(entry["pid"]),
            "-" if entry["ours"] else entry["project"] or "-",
            entry["command"] or "-",
        )
        for entry in result["ports"]
    ]
    call.say_table(HEADS, rows)
    return 0


def _report_port(call: Call, port: int, result: dict[str, Any]) -> int:
    for entry in result["ports"]:
        whose = f"{_service_of(entry)} of {'this project' if entry['ours'] else entry['project']}"
        if entry["pid"] is None and entry["service"] is None:
            call.say(f"port {port} is used by an unknown process (another user's?)")
        elif entry["pid"] is None:
            call.say(f"port {port} is leased to {whose}; nobody listens there")
        else:
            of = f": {whose}" if entry["service"] else ""
            call.say(f"port {port} is used by pid {entry['pid']} ({entry['command']}){of}")
    if not result["ports"]:
        held = "" if result.get("free") else ", but somebody we may not see has it"
        call.say(f"nobody that we may see listens on port {port}{held}")
    return 0


def _service_of(entry: dict[str, Any]) -> str:
    if entry["service"] is None:
        return "-"
    name = entry.get("name")
    return entry["service"] if name in (None, "port") else f"{entry['service']} ({name})"
