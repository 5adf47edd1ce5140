"""`holdfast mcp servers|tools|call|approve|login|logout`: other MCP servers, at a terminal."""

from __future__ import annotations

import json
import os
import sys
import time

from holdfast.cli.terminal import durations
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.call import Call

SERVER_HEADS = ("SERVER", "STATE", "TOOLS", "HELD", "CALLS", "P50", "LAST CALL", "NOTES")
TOOL_HEADS = ("TOOL", "READS ONLY", "DESCRIPTION")
_MISSING = "-"


def servers(call: Call) -> int:
    """List the servers."""
    found = call.ask("mcp_servers", services=call.operands[1:])
    if call.is_json:
        call.emit(found)
        return 0
    if not found["servers"]:
        call.say("no MCP servers are configured; `mcp_servers:` in holdfast.yaml names them")
        return 0
    now = time.time()
    rows = [
        (
            one["name"],
            one["state"],
            str(one["tools"]),
            str(one["held"] or _MISSING),
            str(one["calls"]),
            f"{one['p50_ms']:g} ms" if one["p50_ms"] is not None else _MISSING,
            f"{durations.show(now - one['last_call'])} ago" if one["last_call"] else _MISSING,
            "; ".join([*one["notes"], *_trouble(one)]) or _MISSING,
        )
        for one in found["servers"]
    ]
    call.say_table(SERVER_HEADS, rows, state_column=1)
    if not found["gate"]:
        call.note("the gate, which speaks with them, is not there; `holdfast status` tells more")
    return 0


def _trouble(server: dict[str, Any]) -> list[str]:
    is_down = server["state"] in ("failed", "backoff") and server["reason"]
    return [server["reason"]] if is_down else []


def tools(call: Call) -> int:
    """List or search tools, or show what is held."""
    words = call.operands[1:]
    known = {one["name"] for one in call.ask("mcp_servers")["servers"]}
    services = [word for word in words if word in known]
    query = " ".join(word for word in words if word not in known)
    fields: dict[str, Any] = {"services": services}
    if call.options.get("held"):
        fields["held"] = True
    if call.options.get("schema"):
        fields["schema"] = True
    if "__" in query and " " not in query:
        fields |= {"tool": query, "schema": True}
    elif query:
        fields["query"] = query
    found = call.ask("mcp_tools", **fields)
    if call.is_json:
        call.emit(found)
        return 0
    if call.options.get("held"):
        return _show_held(call, found["held"])
    if "tool" in fields:
        call.say(json.dumps(found["tools"][0]["definition"], indent=2, ensure_ascii=False))
        return 0
    if not found["tools"]:
        call.say("nothing matches" if query else "no tools are known yet")
        return 0
    for tool in found["tools"]:
        call.say(tool["signature"])
        if "definition" in tool:
            call.say(json.dumps(tool["definition"], indent=2, ensure_ascii=False))
    if not query:
        call.say(f"{found['total']} tools, about {found['tokens']} tokens of definitions")
    return 0


def _show_held(call: Call, held: list[dict[str, Any]]) -> int:
    if not held:
        call.say("nothing is held")
    for one in held:
        call.say(f"{one['name']} ({one['change']})")
        for warning in one["warnings"]:
            call.say(f"  suspicious: {warning}")
        for line in one["difference"]:
            call.say(f"  {line}")
    return 0


def call_tool(call: Call) -> int:
    """Call a tool and print what it answers."""
    words = call.operands[1:]
    if not words or len(words) > 2:
        raise UsageError("which tool?", 'holdfast mcp call SERVER__TOOL \'{"key": "value"}\'')
    arguments: Any = {}
    if len(words) == 2:
        text = sys.stdin.read() if words[1] == "-" else words[1]
        try:
            arguments = json.loads(text)
        except ValueError as error:
            raise UsageError(f"the arguments are no JSON: {error}", "for example '{}'") from None
    if not isinstance(arguments, dict):
        raise UsageError("the arguments are an object of JSON", 'for example \'{"path": "a"}\'')
    # By its id it is known as the same call, if the supervisor is replaced under it.
    identity = os.urandom(12).hex()
    answer = call.ask("call_mcp_tool", tool=words[0], arguments=arguments, call=identity)
    if call.is_json:
        call.emit(answer)
    else:
        for part in answer["result"].get("content") or ():
            if part.get("type") == "text":
                call.write(part["text"].removesuffix("\n") + "\n")
            else:
                call.say(json.dumps(part, ensure_ascii=False))
        structured = answer["result"].get("structuredContent")
        if structured is not None and not answer["result"].get("content"):
            call.say(json.dumps(structured, ensure_ascii=False))
    return 1 if answer["outcome"] == "error" else 0


def approve(call: Call) -> int:
    """Accept held definitions."""
    words = call.operands[1:]
    if not words:
        raise UsageError("of which server?", "holdfast mcp tools --held shows what is held")
    answer = call.ask("approve_mcp_tools", service=words[0], tools=words[1:])
    if call.is_json:
        call.emit(answer)
        return 0
    names = ", ".join(answer["approved"]) or "nothing"
    call.say(f"approved of {answer['server']}: {names}")
    if answer["held"]:
        call.say(f"still held: {', '.join(answer['held'])}")
    return 0


def login(call: Call) -> int:
    """Log in at a remote server, with a browser on this machine or on another."""
    from holdfast.cli.mcp.login import log_in

    answer = log_in(call, _server_named(call))
    if call.is_json:
        call.emit(answer)
        return 0
    scope = f", for {answer['scope']}" if answer.get("scope") else ""
    call.say(f"logged in at {answer['server']}{scope}")
    return 0


def logout(call: Call) -> int:
    """Log out of a remote server."""
    answer = call.ask("logout_mcp_server", service=_server_named(call))
    if call.is_json:
        call.emit(answer)
        return 0
    call.say(f"logged out of {answer['server']}; the tokens are forgotten")
    if not answer["revoked"]:
        call.note("its server did not revoke them; its own pages list what was allowed")
    return 0


def _server_named(call: Call) -> str:
    words = call.operands[1:]
    if len(words) != 1:
        raise UsageError("at which server?", "holdfast mcp servers")
    return words[0]


ACTIONS = {
    "servers": servers,
    "tools": tools,
    "call": call_tool,
    "approve": approve,
    "login": login,
    "logout": logout,
}
