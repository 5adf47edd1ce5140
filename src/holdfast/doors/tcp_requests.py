"""The requests of the TCP door: tagged JSON, flat JSON or plain words. Pure.

`"Status"` and `{"Restart": {"args": null}}` are the tagged form, `{"command": "status"}` is the
flat one. Everything that is not JSON is read as words: `restart web`.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, NamedTuple

import msgspec

from holdfast.vocabulary.commands import COMMANDS, canonical_name
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.names import closest

_RENAMED = {"reload": {"config_path": "config"}}
_HTTP = re.compile(rb"[A-Z]+ \S+ HTTP/\d")
_ONE = frozenset({"stop", "start", "restart"})
"""Commands that mean the default service, or the only one, if they name none."""
HELP = """\
token TEXT            show who you are; needed before the rest
status [SERVICE…]     what Holdfast and the services are doing
start SERVICE…        start services
stop SERVICE…         stop services
restart SERVICE…      stop services and start them again
pause SERVICE…        hold services still; resume SERVICE… lets them go on
health [SERVICE…]     probe services now
logs SERVICE [N]      the last lines of what a service printed
reload [FILE]         apply the changed configuration
shutdown              stop everything, Holdfast too
lockdown REASON…      refuse every change, until unlock
unlock                end the lockdown
approvals             what waits for approval
approve ID, reject ID decide about it
mode [MODE]           tell or change the runtime mode
help                  this
quit                  hang up
JSON is understood as well: {"command": "status"}, "Status", {"Restart": {"service": "web"}}"""


class TcpRequest(NamedTuple):
    """The meaning of one line."""

    name: str
    """The name of a command, or `token`, `help`, `quit`."""
    fields: dict[str, Any]
    is_json: bool
    id: int | str | None = None
    token: str | None = None


def parse(line: bytes) -> TcpRequest:
    """Parse a line; raises UsageError if it is neither JSON nor words."""
    text = line.strip()
    if text[:1] in (b"{", b'"', b"["):
        return _from_json(text)
    try:
        words = shlex.split(text.decode())
    except (ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"not understood: {error}", "help lists the words") from None
    if not words:
        raise UsageError("an empty line", "help lists the words")
    return _from_words(words)


def is_json(line: bytes) -> bool:
    return line.strip()[:1] in (b"{", b'"', b"[")


def is_http(line: bytes) -> bool:
    """Return whether an HTTP request begins like this."""
    return _HTTP.match(line) is not None


def _from_json(text: bytes) -> TcpRequest:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        hint = '{"command": "status"}, "Status" or {"Restart": {"service": "web"}}'
        raise UsageError(f"not JSON: {error}", hint) from None
    if isinstance(value, str):
        return _tagged(value, {}, None, None)
    if not isinstance(value, dict):
        raise UsageError("a request is an object or a text", 'for example "Status"')
    request_id, token = value.pop("id", None), value.pop("token", None)
    if not isinstance(request_id, int | str | None) or not isinstance(token, str | None):
        raise UsageError("an id is a number or a text, a token is a text")
    if "command" in value and isinstance(value["command"], str):
        name = value.pop("command")
        if token is not None and name in COMMANDS and "token" in _fields(name):
            # It is the command's own field; the client showed its token in a line before.
            value["token"], token = token, None
        return _tagged(name, value, request_id, token)
    if len(value) == 1:
        tag, fields = next(iter(value.items()))
        if fields is None or isinstance(fields, dict):
            return _tagged(tag, fields or {}, request_id, token)
    if not value and token is not None:
        return TcpRequest("token", {}, True, request_id, token)
    raise UsageError("which command?", '{"command": "status"} or {"Restart": {"service": "web"}}')


def _tagged(
    tag: str, fields: dict[str, Any], request_id: int | str | None, token: str | None
) -> TcpRequest:
    name = canonical_name(tag)
    renamed = _RENAMED.get(name, {})
    known = COMMANDS.get(name)
    if known is None and name not in ("help", "quit"):
        guess = closest(name, list(COMMANDS))
        message = f'no command "{tag}"' + (f'; did you mean "{guess}"?' if guess else "")
        raise UsageError(message, '"help" lists what is understood')
    # Other programs list every key, with null for those that they do not use.
    given = {renamed.get(key, key): value for key, value in fields.items() if value is not None}
    service = given.get("service")
    if known is not None and isinstance(service, str) and "service" not in _fields(name):
        several = given.get("services", [])
        if not isinstance(several, list):
            raise UsageError("services is a list of names", '{"services": ["web"]}')
        given["services"] = [*several, given.pop("service")]
    return TcpRequest(name, _about_one(name, given), True, request_id, token)


def _about_one(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Without a name, mean the default service and never all of them."""
    if name not in _ONE or fields.get("services") or fields.get("service"):
        return fields
    return {**fields, "default": True} if "default" in _fields(name) else fields


