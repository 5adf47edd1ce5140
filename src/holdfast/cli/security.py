"""The verbs about access: token, dashboard (a browser's login), audit."""

from __future__ import annotations

import os
import sys

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations
from holdfast.cli.terminal.follow import is_reconnected
from holdfast.cli.terminal.signals import interruptible
from holdfast.client.connection import ConnectionLost, error_from
from holdfast.vocabulary.errors import Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOKEN_HEADS = ("NAME", "KIND", "ROLE", "LIMITS", "MADE", "BY", "EXPIRES", "ID")


@Verb(
    "token",
    "Make, list, rotate or revoke tokens for the network doors",
    operands="create|ls|rotate|revoke|path [NAME]",
    least=1,
    most=2,
    options=(
        Option("--role", "what it may do", choices=("viewer", "operator", "admin", "agent")),
        Option("--service", "only these services; several with commas", "NAMES"),
        Option("--tag", "only services with these tags", "TAGS"),
        Option("--command", "only these commands", "NAMES"),
        Option("--path", "only these paths", "PATHS"),
        Option("--tool", "only these tools of MCP servers, as SERVER__TOOL", "TOOLS"),
        Option("--expires", "for how long it is valid", "DURATION", "duration"),
    ),
    commands=("create_token", "list_tokens", "rotate_token", "revoke_token"),
    about=(
        "A token is shown once, when it is made; only its hash is stored. The command line on\n"
        "this machine needs none. The first start writes a token for an admin into a file that\n"
        "only you can read; `holdfast token path` tells its path."
    ),
    examples=(
        ("holdfast token create ci --role operator --expires 30d", "for a month"),
        ("holdfast token create eyes --role viewer --service web,db", "may look at two"),
        ('TOKEN=$(cat "$(holdfast token path)")', "the admin's token, for curl and scripts"),
        ("holdfast token ls", "who has one"),
        ("holdfast token rotate ci", "a new text; the old one is refused"),
        ("holdfast token revoke ci", "refused from now on"),
    ),
)
def token(call: Call) -> int:
    action, name = call.operands[0], call.operands[1] if len(call.operands) > 1 else None
    if action in ("ls", "list") and name is None:
        return _list_tokens(call)
    if action == "path" and name is None:
        return _show_path(call)
    actions = {"create": _create_token, "rotate": _rotate_token, "revoke": _revoke_token}
    if action not in actions:
        raise UsageError(
            f'"{action}" is none of create, ls, rotate, revoke, path', "holdfast token --help"
        )
    if name is None:
        raise UsageError(f"token {action} needs a name", f"holdfast token {action} NAME")
    return actions[action](call, name)


def _show_path(call: Call) -> int:
    path = os.path.join(call.places.state, "admin.token")
    if not os.path.exists(path):
        raise UsageError(f"there is no {path}", "`holdfast up` writes it at the first start")
    if call.is_json:
        call.emit({"path": path})
    else:
        call.say(path)
    return 0


def _create_token(call: Call, name: str) -> int:
    fields: dict[str, Any] = {"token_name": name, "role": call.options.get("role") or "operator"}
    for option, field in (
        ("service", "services"), ("tag", "tags"), ("command", "commands"), ("path", "paths"),
        ("tool", "tools"),
    ):  # fmt: skip
        if option in call.options:
            fields[field] = [word.strip() for word in call.options[option].split(",")]
    if "expires" in call.options:
        fields["expires_in"] = call.options["expires"]
    return _show_text(call, call.ask("create_token", **fields))


def _rotate_token(call: Call, name: str) -> int:
    return _show_text(call, call.ask("rotate_token", token=name))


def _show_text(call: Call, result: dict[str, Any]) -> int:
    """Show the text of a token, which is told this once."""
    if call.is_json:
        call.emit(result)
        return 0
    token = result["token"]
    call.say(result["text"])
    call.note(f'token "{token["name"]}" ({token["role"]}): keep it, it is not shown again')
    for session in result.get("sessions", ()):
        call.note(f"{session} is closed")
    return 0


