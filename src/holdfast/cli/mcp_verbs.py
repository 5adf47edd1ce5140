"""The verb of assistants; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

MCP_VERBS = (
    Verb(
        "mcp",
        "Let an AI assistant in: speak MCP on standard input and output",
        "mcp.verb:mcp",
        operands="[config [CLIENT]]",
        most=2,
        options=(
            Option("--start", "start Holdfast and its services if nothing runs here"),
            Option("--read-only", "offer only tools that look"),
            Option("--toolsets", "offer only these: process,files,search,git", "NAMES"),
            Option("--write", "with config: put it into the client's own file"),
        ),
        commands=("open_session", "up"),
        about=(
            "Assistants start this themselves; `mcp config CLIENT` shows what to tell them, for\n"
            "claude, codex, gemini, cursor, vscode, zed, windsurf or opencode. The line outlives\n"
            "a crash of Holdfast: it connects again, and nothing is done twice."
        ),
        examples=(
            ("holdfast mcp config claude", "what Claude Code needs to know"),
            ("holdfast mcp config cursor --write", "put it into .cursor/mcp.json"),
            ("holdfast mcp --read-only", "a line for an assistant that may look"),
        ),
    ),
)