def _fields(name: str) -> frozenset[str]:
    return frozenset(COMMANDS[name].__struct_fields__)


def _from_words(words: list[str]) -> TcpRequest:
    word, rest = words[0].lower(), words[1:]
    match word:
        case "help" | "?":
            return TcpRequest("help", {}, False)
        case "quit" | "exit" | "bye":
            return TcpRequest("quit", {}, False)
        case "token" | "auth":
            if len(rest) != 1:
                raise UsageError("token needs one word", "token TEXT")
            return TcpRequest("token", {}, False, token=rest[0])
        case "status":
            return TcpRequest("status", {"services": rest}, False)
        case "start" | "stop" | "restart":
            return TcpRequest(word, _about_one(word, {"services": rest}), False)
        case "pause" | "resume":
            return TcpRequest(word, {"services": rest}, False)
        case "health":
            return TcpRequest("health_check", {"services": rest}, False)
        case "logs" if rest:
            tail = rest[1] if len(rest) > 1 else "20"
            if not (tail.isascii() and tail.isdigit() and len(tail) < 10):
                raise UsageError(f'"{tail[:40]}" is no number of lines', "logs SERVICE 20")
            return TcpRequest("logs", {"service": rest[0], "tail": int(tail)}, False)
        case "reload":
            return TcpRequest("reload", {"config": rest[0]} if rest else {}, False)
        case "shutdown":
            return TcpRequest("shutdown", {}, False)
        case "lockdown" | "unlock" | "approvals" | "approve" | "reject" | "mode":
            return _about_authority(word, rest)
        case _:
            known = ["status", "start", "stop", "restart", "health", "logs", "reload", "shutdown"]
            known += ["pause", "resume", "token", "help", "quit"]
            known += ["lockdown", "unlock", "approvals", "approve", "reject", "mode"]
            name = word.replace("-", "_")
            guess = None if name in COMMANDS else closest(word, known)
            message = f'no word "{word}"' + (f'; did you mean "{guess}"?' if guess else "")
            in_json = f'; as JSON: {{"command": "{name}"}}' if name in COMMANDS else ""
            raise UsageError(message, f"help lists the words{in_json}")


def _about_authority(word: str, rest: list[str]) -> TcpRequest:
    match word, rest:
        case "lockdown", [_, *_]:
            return TcpRequest("lockdown", {"reason": " ".join(rest)}, False)
        case "unlock" | "approvals", []:
            return TcpRequest(word, {}, False)
        case "approve" | "reject", [approval, *reason]:
            more = {"reason": " ".join(reason)} if reason else {}
            return TcpRequest(word, {"approval": approval, **more}, False)
        case "mode", []:
            return TcpRequest("get_mode", {}, False)
        case "mode", [mode]:
            return TcpRequest("set_mode", {"mode": mode}, False)
        case _:
            raise UsageError(f"{word} needs other words", "help lists the words")