def _list_tokens(call: Call) -> int:
    result = call.ask("list_tokens")
    if call.is_json:
        call.emit(result)
        return 0
    rows = [
        (
            token["name"],
            token.get("kind") or "token",
            token["role"],
            "; ".join(f"{key} {','.join(value)}" for key, value in token["scopes"].items()) or "-",
            durations.show_time(token["created_at"]),
            (token.get("by") or "owner").removeprefix("token ").removeprefix("of the "),
            durations.show_time(token.get("expires_at")),
            token["id"],
        )
        for token in result["tokens"]
    ]
    call.say_table(TOKEN_HEADS, rows)
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


@Verb(
    "may",
    "Check whether a token or a role may use a command, and why",
    operands="WHO COMMAND [SERVICE…]",
    least=2,
    most=None,
    options=(
        Option("--door", "through which it asks", choices=("rest", "websocket", "tcp", "mcp")),
        Option("--field", "another field of the command", "KEY=VALUE", "pairs"),
    ),
    commands=("check_access",),
    about=(
        "The answer is the real decision: role, limits, lockdown, policies, filters. Nothing is\n"
        "done. The exit code is 0 if it may, also after an approval, and 5 if it is refused."
    ),
    examples=(
        ("holdfast may ci restart web", "may the token ci restart web?"),
        ("holdfast may viewer logs db", "may any viewer read the output of db?"),
    ),
)
def may(call: Call) -> int:
    who, about, *services = call.operands
    fields: dict[str, Any] = dict(call.options.get("field") or {})
    result = call.ask(
        "check_access",
        who=who,
        about=about,
        services=services,
        arguments=fields,
        door=call.options.get("door") or "rest",
    )
    if call.is_json:
        call.emit(result)
    elif not result["allowed"]:
        call.say(f"no: {result['reason']}")
    elif result["needs_approval"]:
        call.say(f"yes, after {result['approvers']} approval: {result['reason']}")
    else:
        call.say(f"yes: {result['reason']}")
    return 0 if result["allowed"] else Refused.exit_code


@Verb(
    "dashboard",
    "Open the dashboard in a browser, or print its link",
    options=(
        Option("--no-open", "print the link instead of opening a browser"),
        Option("--print", "the same"),
        Option("--role", "what it may do", choices=("viewer", "operator", "admin")),
        Option("--expires", "for how long the browser stays logged in", "DURATION", "duration"),
    ),
    commands=("create_login",),
    about=(
        "The link works once, within a minute, and becomes a cookie that only the dashboard's\n"
        "own pages can use. Logins are listed by `holdfast token ls` and revoked like tokens."
    ),
    examples=(
        ("holdfast dashboard", "open it"),
        ("holdfast dashboard --print --role viewer", "a link for somebody who may look"),
    ),
)
def dashboard(call: Call) -> int:
    fields: dict[str, object] = {"role": call.options.get("role") or "admin"}
    if "expires" in call.options:
        fields["expires_in"] = call.options["expires"]
    link = call.ask("create_login", **fields)
    if call.is_json:
        call.emit(link)
        return 0
    fingerprint = link.get("fingerprint")
    if fingerprint:
        call.note(f"compare what the browser says of the certificate: SHA-256 {fingerprint}")
    opens = not (call.options.get("print") or call.options.get("no_open"))
    if opens and has_screen(call) and _open_browser(link["url"]):
        call.say("the dashboard opens in your browser")
        return 0
    call.say(link["url"])
    until, stay = durations.show(link["valid_for"]), durations.show(link["session_seconds"])
    call.note(f"works once, within {until}; logs in as {link['role']} for {stay}")
    return 0


def has_screen(call: Call) -> bool:
    """Return whether a browser opened here is seen by the caller."""
    environ = call.environ
    if environ.get("SSH_CONNECTION") and not environ.get("DISPLAY"):
        return False
    if sys.platform == "darwin":
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _open_browser(url: str) -> bool:
    """Open a browser; returns whether one was found. Its own messages are hidden."""
    import webbrowser

    null, saved = os.open(os.devnull, os.O_WRONLY), os.dup(2)
    try:
        os.dup2(null, 2)
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
    finally:
        os.dup2(saved, 2)
        os.close(null)
        os.close(saved)


