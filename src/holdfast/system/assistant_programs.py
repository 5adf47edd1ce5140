"""Programs that assistants run in, and what each must be told to reach Holdfast.

What the command line writes and what the dashboard shows is made here. Reads one file of the
program at most, writes none, and knows nothing of a running Holdfast.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

NAME = "holdfast"


class AssistantProgram(NamedTuple):
    """A program that assistants run in, and its configuration file."""

    title: str
    file: str
    """Relative to the project, or with `~` to the user's home."""
    section: str
    """The key that holds the servers; in TOML the table."""
    entry: Callable[[str, list[str]], dict[str, Any]]
    defaults: dict[str, Any] = {}
    """Keys of our entry that are written where they are missing; the user may change them."""
    note: str = ""

    @property
    def is_users(self) -> bool:
        """Whether the file is the user's, for all projects."""
        return self.file.startswith("~")


def _plain(command: str, args: list[str]) -> dict[str, Any]:
    return {"command": command, "args": args}


def _typed(command: str, args: list[str]) -> dict[str, Any]:
    return {"type": "stdio", "command": command, "args": args}


def _local(command: str, args: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": [command, *args], "enabled": True}


_DESKTOP = (
    "~/Library/Application Support/Claude" if sys.platform == "darwin" else "~/.config/Claude"
)
_VARIABLES = ["HOLDFAST_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"]
"""The variables that tell where Holdfast runs. Codex passes on only those that are listed. It also
cancels calls that nobody approves, unless its approval mode lets them pass."""
PROGRAMS: dict[str, AssistantProgram] = {
    "claude": AssistantProgram("Claude Code", ".mcp.json", "mcpServers", _plain),
    "claude-desktop": AssistantProgram(
        "Claude Desktop", f"{_DESKTOP}/claude_desktop_config.json", "mcpServers", _plain
    ),
    "codex": AssistantProgram(
        "Codex",
        ".codex/config.toml",
        "mcp_servers",
        _plain,
        {"env_vars": _VARIABLES, "default_tools_approval_mode": "approve"},
        "Codex reads it in projects that it trusts",
    ),
    "gemini": AssistantProgram("Gemini CLI", ".gemini/settings.json", "mcpServers", _plain),
    "cursor": AssistantProgram("Cursor", ".cursor/mcp.json", "mcpServers", _plain),
    "vscode": AssistantProgram("VS Code", ".vscode/mcp.json", "servers", _typed),
    "windsurf": AssistantProgram(
        "Windsurf", "~/.codeium/windsurf/mcp_config.json", "mcpServers", _plain
    ),
    "zed": AssistantProgram("Zed", "~/.config/zed/settings.json", "context_servers", _plain),
    "opencode": AssistantProgram("opencode", "opencode.json", "mcp", _local),
}


class Entry(NamedTuple):
    """Our entry in a program's file."""

    program: AssistantProgram
    name: str
    command: str
    args: list[str]

    @property
    def owned(self) -> dict[str, Any]:
        """The keys that are always written."""
        return self.program.entry(self.command, self.args)

    @property
    def values(self) -> dict[str, Any]:
        return {**self.owned, **self.program.defaults}

    @property
    def head(self) -> str:
        """The heading of our table in a file of TOML."""
        return f"[{self.program.section}.{self.name}]"

    @property
    def text(self) -> str:
        """The entry as it stands in the file."""
        if self.program.file.endswith(".toml"):
            return "\n".join([self.head, *toml_lines(self.values)])
        value = {self.program.section: {self.name: self.values}}
        return json.dumps(value, indent=2, ensure_ascii=False)


def toml_lines(values: dict[str, Any]) -> list[str]:
    # Texts and lists of texts are written in TOML as in JSON.
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]


def entry_of(
    program: AssistantProgram,
    project: str,
    options: Iterable[str],
    *,
    own: str,
    search_path: str,
    text: str,
) -> Entry:
    """Return the entry that starts the relay with these options. `own` is where our program would
    be; `text` is what the file of the assistant's program says now."""
    # In a file of the user it must name the project.
    args = ["mcp", *(("-C", project) if program.is_users else ()), *options]
    is_program = os.path.basename(own) == NAME and os.access(own, os.X_OK)
    name = _entry_name(program, project, text)
    if is_program and not program.is_users and _is_in_path(own, search_path):
        return Entry(program, name, NAME, args)
    if is_program:
        return Entry(program, name, own, args)
    return Entry(program, name, sys.executable, ["-m", "holdfast", *args])


def _entry_name(program: AssistantProgram, project: str, text: str) -> str:
    """Return the name of our entry, which in a file of the user is not another project's."""
    if not program.is_users:
        return NAME
    try:
        servers = json.loads(text or "{}")[program.section]
        taken = {name: one.get("args") or [] for name, one in servers.items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        return NAME  # whoever writes the file says what is wrong with it
    folder = "".join(c if c.isalnum() else "-" for c in os.path.basename(project)).strip("-")
    own = f"{NAME}-{folder or 'project'}"
    names = [NAME, own, *(f"{own}-{number}" for number in range(2, 1000))]
    here = [name for name in names if project in taken.get(name, ())]
    free = [name for name in names if name not in taken]
    return (here or free)[0]


def _is_in_path(own: str, search_path: str) -> bool:
    """Return whether `holdfast` in PATH is this program."""
    for folder in search_path.split(os.pathsep):
        found = os.path.join(folder, NAME)
        if folder and os.access(found, os.X_OK):
            return os.path.realpath(found) == own
    return False


def path_of(program: AssistantProgram, project: str, home: str) -> str:
    """Return the path of the program's file."""
    if program.is_users:
        return os.path.join(home, program.file[2:])
    return os.path.join(project, program.file)
