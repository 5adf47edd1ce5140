"""`holdfast mcp`: relays MCP for an assistant, or shows the configuration of its program.

An assistant waits for this at every start, so its usual command lines are read here, without the
parser.
"""

from __future__ import annotations

import os

from holdfast.cli.parser.verbs import Option, Verb
from holdfast.system.places import Places, find_places
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.names import TOOLSETS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.cli.call import Call

_FLAG_OPTIONS = {"--start": "start", "--read-only": "read_only"}
_VALUE_OPTIONS = {"--toolsets": "toolsets", "--server": "server", "-C": "C"}


def relay_quickly(words: list[str], environ: Mapping[str, str]) -> int | None:
    """Relay, if these are the words of a usual command line; None if the parser must read them."""
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word in _FLAG_OPTIONS:
            options[_FLAG_OPTIONS[word]] = True
        elif word in _VALUE_OPTIONS and (value := next(rest, "")):
            options[_VALUE_OPTIONS[word]] = value
        else:
            return None
    if "HOLDFAST_CONFIG" in environ or "MAGICTUNNEL_CONFIG" in environ:
        return None
    folder = os.path.join(os.getcwd(), options.get("C") or "")
    if not os.path.isdir(folder):
        return None

    def launch() -> None:
        from holdfast.cli.call import Call
        from holdfast.cli.parser.arguments import parse
        from holdfast.cli.up import start_quietly

        start_quietly(Call(parse(["mcp", *words]), environ))

    is_starting = bool(options.get("start"))
    return _relay(find_places(folder, environ), options, launch if is_starting else None)


@Verb(
    "mcp",
    "Connect an AI assistant: speak MCP on standard input and output",
    operands="[config|import|servers|tools|call|approve|login|logout …]",
    most=None,
    options=(
        Option("--start", "start Holdfast and its services if nothing runs here"),
        Option("--read-only", "offer only tools that look"),
        Option("--toolsets", "offer only these: process,files,search,git,servers", "NAMES"),
        Option("--server", "speak with this MCP server alone, by its own names", "NAME"),
        Option("--write", "with config or import: change the file, with a backup"),
        Option("--held", "with tools: what waits for approval, with its difference"),
        Option("--schema", "with tools: the whole definitions"),
    ),
    commands=(
        *("open_session", "up", "mcp_servers", "mcp_tools", "read_mcp_tool", "call_mcp_tool"),
        "approve_mcp_tools",
        "login_mcp_server",
        "finish_mcp_login",
        "logout_mcp_server",
    ),
    about=(
        "Assistants start this themselves; `mcp config CLIENT` shows what to tell them, for\n"
        "claude, codex, gemini, cursor, vscode, zed, windsurf or opencode. The line outlives\n"
        "a crash of Holdfast: it connects again, and nothing is done twice.\n"
        "With --server the line is one of the servers behind Holdfast, and nothing else.\n"
        "`mcp servers` lists the MCP servers that Holdfast runs, `mcp tools [WORD…]` their\n"
        "tools or finds some, `mcp call TOOL JSON` calls one, and `mcp approve SERVER [TOOL…]`\n"
        "accepts definitions that have changed. `mcp import [CLIENT|FILE…]` takes over the\n"
        "servers of claude, claude-desktop, cursor, vscode, codex, gemini or opencode, and lists\n"
        "what is lost; secrets go to files that only you can read. `mcp login SERVER` logs in at\n"
        "a remote one, `mcp logout SERVER` takes that back."
    ),
    examples=(
        ("holdfast mcp config claude", "what Claude Code needs to know"),
        ("holdfast mcp config cursor --write", "put it into .cursor/mcp.json"),
        ("holdfast mcp --read-only", "a line for an assistant that may look"),
        ("holdfast mcp import --write", "take over the servers that clients are configured with"),
        ("holdfast mcp tools create issue", "find a tool by what it does"),
        ('holdfast mcp call files__read \'{"path": "README.md"}\'', "call one"),
    ),
)
def mcp(call: Call) -> int:
    if call.operands:
        return _act(call)

    def launch() -> None:
        from holdfast.cli.up import start_quietly

        start_quietly(call)

    return _relay(call.places, call.options, launch if call.options.get("start") else None)


def _act(call: Call) -> int:
    """Do what the first operand names, beside relaying."""
    if call.operands[0] == "import":
        from holdfast.cli.mcp.importing import import_servers

        return import_servers(call)
    if call.operands[0] == "config":
        if len(call.operands) > 2:
            raise UsageError("config takes one client", "holdfast mcp config CLIENT")
        from holdfast.cli.mcp.config import config

        return config(call)
    from holdfast.cli.mcp.servers import ACTIONS

    action = ACTIONS.get(call.operands[0])
    if action is None:
        known = ", ".join(["config", "import", *ACTIONS])
        raise UsageError(f'"{call.operands[0]}" is none of {known}', "holdfast mcp --help")
    return action(call)


def _relay(places: Places, options: dict[str, Any], launch: Callable[[], None] | None) -> int:
    from holdfast.cli.mcp.session import SessionOpener

    sessions = SessionOpener(places, launch)
    from holdfast.cli.mcp.relay import Relay

    greeting: dict[str, Any] = {"read_only": bool(options.get("read_only"))}
    if "server" in options:
        greeting["server"] = options["server"]
    if "toolsets" in options:
        greeting["toolsets"] = parse_toolsets(options["toolsets"])
    try:
        return Relay(places, greeting, sessions).run()
    except (BrokenPipeError, ConnectionResetError):
        return 0


def parse_toolsets(text: str) -> list[str]:
    names = [word.strip() for word in text.split(",") if word.strip()]
    for name in names:
        if name not in TOOLSETS:
            raise UsageError(f'no toolset "{name}"', f"known: {', '.join(TOOLSETS)}")
    if not names:
        raise UsageError("--toolsets names none", f"known: {', '.join(TOOLSETS)}")
    return names