@Verb(
    "audit",
    "Show who requested what, and the outcome",
    options=(
        Option("-f --follow", "go on with new records"),
        Option("--verify", "look whether any record was altered, removed or cut off"),
        Option("--since", "only what is newer", "WHEN", "when"),
        Option("--actor", "only of those whose name contains this", "TEXT"),
        Option("--command", "only this command", "NAME"),
        Option("-n --tail", "how many of the newest", "N", "number"),
    ),
    commands=("audit",),
    about=(
        "Changes, refusals and reads of output are on record: who, through which door, with\n"
        "which arguments (secrets masked), allowed or refused and why, and how it ended.\n"
        "With --verify the exit code is 1 if the record is not whole."
    ),
    examples=(
        ("holdfast audit --since 1h", "the last hour"),
        ("holdfast audit --verify", "is anything missing?"),
        ("holdfast audit -f --json", "for another program"),
    ),
)
def audit(call: Call) -> int:
    fields: dict[str, Any] = {"limit": call.options.get("tail", 100)}
    for option, field in (("actor", "actor"), ("command", "about"), ("since", "after")):
        if option in call.options:
            fields[field] = call.options[option]
    if call.options.get("verify"):
        return _report_verdict(call, call.ask("audit", verify=True, limit=1)["verdict"])
    if call.options.get("follow"):
        return _follow(call, fields)
    for record in call.ask("audit", **fields)["records"]:
        _show_record(call, record)
    return 0


def _report_verdict(call: Call, verdict: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(verdict)
    elif verdict["whole"]:
        call.say(f"whole: {verdict['records']} records, {verdict['first']} to {verdict['last']}")
    else:
        call.say(f"NOT whole: {verdict['problem']}")
    if not call.is_json:
        for anchor in verdict.get("anchors", ()):
            if anchor["checked"]:
                call.say(f"compared with {anchor['anchor']}, which knows record {anchor['last']}")
            else:
                call.say(f"not compared with {anchor['anchor']}: {anchor['why']}")
    return 0 if verdict["whole"] else 1


def _follow(call: Call, fields: dict[str, Any]) -> int:
    """Follow new records. After a replacement of the supervisor, go on after the last one."""
    with interruptible() as wait:
        while True:
            connection = call.connect()
            try:
                request = connection.send("audit", follow=True, **fields)
                while True:
                    frame = wait.receive(connection)
                    if frame is None or frame.get("id") != request:
                        continue
                    if "item" not in frame:
                        raise error_from(frame.get("error") or {})
                    fields["since"] = frame["item"]["seq"]
                    _show_record(call, frame["item"])
            except ConnectionLost:
                if not is_reconnected(call):
                    return 0


def _show_record(call: Call, record: dict[str, Any]) -> None:
    if call.is_json:
        call.emit_line(record)
    else:
        call.say(_record_line(call, record))
        sys.stdout.flush()


def _record_line(call: Call, record: dict[str, Any]) -> str:
    moment = call.paint(durations.show_time(record.get("time")), "dim")
    if "gap" in record:
        return f"{record['seq']:>6} {moment} {record['gap']}"
    arguments = " ".join(f"{key}={value}" for key, value in (record.get("arguments") or {}).items())
    end = record["outcome"] if record["decision"] == "allowed" else f"refused: {record['reason']}"
    if record["decision"] == "folded":
        counts = ", ".join(f"{name} {count}" for name, count in record["commands"].items())
        end = f"{record['times']} requests that are only counted: {counts}"
    elif "times" in record:
        end += f" ({record['times']} times within a minute)"
    if "unrecorded_before" in record:
        end += f" (after {record['unrecorded_before']} that are only counted)"
    who = f"{record['actor']} ({record['role']}, {record['door']})"
    asked = f"{record['command']} {arguments}".rstrip()
    return f"{record['seq']:>6} {moment} {who}: {asked} → {end}"
