"""The verbs about who may pass and who did what: token, audit."""

from __future__ import annotations

import sys
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.terminal import durations, screen
from holdfast.cli.terminal.follow import is_there_again
from holdfast.cli.terminal.signals import patience
from holdfast.client.connection import ConnectionLost, error_from
from holdfast.vocabulary.errors import UsageError

TOKEN_HEADS = ("NAME", "KIND", "ROLE", "LIMITS", "MADE", "BY", "EXPIRES", "ID")


def token(call: Call) -> int:
    what, name = call.operands[0], call.operands[1] if len(call.operands) > 1 else None
    if what in ("ls", "list") and name is None:
        return _list_tokens(call)
    if what not in ("create", "revoke"):
        raise UsageError(f'"{what}" is none of create, ls, revoke', "holdfast token --help")
    if name is None:
        raise UsageError(f"token {what} needs a name", f"holdfast token {what} NAME")
    return _create_token(call, name) if what == "create" else _revoke_token(call, name)


def _create_token(call: Call, name: str) -> int:
    fields: dict[str, Any] = {"token_name": name, "role": call.options.get("role") or "operator"}
    for option, field in (
        ("service", "services"), ("tag", "tags"), ("command", "commands"), ("path", "paths"),
    ):  # fmt: skip
        if option in call.options:
            fields[field] = [word.strip() for word in call.options[option].split(",")]
    if "expires" in call.options:
        fields["expires_in"] = call.options["expires"]
    result = call.ask("create_token", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    call.say(result["text"])
    call.note(f'token "{name}" ({result["token"]["role"]}): keep it, it is not shown again')
    return 0


def _list_tokens(call: Call) -> int:
    result = call.ask("list_tokens")
    if call.is_json:
        call.emit(result)
        return 0
    rows = [
        (
            one["name"],
            one.get("kind") or "token",
            one["role"],
            "; ".join(f"{key} {','.join(value)}" for key, value in one["scopes"].items()) or "-",
            durations.show_time(one["created_at"]),
            (one.get("by") or "owner").removeprefix("token ").removeprefix("of the "),
            durations.show_time(one.get("expires_at")),
            one["id"],
        )
        for one in result["tokens"]
    ]
    call.say("\n".join(screen.table(TOKEN_HEADS, rows, call.paint, screen.width())))
    return 0


def _revoke_token(call: Call, name: str) -> int:
    result = call.ask("revoke_token", token=name)
    if call.is_json:
        call.emit(result)
    else:
        call.say(f'token "{result["token"]["name"]}" is refused from now on')
        for name in result.get("also", ()):
            call.say(f'token "{name}", which was made with it, too')
        for session in result.get("sessions", ()):
            call.say(f"{session} is closed")
    return 0


def audit(call: Call) -> int:
    fields: dict[str, Any] = {"limit": call.options.get("tail", 100)}
    for option, field in (("actor", "actor"), ("command", "about"), ("since", "after")):
        if option in call.options:
            fields[field] = call.options[option]
    if call.options.get("verify"):
        return _tell_verdict(call, call.ask("audit", verify=True, limit=1)["verdict"])
    if call.options.get("follow"):
        return _follow(call, fields)
    for record in call.ask("audit", **fields)["records"]:
        _show(call, record)
    return 0


def _tell_verdict(call: Call, verdict: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(verdict)
    elif verdict["whole"]:
        call.say(f"whole: {verdict['records']} records, {verdict['first']} to {verdict['last']}")
    else:
        call.say(f"NOT whole: {verdict['problem']}")
    if not call.is_json:
        for one in verdict.get("anchors", ()):
            if one["checked"]:
                call.say(f"compared with {one['anchor']}, which knows record {one['last']}")
            else:
                call.say(f"not compared with {one['anchor']}: {one['why']}")
    return 0 if verdict["whole"] else 1


def _follow(call: Call, fields: dict[str, Any]) -> int:
    """Goes on after the last number told when the supervisor was replaced."""
    with patience() as patient:
        while True:
            connection = call.connect()
            try:
                request = connection.send("audit", follow=True, **fields)
                while True:
                    frame = patient.receive(connection)
                    if frame is None or frame.get("id") != request:
                        continue
                    if "item" not in frame:
                        raise error_from(frame.get("error") or {})
                    fields["since"] = frame["item"]["seq"]
                    _show(call, frame["item"])
            except ConnectionLost:
                if not is_there_again(call):
                    return 0


def _show(call: Call, record: dict[str, Any]) -> None:
    if call.is_json:
        call.emit_line(record)
    else:
        call.say(_line(call, record))
        sys.stdout.flush()


def _line(call: Call, one: dict[str, Any]) -> str:
    moment = call.paint(durations.show_time(one.get("time")), "dim")
    if "gap" in one:
        return f"{one['seq']:>6} {moment} {one['gap']}"
    arguments = " ".join(f"{key}={value}" for key, value in (one.get("arguments") or {}).items())
    end = one["outcome"] if one["decision"] == "allowed" else f"refused: {one['reason']}"
    if one["decision"] == "folded":
        counts = ", ".join(f"{name} {count}" for name, count in one["commands"].items())
        end = f"{one['times']} requests that are only counted: {counts}"
    elif "times" in one:
        end += f" ({one['times']} times within a minute)"
    if "unrecorded_before" in one:
        end += f" (after {one['unrecorded_before']} that are only counted)"
    who = f"{one['actor']} ({one['role']}, {one['door']})"
    asked = f"{one['command']} {arguments}".rstrip()
    return f"{one['seq']:>6} {moment} {who}: {asked} → {end}"
