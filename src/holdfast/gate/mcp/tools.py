"""THE table of tools: what an assistant can do, and which commands each tool may give.

A tool is a union of commands. What it needs, whether it only looks and at what, comes from
those; the few words for the model are written here, because each of them is paid for in every
conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple

from holdfast.gate.mcp import files, git, processes, running
from holdfast.gate.mcp.answers import Answer
from holdfast.gate.mcp.arguments import Arguments, schema_of
from holdfast.gate.mcp.call import Call
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.specs.mcp import McpSpec


class Tool(NamedTuple):
    """One row."""

    name: str
    toolset: str
    about: str
    arguments: type[Arguments]
    work: Callable[[Call, Any], Awaitable[Answer]]
    commands: tuple[str, ...]
    setting: str | None = None
    """The setting that must be on for it to be offered."""
    is_idempotent: bool = False
    reaches_out: bool = False

    @property
    def only_looks(self) -> bool:
        return all(COMMANDS[name].effect is Effect.READS for name in self.commands)

    def described(self) -> dict[str, Any]:
        """As the protocol lists it."""
        hints: dict[str, Any] = {"readOnlyHint": self.only_looks}
        if not self.only_looks:
            hints |= {"destructiveHint": True, "idempotentHint": self.is_idempotent}
        hints["openWorldHint"] = self.reaches_out
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": schema_of(self.arguments),
            "annotations": hints,
        }


TABLE: tuple[Tool, ...] = (
    Tool(
        "status",
        "process",
        "State of services: pid, uptime, restarts, exit, health.",
        processes.StatusArguments,
        processes.status,
        ("status", "explain", "logs"),
    ),
    Tool(
        "control",
        "process",
        "Start (joins what runs already), stop, restart, pause or signal services. A failure "
        "tells exit code, reason and last lines.",
        processes.ControlArguments,
        processes.control,
        ("start", "stop", "restart", "pause", "resume", "signal", "status"),
    ),
    Tool(
        "logs",
        "process",
        "Output of a service, also after it ended.",
        processes.LogsArguments,
        processes.logs,
        ("logs",),
    ),
    Tool(
        "wait",
        "process",
        "Block until services are ready, healthy, exited, printed a line or fell silent. Use it "
        "instead of polling.",
        processes.WaitArguments,
        processes.wait,
        ("wait", "logs"),
    ),
    Tool(
        "run",
        "process",
        "Run a program to its end and tell exit code and output. After timeout_s it goes on as "
        "a supervised task for wait, logs, control.",
        running.RunArguments,
        running.run,
        ("run", "wait", "status", "logs"),
        setting="run",
        reaches_out=True,
    ),
    Tool(
        "send",
        "process",
        "Type into a service's terminal or standard input; tells what it printed then.",
        processes.SendArguments,
        processes.send,
        ("send_input", "logs", "status", "wait"),
        setting="send",
        reaches_out=True,
    ),
    Tool(
        "read",
        "files",
        "A file with line numbers and etag, or what is in a folder.",
        files.ReadArguments,
        files.read,
        ("read_file", "list_files"),
    ),
    Tool(
        "edit",
        "files",
        "Replace pieces of a file; tells the diff and the new etag.",
        files.EditArguments,
        files.edit,
        ("edit_file",),
    ),
    Tool(
        "write",
        "files",
        "Make a file, or replace it whole.",
        files.WriteArguments,
        files.write,
        ("write_file",),
        is_idempotent=True,
    ),
    Tool(
        "search",
        "search",
        "Search in files by regular expression (ripgrep), ignore files honoured.",
        files.SearchArguments,
        files.search,
        ("search",),
    ),
    Tool(
        "git",
        "git",
        "Look at the repository.",
        git.GitArguments,
        git.git,
        (
            *("git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches"),
            "checkpoints",
        ),
    ),
    Tool(
        "git_change",
        "git",
        "Change the repository; nothing is pushed. A checkpoint is made before your first change; "
        "restore_checkpoint brings files back.",
        git.GitChangeArguments,
        git.git_change,
        (
            *("git_add", "git_commit", "git_restore", "git_switch", "git_stash", "git_tag"),
            *("checkpoint", "restore_checkpoint"),
        ),
    ),
)


@lru_cache(maxsize=64)
def offered(offer: McpSpec) -> dict[str, Tool]:
    """The tools of a client, by name."""
    return {
        tool.name: tool
        for tool in TABLE
        if tool.toolset in offer.toolsets
        and (tool.setting is None or getattr(offer, tool.setting))
        and (tool.only_looks or not offer.read_only)
    }
