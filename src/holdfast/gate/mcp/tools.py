"""THE table of tools: what an assistant can do, and which commands each tool may give.

A tool is a union of commands. Its toolset, the setting that it needs and the hints about its
effects come from them. Only the description for the model is written here, in few words, because
each of them costs tokens in every conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple, get_type_hints

from holdfast.gate.mcp import agents, files, git, processes, programs
from holdfast.gate.mcp.answers import Answer
from holdfast.gate.mcp.arguments import ToolArguments, schema_of
from holdfast.gate.mcp.call import ToolCall
from holdfast.vocabulary.command import Command, Effect, Toolset
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.specs.mcp import McpSpec

Work = Callable[[ToolCall, Any], Awaitable[Answer]]


class Tool(NamedTuple):
    """One row: a function, its description, and the commands that it may give, the main one
    first."""

    work: Work
    about: str
    commands: tuple[str, ...]
    is_reversible: bool = False
    """Whether the same tool, or another of this table, brings back what it changes."""
    alias: str | None = None
    """The name of another program for it."""
    fixed: tuple[tuple[str, str], ...] = ()
    """Arguments that this name stands for."""

    @property
    def name(self) -> str:
        return self.alias or self.work.__name__

    @property
    def arguments(self) -> type[ToolArguments]:
        return _arguments_of(self.work)

    @property
    def main_command(self) -> type[Command]:
        return COMMANDS[self.commands[0]]

    @property
    def toolset(self) -> Toolset | None:
        return self.main_command.toolset

    @property
    def setting(self) -> str | None:
        """What must be allowed for it to be offered: without that it always refuses."""
        if self.toolset in ("files", "git") and not self.only_reads:
            return "aliases_for_changes" if self.alias else "changes_files"
        return "aliases" if self.alias else self.main_command.mcp_setting

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema of what its caller gives."""
        schema = schema_of(self.arguments)
        for name, _ in self.fixed:
            schema["properties"].pop(name)
            if name in schema.get("required", ()):
                schema["required"].remove(name)
        return schema

    def arguments_of(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call, those that its name stands for included."""
        if self.fixed and "name" in given and "names" in self.arguments.__struct_fields__:
            given = {**given, "names": given["name"]}
            del given["name"]
        return {**given, **dict(self.fixed)}

    @property
    def only_reads(self) -> bool:
        return not self._changing()

    def _changing(self) -> list[type[Command]]:
        commands = [COMMANDS[name] for name in self.commands]
        return [command for command in commands if command.effect is not Effect.READS]

    def described(self) -> dict[str, Any]:
        """Return the tool as the protocol lists it."""
        hints: dict[str, Any] = {"readOnlyHint": self.only_reads}
        if not self.only_reads:
            is_idempotent = all(command.repeatable for command in self._changing())
            hints |= {"destructiveHint": not self.is_reversible, "idempotentHint": is_idempotent}
        hints["openWorldHint"] = self.main_command.mcp_setting is not None
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": self.schema,
            "annotations": hints,
        }


@cache
def _arguments_of(work: Work) -> type[ToolArguments]:
    kind: type[ToolArguments] = get_type_hints(work)["given"]
    return kind


TABLE: tuple[Tool, ...] = (
    Tool(
        processes.status,
        "State of services: pid, uptime, restarts, exit, health.",
        ("status", "explain", "logs", "get_approval"),
    ),
    Tool(
        processes.control,
        "Start (joins what runs already), stop, restart, pause or signal services. A failure "
        "tells exit code, reason and last lines.",
        ("start", "stop", "restart", "pause", "resume", "signal", "status"),
        is_reversible=True,
    ),
    Tool(
        processes.logs,
        "Output of a service, also after it ended; or the screen of its terminal.",
        ("logs", "open_output"),
    ),
    Tool(
        processes.wait,
        "Block until services are ready, healthy, exited, printed a line or fell silent. Use it "
        "instead of polling.",
        ("wait", "logs"),
    ),
    Tool(
        programs.run,
        "Run a command to its end and tell exit code and output, instead of a shell of your own. "
        "After timeout_s it goes on as a supervised task for wait, logs, send, control. What it "
        "leaves in the background ends with it.",
        ("run", "wait", "status", "logs", "events", "open_output"),
    ),
    Tool(
        programs.send,
        "Type into a service's terminal or standard input; tells what it printed then, or the "
        "screen of a full-screen program.",
        ("send_input", "logs", "status", "wait", "open_output"),
    ),
    Tool(
        agents.delegate,
        "Hand a task to another AI backend, in a session of its own, and tell what it answered.",
        ("delegate",),
    ),
    Tool(
        files.read,
        "A file with line numbers and etag, an image, or what is in a folder.",
        ("read_file", "list_files"),
    ),
    Tool(
        files.edit,
        "Replace pieces of a file, or apply a patch to several files (all or nothing), or take a "
        "change back; tells diff, etag and how to undo.",
        ("edit_file", "apply_patch", "undo_files"),
        is_reversible=True,
    ),
    Tool(
        files.write,
        "Make a file, or replace it whole.",
        ("write_file",),
        is_reversible=True,
    ),
    Tool(
        files.search,
        "Search in files, or in what services printed, by regular expression (ripgrep); ignore "
        "files honoured.",
        ("search", "search_logs"),
    ),
    Tool(
        git.git,
        "Look at the repository.",
        (
            *("git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches"),
            "checkpoints",
        ),
    ),
    Tool(
        git.git_change,
        "Change the repository; nothing is pushed. A checkpoint is made before your first change; "
        "restore_checkpoint brings files back.",
        (
            *("git_add", "git_commit", "git_restore", "git_switch", "git_stash", "git_tag"),
            *("git_abort", "checkpoint", "restore_checkpoint"),
        ),
    ),
)


def _alias(name: str, work: Work, commands: tuple[str, ...], **fixed: str) -> Tool:
    about = f"Another name of {work.__name__}"
    if fixed:
        about += f" with {', '.join(f'{key} {value}' for key, value in fixed.items())}"
    return Tool(work, f"{about}.", commands, alias=name, fixed=tuple(fixed.items()))


ALIASES = (
    *(
        _alias(f"{action}_task", processes.control, (action, "status"), action=action)
        for action in ("start", "stop", "restart")
    ),
    _alias("task_status", processes.status, ("status",)),
    _alias("task_logs", processes.logs, ("logs", "open_output")),
    _alias("read_file", files.read, ("read_file", "list_files")),
    _alias("list_directory", files.read, ("list_files", "read_file")),
    _alias("write_file", files.write, ("write_file",)),
    _alias("edit_file", files.edit, ("edit_file", "apply_patch", "undo_files")),
    _alias("search_files", files.search, ("search",)),
    *(
        _alias(f"git_{op}", git.git, (f"git_{op}",), op=op)
        for op in ("status", "diff", "log", "show", "blame")
    ),
    *(
        _alias(f"git_{op}", git.git_change, (f"git_{op}",), op=op)
        for op in ("add", "commit", "restore")
    ),
)
"""Names that other programs have for our tools; offered where the configuration says so."""


@lru_cache(maxsize=64)
def offered(offer: McpSpec) -> dict[str, Tool]:
    """Return the tools of a client, by name."""
    return {
        tool.name: tool
        for tool in (*TABLE, *ALIASES)
        if tool.toolset in offer.toolsets
        and (tool.setting is None or getattr(offer, tool.setting))
        and (tool.only_reads or not offer.read_only)
    }
